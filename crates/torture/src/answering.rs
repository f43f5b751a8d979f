//! Whether writes of a volume are answered when a log device has them: then a power cut takes none of them back, as if each were
//! durable.
//!
//! The controller says so, and takes it back by itself when the log fails, or because an operator wants it otherwise. What it said counts for
//! writes that begin and end before anything of that may have happened.

use controller::{VolumeInfo, WriteMode};
use std::cell::Cell;

/// What is known of when the writes of a volume are answered.
#[derive(Clone, Debug, Default)]
pub struct Answering {
    is_logged: Cell<bool>,
    is_changing: Cell<bool>,
    changes: Cell<u64>,
}

impl Answering {
    /// How often what was said before has come to count no more.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// What was said counts no more.
    pub fn forget(&self) {
        self.is_logged.set(false);
        self.changes.set(self.changes.get() + 1);
    }

    /// An operator asks for another mode.
    pub fn begin_change(&self) {
        self.is_changing.set(true);
        self.forget();
    }

    /// He was answered.
    pub fn end_change(&self) {
        self.is_changing.set(false);
        self.forget();
    }

    /// The controller said how the volume is. `asked`: what [`Answering::changes`] was when it was asked.
    pub fn note(&self, volume: &VolumeInfo, asked: u64) {
        let mode = volume.policies.iter().find(|policy| policy.name == "write-mode");
        let is_logged = mode.is_some_and(|mode| mode.current == WriteMode::LoggedWriteBack.name());
        if !is_logged {
            self.forget();
        } else if asked == self.changes.get() && !self.is_changing.get() {
            self.is_logged.set(true);
        }
    }

    /// Whether a log device has each write that is answered, and since which change.
    pub fn logged(&self) -> Option<u64> {
        self.is_logged.get().then_some(self.changes.get())
    }
}
