//! The request for a prediction, and its result.

use crate::configuration::Configuration;
use crate::error::{Error, Result};
use crate::method::MeasuringMethod;
use crate::progress::{OnProgress, Progress};
use crate::simulate::simulate;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use storagebench::{Ending, Environment, Measured, Method, Profile, Results, Row, Settings};

/// The virtual runtime of each point, and the number of seeds.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The measured time of each point; with `confidence_percent`, the maximum.
    pub runtime: Duration,
    /// A point ends early, after at least a quarter of its time, when the 95 % intervals of its
    /// rate and its mean latency are this narrow, in percent in both directions. `None`: no early
    /// end.
    pub confidence_percent: Option<f64>,
    /// The time before the measurement of a point.
    pub ramp: Duration,
    /// Workers: each has its own stream of a sequential load.
    pub workers: u32,
    /// The first seed.
    pub seed: u64,
    /// The number of seeds: figures are means over seeds, intervals reflect their spread.
    pub seeds: u64,
    /// A set flag ends the prediction soon, with an error: it may take minutes.
    pub cancel: Arc<AtomicBool>,
}

impl Runs {
    /// The minimum measured time of a point.
    pub(crate) fn shortest(&self) -> Duration {
        const PARTS: u32 = 4;
        if self.confidence_percent.is_some() { self.runtime / PARTS } else { self.runtime }
    }

    /// The default measured time: with a spindle, averages need more time.
    pub fn usual_runtime(configuration: &Configuration) -> Duration {
        if configuration.rotates() { Duration::from_secs(20) } else { Duration::from_millis(500) }
    }
}

/// A request: loads, method and server.
#[derive(Clone, Debug)]
pub struct Request {
    /// The server's storage.
    pub configuration: Configuration,
    /// The method of the measurement.
    pub method: MeasuringMethod,
    /// The loads.
    pub profiles: Vec<Profile>,
    /// Runtimes and seeds.
    pub runs: Runs,
}

impl Request {
    /// The number of simulations, which equals the number of [`Progress::OneDone`] reports.
    pub fn simulations(&self) -> u64 {
        self.profiles.len() as u64 * self.runs.seeds
    }
}

/// Runs a prediction: a row for each load and number of outstanding I/Os, as a measurement of the
/// server would give. Each row has the utilisation of each resource ([`Row::resources`]) and
/// intervals from the seeds. The same request gives the same result, to the last digit.
///
/// # Errors
/// When the volume cannot be created, a load does not fit on it, a run cannot end, or the
/// prediction is cancelled ([`Runs::cancel`]).
pub fn predict(request: &Request, progress: OnProgress<'_>) -> Result<Results> {
    let Request { configuration, method, profiles, runs } = request;
    if runs.workers == 0 {
        return Err(Error::refused("0 workers cannot do the work; give at least 1"));
    }
    let settings = Settings {
        runtime: runs.shortest(),
        ramp: runs.ramp,
        confidence_percent: runs.confidence_percent,
        max_runtime: Some(runs.runtime),
        outstanding: method.ladder.clone(),
        workers: runs.workers,
        area: method.area,
        ..Settings::default()
    };
    let mut results = Results::new(Method::of(&settings), described(request));
    for profile in profiles {
        progress(Progress::Begins(profile.name()));
        let profile = profile.clone().on_any_ladder().for_any_time().after_any_ramp();
        let rows =
            simulate(configuration, method, runs, &profile, &|| progress(Progress::OneDone))?;
        results.add(Measured { rows, ending: Ending::Complete, verified: None });
    }
    Ok(results)
}

/// The simulated configuration, for the results.
fn described(request: &Request) -> Environment {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let Configuration {
        controller, drives, strip, drive_cache, write_back, write_hole, modes, ..
    } = &request.configuration;
    let mut facts = vec![
        fact("kind", "prediction: models in virtual time".to_owned()),
        fact("controller", controller.model.clone()),
        fact("controllers", request.configuration.controllers.to_string()),
        fact("strip", strip.bytes().to_string()),
        fact("method", request.method.name.name().to_owned()),
        fact("seeds", format!("{} from {}", request.runs.seeds, request.runs.seed)),
    ];
    if controller.reads_ahead_kib > 0 {
        facts.push(fact("read mode", "read-ahead".to_owned()));
    }
    if controller.cache.is_some() {
        let write_mode = if modes.write_back { "write-back" } else { "write-through" };
        facts.push(fact("write mode", write_mode.to_owned()));
        facts.push(fact("cache mode", if modes.cached { "cached" } else { "direct" }.to_owned()));
        facts.push(fact("fast path", if modes.fast_path { "on" } else { "off" }.to_owned()));
    }
    if let Some(on) = drive_cache {
        facts.push(fact("drive cache", if *on { "on" } else { "off" }.to_owned()));
    }
    let failed: Vec<String> =
        request.configuration.failed.iter().map(|slot| slot.to_string()).collect();
    if !failed.is_empty() {
        facts.push(fact("failed", failed.join(", ")));
    }
    if let Some(size) = write_back {
        facts.push(fact(
            "cache",
            format!("{size}, write-back, full to its mark before each measurement"),
        ));
    }
    if let Some(journal) = write_hole.journal() {
        facts.push(fact("write hole", journal));
    }
    for (number, drive) in write_hole.log().iter().enumerate() {
        facts.push(fact(&format!("log {number}"), drive.model.clone()));
    }
    for (slot, drive) in drives.iter().enumerate() {
        facts.push(fact(&format!("slot {slot}"), drive.model.clone()));
    }
    let not = request.configuration.not_calibrated();
    if !not.is_empty() {
        facts.push(fact("not calibrated", not.join(", ")));
    }
    Environment(facts)
}

/// The busiest resource of a row, and its utilisation in percent.
pub fn bottleneck(row: &Row) -> Option<(&str, f64)> {
    let all = row.resources.as_ref()?;
    all.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(name, busy)| (name.as_str(), *busy))
}
