//! The recorder and the store together.

use crate::recorder::{MINUTE_S, Reading, Recorder, TICK_S};
use crate::series::{Points, Series, step_s};
use crate::store::{Kind, Limits, Notice, Store, Subject};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The coarsest resolution.
const QUARTER_S: u64 = 900;

/// A query of the history.
#[derive(Clone, Debug)]
pub struct Question {
    /// Only volumes, or only drives.
    pub kind: Option<Kind>,
    /// Only one subject, by its name or its key.
    pub name: Option<String>,
    /// The start, in seconds since 1970.
    pub from_s: u64,
    /// The end (exclusive).
    pub to_s: u64,
    /// The limit of points per subject.
    pub points: u64,
}

impl Question {
    fn wants(&self, subject: &Subject) -> bool {
        self.kind.is_none_or(|kind| kind == subject.kind)
            && self.name.as_deref().is_none_or(|name| subject.is_called(name))
    }
}

/// The history of a controller.
pub struct History {
    recorder: Mutex<Recorder>,
    store: Store,
}

impl History {
    /// Opens the history file. `notice` is called on the store's thread.
    ///
    /// # Errors
    /// When no thread can be started. (`notice` reports a file that cannot be used.)
    pub fn open(
        path: &Path,
        limits: Limits,
        notice: impl Fn(Notice) + Send + 'static,
    ) -> std::io::Result<History> {
        let store = Store::open(path, limits, notice)?;
        Ok(History { recorder: Mutex::default(), store })
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        // The recorder is consistent after each statement: a panic spoils one interval at most.
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records counters: [`Recorder::note`].
    pub fn note(&self, now_unix_s: u64, now_ns: u64, readings: &[Reading]) -> usize {
        self.recorder().note(now_unix_s, now_ns, readings)
    }

    /// Whether a volume or a drive is recorded.
    pub fn knows(&self, kind: Kind, name: &str) -> bool {
        self.recorder().knows(kind, name)
    }

    /// Passes new rows to the store without waiting. Rows that the store rejects are passed again
    /// later.
    pub fn store(&self, now_unix_s: u64) {
        let rows = self.recorder().take_pending();
        if let Err(rows) = self.store.write(rows, now_unix_s) {
            self.recorder().give_back(rows);
        }
    }

    /// The history of subjects, by kind and name, and the length of its points in seconds. It waits
    /// for the store.
    ///
    /// # Errors
    /// Why it cannot be read. The error is a clause that completes a message.
    pub fn ask(&self, question: &Question) -> Result<(u64, Vec<(Subject, Series)>), String> {
        self.store(question.to_s);
        let Question { from_s, to_s, points, .. } = *question;
        let span_s = to_s.saturating_sub(from_s);
        // From here, the recorder has all data. Of the minute before, the store may have data of
        // the previous process.
        let ticks_from =
            self.recorder().since_s().map_or(to_s, |since| (since / MINUTE_S + 1) * MINUTE_S);
        let ticks_from = ticks_from.clamp(from_s, to_s);
        let (sender, chosen) = std::sync::mpsc::channel();
        let choose = move |minutes_from: Option<u64>| {
            let resolution = match minutes_from {
                // Without a file, only memory has data.
                None => TICK_S,
                _ if ticks_from <= from_s => TICK_S,
                Some(minutes_from) if minutes_from > from_s => QUARTER_S,
                _ => MINUTE_S,
            };
            let step = step_s(span_s, points, resolution);
            // The caller waits below.
            let _ = sender.send((step, minutes_from.is_some()));
            step
        };
        let of = (question.kind, question.name.clone());
        let mut all: Points = self.store.points(of, (from_s, ticks_from), choose)?;
        let (step, has_file) =
            chosen.recv().map_err(|_| "the store has not answered".to_owned())?;
        let ticks_from = if has_file { ticks_from } else { from_s };
        let wanted = |subject: &Subject| question.wants(subject);
        self.recorder().ticks(wanted, (ticks_from, to_s), |subject, at_s, interval| {
            all.add(subject, at_s, interval);
        });
        Ok((step, all.series()))
    }

    /// Stores new rows, and closes the store.
    pub fn close(self, now_unix_s: u64) {
        self.store(now_unix_s);
        self.store.close();
    }
}
