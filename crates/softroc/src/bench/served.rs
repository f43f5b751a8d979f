//! A measurement of a volume from within the process that serves it: as `softroc bench volume:NAME` measures it from another one, by the same
//! flags, through the same port, kept in the same place.

use super::environment;
use super::run::{AtOnce, MakesObserver, Measurement, resolve, settings};
use crate::cli::BenchRun;
use crate::control::Control;
use crate::failure::Outcome;
use crate::render;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use storagebench::{ReportOptions, Results, Settings, side_by_side};

/// What a command line asks for, before anything is done.
///
/// # Errors
/// When a load, a ladder or a time cannot be understood.
pub fn check(run: &BenchRun) -> Outcome<Settings> {
    settings(run)
}

/// A measurement of what `run` names, which `seen` looks at. `command` is its command line.
///
/// # Errors
/// When the volume is not there, or hosts use it.
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

/// The report of a measurement with another one beside it, as `softroc bench compare --html` writes it: names and results, and when the first one
/// was made.
pub fn beside(runs: &[(String, Results)], when: u64) -> Option<String> {
    let all = side_by_side(runs)?;
    let named: Vec<(String, &Results)> = runs.iter().map(|(name, results)| (name.clone(), results)).collect();
    let comparisons = Some(storagebench::compare(&named)).filter(|compared| !compared.comparisons.is_empty());
    let options = ReportOptions { date: Some(render::date(when)), comparisons, ..ReportOptions::default() };
    Some(storagebench::html_report(&all, &options))
}
