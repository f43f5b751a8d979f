//! Predictions: waiting, running and complete. Equal orders have exactly equal results, so each is
//! computed once.
//!
//! They run on a low-priority thread (`nice -n 10`), which ends when no prediction waits.

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

/// The largest number of stored predictions; those requested longest ago are removed first.
const MOST: usize = 128;

/// Pages repeat their requests every few seconds. A waiting prediction without a recent request is
/// dropped.
const WANTED: Duration = Duration::from_secs(60);

/// A tenth of the processor share of a normal thread: shards are hardly affected, and predictions
/// finish even on a busy machine. (At 19, one waited for minutes next to a few busy programs.)
const NICE: i32 = 10;

/// See the module.
#[derive(Default)]
pub(super) struct Predictions {
    all: BTreeMap<Predict, Entry>,
    /// The prediction on the benchmark page.
    shown: Option<Predict>,
    /// Whether the thread exists.
    works: bool,
    closed: bool,
}

struct Entry {
    prediction: Prediction,
    request: Option<Request>,
    results: Option<Results>,
    wanted: Instant,
    done: Arc<AtomicU64>,
    of: u64,
    cancel: Arc<AtomicBool>,
}

/// The request of an order, through the command line options.
fn requested(order: &Predict) -> Outcome<Request> {
    match parsed(&order.words())? {
        Command::Predict(command) => asked(&command),
        _ => Err(crate::failure::Failure::usage("the form is not valid; reload the page")),
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
        let prediction = Prediction {
            order: order.clone(),
            stage,
            percent: 0,
            points: Vec::new(),
            notes: Vec::new(),
        };
        let of = request.as_ref().map_or(1, Request::simulations);
        let cancel =
            request.as_ref().map(|request| request.runs.cancel.clone()).unwrap_or_default();
        Entry {
            prediction,
            request,
            results: None,
            wanted: Instant::now(),
            done: Arc::default(),
            of,
            cancel,
        }
    }

    fn prediction(&self) -> Prediction {
        let percent = self.done.load(Ordering::Relaxed).min(self.of) * 100 / self.of.max(1);
        Prediction { percent: u8::try_from(percent).unwrap_or(100), ..self.prediction.clone() }
    }

    /// Whether it was stopped before its end: a new request starts it again.
    fn is_stopped(&self) -> bool {
        self.prediction.stage != Stage::Done && self.cancel.load(Ordering::Relaxed)
    }

    /// Whether it waits or runs, and was not stopped.
    fn is_under_way(&self) -> bool {
        !self.prediction.stage.is_over() && !self.is_stopped()
    }
}

impl Predictions {
    /// The prediction on the benchmark page.
    pub(super) fn shown(&self) -> Option<Prediction> {
        self.all.get(self.shown.as_ref()?).map(Entry::prediction)
    }

    /// Its results, with their description.
    pub(super) fn results(&self) -> Option<(String, Results)> {
        let results = self.all.get(self.shown.as_ref()?)?.results.clone()?;
        let of = results.targets().first().map_or_else(String::new, |of| format!(" of {of}"));
        Some((format!("prediction{of}"), results))
    }

    /// Stops the prediction on the benchmark page.
    pub(super) fn stop(&mut self) -> Result<()> {
        let none = || Error::new(ErrorKind::WrongState, "no prediction is running");
        let shown = self.shown.as_ref().ok_or_else(none)?;
        let entry =
            self.all.get_mut(shown).filter(|entry| entry.is_under_way()).ok_or_else(none)?;
        entry.cancel.store(true, Ordering::Relaxed);
        if entry.prediction.stage == Stage::Waits {
            entry.prediction.stage = Stage::Stopped("it was stopped before its start".to_owned());
        }
        Ok(())
    }

    /// Starts no more predictions, and stops the running one.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.all.values().for_each(|entry| entry.cancel.store(true, Ordering::Relaxed));
    }

    /// Takes the next prediction: that of the benchmark page first, then those of other pages.
    fn next(&mut self) -> Option<(Predict, Request, Arc<AtomicU64>)> {
        let is_wanted = |order: &Predict, entry: &Entry| {
            self.shown.as_ref() == Some(order) || entry.wanted.elapsed() < WANTED
        };
        let forgotten: Vec<Predict> = self
            .all
            .iter()
            .filter(|(order, entry)| {
                entry.prediction.stage == Stage::Waits && !is_wanted(order, entry)
            })
            .map(|(order, _)| order.clone())
            .collect();
        forgotten.iter().for_each(|order| drop(self.all.remove(order)));
        let waits = |order: &Predict| {
            self.all
                .get(order)
                .is_some_and(|entry| entry.prediction.stage == Stage::Waits && !self.closed)
        };
        let order = self.shown.iter().chain(self.all.keys()).find(|order| waits(order))?.clone();
        let entry = self.all.get_mut(&order)?;
        entry.prediction.stage = Stage::Runs;
        Some((order, entry.request.clone()?, entry.done.clone()))
    }

    /// Whether a prediction is complete, running or waiting.
    fn is_known(&self, order: &Predict) -> bool {
        self.all.get(order).is_some_and(|known| !known.is_stopped())
    }

    /// Stores a result. After a stop and a new request, the result of the stopped run is ignored.
    fn put_down(
        &mut self,
        order: &Predict,
        request: &Request,
        made: Outcome<(Results, Vec<String>)>,
    ) {
        let is_of = |entry: &&mut Entry| Arc::ptr_eq(&entry.cancel, &request.runs.cancel);
        let Some(entry) = self.all.get_mut(order).filter(is_of) else { return };
        match made {
            Ok((results, notes)) => {
                entry.prediction.stage = Stage::Done;
                entry.prediction.points = results.rows.iter().map(point).collect();
                entry.prediction.notes = notes;
                entry.results = Some(results);
            }
            Err(_) if entry.cancel.load(Ordering::Relaxed) => {
                entry.prediction.stage =
                    Stage::Stopped("it was stopped before its first figure".to_owned());
            }
            Err(failure) => entry.prediction.stage = Stage::Failed(failure.to_string()),
        }
    }

    /// Adds a prediction, and removes old ones beyond the limit.
    fn add(&mut self, order: &Predict) {
        self.all.remove(order);
        while self.all.len() >= MOST {
            let can_go = |(order, entry): &(&Predict, &Entry)| {
                entry.prediction.stage != Stage::Runs && self.shown.as_ref() != Some(*order)
            };
            let oldest = self.all.iter().filter(can_go).min_by_key(|(_, entry)| entry.wanted);
            let Some(oldest) = oldest.map(|(order, _)| order.clone()) else { return };
            self.all.remove(&oldest);
        }
        self.all.insert(order.clone(), Entry::new(order));
    }
}

/// Starts a prediction for the benchmark page.
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
            let sentence = "a prediction is running, and only one may run; wait, or stop it first";
            return Err(Error::new(ErrorKind::Busy, sentence));
        }
        let has_failed = predictions
            .all
            .get(order)
            .is_some_and(|known| matches!(known.prediction.stage, Stage::Failed(_)));
        if has_failed || !predictions.is_known(order) {
            predictions.add(order);
        }
        predictions.shown = Some(order.clone());
    }
    work(shared)
}

/// The state of the predictions that a page needs. Unknown and stopped ones are started.
pub(super) fn foreseen(shared: &Arc<Shared>, orders: &[Predict]) -> Vec<Prediction> {
    let predictions = {
        let mut state = shared.state();
        for order in orders {
            if !state.predictions.is_known(order) {
                state.predictions.add(order);
            }
            if let Some(entry) = state.predictions.all.get_mut(order) {
                entry.wanted = Instant::now();
            }
        }
        orders
            .iter()
            .filter_map(|order| state.predictions.all.get(order))
            .map(Entry::prediction)
            .collect()
    };
    if let Err(error) = work(shared) {
        tracing::warn!("{error}");
    }
    predictions
}

/// Starts the thread if a prediction waits.
///
/// # Errors
/// `Failed` if the thread cannot be started.
fn work(shared: &Arc<Shared>) -> Result<()> {
    let mut state = shared.state();
    let waits = state.predictions.all.values().any(|entry| entry.prediction.stage == Stage::Waits);
    if state.predictions.works || !waits || state.predictions.closed {
        return Ok(());
    }
    let mine = shared.clone();
    let thread =
        std::thread::Builder::new().name("predictions".into()).spawn(move || make_all(&mine));
    state.predictions.works = thread.is_ok();
    thread.map(|_| ()).map_err(|error| {
        Error::new(ErrorKind::Failed, format!("cannot start a thread for predictions: {error}"))
    })
}

/// Computes all waiting predictions, on this thread and its helpers.
fn make_all(shared: &Shared) {
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::warn!("predictions run with normal priority: {error}");
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
            Err(crate::failure::Failure::failed("it ended with an internal error; see the log"))
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

    /// A prediction that was stopped on the benchmark page once stayed stopped on every page until
    /// a restart; and one requested again before its end was regarded as running.
    #[test]
    fn one_that_was_stopped_is_made_again_when_it_is_wanted_again() {
        let (order, mut predictions) = (order(), Predictions::default());
        predictions.add(&order);
        predictions.shown = Some(order.clone());
        let (_, first, _) = predictions.next().expect("it is made");
        assert!(predictions.is_known(&order));
        assert!(predictions.stop().is_ok());
        assert!(predictions.stop().is_err(), "it is stopped already");
        assert!(!predictions.is_known(&order), "it has no result");
        predictions.add(&order);
        let ended = || Err(crate::failure::Failure::failed("it was stopped"));
        predictions.put_down(&order, &first, ended());
        let stage = |predictions: &Predictions| predictions.shown().map(|shown| shown.stage);
        assert_eq!(
            stage(&predictions),
            Some(Stage::Waits),
            "the end of the first run does not end the second"
        );
        let (_, second, _) = predictions.next().expect("it is made again");
        assert!(!second.runs.cancel.load(Ordering::Relaxed));
        assert!(predictions.stop().is_ok());
        predictions.put_down(&order, &second, ended());
        assert!(matches!(stage(&predictions), Some(Stage::Stopped(_))));
        assert!(!predictions.is_known(&order), "the next request starts it again");
    }
}
