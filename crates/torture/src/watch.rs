//! Detects endless loops: a run that loops without an event never returns to its simulation. A
//! separate thread prints the story and ends the process.

use crate::story::Lines;
use std::process::exit;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The interval of the check for new lines ...
const EVERY: Duration = Duration::from_secs(1);

/// ... and the number of checks without one that indicates a loop. A whole run takes seconds. The
/// limit counts checks instead of time, because a suspended process does not check either.
const SILENT_LOOKS: u32 = 60;

#[derive(Default)]
struct Over {
    is_over: Mutex<bool>,
    changed: Condvar,
}

/// Watches a run while it exists.
pub(crate) struct Watch {
    over: Arc<Over>,
    watcher: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches the story of a seed.
    pub(crate) fn begin(seed: u64, lines: Arc<Lines>) -> Watch {
        let over = Arc::new(Over::default());
        let watched = over.clone();
        let watcher = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            if loops(&watched, &lines) {
                eprintln!("{}", lines.latest().join("\n"));
                eprintln!("seed {seed} loops: no event for {SILENT_LOOKS} s");
                exit(1);
            }
        });
        Watch { over, watcher: watcher.ok() }
    }
}

/// Waits for the end of a run; returns whether it loops.
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
        // A panic of the watcher does not affect the run.
        let _panicked = self.watcher.take().map(JoinHandle::join);
    }
}
