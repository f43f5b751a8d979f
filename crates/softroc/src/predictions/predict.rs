//! `softroc predict`: the predicted performance of a server.
//!
//! The rows are those of `softroc bench`, with the utilisation of each resource, which shows the
//! bottleneck, and with intervals from several seeds.

use super::{catalog_with, on};
use crate::cli::{MethodName, Predict, Switch, WriteHole};
use crate::failure::{Failure, Outcome};
use crate::{bench, machine, output, progress};
use layout::Level;
use predict::published::expected_error;
use predict::{Configuration, MeasuringMethod, Policies, Request, Runs, bottleneck, parse_drives};
use std::sync::Arc;
use storagebench::{Profile, Results, Row};

impl From<MethodName> for predict::MethodName {
    fn from(name: MethodName) -> predict::MethodName {
        match name {
            MethodName::Bench => predict::MethodName::Bench,
            MethodName::Fujitsu2013 => predict::MethodName::Fujitsu2013,
            MethodName::Fujitsu2016 => predict::MethodName::Fujitsu2016,
            MethodName::Sx940 => predict::MethodName::Sx940,
            MethodName::Intel2014 => predict::MethodName::Intel2014,
            MethodName::Reviews => predict::MethodName::Reviews,
        }
    }
}

/// Runs the command.
pub fn run(command: &Predict) -> Outcome {
    if !command.compare.is_empty() {
        return compare(command);
    }
    let request = request(command, &command.controller)?;
    command.files.check(&[], Some(&request.profiles))?;
    let bar = progress::bar(request.simulations());
    let results = predict::predict(&request, &on(&bar))?;
    bar.finish_and_clear();
    command.files.write(&results, machine::unix_time(), None)?;
    if command.files.take_stdout() {
        return Ok(());
    }
    let mut text = bench::text(&results);
    text.push_str("\n\n");
    text.push_str(&said(&request, &results)?.join("\n"));
    output::print(&text)
}

/// Notes on the results: the bottleneck of each load, the error of similar predictions, and drives
/// that are known only from data sheets.
pub fn said(request: &Request, results: &Results) -> Outcome<Vec<String>> {
    let mut lines = limits(&request.profiles, results);
    lines.extend(expected(request, results)?);
    lines.extend(
        request.configuration.write_hole.journal().map(|journal| format!("write hole: {journal}")),
    );
    lines.extend(request.configuration.not_calibrated().into_iter().map(note));
    Ok(lines)
}

/// The note on a drive without measurements.
fn note(model: &str) -> String {
    format!(
        "note: {model} is from its data sheet, not calibrated against measurements; for the source \
         of each number run softroc catalog show \"{model}\""
    )
}

/// Compares several controllers: the results of each, and their ratio to the first one.
fn compare(command: &Predict) -> Outcome {
    if command.files.any() {
        return Err(Failure::usage(
            "--compare only prints a table; for files run 'softroc predict' with --controller, \
             once for each",
        ));
    }
    let requests: Vec<Request> = command
        .compare
        .iter()
        .map(|controller| request(command, controller))
        .collect::<Outcome<_>>()?;
    let bar = progress::bar(requests.iter().map(Request::simulations).sum());
    let all: Vec<Results> = requests
        .iter()
        .map(|request| predict::predict(request, &on(&bar)))
        .collect::<predict::Result<_>>()?;
    bar.finish_and_clear();
    let Some((first, others)) = all.split_first() else { return Ok(()) };
    let row = |(place, row): (usize, &Row)| {
        let mut cells =
            vec![row.profile.clone(), row.outstanding.to_string(), format!("{:.0}", row.iops)];
        for other in others.iter().filter_map(|other| other.rows.get(place)) {
            cells.push(format!("{:.0}", other.iops));
            cells.push(format!("{:.2}", other.iops / row.iops.max(f64::MIN_POSITIVE)));
        }
        cells
    };
    let rows: Vec<Vec<String>> = first.rows.iter().enumerate().map(row).collect();
    let mut headers = vec!["profile", "outstanding"];
    headers.extend(command.compare.iter().map(String::as_str));
    headers.push("ratio");
    let table = output::table(&headers, &rows, &[false, true, true, true, true]);
    output::print(&format!("I/Os per second\n\n{table}"))
}

/// The request of a command line.
///
/// # Errors
/// If the request is invalid.
pub fn asked(command: &Predict) -> Outcome<Request> {
    request(command, &command.controller)
}

fn request(command: &Predict, controller: &str) -> Outcome<Request> {
    let configuration = configured(command, controller)?;
    let mut method = MeasuringMethod::of(command.method.into(), configuration.all_drives())?;
    if let Some(ladder) = &command.outstanding {
        method.ladder = ladder.parse()?;
    }
    if let Some(area) = command.area {
        method.area = area;
    }
    let profiles = bench::profiles(&command.profile)?;
    let runtime = command.runtime.unwrap_or_else(|| Runs::usual_runtime(&configuration));
    let runs = Runs {
        runtime,
        confidence_percent: command.confidence.0,
        ramp: command.ramp.unwrap_or(runtime / 4),
        workers: command.workers,
        seed: command.seed,
        seeds: command.seeds,
        cancel: Arc::default(),
    };
    Ok(Request { configuration, method, profiles, runs })
}

fn configured(command: &Predict, controller: &str) -> Outcome<Configuration> {
    let catalog = catalog_with(&command.catalog)?;
    let controller = catalog.controller(controller).map_err(Failure::not_found)?;
    let drives = parse_drives(&catalog, &command.drives)?;
    let level = match command.level {
        Some(level) => level,
        None if drives.len() == 1 => Level::Jbod,
        None => {
            return Err(Failure::usage(format!(
                "--level is missing for {} drives; give one such as --level raid0",
                drives.len()
            )));
        }
    };
    let mut log = Vec::new();
    for drives in &command.log {
        log.extend(parse_drives(&catalog, drives)?);
    }
    let drive_cache = command.drive_cache.map(|switch| switch == Switch::On);
    let policies = Policies {
        preset: command.preset.clone(),
        write_mode: command.write_mode.clone(),
        read_mode: command.read_mode.clone(),
        cache_mode: command.cache_mode.clone(),
        drive_cache,
        write_back: command.cache,
        journal: command.write_hole == Some(WriteHole::Journal),
        log,
    };
    let shape = Configuration::shape(level, drives.len(), command.spans)?;
    let one = Configuration::new(controller, drives, shape, command.strip, &policies)?;
    Ok(one.without(&command.failed)?.on_controllers(command.controllers)?)
}

/// The expected error of each profile: the spread over seeds, and the errors of similar
/// predictions.
fn expected(request: &Request, results: &Results) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    if request.configuration.failed.iter().next().is_some() {
        lines.push(
            "no published figures of degraded arrays exist: the expected error is unknown"
                .to_owned(),
        );
        return Ok(lines);
    }
    for profile in &request.profiles {
        let Some(row) = results.best.get(profile.name()) else { continue };
        let chance = row.ci95.map(|ci95| {
            (ci95.iops[1] - ci95.iops[0]) / 2.0 / row.iops.max(f64::MIN_POSITIVE) * 100.0
        });
        if let Some(expected) = expected_error(&request.configuration, profile)? {
            let all = expected.percent.hypot(chance.unwrap_or(0.0));
            let chance = chance.map_or_else(String::new, |chance| {
                format!(", of which {chance:.1} % from random variation")
            });
            lines.push(format!(
                "{}: nine of ten such predictions have an error of at most {all:.0} %{chance} ({} \
                 published figures: {})",
                profile.name(),
                expected.figures,
                expected.kind
            ));
        }
    }
    Ok(lines)
}

/// The bottleneck of each profile at its best result.
fn limits(profiles: &[Profile], results: &Results) -> Vec<String> {
    let line = |profile: &Profile| {
        let row = results.best.get(profile.name())?;
        let (name, busy) = bottleneck(row)?;
        Some(match busy >= 80.0 {
            true => format!("{}: limited by {name}, busy {busy:.0} %", profile.name()),
            false => {
                format!(
                    "{}: no resource is saturated; the busiest is {name}, {busy:.0} %",
                    profile.name()
                )
            }
        })
    };
    profiles.iter().filter_map(line).collect()
}
