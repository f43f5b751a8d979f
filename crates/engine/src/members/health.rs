//! Which drives of a volume are in use, and the handling of failures.
//!
//! # Fault model and invariants
//! - A drive *fails* when it is gone or does not respond in time, or by the policy of
//!   [`faults`](crate::members::faults).
//! - From the moment this shard sees the failure it neither reads nor writes the drive (`failing`).
//! - Rule (a) of `ARCHITECTURE.md`: a drive's failure is durable on the others *before* any write
//!   that skipped it is acknowledged. The controller does that; [`Volume::recorded`](crate::Volume)
//!   waits for it.
//! - A failed drive returns to service only by a change of the recorded state.

use platform::sync::Signal;
use platform::{Env, Instant, IoError, IoErrorKind};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use units::{DriveIndex, DriveSet};

/// How long a refused report of a failure waits before it is sent again.
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
    /// Failed here, and still in service by the recorded state.
    failing: Cell<DriveSet>,
    /// Reported to the controller, without a reply yet.
    reporting: Cell<DriveSet>,
    /// Writes that skipped these drives cannot be acknowledged.
    refused: RefCell<SmallVec<[Refused; 1]>>,
    changed: Signal,
}

impl Health {
    /// Drives that this shard no longer uses, although they are in service by the recorded state.
    pub(crate) fn failing(&self) -> DriveSet {
        self.failing.get()
    }

    /// Whether none of these drives has an unrecorded failure. Other reasons to skip a drive are
    /// always recorded: out of service, or stale.
    pub(crate) fn are_recorded(&self, drives: &DriveSet) -> bool {
        drives.intersection(&self.failing.get()).is_empty()
    }

    /// Takes a drive out of use on this shard. Returns whether it is a new failure to report.
    pub(crate) fn fail(&self, drive: DriveIndex, in_service: &DriveSet) -> bool {
        let failing = self.failing.get();
        if failing.contains(drive) || !in_service.contains(drive) {
            return false;
        }
        self.failing.set(failing.with(drive));
        true
    }

    /// Sets the drives in service by the recorded state: failures of the others are recorded.
    pub(crate) fn recorded_in_service(&self, env: &Env, in_service: &DriveSet) {
        self.failing.set(self.failing.get().intersection(in_service));
        self.refused.borrow_mut().retain(|refused| in_service.contains(refused.drive));
        self.changed.notify(env);
    }

    /// The slot has another drive: forgets the previous one.
    pub(crate) fn forget(&self, drive: DriveIndex) {
        self.failing.set(self.failing.get().without(drive));
        self.refused.borrow_mut().retain(|refused| refused.drive != drive);
    }

    /// The report of the failure of `drive` is being sent.
    pub(crate) fn reporting(&self, drive: DriveIndex) {
        self.reporting.set(self.reporting.get().with(drive));
    }

    /// The controller has made the failure of `drive` durable.
    pub(crate) fn reported(&self, env: &Env, drive: DriveIndex) {
        self.reporting.set(self.reporting.get().without(drive));
        self.changed.notify(env);
    }

    /// The controller could not make the failure of `drive` durable.
    pub(crate) fn refused(
        &self,
        env: &Env,
        drive: DriveIndex,
        error: IoError,
        operation: &'static str,
    ) {
        self.reporting.set(self.reporting.get().without(drive));
        if self.failing.get().contains(drive) {
            self.refused.borrow_mut().push(Refused { drive, at: env.now(), error, operation });
        }
        self.changed.notify(env);
    }

    /// The report to repeat: one that the controller refused some time ago.
    pub(crate) fn ask_again(
        &self,
        env: &Env,
        drive: DriveIndex,
    ) -> Option<(IoError, &'static str)> {
        let now = env.now();
        let mut refused = self.refused.borrow_mut();
        let old = refused.iter().position(|r| r.drive == drive && r.at + ASK_AGAIN_AFTER <= now)?;
        let Refused { error, operation, .. } = refused.remove(old);
        Some((error, operation))
    }

    /// Waits until the failure of every drive in `skipped` is durable.
    ///
    /// # Errors
    /// When the report was refused.
    pub(crate) async fn wait_recorded(&self, env: &Env, skipped: &DriveSet) -> Result<(), IoError> {
        let hopeless = || {
            let refused = self.refused.borrow();
            refused.iter().any(|refused| skipped.contains(refused.drive))
        };
        self.changed.wait_until(env, || self.are_recorded(skipped) || hopeless()).await;
        if self.are_recorded(skipped) { Ok(()) } else { Err(IoError::new(IoErrorKind::Gone)) }
    }
}
