//! Which drives of a volume are used, and what happens when one fails.
//!
//! # Fault model and invariants
//! - A drive *fails* when a write to it fails, or when it is gone or does not answer in time. A medium error
//!   on a read concerns those blocks only.
//! - From the moment this shard sees the failure it neither reads nor writes the drive (`failing`).
//! - Rule (a) of the promises: that a drive failed is durable on the others *before* any write that skipped it
//!   is acknowledged. The controller does that; [`Health::recorded`] waits for it.
//! - A drive never comes back by itself: only the controller, with a new view, says that it is used again.

use crate::attachment::HealthView;
use env::sync::Signal;
use env::{Env, IoError, IoErrorKind};
use std::cell::Cell;
use units::{DriveIndex, DriveSet};

pub(crate) struct Health {
    view: Cell<HealthView>,
    /// Seen failing here, not yet in the controller's view.
    failing: Cell<DriveSet>,
    /// Their failure could not be made durable: writes that skipped them cannot be acknowledged.
    unrecordable: Cell<DriveSet>,
    changed: Signal,
}

impl Health {
    pub(crate) fn new(view: HealthView) -> Health {
        Health {
            view: Cell::new(view),
            failing: Cell::default(),
            unrecordable: Cell::default(),
            changed: Signal::default(),
        }
    }

    pub(crate) fn view(&self) -> HealthView {
        self.view.get()
    }

    /// Drives to read and drives to write, now.
    pub(crate) fn usable(&self) -> (DriveSet, DriveSet) {
        let (view, failing) = (self.view.get(), self.failing.get());
        (view.readable.minus(&failing), view.writable.minus(&failing))
    }

    /// Drives that the durable record says are not written.
    fn recorded_out(&self, drive: DriveIndex) -> bool {
        !self.view.get().writable.contains(drive)
    }

    /// Takes a drive out of use on this shard. Whether that is news, and has to be reported.
    pub(crate) fn fail(&self, drive: DriveIndex) -> bool {
        let failing = self.failing.get();
        if failing.contains(drive) || self.recorded_out(drive) {
            return false;
        }
        self.failing.set(failing.with(drive));
        true
    }

    pub(crate) fn set(&self, env: &Env, view: HealthView) {
        self.view.set(view);
        let failing = self.failing.get();
        self.failing.set(failing.intersection(&view.writable));
        self.changed.notify(env);
    }

    /// The controller could not make the failure of `drive` durable.
    pub(crate) fn give_up_recording(&self, env: &Env, drive: DriveIndex) {
        self.unrecordable.set(self.unrecordable.get().with(drive));
        self.changed.notify(env);
    }

    /// Waits until the failure of every drive in `skipped` is durable.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(crate) async fn recorded(&self, env: &Env, skipped: &DriveSet) -> Result<(), IoError> {
        let pending = || skipped.iter().any(|drive| !self.recorded_out(drive));
        let hopeless = || !skipped.intersection(&self.unrecordable.get()).is_empty();
        self.changed.wait_until(env, || !pending() || hopeless()).await;
        if pending() { Err(IoError::new(IoErrorKind::Gone)) } else { Ok(()) }
    }
}
