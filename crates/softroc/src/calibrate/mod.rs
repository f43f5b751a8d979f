//! `softroc calibrate`: fits a drive's parameters to its published figures, by running the models.
//!
//! The figures are those of the drive by itself, five profiles a paper; what is least is what their relative errors come to
//! ([`search`]). It begins at the *priors*: what the data sheet says, or what was assumed, so that what comes out
//! depends on nothing that was fitted before, and a profile that is left out has not been seen. It draws nothing by
//! chance beyond the runs' own seed, so that it ends at the same values each time. Parameters stay within bounds that
//! make them plausible ([`Fitted`]).

mod search;

use crate::cli::Calibrate;
use crate::failure::{Failure, Outcome};
use crate::predict::catalog;
use crate::reproduce::{Case, Figure, Metric, RUNTIMES, Runner, figures};
use crate::{output, parallel, progress};
use indicatif::ProgressBar;
use models::{Catalog, DriveSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a point of a flash drive is run to search: so little shows within some percent how fast it is. What was found is
/// refined with the time that predictions are compared in, which disks take from the beginning.
const SEARCHING: Runtimes = (RUNTIMES.0, Duration::from_millis(80));

/// A parameter that is fitted, and within what multiples of its prior it may end.
struct Fitted {
    key: &'static str,
    least: f64,
    most: f64,
}

const fn fitted(key: &'static str, least: f64, most: f64) -> Fitted {
    Fitted { key, least, most }
}

/// Of rotating drives: what the data sheet leaves open. The shortest seek stands for the first hundredths of the curve
/// (see `docs/predict.md`).
const ROTATING: &[Fitted] = &[
    fitted("outer_rate_kb_s", 0.9, 1.1),
    fitted("seek_min_us", 0.5, 4.0),
    fitted("write_settle_us", 0.0, 2.0),
    fitted("seek_avg_us", 0.85, 1.15),
];

/// Of flash drives: what no data sheet says.
const SSD: &[Fitted] = &[
    fitted("program_us", 0.4, 2.5),
    fitted("stream_ns", 0.2, 5.0),
    fitted("lookup_ns", 0.2, 5.0),
    fitted("update_ns", 0.2, 5.0),
    fitted("command_ns", 0.1, 30.0),
];

/// A figure of a drive by itself, and its case.
struct Target {
    figure: Figure,
    case: Case,
    metric: Metric,
    value: f64,
}

/// Runs the command.
pub fn run(command: &Calibrate) -> Outcome {
    let catalog = catalog(&command.catalog)?;
    let now = catalog.drive(&command.drive).map_err(Failure::refused)?.clone();
    let drive = at_priors(&now);
    let targets = targets(&catalog, &drive)?;
    let bounds = bounds(&drive);
    let bar = progress::count();
    let mut trials =
        Trials { catalog, drive, targets, bounds, known: BTreeMap::new(), rounds: command.rounds, bar };
    let all: BTreeSet<usize> = (0..trials.targets.len()).collect();
    let fitted = trials.fit("all figures", &all)?;
    let left_out = if command.leave_one_out { Some(trials.left_out()?) } else { None };
    trials.bar.finish_and_clear();
    let best = trials.drive_at(&fitted);
    let mut text = trials.shown(&now, &best, &fitted)?;
    if let Some(left_out) = left_out {
        text.push_str(&format!("\n\n{left_out}"));
    }
    if let Some(path) = &command.to {
        output::write_file(path, &trials.written(&best)?)?;
        text.push_str(&format!("\n\nWritten to {}.", path.display()));
    }
    output::print(&text)
}

/// The drive before anything was fitted.
fn at_priors(drive: &DriveSpec) -> DriveSpec {
    let mut before = drive.clone();
    for value in &drive.values {
        if let (Some(prior), Some(parameter)) = (value.prior, before.parameter(&value.key)) {
            *parameter = prior;
        }
    }
    before
}

fn targets(catalog: &Catalog, drive: &DriveSpec) -> Outcome<Vec<Target>> {
    let mut targets = Vec::new();
    for figure in figures()? {
        let single =
            figure.controller.is_empty() && figure.drive_count == "1" && figure.outstanding == "max(1-512)";
        let ours = catalog.drive(&figure.drive).is_ok_and(|other| other.model == drive.model);
        let (Some(value), true, true) = (figure.number(), single, ours) else { continue };
        let metric = match figure.metric.as_str() {
            "iops" => Metric::Iops,
            "throughput_mib_s" => Metric::Throughput,
            _ => continue,
        };
        let profile = figure.profile.to_lowercase().replace(' ', "-");
        let text = format!("direct / 1x{} / jbod / {profile} / {} / on @ max", drive.model, figure.doc);
        targets.push(Target { case: Case::parse(&text)?, metric, value, figure });
    }
    match targets.is_empty() {
        true => Err(Failure::refused(format!(
            "nothing is published of {} by itself, so that there is nothing to fit to",
            drive.model
        ))),
        false => Ok(targets),
    }
}

/// How long a point is run, with and without a spindle.
type Runtimes = (Duration, Duration);

/// A parameter, and the least and the most that it may be.
type Bound = (&'static str, f64, f64);

/// The fitted parameters and their bounds, from their priors.
fn bounds(drive: &DriveSpec) -> Vec<Bound> {
    let mut drive = drive.clone();
    let fitted = if drive.is_rotating() { ROTATING } else { SSD };
    let keys = drive.keys();
    let bound = |parameter: &Fitted| {
        let value = *drive.parameter(parameter.key)? as f64;
        let key = keys.iter().find(|key| key.name == parameter.key)?;
        let (least, most) = (value * parameter.least, value * parameter.most);
        Some((parameter.key, least.max(key.least as f64), most.min(key.most as f64)))
    };
    fitted.iter().map(bound).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// A fitted parameter on its way between its bounds: in even shares of the way, or of the ratio where it cannot be zero.
fn coordinate(value: u64, low: f64, high: f64) -> f64 {
    let value = (value as f64).clamp(low, high);
    if low > 0.0 { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) }
}

/// The parameter's value at a coordinate.
fn value_at(coordinate: f64, low: f64, high: f64) -> u64 {
    let value = if low > 0.0 { low * (high / low).powf(coordinate) } else { low + (high - low) * coordinate };
    value.round() as u64
}

/// A drive that is fitted, and what was found out about it.
struct Trials {
    catalog: Catalog,
    /// At its priors.
    drive: DriveSpec,
    targets: Vec<Target>,
    bounds: Vec<Bound>,
    /// The errors of all figures, by how long they ran and by the values of the fitted parameters: fits without one profile
    /// or another meet many of the same.
    known: BTreeMap<(Runtimes, Vec<u64>), Vec<f64>>,
    rounds: u32,
    bar: ProgressBar,
}

impl Trials {
    /// The drive with its fitted parameters at coordinates.
    fn drive_at(&self, at: &[f64]) -> DriveSpec {
        let mut drive = self.drive.clone();
        for ((key, low, high), coordinate) in self.bounds.iter().zip(at) {
            if let Some(value) = drive.parameter(key) {
                *value = value_at(*coordinate, *low, *high);
            }
        }
        drive
    }

    /// The relative errors of all figures at coordinates.
    fn errors(&mut self, runtimes: Runtimes, at: &[f64]) -> Outcome<Vec<f64>> {
        let values: Vec<u64> =
            self.bounds.iter().zip(at).map(|((_, low, high), at)| value_at(*at, *low, *high)).collect();
        let what = (runtimes, values);
        if let Some(known) = self.known.get(&what) {
            return Ok(known.clone());
        }
        let errors = self.run(runtimes, &self.drive_at(at))?;
        self.known.insert(what, errors.clone());
        self.bar.inc(1);
        Ok(errors)
    }

    /// Runs all figures, on as many threads as the machine has: each figure is a simulation of its own.
    fn run(&self, runtimes: Runtimes, drive: &DriveSpec) -> Outcome<Vec<f64>> {
        let mut with = self.catalog.clone();
        with.drives.retain(|other| other.model != drive.model);
        with.drives.push(drive.clone());
        // A drive by itself is at its best when its queue is full; two rungs find that.
        let runner = Runner::new(&with, runtimes).with_ladder("64,256".parse()?);
        let error = |target: &Target| Ok(runner.value(&target.case, target.metric)? / target.value - 1.0);
        parallel::each(&self.targets, error).into_iter().collect()
    }

    /// The coordinates that fit some of the figures best.
    fn fit(&mut self, what: &str, which: &BTreeSet<usize>) -> Outcome<Vec<f64>> {
        self.bar.set_message(format!("models run to fit {what}"));
        let mut prior = self.drive.clone();
        let mut coordinate_of = |(key, low, high): &Bound| {
            prior.parameter(key).map_or(0.5, |value| coordinate(*value, *low, *high))
        };
        let start: Vec<f64> = self.bounds.iter().map(&mut coordinate_of).collect();
        let (rounds, rotates) = (self.rounds, self.drive.is_rotating());
        let mut errors = |runtimes: Runtimes, at: &[f64]| {
            let all = self.errors(runtimes, at)?;
            Ok(which.iter().map(|n| all[*n]).collect())
        };
        if rotates {
            return search::search(&mut |at| errors(RUNTIMES, at), &start, rounds);
        }
        let found = search::search(&mut |at| errors(SEARCHING, at), &start, rounds)?;
        search::refine(&mut |at| errors(RUNTIMES, at), &start, &found, rounds)
    }

    /// The figures and parameters of the drive at its priors, as the catalog has it now, and as it was fitted.
    fn shown(&mut self, now: &DriveSpec, best: &DriveSpec, fitted: &[f64]) -> Outcome<String> {
        let errors = self.errors(RUNTIMES, fitted)?;
        let rows: Vec<Vec<String>> = self
            .targets
            .iter()
            .zip(&errors)
            .map(|(target, error)| {
                let predicted = target.value * (1.0 + error);
                let cells =
                    [target.figure.id.clone(), target.figure.doc.clone(), target.figure.profile.clone()];
                let numbers =
                    [target.value.to_string(), format!("{predicted:.1}"), format!("{:+.1} %", error * 100.0)];
                cells.into_iter().chain(numbers).collect()
            })
            .collect();
        let headers = ["figure", "document", "profile", "published", "predicted", "error"];
        let figures = output::table(&headers, &rows, &[false, false, false, true, true, true]);
        let value = |drive: &DriveSpec, key: &str| drive.clone().parameter(key).map_or(0, |value| *value);
        let rows: Vec<Vec<String>> = self
            .bounds
            .iter()
            .map(|(key, low, high)| {
                let values = [&self.drive, now, best].map(|drive| value(drive, key).to_string());
                let within = format!("{low:.0}..{high:.0}");
                std::iter::once((*key).to_owned()).chain(values).chain([within]).collect()
            })
            .collect();
        let headers = ["parameter", "prior", "catalog", "fitted", "within"];
        let parameters = output::table(&headers, &rows, &[false, true, true, true, true]);
        Ok(format!("{figures}\n\n{parameters}"))
    }

    /// Fits without each profile in turn: how far the models are off where they were not told.
    fn left_out(&mut self) -> Outcome<String> {
        let profile = |target: &Target| target.figure.profile.clone();
        let profiles: BTreeSet<String> = self.targets.iter().map(profile).collect();
        let mut rows = Vec::new();
        for profile in profiles {
            let (out, kept): (BTreeSet<usize>, BTreeSet<usize>) =
                (0..self.targets.len()).partition(|n| self.targets[*n].figure.profile == profile);
            let fitted = self.fit(&format!("all but {profile}"), &kept)?;
            let errors = self.errors(RUNTIMES, &fitted)?;
            for n in out {
                let figure = &self.targets[n].figure;
                let error = format!("{:+.1} %", errors[n] * 100.0);
                rows.push(vec![profile.clone(), figure.doc.clone(), figure.id.clone(), error]);
            }
        }
        let headers = ["left out", "document", "figure", "error then"];
        Ok(output::table(&headers, &rows, &[false, false, false, true]))
    }

    /// The drive's file with the fitted values.
    fn written(&self, best: &DriveSpec) -> Outcome<String> {
        let text = match Catalog::text_of(&self.drive.file) {
            Some(text) => text.to_owned(),
            None => std::fs::read_to_string(&self.drive.file)
                .map_err(|error| Failure::refused(format!("cannot read {}: {error}", self.drive.file)))?,
        };
        let ids: Vec<&str> = self.targets.iter().map(|target| target.figure.id.as_str()).collect();
        let (mut best, mut prior) = (best.clone(), self.drive.clone());
        let mut line = |line: &str| {
            let is =
                |key: &&str| line.strip_prefix(*key).is_some_and(|rest| rest.trim_start().starts_with('='));
            let Some(key) = self.bounds.iter().map(|(key, ..)| *key).find(is) else { return line.to_owned() };
            match (best.parameter(key).map(|value| *value), prior.parameter(key)) {
                (Some(value), Some(prior)) => format!(
                    "{key} = {{ value = {value}, source = \"calibrated: {}\", prior = {prior} }}",
                    ids.join(" ")
                ),
                _ => line.to_owned(),
            }
        };
        Ok(text.lines().map(&mut line).collect::<Vec<_>>().join("\n") + "\n")
    }
}
