//! Faults of a plan's writes, or of several plans' writes together, handled after the commit.
//!
//! A failed drive is skipped. If a drive stays online and refuses blocks, these are excluded, and
//! its other blocks are written. The write fails if some content is not available from the
//! remaining drives.

use crate::stripe::Stripes;
use crate::stripe::drive_ops::{Answered, Lacking};
use crate::stripe::excluded::Refusal;
use crate::stripe::trouble::Told;
use plan::Plan;
use platform::{Durability, IoError, Slices};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveSet};

/// The faults of a plan's writes, or of several plans' writes together.
#[derive(Default)]
pub(super) struct WriteFaults {
    skipped: DriveSet,
    skipped_for: Option<IoError>,
    hopeless: Option<IoError>,
    /// Refused writes whose drives stay in use.
    refusals: Vec<Refusal>,
}

impl WriteFaults {
    /// Notes the result of a slot's drive. `written`: the offset and the data of the write.
    pub(super) fn note(
        &mut self,
        stripes: &Rc<Stripes>,
        answered: Answered,
        written: impl FnOnce() -> Option<(ByteOffset, Slices)>,
    ) {
        let Err(error) = answered.result else { return };
        let Answered { slot, member, .. } = answered;
        if let Some((offset, slices)) = written().filter(|_| error.is_refusal()) {
            let len = slices.iter().map(|slice| slice.len().0).sum();
            let range = ByteRange::new(offset, ByteCount(len));
            if let Some(member) = member.clone()
                && stripes.is_refusal(slot, Some(&member), range, &error)
            {
                self.refusals.push(Refusal { drive: slot, member, error, offset, slices });
                return;
            }
        }
        match stripes.write_fault(slot, member.as_ref(), error) {
            Ok(()) => {
                self.skipped.insert(slot);
                self.skipped_for = Some(error);
            }
            Err(error) => self.hopeless = Some(error),
        }
    }
}

impl Stripes {
    /// Returns the drives that the plans skipped, and refused blocks whose content redundancy has.
    ///
    /// # Errors
    /// When new content is available nowhere, not even from redundancy. The error contains the
    /// refused blocks if only these are affected.
    pub(super) async fn settle_writes<'a>(
        self: &Rc<Self>,
        faults: WriteFaults,
        lacking: Lacking,
        plans: impl Iterator<Item = &'a Plan> + Clone,
        durability: Durability,
    ) -> Result<(DriveSet, Vec<Told>), (IoError, Vec<Told>)> {
        let WriteFaults { mut skipped, mut skipped_for, mut hopeless, refusals } = faults;
        let mut refused = Vec::new();
        for refusal in &refusals {
            let drive = refusal.drive;
            let listed = match Box::pin(self.narrow(refusal, durability)).await {
                Ok(told) => {
                    let ranges = told.iter().map(|told| told.range).collect();
                    refused.extend(told);
                    // If the list is full, the drive counts as failed, like any that cannot write.
                    Box::pin(self.exclude(drive, &refusal.member, ranges))
                        .await
                        .map_err(|_| refusal.error)
                }
                Err(error) => Err(error),
            };
            match listed.or_else(|error| {
                self.write_fault(drive, Some(&refusal.member), error).map(|()| {
                    (skipped, skipped_for) = (skipped.with(drive), Some(error));
                })
            }) {
                Ok(()) => {}
                Err(error) => hopeless = Some(error),
            }
            self.not_repaired(drive, refusal.error);
        }
        // Only the refused blocks are in doubt; they are excluded.
        let refusing: DriveSet = refused.iter().map(|told| told.drive).collect();
        let unkept =
            match plans.clone().all(|plan| self.is_kept_without(plan, &refusing.union(&skipped))) {
                true => None,
                false => refusals.first().map(|refusal| refusal.error),
            };
        if hopeless.is_none() && !plans.clone().all(|plan| self.is_kept(plan, &skipped)) {
            hopeless = skipped_for;
        }
        hopeless = lacking.settled(self).await.err().or(hopeless);
        let Some(error) = hopeless else {
            return match unkept {
                None => Ok((skipped, refused)),
                Some(error) => Err((error, refused)),
            };
        };
        if self.is_redundant() {
            for plan in plans {
                // The stripe is partly new and partly old: its redundancy is invalid until a
                // resync.
                Box::pin(self.distrust(plan.stripe())).await;
            }
        }
        Err((error, Vec::new()))
    }
}
