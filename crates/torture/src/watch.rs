//! A run that loops without an event never comes back to its simulation, which could not end it: another thread notices, tells the story so
//! far, and ends the process.

use crate::story::Lines;
use std::process::exit;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is looked whether something was told ...
const EVERY: Duration = Duration::from_secs(1);

/// ... and how often nothing was, one look after the other, until the run counts as one that loops. A whole run takes seconds. Looks are
/// counted, and not time: a process that is stopped for a while does not look either.
const SILENT_LOOKS: u32 = 60;

#[derive(Default)]
struct Over {
    is_over: Mutex<bool>,
    changed: Condvar,
}

/// While it lives, a run is watched.
pub(crate) struct Watch {
    over: Arc<Over>,
    watcher: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches what is told of a seed.
    pub(crate) fn begin(seed: u64, lines: Arc<Lines>) -> Watch {
        let over = Arc::new(Over::default());
        let watched = over.clone();
        let watcher = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            if loops(&watched, &lines) {
                eprintln!("{}", lines.latest().join("\n"));
                eprintln!(
                    "seed {seed} loops without an event: for {SILENT_LOOKS} s nothing was told after that"
                );
                exit(1);
            }
        });
        Watch { over, watcher: watcher.ok() }
    }
}

/// Waits for the end of a run; whether it will not come.
fn loops(over: &Over, lines: &Lines) -> bool {
    let (mut told, mut silent) = (lines.told(), 0);
    let mut is_over = over.is_over.lock().unwrap_or_else(PoisonError::into_inner);
    while !*is_over && silent < SILENT_LOOKS {
        let waited = over.changed.wait_timeout(is_over, EVERY);
        is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
        let now = lines.told();
        silent = if now == told { silent + 1 } else { 0 };
        told = now;
    }
    !*is_over
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.over.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.changed.notify_all();
        // One that panicked has watched nothing; the run is what it is.
        let _panicked = self.watcher.take().map(JoinHandle::join);
    }
}
