//! Changes of a volume's recorded state, and their effect on this shard.
//!
//! # Invariants
//! - Only this module changes the state, by [`VolumeState::apply`]. A change that brings a drive is
//!   applied only when that drive is usable; otherwise nothing changes.
//! - The owner of a region applies its own changes at once and reports them; the controller records
//!   each and sends it to the other shards. The report must not undo later changes of the owner.
//! - State of this shard alone is an [`Overlay`] over the recorded state: drives that failed here
//!   (`health`), stripes that are current already (`members`), settled stripes (`forced`).

use crate::members::Drives;
use crate::members::silent::leave;
use crate::members::slots::{Slot, attach};
use platform::{DriveSource, IoError, IoErrorKind, Member};
use std::cell::Ref;
use std::rc::Rc;
use std::sync::Arc;
use units::{DriveIndex, DriveSet, StripeIndex};
use volume_state::{Change, Overlay, RegionIndex, RegionSet, VolumeState};

impl Overlay for Drives {
    fn failing(&self) -> DriveSet {
        self.health.failing()
    }

    fn is_current(&self, slot: DriveIndex, region: RegionIndex, stripe: StripeIndex) -> bool {
        self.members.is_made_current(slot, region, stripe)
    }

    fn is_settled(&self, region: RegionIndex, stripe: StripeIndex) -> bool {
        self.settled.contains(region, self.nth_of_region(region, stripe))
    }
}

impl Drives {
    /// The recorded state of the volume, as last reported to this shard.
    pub(crate) fn state(&self) -> Ref<'_, VolumeState> {
        self.state.borrow()
    }

    /// Drives that are read and written here, except where they are stale.
    pub(crate) fn in_service(&self) -> DriveSet {
        self.state().in_service().minus(&self.health.failing())
    }

    /// Whether a slot's drive is current in a stripe, for this shard.
    pub(crate) fn is_current(&self, slot: DriveIndex, stripe: StripeIndex) -> bool {
        let state = self.state();
        if !state.stale_somewhere().contains(slot) {
            return true;
        }
        let region = self.region_of(stripe);
        !state.stale_in(region).contains(slot) || self.members.is_made_current(slot, region, stripe)
    }

    /// Whether blocks of any drive are punctured.
    pub(crate) fn any_punctured(&self) -> bool {
        !self.state().punctured_somewhere().is_empty()
    }

    /// The index of a stripe in its region.
    pub(crate) fn nth_of_region(&self, region: RegionIndex, stripe: StripeIndex) -> u64 {
        stripe.0 - self.regions.stripes_of(region).start
    }

    /// The regions in which a drive is stale.
    pub(crate) fn stale_regions(&self, slot: DriveIndex) -> RegionSet {
        self.state().slot(slot).map(|slot| slot.stale().clone()).unwrap_or_default()
    }

    /// Applies a change from the controller, with the drive that it brings. Returns the drive that
    /// left its seat, whose operations must end.
    ///
    /// # Errors
    /// A message, if the slot or the drive cannot be used; nothing has changed then.
    pub(crate) fn take_change(
        self: &Rc<Self>,
        change: &Change,
        drive: Option<Arc<dyn DriveSource>>,
    ) -> Result<Option<Rc<Member>>, String> {
        let env = self.shard.env();
        let limits = self.policy.get().limits;
        match change {
            Change::Drive { slot, .. } => {
                self.check_slot(*slot)?;
                let member = drive.map(|drive| attach(env, &drive, &limits)).transpose();
                let before = self.members.swap(*slot, member.map_err(|error| error.to_string())?);
                self.watch_over(*slot);
                leave(before.as_ref());
                self.apply(change);
                Ok(before)
            }
            Change::ReplacementBegan { slot, .. } | Change::ReplacementEnded { slot } => {
                let of = self.check_slot(*slot)?;
                let filled =
                    drive.map(|drive| of.begin_replacement(env, &drive, &limits)).transpose();
                let filled = filled.map_err(|error| error.to_string())?;
                let before = self.members.swap_replacement(*slot, filled);
                self.apply(change);
                Ok(before.map(|replacement| replacement.member.clone()))
            }
            Change::Promoted { slot, .. } => self.promote(*slot, change),
            _ => {
                self.apply(change);
                Ok(None)
            }
        }
    }

    fn promote(
        self: &Rc<Self>,
        slot: DriveIndex,
        change: &Change,
    ) -> Result<Option<Rc<Member>>, String> {
        self.check_slot(slot)?;
        let Some(replacement) = self.members.swap_replacement(slot, None) else {
            return Err(format!("no drive is being filled for slot {slot} of '{}'", self.name()));
        };
        let before = self.members.swap(slot, Some(replacement.member.clone()));
        self.watch_over(slot);
        leave(before.as_ref());
        // A write planned without the slot, since its previous drive failed here, skipped both.
        let is_passed_over = self.is_redundant() && self.health.failing().contains(slot);
        self.apply(change);
        // It lacks a write of this shard, and the controller does not know yet.
        if let Some(error) = replacement.failed.get() {
            self.fail_drive(slot, error, "write while it was being filled");
        } else if is_passed_over {
            self.fail_drive(
                slot,
                IoError::new(IoErrorKind::Gone),
                "writes that passed over its slot",
            );
        }
        Ok(before)
    }

    /// Applies a change to the state, and to the overlay of this shard.
    pub(crate) fn apply(&self, change: &Change) {
        if let Change::Forced(regions) | Change::ForcedByLog(regions) = change {
            self.settled.forget(&regions.intersection(self.state().unsynced()));
        }
        self.state.borrow_mut().apply(change);
        match change {
            Change::InService(drives) => self.health.recorded_in_service(self.shard.env(), drives),
            Change::Drive { slot, in_service, .. } => {
                self.health.forget(*slot);
                self.health.recorded_in_service(self.shard.env(), in_service);
            }
            Change::Promoted { slot, .. } => self.health.forget(*slot),
            Change::Current { slot, regions } => self.members.close_windows(*slot, regions),
            Change::Synced(regions) => self.settled.forget(regions),
            Change::Unsynced(regions) => {
                self.settled.forget(regions);
                // A resync in progress of one of them is no longer valid.
                self.count_gap();
            }
            _ => {}
        }
        self.look_at_health();
    }

    fn check_slot(&self, slot: DriveIndex) -> Result<&Slot, String> {
        let none = || {
            format!("'{}' has {} slots, and no slot {slot}", self.name(), self.geometry().drives())
        };
        self.members.slot(slot).ok_or_else(none)
    }
}
