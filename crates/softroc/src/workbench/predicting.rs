//! Predictions: those that wait, the one that runs, those that are known. The same order has the same answer to the last digit, so that none is made
//! twice.
//!
//! They run on a thread of their own, behind everything else on this machine (as `nice -n 10` has it), and that thread ends when nothing waits.

use super::{Shared, invalid, parsed, point};
use crate::cli::Command;
use crate::failure::Outcome;
use crate::predictions::predict::{asked, said};
use ::predict::{Progress, Request};
use controller::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use storagebench::Results;
use webconsole::{Predict, Prediction, Stage};

/// How many are known at most: those that were asked for longest ago are forgotten first.
const MOST: usize = 128;

/// A page that wants one asks for it every few seconds. What nobody wants any more is not begun.
const WANTED: Duration = Duration::from_secs(60);

/// A tenth of what anything else gets of a processor that both want: shards hardly feel it, and on a busy machine a prediction comes to its end
/// all the same. (At 19 it waited for minutes beside a few busy programs.)
const NICE: i32 = 10;

/// See the module.
#[derive(Default)]
pub(super) struct Predictions {
    all: BTreeMap<Predict, Entry>,
    /// The one on the page of benchmarks.
    shown: Option<Predict>,
    /// Whether there is a thread.
    works: bool,
    closed: bool,
}

struct Entry {
    told: Prediction,
    request: Option<Request>,
    results: Option<Results>,
    wanted: Instant,
    done: Arc<AtomicU64>,
    of: u64,
    cancel: Arc<AtomicBool>,
}

/// What an order asks for, by the flags of the command line.
fn requested(order: &Predict) -> Outcome<Request> {
    match parsed(&order.words())? {
        Command::Predict(command) => asked(&command),
        _ => Err(crate::failure::Failure::usage("that is no prediction; open the page again")),
    }
}

impl Entry {
    fn new(order: &Predict) -> Entry {
        let request = requested(order);
        let stage = match &request {
            Ok(_) => Stage::Waits,
            Err(failure) => Stage::Failed(failure.to_string()),
        };
        let request = request.ok();
        let told =
            Prediction { order: order.clone(), stage, percent: 0, points: Vec::new(), notes: Vec::new() };
        let of = request.as_ref().map_or(1, Request::simulations);
        let cancel = request.as_ref().map(|request| request.runs.cancel.clone()).unwrap_or_default();
        Entry { told, request, results: None, wanted: Instant::now(), done: Arc::default(), of, cancel }
    }

    fn told(&self) -> Prediction {
        let percent = self.done.load(Ordering::Relaxed).min(self.of) * 100 / self.of.max(1);
        Prediction { percent: u8::try_from(percent).unwrap_or(100), ..self.told.clone() }
    }

    /// Whether nothing comes of it any more since it was stopped: whoever wants it then has it made anew.
    fn is_stopped(&self) -> bool {
        self.told.stage != Stage::Done && self.cancel.load(Ordering::Relaxed)
    }

    /// Whether it waits or goes on, and nobody has stopped it.
    fn is_under_way(&self) -> bool {
        !self.told.stage.is_over() && !self.is_stopped()
    }
}

impl Predictions {
    /// The one that the page of benchmarks shows.
    pub(super) fn shown(&self) -> Option<Prediction> {
        self.all.get(self.shown.as_ref()?).map(Entry::told)
    }

    /// The figures of that one, with what it is of.
    pub(super) fn results(&self) -> Option<(String, Results)> {
        let results = self.all.get(self.shown.as_ref()?)?.results.clone()?;
        let of = results.targets().first().map_or_else(String::new, |of| format!(" of {of}"));
        Some((format!("prediction{of}"), results))
    }

    /// Stops the one that the page of benchmarks shows.
    pub(super) fn stop(&mut self) -> Result<()> {
        let none = || Error::new(ErrorKind::WrongState, "no prediction runs; nothing was stopped");
        let shown = self.shown.as_ref().ok_or_else(none)?;
        let entry = self.all.get_mut(shown).filter(|entry| entry.is_under_way()).ok_or_else(none)?;
        entry.cancel.store(true, Ordering::Relaxed);
        if entry.told.stage == Stage::Waits {
            entry.told.stage = Stage::Stopped("it was stopped before it began".to_owned());
        }
        Ok(())
    }

    /// Begins none any more, and stops the one that runs.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.all.values().for_each(|entry| entry.cancel.store(true, Ordering::Relaxed));
    }

    /// The next one, taken to be made: what is shown before what pages want besides.
    fn next(&mut self) -> Option<(Predict, Request, Arc<AtomicU64>)> {
        let is_wanted = |order: &Predict, entry: &Entry| {
            self.shown.as_ref() == Some(order) || entry.wanted.elapsed() < WANTED
        };
        let forgotten: Vec<Predict> = self
            .all
            .iter()
            .filter(|(order, entry)| entry.told.stage == Stage::Waits && !is_wanted(order, entry))
            .map(|(order, _)| order.clone())
            .collect();
        forgotten.iter().for_each(|order| drop(self.all.remove(order)));
        let waits = |order: &Predict| {
            self.all.get(order).is_some_and(|entry| entry.told.stage == Stage::Waits && !self.closed)
        };
        let order = self.shown.iter().chain(self.all.keys()).find(|order| waits(order))?.clone();
        let entry = self.all.get_mut(&order)?;
        entry.told.stage = Stage::Runs;
        Some((order, entry.request.clone()?, entry.done.clone()))
    }

    /// Whether one is known that has come, or will come, to its end.
    fn is_known(&self, order: &Predict) -> bool {
        self.all.get(order).is_some_and(|known| !known.is_stopped())
    }

    /// Puts down what came of one that was made. If it was stopped and is wanted anew since, that one has still to be made.
    fn put_down(&mut self, order: &Predict, request: &Request, made: Outcome<(Results, Vec<String>)>) {
        let is_of = |entry: &&mut Entry| Arc::ptr_eq(&entry.cancel, &request.runs.cancel);
        let Some(entry) = self.all.get_mut(order).filter(is_of) else { return };
        match made {
            Ok((results, notes)) => {
                entry.told.stage = Stage::Done;
                entry.told.points = results.rows.iter().map(point).collect();
                entry.told.notes = notes;
                entry.results = Some(results);
            }
            Err(_) if entry.cancel.load(Ordering::Relaxed) => {
                entry.told.stage = Stage::Stopped("it was stopped before it had a figure".to_owned());
            }
            Err(failure) => entry.told.stage = Stage::Failed(failure.to_string()),
        }
    }

    /// Adds one, and forgets others if there are too many.
    fn add(&mut self, order: &Predict) {
        self.all.remove(order);
        while self.all.len() >= MOST {
            let can_go = |(order, entry): &(&Predict, &Entry)| {
                entry.told.stage != Stage::Runs && self.shown.as_ref() != Some(*order)
            };
            let oldest = self.all.iter().filter(can_go).min_by_key(|(_, entry)| entry.wanted);
            let Some(oldest) = oldest.map(|(order, _)| order.clone()) else { return };
            self.all.remove(&oldest);
        }
        self.all.insert(order.clone(), Entry::new(order));
    }
}

/// Begins one for the page of benchmarks.
///
/// # Errors
/// See [`control_api::Workbench::predict`].
pub(super) fn show(shared: &Arc<Shared>, order: &Predict) -> Result<()> {
    requested(order).map_err(|failure| invalid(&failure))?;
    {
        let mut state = shared.state();
        let predictions = &mut state.predictions;
        let shown = predictions.shown.as_ref().filter(|shown| *shown != order);
        if shown.and_then(|shown| predictions.all.get(shown)).is_some_and(Entry::is_under_way) {
            let sentence = "a prediction runs, and one runs at a time; wait, or stop it first";
            return Err(Error::new(ErrorKind::Busy, sentence));
        }
        let has_failed =
            predictions.all.get(order).is_some_and(|known| matches!(known.told.stage, Stage::Failed(_)));
        if has_failed || !predictions.is_known(order) {
            predictions.add(order);
        }
        predictions.shown = Some(order.clone());
    }
    work(shared)
}

/// Where those stand that a page wants; those that are not known, or were stopped, are begun.
pub(super) fn foreseen(shared: &Arc<Shared>, orders: &[Predict]) -> Vec<Prediction> {
    let told = {
        let mut state = shared.state();
        for order in orders {
            if !state.predictions.is_known(order) {
                state.predictions.add(order);
            }
            if let Some(entry) = state.predictions.all.get_mut(order) {
                entry.wanted = Instant::now();
            }
        }
        orders.iter().filter_map(|order| state.predictions.all.get(order)).map(Entry::told).collect()
    };
    if let Err(error) = work(shared) {
        tracing::warn!("{error}");
    }
    told
}

/// Has a thread that works, as long as anything waits.
///
/// # Errors
/// `Failed` if none can be started.
fn work(shared: &Arc<Shared>) -> Result<()> {
    let mut state = shared.state();
    let waits = state.predictions.all.values().any(|entry| entry.told.stage == Stage::Waits);
    if state.predictions.works || !waits || state.predictions.closed {
        return Ok(());
    }
    let mine = shared.clone();
    let thread = std::thread::Builder::new().name("predictions".into()).spawn(move || make_all(&mine));
    state.predictions.works = thread.is_ok();
    thread.map(|_| ()).map_err(|error| {
        Error::new(ErrorKind::Failed, format!("a thread for predictions cannot be started: {error}"))
    })
}

/// Makes all that wait, on this thread and those that it starts.
fn make_all(shared: &Shared) {
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::warn!("predictions take as much of the processors as anything else: {error}");
    }
    loop {
        let next = {
            let mut state = shared.state();
            let next = state.predictions.next();
            state.predictions.works = next.is_some();
            next
        };
        let Some((order, request, done)) = next else { return };
        let made = catch_unwind(AssertUnwindSafe(|| make(&request, &done)));
        let made = made.unwrap_or_else(|_| {
            Err(crate::failure::Failure::failed("it ended by an error of the program; the log has it"))
        });
        shared.state().predictions.put_down(&order, &request, made);
    }
}

fn make(request: &Request, done: &AtomicU64) -> Outcome<(Results, Vec<String>)> {
    let on = |progress: Progress<'_>| {
        if progress == Progress::OneDone {
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    let results = ::predict::predict(request, &on)?;
    let notes = said(request, &results)?;
    Ok((results, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Predict {
        Predict {
            controller: "HBA".to_owned(),
            drives: (3, "SAS-12G-SSD".to_owned()),
            level: "raid5".to_owned(),
            spans: 1,
            strip_kib: None,
            profile: "database".to_owned(),
            outstanding: "1".to_owned(),
            failed: Vec::new(),
        }
    }

    /// One that was stopped on the page of benchmarks was stopped on every other page as well, until the controller began anew; and one that was
    /// asked for again before it had ended was taken for one that goes on.
    #[test]
    fn one_that_was_stopped_is_made_again_when_it_is_wanted_again() {
        let (order, mut predictions) = (order(), Predictions::default());
        predictions.add(&order);
        predictions.shown = Some(order.clone());
        let (_, first, _) = predictions.next().expect("it is made");
        assert!(predictions.is_known(&order));
        assert!(predictions.stop().is_ok());
        assert!(predictions.stop().is_err(), "it is stopped already");
        assert!(!predictions.is_known(&order), "nothing comes of it");
        predictions.add(&order);
        let ended = || Err(crate::failure::Failure::failed("it was stopped"));
        predictions.put_down(&order, &first, ended());
        let stage = |predictions: &Predictions| predictions.shown().map(|shown| shown.stage);
        assert_eq!(stage(&predictions), Some(Stage::Waits), "the end of the first is not its end");
        let (_, second, _) = predictions.next().expect("it is made again");
        assert!(!second.runs.cancel.load(Ordering::Relaxed));
        assert!(predictions.stop().is_ok());
        predictions.put_down(&order, &second, ended());
        assert!(matches!(stage(&predictions), Some(Stage::Stopped(_))));
        assert!(!predictions.is_known(&order), "it is made again for whoever wants it");
    }
}
