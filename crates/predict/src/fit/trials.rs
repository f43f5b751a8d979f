//! A drive under fit: its figures, and the results of runs with other parameters.

use super::parameters::{Bound, at_priors, bounds, coordinate, value_at};
use super::search;
use crate::error::{Error, Result};
use crate::parallel;
use crate::progress::{OnProgress, Progress};
use crate::published::{Case, Figure, Metric, RUNTIMES, Runner, figures};
use models::{Catalog, DriveSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The runtimes of a search: a flash drive's speed shows within a few percent in a short time. The
/// result is refined with the runtime of comparisons; disks use that from the start.
const SEARCHING: Runtimes = (RUNTIMES.0, Duration::from_millis(80));

/// The runtime of a point, with and without a spindle.
type Runtimes = (Duration, Duration);

/// A figure of a drive alone, and its case.
pub struct Target {
    /// The figure.
    pub figure: Figure,
    case: Case,
    metric: Metric,
    /// The published value.
    pub value: f64,
}

fn targets(catalog: &Catalog, drive: &DriveSpec) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for figure in figures()? {
        let single = figure.controller.is_empty()
            && figure.drive_count == "1"
            && figure.outstanding == "max(1-512)";
        let ours = catalog.drive(&figure.drive).is_ok_and(|other| other.model == drive.model);
        let (Some(value), true, true) = (figure.number(), single, ours) else { continue };
        let metric = match figure.metric.as_str() {
            "iops" => Metric::Iops,
            "throughput_mib_s" => Metric::Throughput,
            _ => continue,
        };
        let profile = figure.profile.to_lowercase().replace(' ', "-");
        let text =
            format!("direct / 1x{} / jbod / {profile} / {} / on @ max", drive.model, figure.doc);
        targets.push(Target { case: Case::parse(&text)?, metric, value, figure });
    }
    match targets.is_empty() {
        true => Err(Error::refused(format!(
            "no figures are published for {} alone, so it cannot be fitted",
            drive.model
        ))),
        false => Ok(targets),
    }
}

/// A drive under fit, with the results so far.
pub struct Trials<'a> {
    catalog: &'a Catalog,
    /// With its priors.
    pub drive: DriveSpec,
    /// Its figures.
    pub targets: Vec<Target>,
    /// The parameters that are fitted.
    pub bounds: Vec<Bound>,
    /// The errors of all figures, by runtime and fitted values: fits without a profile repeat many
    /// of the same points.
    known: BTreeMap<(Runtimes, Vec<u64>), Vec<f64>>,
    rounds: u32,
    progress: OnProgress<'a>,
}

impl<'a> Trials<'a> {
    /// Begins at the drive's priors.
    ///
    /// # Errors
    /// When no figure of the drive alone is published.
    pub fn new(
        catalog: &'a Catalog,
        drive: &DriveSpec,
        rounds: u32,
        progress: OnProgress<'a>,
    ) -> Result<Trials<'a>> {
        let drive = at_priors(drive);
        let targets = targets(catalog, &drive)?;
        let bounds = bounds(&drive);
        Ok(Trials { catalog, drive, targets, bounds, known: BTreeMap::new(), rounds, progress })
    }

    /// The drive with its fitted parameters at coordinates.
    pub fn drive_at(&self, at: &[f64]) -> DriveSpec {
        let mut drive = self.drive.clone();
        for ((key, low, high), coordinate) in self.bounds.iter().zip(at) {
            if let Some(value) = drive.parameter(key) {
                *value = value_at(*coordinate, *low, *high);
            }
        }
        drive
    }

    /// The relative errors of all figures at coordinates.
    ///
    /// # Errors
    /// When a case cannot be configured.
    pub fn errors(&mut self, at: &[f64]) -> Result<Vec<f64>> {
        self.errors_in(RUNTIMES, at)
    }

    fn errors_in(&mut self, runtimes: Runtimes, at: &[f64]) -> Result<Vec<f64>> {
        let values: Vec<u64> = self
            .bounds
            .iter()
            .zip(at)
            .map(|((_, low, high), at)| value_at(*at, *low, *high))
            .collect();
        let what = (runtimes, values);
        if let Some(known) = self.known.get(&what) {
            return Ok(known.clone());
        }
        let errors = self.run(runtimes, &self.drive_at(at))?;
        self.known.insert(what, errors.clone());
        (self.progress)(Progress::OneDone);
        Ok(errors)
    }

    /// Runs all figures in parallel: each figure is a separate simulation.
    fn run(&self, runtimes: Runtimes, drive: &DriveSpec) -> Result<Vec<f64>> {
        let mut with = self.catalog.clone();
        with.drives.retain(|other| other.model != drive.model);
        with.drives.push(drive.clone());
        // A drive alone is fastest with a full queue; two depths suffice.
        let runner = Runner::new(&with, runtimes).with_ladder("64,256".parse()?);
        let error =
            |target: &Target| Ok(runner.value(&target.case, target.metric)? / target.value - 1.0);
        parallel::each(&self.targets, error).into_iter().collect()
    }

    /// The coordinates that fit the selected figures best.
    ///
    /// # Errors
    /// When a case cannot be configured.
    pub fn fit(&mut self, what: &str, which: &BTreeSet<usize>) -> Result<Vec<f64>> {
        (self.progress)(Progress::Begins(what));
        let mut prior = self.drive.clone();
        let mut coordinate_of = |(key, low, high): &Bound| {
            prior.parameter(key).map_or(0.5, |value| coordinate(*value, *low, *high))
        };
        let start: Vec<f64> = self.bounds.iter().map(&mut coordinate_of).collect();
        let (rounds, rotates) = (self.rounds, self.drive.is_rotating());
        let mut errors = |runtimes: Runtimes, at: &[f64]| {
            let all = self.errors_in(runtimes, at)?;
            Ok(which.iter().map(|n| all[*n]).collect())
        };
        if rotates {
            return search::search(&mut |at| errors(RUNTIMES, at), &start, rounds);
        }
        let found = search::search(&mut |at| errors(SEARCHING, at), &start, rounds)?;
        search::refine(&mut |at| errors(RUNTIMES, at), &start, &found, rounds)
    }
}
