//! Which drives of a volume are used, and what happens when one fails.
//!
//! # Fault model and invariants
//! - A drive *fails* when it is gone or does not answer in time, or by the policy of [`faults`](crate::members::faults).
//! - From the moment this shard sees the failure it neither reads nor writes the drive (`failing`).
//! - Rule (a) of the promises: that a drive failed is durable on the others *before* any write that skipped it
//!   is acknowledged. The controller does that; [`Volume::recorded`](crate::Volume) waits for it.
//! - A drive never comes back by itself: only a change of the recorded state says that it is in service again.

use platform::sync::Signal;
use platform::{Env, Instant, IoError, IoErrorKind};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use units::{DriveIndex, DriveSet};

/// How long a refusal to record a failure stands before it is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A failure that could not be made durable.
struct Refused {
    drive: DriveIndex,
    at: Instant,
    error: IoError,
    operation: &'static str,
}

#[derive(Default)]
pub(crate) struct Health {
    /// Seen failing here, and still in service by the recorded state.
    failing: Cell<DriveSet>,
    /// The controller has been told, and has not answered.
    reporting: Cell<DriveSet>,
    /// Writes that skipped these cannot be acknowledged.
    refused: RefCell<SmallVec<[Refused; 1]>>,
    changed: Signal,
}

impl Health {
    /// Drives that this shard does not use any more, though they are in service by the recorded state.
    pub(crate) fn failing(&self) -> DriveSet {
        self.failing.get()
    }

    /// Whether none of these drives has failed without that being durable. What else a write may have skipped is
    /// recorded anyway: drives that are out, and drives that are stale.
    pub(crate) fn are_recorded(&self, drives: &DriveSet) -> bool {
        drives.intersection(&self.failing.get()).is_empty()
    }

    /// Takes a drive out of use on this shard. Whether that is news, and has to be reported.
    pub(crate) fn fail(&self, drive: DriveIndex, in_service: &DriveSet) -> bool {
        let failing = self.failing.get();
        if failing.contains(drive) || !in_service.contains(drive) {
            return false;
        }
        self.failing.set(failing.with(drive));
        true
    }

    /// These drives are in service by the recorded state: what failed and is out now is recorded.
    pub(crate) fn recorded_in_service(&self, env: &Env, in_service: &DriveSet) {
        self.failing.set(self.failing.get().intersection(in_service));
        self.refused.borrow_mut().retain(|refused| in_service.contains(refused.drive));
        self.changed.notify(env);
    }

    /// Another drive has the slot: the one before is of no interest any more.
    pub(crate) fn forget(&self, drive: DriveIndex) {
        self.failing.set(self.failing.get().without(drive));
        self.refused.borrow_mut().retain(|refused| refused.drive != drive);
    }

    /// The controller is being told that `drive` failed.
    pub(crate) fn reporting(&self, drive: DriveIndex) {
        self.reporting.set(self.reporting.get().with(drive));
    }

    /// The controller has made the failure of `drive` durable.
    pub(crate) fn reported(&self, env: &Env, drive: DriveIndex) {
        self.reporting.set(self.reporting.get().without(drive));
        self.changed.notify(env);
    }

    /// The controller could not make the failure of `drive` durable.
    pub(crate) fn refused(&self, env: &Env, drive: DriveIndex, error: IoError, operation: &'static str) {
        self.reporting.set(self.reporting.get().without(drive));
        if self.failing.get().contains(drive) {
            self.refused.borrow_mut().push(Refused { drive, at: env.now(), error, operation });
        }
        self.changed.notify(env);
    }

    /// What to tell the controller again: what it refused to record some time ago.
    pub(crate) fn ask_again(&self, env: &Env, drive: DriveIndex) -> Option<(IoError, &'static str)> {
        let now = env.now();
        let mut refused = self.refused.borrow_mut();
        let old = refused.iter().position(|r| r.drive == drive && r.at + ASK_AGAIN_AFTER <= now)?;
        let Refused { error, operation, .. } = refused.remove(old);
        Some((error, operation))
    }

    /// Waits until the failure of every drive in `skipped` is durable.
    ///
    /// # Errors
    /// When that was refused.
    pub(crate) async fn wait_recorded(&self, env: &Env, skipped: &DriveSet) -> Result<(), IoError> {
        let hopeless = || {
            let refused = self.refused.borrow();
            refused.iter().any(|refused| skipped.contains(refused.drive))
        };
        self.changed.wait_until(env, || self.are_recorded(skipped) || hopeless()).await;
        if self.are_recorded(skipped) { Ok(()) } else { Err(IoError::new(IoErrorKind::Gone)) }
    }
}
