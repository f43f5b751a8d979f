//! `softroc calibrate`: fits a drive's parameters to its published figures, by running the models.
//!
//! The figures are those of the drive by itself, five profiles a paper. What is least is the sum of the squares of
//! the relative errors, with a penalty for what is more than 2 % off: a search along each parameter in turn, with
//! steps that shrink. It begins at the *priors*: what the data sheet says, or what was assumed, so that what comes out
//! depends on nothing that was fitted before, and a profile that is left out has not been seen. It draws nothing by
//! chance beyond the runs' own seed, so that it ends at the same values each time. Parameters stay within bounds that
//! make them plausible ([`Fitted`]).

use crate::cli::Calibrate;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::predict::catalog;
use crate::reproduce::{Case, Figure, Metric, Runner, figures};
use models::{Catalog, DriveSpec};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a point is run to fit: with and without a spindle.
const RUNTIMES: (Duration, Duration) = (Duration::from_secs(12), Duration::from_millis(80));
/// The first step, as a share of a parameter, and the last.
const FIRST_STEP: f64 = 0.2;
const LAST_STEP: f64 = 0.01;

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
    let all: Vec<&Target> = targets.iter().collect();
    let bounds = bounds(&drive);
    let best = fit(&catalog, &drive, &all, &bounds, command.rounds)?;
    let mut text = shown(&catalog, [&drive, &now, &best], &all)?;
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

/// The fitted parameters and their bounds, from their priors.
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

/// The drive with a parameter multiplied, by a whole unit at least: small numbers would not move. `None` at a bound.
fn stepped(drive: &DriveSpec, key: &str, way: f64, low: f64, high: f64) -> Option<DriveSpec> {
    let mut drive = drive.clone();
    let value = drive.parameter(key)?;
    let was = *value;
    let next = (was as f64 * way).round();
    let next = if next as u64 == was { was as f64 + (way - 1.0).signum() } else { next };
    *value = next.clamp(low, high).round() as u64;
    (*value != was).then_some(drive)
}

/// As far beyond `to` as that is from `from`.
fn onward(from: &DriveSpec, to: &DriveSpec, bounds: &[(&'static str, f64, f64)]) -> DriveSpec {
    let (mut from, mut beyond) = (from.clone(), to.clone());
    for (key, low, high) in bounds {
        if let (Some(from), Some(value)) = (from.parameter(key), beyond.parameter(key)) {
            let next = 2.0 * *value as f64 - *from as f64;
            *value = next.clamp(*low, *high).round() as u64;
        }
    }
    beyond
}

/// The search: along each parameter, then on in the direction found (Hooke and Jeeves, 1961).
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
        let (mut moved, before) = (false, best.clone());
        for (key, low, high) in bounds {
            // Far, then near: a parameter that limits nothing yet shows no slope.
            for times in [4.0, 2.0, 1.0] {
                for way in [(1.0 + step).powf(times), (1.0 + step).powf(-times)] {
                    // As long as it helps.
                    while let Some(tried) = stepped(&best, key, way, *low, *high) {
                        let now = badness(&errors(catalog, &tried, targets)?);
                        if now >= least {
                            break;
                        }
                        (best, least, moved) = (tried, now, true);
                    }
                }
            }
        }
        // On along the way that the round as a whole has taken: ridges are narrow across the axes.
        if moved {
            loop {
                let tried = onward(&before, &best, bounds);
                let now = badness(&errors(catalog, &tried, targets)?);
                if now >= least {
                    break;
                }
                (best, least) = (tried, now);
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

/// The figures and parameters of a drive as it was before, as the catalog has it, and as it was fitted.
fn shown(catalog: &Catalog, drives: [&DriveSpec; 3], targets: &[&Target]) -> Outcome<String> {
    let errors = errors(catalog, drives[2], targets)?;
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
    let value = |drive: &DriveSpec, key: &str| drive.clone().parameter(key).map_or(0, |value| *value);
    let rows: Vec<Vec<String>> = bounds(drives[0])
        .iter()
        .map(|(key, low, high)| {
            let values = drives.map(|drive| value(drive, key).to_string());
            std::iter::once((*key).to_owned()).chain(values).chain([format!("{low:.0}..{high:.0}")]).collect()
        })
        .collect();
    let headers = ["parameter", "prior", "catalog", "fitted", "within"];
    let parameters = output::table(&headers, &rows, &[false, true, true, true, true]);
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
    let (mut best, mut prior) = (best.clone(), drive.clone());
    let keys: Vec<&str> = bounds(drive).iter().map(|(key, _, _)| *key).collect();
    let mut line = |line: &str| {
        let is =
            |key: &&&str| line.strip_prefix(**key).is_some_and(|rest| rest.trim_start().starts_with('='));
        let Some(key) = keys.iter().find(is) else { return line.to_owned() };
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
