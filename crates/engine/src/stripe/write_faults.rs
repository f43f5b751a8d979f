//! What the writes of a plan, or of several together, met on the drives, and what follows from that after the commit.
//!
//! A drive that fails is skipped. One that stays, and refuses blocks, has these excluded; the others it is given. Where something
//! cannot be had from the drives that are left the write fails.

use crate::stripe::Stripes;
use crate::stripe::drive_ops::{Answered, Lacking};
use crate::stripe::excluded::Refusal;
use crate::stripe::trouble::Told;
use plan::Plan;
use platform::{Durability, IoError, Slices};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveSet};

/// What the writes of a plan, or of several together, met on the drives.
#[derive(Default)]
pub(super) struct WriteFaults {
    skipped: DriveSet,
    skipped_for: Option<IoError>,
    hopeless: Option<IoError>,
    /// Writes that drives refused which stay in use.
    refusals: Vec<Refusal>,
}

impl WriteFaults {
    /// Takes note of what a slot's drive answered. `written`: where it was to write, and what.
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
    /// Which drives the writes of these plans skipped, and which blocks drives refused that have them in redundancy.
    ///
    /// # Errors
    /// When what should have been written is nowhere, not even in redundancy; with the blocks that drives refused, if nothing else is in
    /// doubt.
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
                    // Where there is no room in the list it is as with any other drive that cannot write.
                    Box::pin(self.exclude(drive, &refusal.member, ranges)).await.map_err(|_| refusal.error)
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
        // What was refused is excluded: it is in doubt, and nothing else is.
        let refusing: DriveSet = refused.iter().map(|told| told.drive).collect();
        let unkept = match plans.clone().all(|plan| self.is_kept_without(plan, &refusing.union(&skipped))) {
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
                // Some of the stripe is new and some old: until a resync, its redundancy proves nothing.
                Box::pin(self.distrust(plan.stripe())).await;
            }
        }
        Err((error, Vec::new()))
    }
}
