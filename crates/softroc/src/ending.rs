//! The time limit of a stop: a controller exits even if a drive or thread hangs.
//!
//! A separate thread watches for progress, since a hanging drive may block any other. Progress is a
//! completed part of the stop, a stopped array, or destaged bytes. Without progress for the limit,
//! the process exits as after a crash: acknowledged writes are kept (on drives, in logs, in
//! persistent memory), and the next start resyncs interrupted writes.

use crate::failure::{Failure, Outcome};
use controller::Unfinished;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use units::counted;

/// The interval of the progress check.
const LOOK: Duration = Duration::from_millis(100);

/// The exit code of an incomplete stop.
const NOT_WAITED_FOR: i32 = 1;

/// A stop in progress.
#[derive(Clone)]
pub struct Ending(Arc<Mutex<StopPhase>>);

/// The current phase of a stop.
struct StopPhase {
    /// Completes "waiting for …" in the message.
    what: &'static str,
    since: Instant,
}

impl Ending {
    /// Begins the stop. `limit` counts from here until the process exits.
    pub fn begin(limit: Duration, unfinished: Arc<Unfinished>) -> Outcome<Ending> {
        let ending =
            Ending(Arc::new(Mutex::new(StopPhase { what: "connections", since: Instant::now() })));
        let watched = ending.clone();
        let watch = move || watched.watch(limit, &unfinished);
        let failed =
            |error| Failure::failed(format!("cannot start the time limit of the stop: {error}"));
        std::thread::Builder::new().name("ending".into()).spawn(watch).map_err(failed)?;
        Ok(ending)
    }

    /// Begins the next phase of the stop.
    pub fn waits_for(&self, what: &'static str) {
        *self.waiting() = StopPhase { what, since: Instant::now() };
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, StopPhase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, limit: Duration, unfinished: &Unfinished) {
        let left = || (unfinished.arrays(), unfinished.dirty_bytes());
        let mut before = left();
        loop {
            std::thread::sleep(LOOK);
            let now = left();
            if now != before {
                (before, self.waiting().since) = (now, Instant::now());
            }
            let StopPhase { what, since } = *self.waiting();
            if since.elapsed() > limit {
                tracing::error!("{}", given_up(what, limit, unfinished));
                std::process::exit(NOT_WAITED_FOR);
            }
        }
    }
}

/// The message of an incomplete stop.
fn given_up(what: &str, limit: Duration, unfinished: &Unfinished) -> String {
    let arrays = match unfinished.arrays() {
        0 => String::new(),
        arrays => format!(" ({} not stopped)", counted(arrays, "array")),
    };
    let cache = match unfinished.dirty_bytes() {
        dirty if dirty.is_zero() => String::new(),
        dirty => format!(
            " {dirty} of them are only in cache memory: start the controller again before a \
             power-off."
        ),
    };
    format!(
        "the controller ends without waiting for {what}{arrays}: no progress for {limit:?} \
         (--stop-limit). Acknowledged writes survive, as in a crash; the next start resyncs the \
         stripes of interrupted writes.{cache}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_named() {
        let limit = Duration::from_secs(90);
        let said = given_up("the drives", limit, &Unfinished::default());
        assert!(
            said.starts_with("the controller ends without waiting for the drives: no progress"),
            "{said}"
        );
        assert!(
            said.contains("90s (--stop-limit)") && said.ends_with("interrupted writes."),
            "{said}"
        );
    }
}
