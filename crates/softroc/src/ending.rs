//! The limit of a stop: a controller that is asked to end does end, whatever hangs.
//!
//! A thread of its own watches, as a drive that hangs may hold up any other. As long as something is finished (a part of
//! the stop, an array, bytes of the cache), the stop goes on. When nothing is finished for the limit, the process ends as
//! if it had been killed: what was acknowledged is kept as after a crash (on drives, in logs, in memory that outlives the
//! process), and the next start resyncs what was being written.

use crate::failure::{Failure, Outcome};
use controller::Unfinished;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use units::counted;

/// How often it is looked whether something was finished.
const LOOK: Duration = Duration::from_millis(100);

/// The exit code of a stop that did not wait to its end.
const NOT_WAITED_FOR: i32 = 1;

/// A stop that is under way.
#[derive(Clone)]
pub struct Ending(Arc<Mutex<Waiting>>);

/// What a stop waits for.
struct Waiting {
    /// To be read after "waiting for".
    what: &'static str,
    since: Instant,
}

impl Ending {
    /// The stop begins, and `limit` counts from here on, until the process has ended.
    pub fn begin(limit: Duration, unfinished: Arc<Unfinished>) -> Outcome<Ending> {
        let ending = Ending(Arc::new(Mutex::new(Waiting { what: "connections", since: Instant::now() })));
        let watched = ending.clone();
        let watch = move || watched.watch(limit, &unfinished);
        let failed = |error| Failure::failed(format!("cannot watch over the stop: {error}"));
        std::thread::Builder::new().name("ending".into()).spawn(watch).map_err(failed)?;
        Ok(ending)
    }

    /// What was waited for until now is finished; this is next.
    pub fn waits_for(&self, what: &'static str) {
        *self.waiting() = Waiting { what, since: Instant::now() };
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
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
            let Waiting { what, since } = *self.waiting();
            if since.elapsed() > limit {
                tracing::error!("{}", given_up(what, limit, unfinished));
                std::process::exit(NOT_WAITED_FOR);
            }
        }
    }
}

/// What is said when a stop is given up.
fn given_up(what: &str, limit: Duration, unfinished: &Unfinished) -> String {
    let arrays = match unfinished.arrays() {
        0 => String::new(),
        arrays => format!(" ({} not stopped)", counted(arrays, "array")),
    };
    let cache = match unfinished.dirty_bytes() {
        dirty if dirty.is_zero() => String::new(),
        dirty => format!(
            " {dirty} of them are in the cache's memory alone: start the controller again before this machine is switched off."
        ),
    };
    format!(
        "the controller ends without waiting for {what}{arrays}: nothing was finished for {limit:?} (--stop-limit). \
         Acknowledged writes are kept, as after a crash; the next start resyncs what was being written.{cache}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_named() {
        let limit = Duration::from_secs(90);
        let said = given_up("the drives", limit, &Unfinished::default());
        assert!(said.starts_with("the controller ends without waiting for the drives: nothing"), "{said}");
        assert!(said.contains("90s (--stop-limit)") && said.ends_with("being written."), "{said}");
    }
}
