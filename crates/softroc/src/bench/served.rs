//! A measurement of a volume in the process that serves it. It equals `softroc bench volume:NAME`
//! from another process: same options, same port, same storage.

use super::environment;
use super::run::{AtOnce, MakesObserver, Measurement, resolve, settings};
use crate::cli::BenchRun;
use crate::control::Control;
use crate::failure::Outcome;
use crate::render;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use storagebench::{ReportOptions, Results, Settings, side_by_side};

/// Parses the options of a measurement without starting it.
///
/// # Errors
/// If a load, a list of outstanding I/Os or a time is invalid.
pub fn check(run: &BenchRun) -> Outcome<Settings> {
    settings(run)
}

/// The measurement described by `run`, with the observer `seen`. `command` is its command line.
///
/// # Errors
/// If the volume does not exist, or hosts use it.
pub fn served(
    run: &BenchRun,
    command: String,
    control: &Control,
    cancel: Arc<AtomicBool>,
    seen: MakesObserver,
) -> Outcome<Measurement> {
    let settings = settings(run)?;
    let targets = run
        .targets
        .iter()
        .map(|target| resolve(target, control, run.beside_hosts))
        .collect::<Outcome<Vec<(String, String)>>>()?;
    let environment = environment::describe(&targets, control);
    let measurement = Measurement::new(settings, targets, AtOnce::One, environment, cancel);
    Ok(measurement.kept_in(control.state(), command).seen_by(seen))
}

/// A report of several measurements side by side, as `softroc bench compare --html` writes it:
/// names and results, and the date of the first one.
pub fn beside(runs: &[(String, Results)], when: u64) -> Option<String> {
    let all = side_by_side(runs)?;
    let named: Vec<(String, &Results)> =
        runs.iter().map(|(name, results)| (name.clone(), results)).collect();
    let comparisons =
        Some(storagebench::compare(&named)).filter(|compared| !compared.comparisons.is_empty());
    let options =
        ReportOptions { date: Some(render::date(when)), comparisons, ..ReportOptions::default() };
    Some(storagebench::html_report(&all, &options))
}
