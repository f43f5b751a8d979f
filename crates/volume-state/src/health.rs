//! The health of a stripe for plans: the only place where state becomes a plan's health.

use crate::region_set::RegionIndex;
use crate::regions::Regions;
use crate::volume::VolumeState;
use layout::{Role, StripeMap};
use units::{DriveIndex, DriveSet, StripeIndex};

/// Knowledge of a region's owner that is not recorded yet.
pub trait Overlay {
    /// Failing drives that are not recorded yet.
    fn failing(&self) -> DriveSet;

    /// Whether a stripe is already rebuilt on a drive that is stale in its region.
    fn is_current(&self, slot: DriveIndex, region: RegionIndex, stripe: StripeIndex) -> bool;

    /// Whether a stripe of a forced region has been resynced since.
    fn is_settled(&self, region: RegionIndex, stripe: StripeIndex) -> bool;
}

/// The overlay of shards that do not own the region: only recorded state.
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
    /// The health of a stripe. `unreadable`: drives that failed to read a part of it.
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

    /// Locations of a stripe's cells.
    pub fn map(&self, regions: &Regions, stripe: StripeIndex) -> StripeMap {
        let map = regions.geometry().stripe_map(stripe);
        match self.relocated_in(regions.region_of(stripe)) {
            Some(drive) => map.relocated(drive),
            None => map,
        }
    }

    /// The health for planning: [`VolumeState::stripe_health`] of the recorded state, but stripes
    /// of forced regions count as resynced, since that happens first where possible.
    pub fn planned_health(&self, regions: &Regions, stripe: StripeIndex) -> plan::Health {
        let mut health = self.stripe_health(regions, stripe, &DriveSet::EMPTY, &Nothing);
        health.parity_trusted |= self.forced.contains(regions.region_of(stripe))
            && self.missing_by_force(regions, stripe, &health.readable).is_some();
        health
    }

    /// Number of unreadable data strips of a stripe in a forced region. `None`: redundancy may not
    /// replace one of them.
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

    /// Whether redundancy of a stripe in an unsynced region is used because the region is forced.
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
                || self
                    .missing_by_force(regions, stripe, readable)
                    .is_some_and(|missing| missing > 0))
    }
}
