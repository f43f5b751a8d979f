//! Policy for drive errors: which of them take a drive out of use, and what is reported.
//!
//! # The policy
//! | the drive | consequence |
//! | --- | --- |
//! | is gone, or is another drive | it fails at once |
//! | does not respond within [`FaultPolicy::limits`](crate::FaultPolicy) | it fails when the controller decides so ([`silent`](crate::members::silent)) |
//! | cannot write | it fails at once, if the level tolerates it; otherwise the refused blocks are excluded, or the write fails |
//! | ... blocks that are already excluded | it stays in use; they stay [excluded](crate::stripe) |
//! | cannot read some blocks | it stays in use; redundancy serves them, and they are rewritten (`repair`) |
//! | ... and rewriting did not help | counted; at `FaultPolicy::unrepaired_limit` it fails, if the level tolerates it |
//! | has no space in its file system, or the system temporarily could not carry out an operation ([`IoError::spares_drive`]) | it stays in use: rule (i) of `ARCHITECTURE.md`. Redundancy serves a read and nothing is repaired; a write or flush fails |
//! | reports an error of unknown meaning for a read | it stays in use; redundancy serves the read, and the blocks are neither repaired, nor counted, nor listed |
//! | ... for a write | as if it cannot write: it may or may not hold the data, and must not be read there |
//!
//! Each is an event at the controller; no drive fails silently.

use crate::members::Drives;
use crate::members::slots::Replacement;
use crate::messages::ReportKind;
use layout::{DataIndex, Role};
use plan::Plan;
use platform::{IoError, IoErrorKind, Member};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteOffset, ByteRange, DriveIndex, DriveSet};

/// Errors that take a drive out of use, whatever the operation.
pub(crate) fn is_gone(error: &IoError) -> bool {
    matches!(error.kind, IoErrorKind::Gone | IoErrorKind::Changed | IoErrorKind::TimedOut)
}

/// The data strip of a role; `None` for parity.
fn strip_of(role: Role) -> Option<DataIndex> {
    match role {
        Role::Data { index, .. } => Some(index),
        Role::P | Role::Q | Role::Spare => None,
    }
}

/// Unreadable places: the drive, and bytes of its part of the volume within one strip.
pub(crate) type Places = SmallVec<[(DriveIndex, ByteRange); 2]>;

impl Drives {
    /// Handles a failed write after the commit. `Ok`: the drive is out of use, or no longer the
    /// slot's drive; other drives have its data if [`Volume::is_kept`] is true.
    pub(crate) fn write_fault(
        self: &Rc<Self>,
        drive: DriveIndex,
        member: Option<&Rc<Member>>,
        error: IoError,
    ) -> Result<(), IoError> {
        if error.spares_drive() {
            return Err(error); // The system is full or busy, not the drive (rule (i)).
        }
        if member.is_some_and(|member| !self.members.is_in_slot(drive, member)) {
            return Ok(()); // The slot's new drive is not current in any region being written.
        }
        if !self.in_service().contains(drive) {
            return Ok(()); // It failed meanwhile.
        }
        if !self.may_lose(drive) && !is_gone(&error) {
            return Err(error);
        }
        self.fail_drive(drive, error, "write");
        Ok(())
    }

    /// Whether all data of a plan can be restored although these drives missed their writes: all of
    /// them together, as several may fail during one write.
    pub(crate) fn is_kept(&self, plan: &Plan, missed: &DriveSet) -> bool {
        if missed.is_empty() && plan.request().is_write() {
            return true; // All of its writes succeeded.
        }
        let health = plan.health();
        let out = DriveSet::first(self.geometry().drives()).minus(&health.writable).union(missed);
        if !plan.request().is_write() {
            // Written data is computed from current data, or a copy of it.
            let moved = health.relocated.map_or(out, |slot| out.without(slot));
            return self.geometry().survives_set(&moved);
        }
        let taken = |write: &&plan::Write| !missed.contains(write.drive);
        let has_copy =
            |strip| plan.writes().iter().filter(taken).any(|write| strip_of(write.role) == strip);
        let mut lacking = plan
            .writes()
            .iter()
            .filter(|write| missed.contains(write.drive) && strip_of(write.role).is_some());
        if self.geometry().parity_strips() == 0 {
            return lacking.all(|write| has_copy(strip_of(write.role)));
        }
        let home = self.geometry().stripe_map(plan.stripe());
        let map = health.relocated.map_or(home, |slot| home.relocated(slot));
        let lost = map
            .cells()
            .filter(|(cell, role)| out.contains(cell.drive) && strip_of(*role).is_some());
        let lost = lost.count();
        // Redundancy covers only the columns in which it was written.
        lacking.all(|lacking| {
            let columns = ByteRange::new(ByteOffset(lacking.within.0), lacking.len);
            let follows = |role: &Role| {
                let its = |write: &&plan::Write| write.role == *role;
                let of =
                    |write: &plan::Write| ByteRange::new(ByteOffset(write.within.0), write.len);
                plan.writes()
                    .iter()
                    .filter(taken)
                    .filter(its)
                    .any(|write| of(write).contains(columns))
            };
            lost <= [Role::P, Role::Q].iter().filter(|role| follows(role)).count()
        })
    }

    /// Drives that lack data: out of service, or stale in a written region. Data of a drive that is
    /// in the distributed spare is not missing.
    pub(crate) fn behind(&self) -> DriveSet {
        self.state().missed(&self.health.failing())
    }

    /// Whether the volume still has all its data without `drive`, the drives that are behind, and
    /// excluded blocks.
    pub(crate) fn may_lose(&self, drive: DriveIndex) -> bool {
        let lacking = self.behind().union(&self.state().excluded_somewhere());
        self.geometry().survives_set(&lacking.with(drive))
    }

    /// Takes a drive out of use here and reports it to the controller, once.
    pub(crate) fn fail_drive(
        self: &Rc<Self>,
        drive: DriveIndex,
        error: IoError,
        operation: &'static str,
    ) {
        debug_assert!(
            !error.spares_drive() || operation == "flush",
            "{operation} of a sound drive: {error}"
        );
        if self.health.fail(drive, &self.state().in_service()) {
            self.shard.env().trace("drive failed", u64::from(drive.0), error.kind as u64);
            self.look_at_health();
            self.report_failure(drive, error, operation);
        }
    }

    fn report_failure(self: &Rc<Self>, drive: DriveIndex, error: IoError, operation: &'static str) {
        self.health.reporting(drive);
        let (volume, swaps) = (self.clone(), self.members.drives_of(drive));
        self.shard.env().spawn("report a failure", async move {
            let kind = ReportKind::DriveFailed { drive, swaps, error, operation };
            let env = volume.shard.env();
            match volume.shard.report(volume.spec.id, kind).await {
                Ok(()) => volume.health.reported(env, drive),
                Err(_) => volume.health.refused(env, drive, error, operation),
            }
        });
    }

    /// Waits until the failure of every drive in `skipped` is durable. A report refused some time
    /// ago, for example for lack of space, is sent again.
    ///
    /// # Errors
    /// When it cannot be made durable.
    pub(crate) async fn recorded(self: &Rc<Self>, skipped: &DriveSet) -> Result<(), IoError> {
        let (health, env) = (&self.health, self.shard.env());
        if health.are_recorded(skipped) {
            return Ok(());
        }
        for drive in skipped.iter() {
            if let Some((error, operation)) = health.ask_again(env, drive) {
                self.report_failure(drive, error, operation);
            }
        }
        health.wait_recorded(env, skipped).await
    }

    /// A replacement missed a write: waits until it certainly cannot take the slot as it is. If the
    /// replacement was dropped meanwhile, that is already certain, and later drives are not
    /// affected.
    ///
    /// # Errors
    /// When that cannot be ensured: then the write must not be acknowledged.
    pub(crate) async fn replacement_lacks(
        self: &Rc<Self>,
        drive: DriveIndex,
        replacement: &Rc<Replacement>,
        error: IoError,
    ) -> Result<(), IoError> {
        if !self.members.concerns(drive, replacement) {
            return Ok(());
        }
        if replacement.failed.get().is_none() {
            replacement.failed.set(Some(error));
            let (volume, replacement) = (self.clone(), replacement.clone());
            self.shard.env().spawn("report a failed replacement", async move {
                let kind =
                    ReportKind::ReplacementFailed { drive, number: replacement.number, error };
                let result = volume.shard.report(volume.spec.id, kind).await;
                replacement.settled.set(Some(result));
                volume.members.changed().notify(volume.shard.env());
            });
        }
        let settled = || replacement.settled.get().is_some();
        self.members.changed().wait_until(self.shard.env(), settled).await;
        replacement.settled.get().unwrap_or(Err(error))
    }

    /// A place on a drive that rewriting did not repair: counted, until the limit takes the drive
    /// out of use.
    pub(crate) fn not_repaired(self: &Rc<Self>, drive: DriveIndex, error: IoError) {
        if error.spares_drive() {
            return;
        }
        let Some(slot) = self.members.slot(drive) else { return };
        let count = slot.unrepaired.get().saturating_add(1);
        slot.unrepaired.set(count);
        let limit = self.policy.get().unrepaired_limit;
        if limit > 0 && count >= limit && self.may_lose(drive) {
            self.fail_drive(drive, error, "repair of unreadable blocks");
        }
    }
}
