//! Many seeds on several threads. Each seed runs twice by default: a run that is not a function of
//! its seed is useless.

use crate::error::{Error, ErrorKind, Result};
use crate::options::{Options, RequestName};
use crate::run::{Report, run_as};
use crate::story::Story;
use crate::tally::Tally;
use crate::watch::Watch;
use layout::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// The error.
    pub error: Error,
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The number of seeds.
    pub seeds: u64,
    /// The total over one run of each seed.
    pub tally: Tally,
    /// The total over the neighbours.
    pub neighbours: Tally,
    /// The total over the first volumes, by level.
    pub levels: BTreeMap<Level, Tally>,
    /// Failed seeds, ascending. After the first failure no further seeds start.
    pub failed: Vec<Failed>,
}

/// The parts of a run that can be left out of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub incidents: BTreeSet<u64>,
    pub requests: Vec<RequestName>,
}

/// Runs a seed twice.
///
/// # Errors
/// The first violated invariant, different runs, or a panic.
pub fn run_twice(seed: u64, options: &Options) -> Result<Report> {
    let first = run_guarded(seed, options).0?;
    let second = run_guarded(seed, options).0?;
    if first != second {
        let text = format!("two runs of one seed differ: {first:?} and {second:?}");
        return Err(Error::new(ErrorKind::Divergence, text));
    }
    Ok(first)
}

/// Runs a seed once; a panic is reported as an error.
pub(crate) fn run_guarded(seed: u64, options: &Options) -> (Result<Report>, Observed) {
    let story = Rc::new(Story::new(false));
    let _watch = Watch::begin(seed, story.lines());
    let result = catch_unwind(AssertUnwindSafe(|| run_as(seed, options, &story)));
    let result = result.unwrap_or_else(|payload| {
        let said = payload.downcast_ref::<String>().map(String::as_str);
        let said = said.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let error = Error::new(ErrorKind::Panic, format!("the code panicked: {said}"));
        Err(Error { story: story.latest(), ..error })
    });
    (result, Observed { incidents: story.incidents.take(), requests: story.requests.take() })
}

/// How often each seed runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Times {
    /// Two runs, which must agree in every event.
    #[default]
    Twice,
    /// One run, without a determinism check.
    Once,
}

/// Runs seeds on `threads` threads until all are done, one has failed, or `go_on` returns false.
/// `go_on` receives the number of finished seeds and the total so far.
pub fn run_all(
    seeds: Range<u64>,
    options: &Options,
    times: Times,
    threads: usize,
    go_on: impl Fn(u64, &Tally) -> bool + Sync,
) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = match times {
                        Times::Twice => run_twice(seed, options),
                        Times::Once => run_guarded(seed, options).0,
                    };
                    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                    summary.seeds += 1;
                    match result {
                        Ok(report) => {
                            summary.tally.add(&report.tally);
                            summary.neighbours.add(&report.neighbours);
                            summary.levels.entry(report.level).or_default().add(&report.tally);
                        }
                        Err(error) => {
                            stop.store(true, Ordering::Relaxed);
                            summary.failed.push(Failed { seed, error });
                        }
                    }
                    if !go_on(summary.seeds, &summary.tally) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failed.sort_by_key(|failed| failed.seed);
    summary
}
