//! A case: a configuration under a profile at some depth, written in a line, and what the models make of it.

use crate::configuration::{Configuration, parse_drives};
use crate::error::{Error, Result};
use crate::method::MeasuringMethod;
use crate::policies::Policies;
use crate::request::Runs;
use crate::simulate::simulate;
use layout::Level;
use models::Catalog;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storagebench::{Access, Ladder, Row};
use units::StripSize;

/// `CONTROLLER / DRIVES / LEVEL / PROFILE / METHOD / SETTINGS @ DEPTH`: the settings in [any order](Settings); the depth a
/// number or `max`, the best of the method's ladder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    controller: String,
    drives: String,
    level: String,
    profile: String,
    method: String,
    settings: Settings,
    /// `None`: the best of the ladder.
    depth: Option<u32>,
}

impl Case {
    /// Reads a case.
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse(text: &str) -> Result<Case> {
        let wrong = || {
            Error::failed(format!(
                "'{text}' is no case; expected CONTROLLER / DRIVES / LEVEL / PROFILE / METHOD / SETTINGS @ DEPTH"
            ))
        };
        let (words, depth) = text.rsplit_once('@').ok_or_else(wrong)?;
        let words: Vec<&str> = words.split(" / ").map(str::trim).collect();
        let [controller, drives, level, profile, method, settings] = words[..] else { return Err(wrong()) };
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
        format!("{} {} {} {}{depth}{settings}", self.controller, self.drives, self.level, self.profile)
    }

    /// The server that it runs on.
    ///
    /// # Errors
    /// What cannot be configured.
    pub fn configuration(&self, catalog: &Catalog) -> Result<Configuration> {
        let controller = catalog.controller(&self.controller).map_err(Error::refused)?;
        let drives = parse_drives(catalog, &self.drives)?;
        let level: Level = self.level.parse()?;
        let shape = Configuration::shape(level, drives.len(), None)?;
        let Settings { drive_cache, preset, write_mode, read_mode, cache_mode, strip, .. } =
            self.settings.clone();
        let policies =
            Policies { drive_cache, preset, write_mode, read_mode, cache_mode, ..Policies::default() };
        Configuration::new(controller, drives, shape, strip, &policies)
    }
}

/// What is set, as words: the drives' caches `on`, `off` or `own`; a preset, or modes of the controller's cache by their names;
/// `strip=256K`; `workers=4` on the host, and `io-ns=3000`, what an I/O takes of one of its cores.
#[derive(Clone, Default, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Settings {
    drive_cache: Option<bool>,
    preset: Option<String>,
    write_mode: Option<String>,
    read_mode: Option<String>,
    cache_mode: Option<String>,
    strip: Option<StripSize>,
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
                ("write-through" | "write-back" | "always-write-back", _) => settings.write_mode = named,
                ("read-ahead" | "no-read-ahead", _) => settings.read_mode = named,
                ("direct" | "cached", _) => settings.cache_mode = named,
                (_, Some(("strip", strip))) => settings.strip = Some(strip.parse().map_err(|_| wrong())?),
                (_, Some(("workers", workers))) => {
                    settings.workers = Some(workers.parse().map_err(|_| wrong())?);
                }
                (_, Some(("io-ns", ns))) => settings.io_ns = Some(ns.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        Ok(settings)
    }

    /// In brackets, what is not usual.
    fn words(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.preset.clone());
        words.extend(self.write_mode.clone());
        words.extend(self.read_mode.clone());
        words.extend(self.cache_mode.clone());
        words.extend(self.strip.map(|strip| format!("strip {}", strip.bytes())));
        words.extend((self.drive_cache == Some(false)).then(|| "drive cache off".to_owned()));
        words.extend(self.workers.map(|workers| format!("{workers} workers")));
        words.extend(self.io_ns.map(|ns| format!("{ns} ns of the host an I/O")));
        if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
    }
}

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Requests per second.
    Iops,
    /// MiB per second.
    Throughput,
    /// Milliseconds from a request to its answer, on average.
    LatencyMs,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A case's rows, once it was run.
type Rows = Arc<Mutex<Option<Vec<Row>>>>;

/// Runs cases, each no more than once, for any number of threads.
pub struct Runner<'a> {
    catalog: &'a Catalog,
    rows: Mutex<BTreeMap<Case, Rows>>,
    /// What a run may take in virtual time, with and without a spindle.
    runtimes: (Duration, Duration),
    /// What stands for the whole ladder where the best of it is asked for; `None`: all of it.
    ladder: Option<Ladder>,
}

impl<'a> Runner<'a> {
    /// On that catalog.
    pub fn new(catalog: &'a Catalog, runtimes: (Duration, Duration)) -> Runner<'a> {
        Runner { catalog, rows: Mutex::default(), runtimes, ladder: None }
    }

    /// What it runs on.
    pub fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// The same with a few rungs in place of the whole ladder.
    #[must_use]
    pub fn with_ladder(self, ladder: Ladder) -> Runner<'a> {
        Runner { ladder: Some(ladder), ..self }
    }

    /// What a case comes to.
    ///
    /// # Errors
    /// What cannot be configured.
    pub fn value(&self, case: &Case, metric: Metric) -> Result<f64> {
        let cell = locked(&self.rows).entry(case.clone()).or_default().clone();
        // Who wants the same meanwhile waits for it.
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
        let mut method = MeasuringMethod::of(case.method.parse()?, configuration.drives.len())?;
        match (case.depth, &self.ladder) {
            (Some(depth), _) => method.ladder = Ladder::new(vec![depth])?,
            (None, Some(ladder)) => method.ladder = ladder.clone(),
            (None, None) => {}
        }
        method.host_io_ns = case.settings.io_ns.unwrap_or(method.host_io_ns);
        let workers = case.settings.workers.unwrap_or(1);
        let mut rows = Vec::new();
        for profile in storagebench::Catalog::builtin().select(&case.profile)? {
            let (rotating, flash) = self.runtimes;
            let mut runtime = if configuration.rotates() { rotating } else { flash };
            if configuration.rotates() && profile.access() == Access::Sequential {
                runtime /= 4; // It has no chance in it.
            }
            let runs = Runs { runtime, ramp: runtime / 3, workers, seed: 1, seeds: 1 };
            rows.extend(simulate(&configuration, &method, &runs, &profile.on_any_ladder(), &|| {})?);
        }
        Ok(rows)
    }
}
