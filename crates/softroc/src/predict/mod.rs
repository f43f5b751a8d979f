//! `softroc predict`: what a server would do.
//!
//! The engine that serves real drives serves models here, in virtual time, under the load of StorageBench; no
//! formula stands in for a run. The rows are those of `softroc bench`, with how busy each resource was, so that
//! what limits a run has a name, and with intervals from several seeds.

mod configuration;
mod method;
mod simulate;

pub use configuration::{Configuration, Policies, catalog, parse_drives};
pub use method::MeasuringMethod;
#[cfg(test)]
pub use simulate::run_once;
pub use simulate::{Plan, run as simulate};

use crate::bench;
use crate::cli::{Predict, Switch};
use crate::failure::{Failure, Outcome};
use crate::{machine, output, progress};
use layout::Level;
use std::time::Duration;
use storagebench::{Ending, Environment, Measured, Method, Profile, Results, Row, Settings};

/// Runs the command.
pub fn run(command: &Predict) -> Outcome {
    let configuration = configured(command)?;
    let mut method = MeasuringMethod::of(command.method, configuration.drives.len())?;
    if let Some(ladder) = &command.outstanding {
        method.ladder = ladder.parse()?;
    }
    if let Some(area) = command.area {
        method.area = area;
    }
    let profiles = bench::profiles(&command.profile)?;
    command.files.check(&[], Some(&profiles))?;
    let plan = plan_of(command, &configuration);
    if command.workers == 0 {
        return Err(Failure::refused("no worker would do the work; give at least 1"));
    }
    let settings = Settings {
        runtime: plan.runtime,
        ramp: plan.ramp,
        confidence_percent: None,
        outstanding: method.ladder.clone(),
        workers: plan.workers,
        area: method.area,
        ..Settings::default()
    };
    let mut results = Results::new(Method::of(&settings), described(command, &configuration));
    let bar = progress::bar(profiles.len() as u64 * plan.seeds);
    for profile in &profiles {
        bar.set_message(profile.name().to_owned());
        let profile = profile.clone().on_any_ladder();
        let rows = simulate(&configuration, &method, &plan, &profile, &|| bar.inc(1))?;
        results.add(Measured { rows, ending: Ending::Complete, verified: None });
    }
    bar.finish_and_clear();
    command.files.write(&results, machine::unix_time(), None)?;
    if command.files.take_stdout() {
        return Ok(());
    }
    let mut text = bench::text(&results);
    text.push_str("\n\n");
    text.push_str(&limits(&profiles, &results));
    output::print(&text)
}

fn configured(command: &Predict) -> Outcome<Configuration> {
    let catalog = catalog(&command.catalog)?;
    let controller = catalog.controller(&command.controller).map_err(Failure::refused)?;
    let drives = parse_drives(&catalog, &command.drives)?;
    let level = match command.level {
        Some(level) => level,
        None if drives.len() == 1 => Level::Jbod,
        None => {
            return Err(Failure::refused(format!(
                "--level is missing for {} drives; give one such as --level raid0",
                drives.len()
            )));
        }
    };
    let mut modes = Vec::new();
    for (option, mode) in [
        ("--write-mode", &command.write_mode),
        ("--read-mode", &command.read_mode),
        ("--cache-mode", &command.cache_mode),
    ] {
        modes.extend(mode.clone().map(|mode| (option, mode)));
    }
    let drive_cache = command.drive_cache.map(|switch| switch == Switch::On);
    let policies = Policies { preset: command.preset.clone(), modes, drive_cache };
    let shape = Configuration::shape(level, drives.len(), command.spans)?;
    Configuration::new(controller, drives, shape, command.strip, &policies)
}

fn plan_of(command: &Predict, configuration: &Configuration) -> Plan {
    let usual = if configuration.rotates() { Duration::from_secs(20) } else { Duration::from_millis(500) };
    let runtime = command.runtime.unwrap_or(usual);
    Plan {
        runtime,
        ramp: command.ramp.unwrap_or(runtime / 4),
        workers: command.workers,
        seed: command.seed,
        seeds: command.seeds,
    }
}

fn described(command: &Predict, configuration: &Configuration) -> Environment {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let Configuration { controller, drives, strip, drive_cache, .. } = configuration;
    let mut facts = vec![
        fact("kind", "prediction: models in virtual time".to_owned()),
        fact("controller", controller.model.clone()),
        fact("strip", strip.bytes().to_string()),
        fact("method", format!("{:?}", command.method).to_lowercase()),
        fact("seeds", format!("{} from {}", command.seeds, command.seed)),
    ];
    if configuration.controller.reads_ahead_kib > 0 {
        facts.push(fact("read mode", "read-ahead".to_owned()));
    }
    if let Some(on) = drive_cache {
        facts.push(fact("drive cache", if *on { "on" } else { "off" }.to_owned()));
    }
    for (slot, drive) in drives.iter().enumerate() {
        facts.push(fact(&format!("slot {slot}"), drive.model.clone()));
    }
    Environment(facts)
}

/// The resource that was busiest.
pub fn bottleneck(row: &Row) -> Option<(&str, f64)> {
    let all = row.resources.as_ref()?;
    all.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(name, busy)| (name.as_str(), *busy))
}

/// What limits each profile at its best.
fn limits(profiles: &[Profile], results: &Results) -> String {
    let line = |profile: &Profile| {
        let row = results.best.get(profile.name())?;
        let (name, busy) = bottleneck(row)?;
        Some(match busy >= 80.0 {
            true => format!("{}: limited by {name}, busy {busy:.0} %", profile.name()),
            false => {
                format!("{}: nothing is busy all the time; most so is {name}, {busy:.0} %", profile.name())
            }
        })
    };
    profiles.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}
