//! `softroc calibrate`: fits a drive's parameters to its published figures, by running the models.
//!
//! The figures are those of the drive by itself, five profiles a paper. What is least is the sum of the squares of
//! the relative errors, with a penalty for what is more than 2 % off: a search along each parameter in turn, with
//! steps that shrink, from the catalog's values. It draws nothing by chance beyond the runs' own seed, so that it
//! ends at the same values each time. Parameters stay within bounds that the data sheet makes plausible
//! ([`Fitted`]).

use crate::cli::Calibrate;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::predict::catalog;
use crate::reproduce::{Case, Figure, Metric, Runner, figures};
use models::{Catalog, DriveSpec};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a point is run to fit: with and without a spindle.
const RUNTIMES: (Duration, Duration) = (Duration::from_secs(24), Duration::from_millis(200));
/// The first step, as a share of a parameter, and the last.
const FIRST_STEP: f64 = 0.2;
const LAST_STEP: f64 = 0.01;

/// A parameter that is fitted, and within what share of the data sheet's (or the assumed) value it may end.
struct Fitted {
    key: &'static str,
    least: f64,
    most: f64,
}

const fn fitted(key: &'static str, least: f64, most: f64) -> Fitted {
    Fitted { key, least, most }
}

/// Of rotating drives: what the data sheet leaves open.
const ROTATING: &[Fitted] = &[
    fitted("outer_rate_kb_s", 0.95, 1.05),
    fitted("seek_min_us", 0.5, 2.0),
    fitted("seek_avg_us", 0.85, 1.15),
    fitted("write_settle_us", 0.0, 2.0),
];

/// Of flash drives: what no data sheet says.
const SSD: &[Fitted] = &[
    fitted("stream_ns", 0.2, 5.0),
    fitted("lookup_ns", 0.2, 5.0),
    fitted("update_ns", 0.2, 5.0),
    fitted("command_ns", 0.1, 30.0),
    fitted("program_us", 0.4, 2.0),
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
    let drive = catalog.drive(&command.drive).map_err(Failure::refused)?.clone();
    let targets = targets(&catalog, &drive)?;
    let all: Vec<&Target> = targets.iter().collect();
    let bounds = bounds(&drive);
    let best = fit(&catalog, &drive, &all, &bounds, command.rounds)?;
    let mut text = shown(&catalog, &drive, &best, &all)?;
    if command.leave_one_out {
        text.push_str(&left_out(&catalog, &drive, &targets, &bounds, command.rounds)?);
    }
    if let Some(path) = &command.to {
        let ids: Vec<&str> = targets.iter().map(|target| target.figure.id.as_str()).collect();
        output::write_file(path, &written(&drive, &best, &ids)?)?;
        text.push_str(&format!("\n\nWritten to {}.", path.display()));
    }
    output::print(&text)
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

/// The fitted parameters and their bounds, from the values that the catalog begins with.
fn bounds(drive: &DriveSpec) -> Vec<(&'static str, f64, f64)> {
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

/// Relative errors of a drive over some figures.
fn errors(catalog: &Catalog, drive: &DriveSpec, targets: &[&Target]) -> Outcome<Vec<f64>> {
    let mut with = catalog.clone();
    with.drives.retain(|other| other.model != drive.model);
    with.drives.push(drive.clone());
    // A drive by itself is at its best when its queue is full; a few rungs find that.
    let mut runner = Runner::new(&with, RUNTIMES).with_ladder("4,64,256".parse()?);
    targets.iter().map(|target| Ok(runner.value(&target.case, target.metric)? / target.value - 1.0)).collect()
}

fn badness(errors: &[f64]) -> f64 {
    let one = |error: &f64| error.powi(2) + 4.0 * (error.abs() - 0.02).max(0.0).powi(2);
    errors.iter().map(one).sum()
}

/// The search.
fn fit(
    catalog: &Catalog,
    drive: &DriveSpec,
    targets: &[&Target],
    bounds: &[(&'static str, f64, f64)],
    rounds: u32,
) -> Outcome<DriveSpec> {
    let mut best = drive.clone();
    let mut least = badness(&errors(catalog, &best, targets)?);
    let mut step = FIRST_STEP;
    for round in 0..rounds {
        let mut moved = false;
        for (key, low, high) in bounds {
            for way in [1.0 + step, 1.0 / (1.0 + step)] {
                let mut tried = best.clone();
                let Some(value) = tried.parameter(key) else { continue };
                let was = *value;
                // A whole step at least: small numbers would not move.
                let next = (was as f64 * way).round();
                let next = if next as u64 == was { was as f64 + (way - 1.0).signum() } else { next };
                *value = next.clamp(*low, *high).round() as u64;
                if *value == was {
                    continue;
                }
                let now = badness(&errors(catalog, &tried, targets)?);
                if now < least {
                    (best, least, moved) = (tried, now, true);
                    break;
                }
            }
        }
        eprintln!("round {}: badness {least:.5} at steps of {:.1} %", round + 1, step * 100.0);
        if !moved {
            step /= 2.0;
        }
        if step < LAST_STEP {
            break;
        }
    }
    Ok(best)
}

fn shown(catalog: &Catalog, before: &DriveSpec, after: &DriveSpec, targets: &[&Target]) -> Outcome<String> {
    let errors = errors(catalog, after, targets)?;
    let rows: Vec<Vec<String>> = targets
        .iter()
        .zip(&errors)
        .map(|(target, error)| {
            let predicted = target.value * (1.0 + error);
            let cells = [target.figure.id.clone(), target.figure.doc.clone(), target.figure.profile.clone()];
            let numbers =
                [target.value.to_string(), format!("{predicted:.1}"), format!("{:+.1} %", error * 100.0)];
            cells.into_iter().chain(numbers).collect()
        })
        .collect();
    let headers = ["figure", "document", "profile", "published", "predicted", "error"];
    let figures = output::table(&headers, &rows, &[false, false, false, true, true, true]);
    let (mut before, mut after) = (before.clone(), after.clone());
    let value = |drive: &mut DriveSpec, key: &str| drive.parameter(key).map_or(0, |value| *value);
    let rows: Vec<Vec<String>> = bounds(&before.clone())
        .iter()
        .map(|(key, low, high)| {
            let numbers = [value(&mut before, key).to_string(), value(&mut after, key).to_string()];
            let bounds = format!("{low:.0}..{high:.0}");
            std::iter::once((*key).to_owned()).chain(numbers).chain([bounds]).collect()
        })
        .collect();
    let parameters =
        output::table(&["parameter", "catalog", "fitted", "within"], &rows, &[false, true, true, true]);
    Ok(format!("{figures}\n\n{parameters}"))
}

/// Fits without each profile in turn: how far the models are off where they were not told.
fn left_out(
    catalog: &Catalog,
    drive: &DriveSpec,
    targets: &[Target],
    bounds: &[(&'static str, f64, f64)],
    rounds: u32,
) -> Outcome<String> {
    let mut profiles: BTreeMap<&str, ()> = BTreeMap::new();
    profiles.extend(targets.iter().map(|target| (target.figure.profile.as_str(), ())));
    let mut rows = Vec::new();
    for profile in profiles.into_keys() {
        let (out, kept): (Vec<&Target>, Vec<&Target>) =
            targets.iter().partition(|target| target.figure.profile == profile);
        let best = fit(catalog, drive, &kept, bounds, rounds)?;
        for (target, error) in out.iter().zip(errors(catalog, &best, &out)?) {
            let error = format!("{:+.1} %", error * 100.0);
            rows.push(vec![profile.to_owned(), target.figure.id.clone(), error]);
        }
    }
    let table = output::table(&["left out", "figure", "error then"], &rows, &[false, false, true]);
    Ok(format!("\n\n{table}"))
}

/// The drive's file with the fitted values.
fn written(drive: &DriveSpec, best: &DriveSpec, ids: &[&str]) -> Outcome<String> {
    let text = match Catalog::text_of(&drive.file) {
        Some(text) => text.to_owned(),
        None => std::fs::read_to_string(&drive.file)
            .map_err(|error| Failure::refused(format!("cannot read {}: {error}", drive.file)))?,
    };
    let mut best = best.clone();
    let keys: Vec<&str> = bounds(drive).iter().map(|(key, _, _)| *key).collect();
    let line = |line: &str| {
        let key = keys
            .iter()
            .find(|key| line.strip_prefix(**key).is_some_and(|rest| rest.trim_start().starts_with('=')));
        match key.and_then(|key| best.parameter(key).map(|value| (key, *value))) {
            Some((key, value)) => {
                format!("{key} = {{ value = {value}, source = \"calibrated: {}\" }}", ids.join(" "))
            }
            None => line.to_owned(),
        }
    };
    Ok(text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n")
}
