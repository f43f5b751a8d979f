//! What the drives can do for one stripe: the only place where state becomes a plan's health.

use crate::region_set::RegionIndex;
use crate::regions::Regions;
use crate::volume::VolumeState;
use layout::{Role, StripeMap};
use units::{DriveIndex, DriveSet, StripeIndex};

/// What the owner of a region knows that is not recorded yet.
pub trait Overlay {
    /// Drives that fail, though that is not recorded yet.
    fn failing(&self) -> DriveSet;

    /// Whether a stripe is current on a drive that is stale in its region: the region is being made current, stripe by
    /// stripe.
    fn is_current(&self, slot: DriveIndex, region: RegionIndex, stripe: StripeIndex) -> bool;

    /// Whether the redundancy of a stripe in a forced region has been made to agree with its data since.
    fn is_settled(&self, region: RegionIndex, stripe: StripeIndex) -> bool;
}

/// The overlay of whoever owns no region: what is recorded is all that is known.
pub struct Nothing;

impl Overlay for Nothing {
    fn failing(&self) -> DriveSet {
        DriveSet::EMPTY
    }

    fn is_current(&self, _: DriveIndex, _: RegionIndex, _: StripeIndex) -> bool {
        false
    }

    fn is_settled(&self, _: RegionIndex, _: StripeIndex) -> bool {
        false
    }
}

impl VolumeState {
    /// What the drives can do for one stripe. `unreadable`: drives that could not read something of it.
    pub fn stripe_health(
        &self,
        regions: &Regions,
        stripe: StripeIndex,
        unreadable: &DriveSet,
        overlay: &impl Overlay,
    ) -> plan::Health {
        let region = regions.region_of(stripe);
        let mut writable = self.in_service.minus(&overlay.failing());
        if !self.summary.stale.is_empty() {
            let is_stale = |slot: &DriveIndex| !overlay.is_current(*slot, region, stripe);
            writable = writable.minus(&self.stale_in(region).iter().filter(is_stale).collect());
        }
        let readable = writable.minus(unreadable);
        let parity_trusted =
            self.is_synced(region) || self.is_trusted_by_force(regions, stripe, &readable, overlay);
        plan::Health { readable, writable, parity_trusted, relocated: self.relocated_in(region) }
    }

    /// Where the cells of a stripe are.
    pub fn map(&self, regions: &Regions, stripe: StripeIndex) -> StripeMap {
        let map = regions.geometry().stripe_map(stripe);
        match self.relocated_in(regions.region_of(stripe)) {
            Some(drive) => map.relocated(drive),
            None => map,
        }
    }

    /// What the drives can do for a stripe when a request is planned there: the same as [`VolumeState::stripe_health`] by
    /// what is recorded, but that stripes of forced regions are settled before anything is done with them, if they can be.
    pub fn planned_health(&self, regions: &Regions, stripe: StripeIndex) -> plan::Health {
        let mut health = self.stripe_health(regions, stripe, &DriveSet::EMPTY, &Nothing);
        health.parity_trusted |= self.forced.contains(regions.region_of(stripe))
            && self.missing_by_force(regions, stripe, &health.readable).is_some();
        health
    }

    /// How many data strips of a stripe in a forced region cannot be read, if it was forced with all of them missing.
    /// `None`: one is missing that nobody vouched for.
    pub fn missing_by_force(
        &self,
        regions: &Regions,
        stripe: StripeIndex,
        readable: &DriveSet,
    ) -> Option<usize> {
        let region = regions.region_of(stripe);
        let mut missing = 0;
        for (cell, role) in self.map(regions, stripe).cells() {
            if matches!(role, Role::Data { .. }) && !readable.contains(cell.drive) {
                if !self.forced.is_about(cell.drive, region) {
                    return None;
                }
                missing += 1;
            }
        }
        Some(missing)
    }

    /// Whether the redundancy of a stripe in an unsynced region may be used because the region is forced.
    fn is_trusted_by_force(
        &self,
        regions: &Regions,
        stripe: StripeIndex,
        readable: &DriveSet,
        overlay: &impl Overlay,
    ) -> bool {
        let region = regions.region_of(stripe);
        self.forced.contains(region)
            && (overlay.is_settled(region, stripe)
                || self.missing_by_force(regions, stripe, readable).is_some_and(|missing| missing > 0))
    }
}
