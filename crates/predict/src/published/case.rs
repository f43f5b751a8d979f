//! A case: a configuration under a profile at some depth, written in a line, and what the models make of it.

use crate::configuration::{Configuration, Policies, parse_drives};
use crate::error::{Error, Result};
use crate::method::MeasuringMethod;
use crate::request::Runs;
use crate::simulate::simulate;
use layout::Level;
use models::Catalog;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storagebench::{Access, Ladder, Row};

/// `CONTROLLER / DRIVES / LEVEL / PROFILE / METHOD / CACHE @ DEPTH`: drives' caches `on`, `off` or `own`; the depth a
/// number or `max`, the best of the method's ladder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    controller: String,
    drives: String,
    level: String,
    profile: String,
    method: String,
    cache: String,
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
                "'{text}' is no case; expected CONTROLLER / DRIVES / LEVEL / PROFILE / METHOD / CACHE @ DEPTH"
            ))
        };
        let (words, depth) = text.rsplit_once('@').ok_or_else(wrong)?;
        let words: Vec<&str> = words.split(" / ").map(str::trim).collect();
        let [controller, drives, level, profile, method, cache] = words[..] else { return Err(wrong()) };
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
            cache: own(cache),
            depth,
        })
    }

    /// A short name for lists.
    pub fn name(&self) -> String {
        let depth = self.depth.map_or_else(String::new, |depth| format!(" @{depth}"));
        let cache = if self.cache == "off" { " (drive cache off)" } else { "" };
        format!("{} {} {} {}{depth}{cache}", self.controller, self.drives, self.level, self.profile)
    }

    /// The server that it runs on.
    ///
    /// # Errors
    /// What cannot be configured.
    pub fn configuration(&self, catalog: &Catalog) -> Result<Configuration> {
        let controller = catalog.controller(&self.controller).map_err(Error::refused)?;
        let drives = parse_drives(catalog, &self.drives)?;
        let level: Level = self.level.parse()?;
        let drive_cache = match self.cache.as_str() {
            "on" => Some(true),
            "off" => Some(false),
            "own" => None,
            other => return Err(Error::failed(format!("'{other}': expected the cache on, off or own"))),
        };
        let shape = Configuration::shape(level, drives.len(), None)?;
        let policies = Policies { drive_cache, ..Policies::default() };
        Configuration::new(controller, drives, shape, None, &policies)
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
        let mut rows = Vec::new();
        for profile in storagebench::Catalog::builtin().select(&case.profile)? {
            let (rotating, flash) = self.runtimes;
            let mut runtime = if configuration.rotates() { rotating } else { flash };
            if configuration.rotates() && profile.access() == Access::Sequential {
                runtime /= 4; // It has no chance in it.
            }
            let runs = Runs { runtime, ramp: runtime / 3, workers: 1, seed: 1, seeds: 1 };
            rows.extend(simulate(&configuration, &method, &runs, &profile.on_any_ladder(), &|| {})?);
        }
        Ok(rows)
    }
}
