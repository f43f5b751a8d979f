//! Whether a log device has every acknowledged write of a volume. A power cut then loses no
//! acknowledged write, as if each were durable.
//!
//! The controller reports this mode, and leaves it when the log fails or an operator changes the
//! mode. A report counts only for writes that begin and end before any such change.

use controller::{VolumeInfo, WriteMode};
use std::cell::Cell;

/// The known acknowledgement mode of a volume's writes.
#[derive(Clone, Debug, Default)]
pub struct AckMode {
    is_logged: Cell<bool>,
    is_changing: Cell<bool>,
    changes: Cell<u64>,
}

impl AckMode {
    /// The number of invalidated reports.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Invalidates the last report.
    pub fn forget(&self) {
        self.is_logged.set(false);
        self.changes.set(self.changes.get() + 1);
    }

    /// An operator requests another mode.
    pub fn begin_change(&self) {
        self.is_changing.set(true);
        self.forget();
    }

    /// The controller replied to the request.
    pub fn end_change(&self) {
        self.is_changing.set(false);
        self.forget();
    }

    /// Records a report of the controller. `asked`: the value of [`AckMode::changes`] at the
    /// query.
    pub fn note(&self, volume: &VolumeInfo, asked: u64) {
        let mode = volume.policies.iter().find(|policy| policy.name == "write-mode");
        let is_logged = mode.is_some_and(|mode| mode.current == WriteMode::LoggedWriteBack.name());
        if !is_logged {
            self.forget();
        } else if asked == self.changes.get() && !self.is_changing.get() {
            self.is_logged.set(true);
        }
    }

    /// Whether a log device has each acknowledged write, and since which change.
    pub fn logged(&self) -> Option<u64> {
        self.is_logged.get().then_some(self.changes.get())
    }
}
