//! A case: a configuration under a profile at a queue depth, written in a line, and its prediction.

use super::expected::Kind;
use crate::configuration::{Configuration, parse_drives};
use crate::error::{Error, Result};
use crate::method::MeasuringMethod;
use crate::policies::Policies;
use crate::request::Runs;
use crate::simulate::simulate;
use layout::Level;
use models::Catalog;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storagebench::{Access, Ladder, Profile, Row};
use units::StripSize;

/// The conditions of a figure's measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Conditions {
    /// The controller; `direct`: none.
    pub controller: String,
    /// The drives.
    pub drives: String,
    /// The level.
    pub level: String,
    /// The load and other settings.
    pub load: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// The kind, for the error table.
    #[serde(skip)]
    pub(super) kind: Kind,
    /// The model whose errors count as its own, by model name: the controller, or without one the
    /// drive.
    #[serde(skip)]
    pub(super) of: String,
}

/// `CONTROLLER / DRIVES / LEVEL / PROFILE / METHOD / SETTINGS @ DEPTH`, with the settings in [any
/// order](Settings). The depth is a number, or `max`: the best of the method's queue depths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    controller: String,
    drives: String,
    level: String,
    profile: String,
    method: String,
    settings: Settings,
    /// `None`: the best of all depths.
    depth: Option<u32>,
}

impl Case {
    /// Parses a case.
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse(text: &str) -> Result<Case> {
        let wrong = || {
            Error::failed(format!(
                "'{text}' is no case; expected CONTROLLER / DRIVES / LEVEL / PROFILE / METHOD / \
                    SETTINGS @ DEPTH"
            ))
        };
        let (words, depth) = text.rsplit_once('@').ok_or_else(wrong)?;
        let words: Vec<&str> = words.split(" / ").map(str::trim).collect();
        let [controller, drives, level, profile, method, settings] = words[..] else {
            return Err(wrong());
        };
        let depth = match depth.trim() {
            "max" => None,
            number => Some(number.parse().map_err(|_| wrong())?),
        };
        let own = str::to_owned;
        Ok(Case {
            controller: own(controller),
            drives: own(drives),
            level: own(level),
            profile: own(profile),
            method: own(method),
            settings: Settings::parse(settings)?,
            depth,
        })
    }

    /// A short name for lists.
    pub fn name(&self) -> String {
        let depth = self.depth.map_or_else(String::new, |depth| format!(" @{depth}"));
        let settings = self.settings.words();
        format!(
            "{} {} {} {}{depth}{settings}",
            self.controller, self.drives, self.level, self.profile
        )
    }

    /// The conditions of the case, for charts and for errors of its kind.
    ///
    /// # Errors
    /// When the case cannot be configured.
    pub fn place(&self, catalog: &Catalog, metric: Metric) -> Result<Conditions> {
        let configuration = self.configuration(catalog)?;
        let profiles = storagebench::Catalog::builtin().select(&self.profile)?;
        let profile = profiles
            .first()
            .ok_or_else(|| Error::failed(format!("no profile is '{}'", self.profile)))?;
        let depth = self.depth.map_or_else(String::new, |depth| format!(" @{depth}"));
        Ok(Conditions {
            controller: self.controller.clone(),
            drives: self.drives.clone(),
            level: self.level.clone(),
            load: format!("{}{depth}{}", self.profile, self.settings.words()),
            unit: metric.unit(),
            kind: Kind::of(&configuration, profile),
            of: match (configuration.controller.host_link, configuration.drives.first()) {
                (None, Some(drive)) => drive.model.clone(),
                _ => configuration.controller.model.clone(),
            },
        })
    }

    /// The server of the case.
    ///
    /// # Errors
    /// When the case cannot be configured.
    pub fn configuration(&self, catalog: &Catalog) -> Result<Configuration> {
        let controller = catalog.controller(&self.controller).map_err(Error::refused)?;
        let drives = parse_drives(catalog, &self.drives)?;
        let level: Level = self.level.parse()?;
        let shape = Configuration::shape(level, drives.len(), None)?;
        let Settings { drive_cache, preset, write_mode, read_mode, cache_mode, strip, .. } =
            self.settings.clone();
        let policies = Policies {
            drive_cache,
            preset,
            write_mode,
            read_mode,
            cache_mode,
            ..Policies::default()
        };
        let one = Configuration::new(controller, drives, shape, strip, &policies)?;
        one.on_controllers(self.settings.controllers.unwrap_or(1))
    }
}

/// The settings as words: the drives' caches `on`, `off` or `own`; a preset, or modes of the
/// controller's cache by name; `strip=256K`; `controllers=2` in the host, each with these drives;
/// `workers=4` on the host; `io-ns=3000`, the CPU time of an I/O on a host core.
#[derive(Clone, Default, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Settings {
    drive_cache: Option<bool>,
    preset: Option<String>,
    write_mode: Option<String>,
    read_mode: Option<String>,
    cache_mode: Option<String>,
    strip: Option<StripSize>,
    controllers: Option<usize>,
    workers: Option<u32>,
    io_ns: Option<u64>,
}

impl Settings {
    fn parse(text: &str) -> Result<Settings> {
        let mut settings = Settings::default();
        for word in text.split_whitespace() {
            let wrong = || Error::failed(format!("'{word}' in '{text}' is no setting of a case"));
            let named = Some(word.to_owned());
            match (word, word.split_once('=')) {
                ("on", _) => settings.drive_cache = Some(true),
                ("off", _) => settings.drive_cache = Some(false),
                ("own", _) => settings.drive_cache = None,
                ("data-protection" | "performance" | "fast-path", _) => settings.preset = named,
                ("write-through" | "write-back" | "always-write-back", _) => {
                    settings.write_mode = named
                }
                ("read-ahead" | "no-read-ahead", _) => settings.read_mode = named,
                ("direct" | "cached", _) => settings.cache_mode = named,
                (_, Some(("strip", strip))) => {
                    settings.strip = Some(strip.parse().map_err(|_| wrong())?)
                }
                (_, Some(("controllers", controllers))) => {
                    settings.controllers = Some(controllers.parse().map_err(|_| wrong())?);
                }
                (_, Some(("workers", workers))) => {
                    settings.workers = Some(workers.parse().map_err(|_| wrong())?);
                }
                (_, Some(("io-ns", ns))) => settings.io_ns = Some(ns.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        Ok(settings)
    }

    /// The unusual settings, in brackets.
    fn words(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.preset.clone());
        words.extend(self.write_mode.clone());
        words.extend(self.read_mode.clone());
        words.extend(self.cache_mode.clone());
        words.extend(self.strip.map(|strip| format!("strip {}", strip.bytes())));
        words.extend((self.drive_cache == Some(false)).then(|| "drive cache off".to_owned()));
        words.extend(self.controllers.map(|controllers| format!("{controllers} controllers")));
        words.extend(self.workers.map(|workers| format!("{workers} workers")));
        words.extend(self.io_ns.map(|ns| format!("{ns} ns of host CPU per I/O")));
        if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
    }
}

/// The relative width of a point's intervals at which it ends.
const CONFIDENCE_PERCENT: f64 = 1.0;

/// The quantity of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Requests per second.
    Iops,
    /// MiB per second.
    Throughput,
    /// Mean milliseconds from a request to its completion.
    LatencyMs,
}

impl Metric {
    fn unit(self) -> &'static str {
        match self {
            Metric::Iops => "IO/s",
            Metric::Throughput => "MiB/s",
            Metric::LatencyMs => "ms",
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A case's rows, once it has run.
type Rows = Arc<Mutex<Option<Vec<Row>>>>;

/// Runs each case at most once, for any number of threads.
pub struct Runner<'a> {
    catalog: &'a Catalog,
    rows: Mutex<BTreeMap<Case, Rows>>,
    /// The maximum virtual runtime, with and without a spindle.
    runtimes: (Duration, Duration),
    /// The depths that replace the full series for the best depth; `None`: all depths.
    ladder: Option<Ladder>,
    /// Ends runs early; they fail.
    cancel: Arc<AtomicBool>,
}

impl<'a> Runner<'a> {
    /// A runner on this catalog.
    pub fn new(catalog: &'a Catalog, runtimes: (Duration, Duration)) -> Runner<'a> {
        Runner { catalog, rows: Mutex::default(), runtimes, ladder: None, cancel: Arc::default() }
    }

    /// Its catalog.
    pub fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// The same with a few depths in place of the full series.
    #[must_use]
    pub fn with_ladder(self, ladder: Ladder) -> Runner<'a> {
        Runner { ladder: Some(ladder), ..self }
    }

    /// The same, with runs that fail soon after `cancel` is set.
    #[must_use]
    pub fn cancelled_by(self, cancel: Arc<AtomicBool>) -> Runner<'a> {
        Runner { cancel, ..self }
    }

    /// The predicted value of a case.
    ///
    /// # Errors
    /// When the case cannot be configured.
    pub fn value(&self, case: &Case, metric: Metric) -> Result<f64> {
        let cell = locked(&self.rows).entry(case.clone()).or_default().clone();
        // Other threads that need the same case wait for it.
        let mut rows = locked(&cell);
        let rows = match &mut *rows {
            Some(rows) => rows,
            none => none.insert(self.run(case)?),
        };
        let values = rows.iter().map(|row| match metric {
            Metric::Iops => row.iops,
            Metric::Throughput => row.throughput_mib_s,
            Metric::LatencyMs => row.latency_us.map_or(0.0, |latency| latency.mean / 1000.0),
        });
        Ok(values.fold(0.0, f64::max))
    }

    fn run(&self, case: &Case) -> Result<Vec<Row>> {
        let configuration = case.configuration(self.catalog)?;
        let mut method = MeasuringMethod::of(case.method.parse()?, configuration.all_drives())?;
        method.host_io_ns = case.settings.io_ns.unwrap_or(method.host_io_ns);
        let workers = case.settings.workers.unwrap_or(1);
        let mut rows = Vec::new();
        for profile in storagebench::Catalog::builtin().select(&case.profile)? {
            let profile = profile.on_any_ladder();
            let runs = Runs { workers, ..self.runs(&configuration, &profile) };
            let at = |ladder: Ladder| {
                let method = MeasuringMethod { ladder, ..method.clone() };
                simulate(&configuration, &method, &runs, &profile, &|| {})
            };
            rows.extend(match (case.depth, &self.ladder) {
                (Some(depth), _) => at(Ladder::new(vec![depth])?)?,
                (None, Some(ladder)) => at(ladder.clone())?,
                // Deep queues may reorder a stream, so its best depth may be a lower one.
                (None, None) if profile.access() == Access::Sequential => {
                    at(method.ladder.clone())?
                }
                (None, None) => best_of(profile.rungs(&method.ladder), |row| row.iops, at)?,
            });
        }
        Ok(rows)
    }

    /// The runtime of a point, and the number of seeds.
    fn runs(&self, configuration: &Configuration, profile: &Profile) -> Runs {
        let (rotating, flash) = self.runtimes;
        let rotates = configuration.rotates();
        let runtime = if rotates { rotating } else { flash };
        // This fills queues and the write buffers of flash drives.
        let ramp = if rotates { runtime / 6 } else { runtime / 3 };
        let is_stream = profile.access() == Access::Sequential;
        // A parameter search compares runs, which must have equal lengths. The dirty data of random
        // writes varies more slowly than a short run can show.
        let waits_in_a_cache = configuration.write_back.is_some() && profile.writes() && !is_stream;
        let ends_early = self.ladder.is_none() && !waits_in_a_cache;
        let confidence_percent = ends_early.then_some(CONFIDENCE_PERCENT);
        let cancel = self.cancel.clone();
        let usual =
            Runs { runtime, confidence_percent, ramp, workers: 1, seed: 1, seeds: 1, cancel };
        let waits_for_turns =
            rotates && is_stream && profile.writes() && configuration.write_back.is_none();
        match waits_for_turns {
            // The speed of disks that wait for each other depends on their relative spindle
            // positions. These change slowly, so that a short run is precise for one position only.
            true => Runs { runtime: runtime / 2, confidence_percent: None, seeds: 3, ..usual },
            false => usual,
        }
    }
}

/// Runs the depths from the highest down while a better one is possible. Random rates rise with the
/// depth until a resource is saturated: below a group whose lowest depth is not the best, no depth
/// is better.
///
/// # Errors
/// Those of `run`.
fn best_of<R>(
    mut rungs: Vec<u32>,
    rate: impl Fn(&R) -> f64,
    run: impl Fn(Ladder) -> Result<Vec<R>>,
) -> Result<Vec<R>> {
    const AT_A_TIME: usize = 2;
    rungs.sort_unstable();
    let mut found: Vec<R> = Vec::new();
    for few in rungs.rchunks(AT_A_TIME) {
        let before = found.iter().map(&rate).fold(0.0, f64::max);
        let mut next = run(Ladder::new(few.to_vec())?)?;
        let rises = next.first().is_some_and(|lowest| rate(lowest) > before)
            && next.windows(2).all(|pair| rate(&pair[0]) > rate(&pair[1]));
        found.append(&mut next);
        if !rises {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// The best of depths with these rates, and the depths that were run for it.
    fn best(rate: impl Fn(u32) -> u32) -> (f64, Vec<u32>) {
        let asked = RefCell::new(Vec::new());
        let run = |ladder: Ladder| {
            asked.borrow_mut().extend(ladder.rungs().iter().rev());
            Ok(ladder.rungs().iter().map(|depth| f64::from(rate(*depth))).collect())
        };
        let rates = best_of(vec![1, 2, 4, 8, 16, 32], |rate| *rate, run).unwrap();
        (rates.into_iter().fold(0.0, f64::max), asked.into_inner())
    }

    #[test]
    fn the_best_of_a_ladder_is_found_from_its_top() {
        assert_eq!(best(|depth| depth.min(16)), (16.0, vec![32, 16]), "it rises and stays");
        let (all, most) = (vec![32, 16, 8, 4, 2, 1], vec![32, 16, 8, 4]);
        assert_eq!(best(|depth| 100 - depth.abs_diff(8)), (100.0, most), "it is best in between");
        assert_eq!(best(|depth| 100 - depth), (99.0, all), "and with one alone");
    }
}
