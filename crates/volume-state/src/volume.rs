//! The state of a volume, and queries on it.
//!
//! # Invariants ([`VolumeState::check`])
//! - Every set contains only regions of the volume.
//! - A never written region is neither marked, nor unsynced, nor partly initialised.
//! - Forced regions are unsynced; `missing` and `by_log` are subsets of them.
//! - The distributed spare holds cells of one slot, and at least one region.
//! - The summary matches the slots.

use crate::initialisation::{Initialisation, StripeSet};
use crate::punctured::BlockList;
use crate::region_set::{RegionIndex, RegionSet};
use crate::regions::Regions;
use units::{ByteRange, DriveCount, DriveIndex, DriveSet, StripeIndex};

/// Cells of a failed drive in the distributed spare (RAID 5EE).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relocated {
    /// The failed drive.
    pub slot: DriveIndex,
    /// Regions whose cells are in the spare.
    pub regions: RegionSet,
}

/// State of one slot's drive.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SlotState {
    /// Regions in which the drive is stale. For a drive out of service: the recorded missed writes;
    /// marked regions may be missed as well.
    pub(crate) stale: RegionSet,
    /// Regions still to be copied to its replacement, if one is being filled.
    pub(crate) replacement: Option<RegionSet>,
    /// Blocks whose content is lost, independent of the drive in the slot.
    pub(crate) punctured: BlockList,
    /// Blocks excluded from reads on its drive.
    pub(crate) excluded: BlockList,
}

impl SlotState {
    /// Regions in which its drive is stale.
    pub fn stale(&self) -> &RegionSet {
        &self.stale
    }

    /// Regions still to be copied to the replacement; `None` without one.
    pub fn replacement(&self) -> Option<&RegionSet> {
        self.replacement.as_ref()
    }

    /// Blocks whose content is lost.
    pub fn punctured(&self) -> &BlockList {
        &self.punctured
    }

    /// Blocks excluded from reads on its drive.
    pub fn excluded(&self) -> &BlockList {
        &self.excluded
    }
}

/// Unsynced regions whose redundancy is accepted for missing drives: by an operator, or after the
/// replay of a log that knows all interrupted writes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Forced {
    /// The regions.
    pub(crate) regions: RegionSet,
    /// By slot: forced regions in which its content was missing at that time.
    pub(crate) missing: Vec<RegionSet>,
    /// Forced regions covered by a replayed log: redundancy is valid for every drive, also for one
    /// that fails later.
    pub(crate) by_log: RegionSet,
}

impl Forced {
    /// The regions.
    pub fn regions(&self) -> &RegionSet {
        &self.regions
    }

    /// Whether a region is forced.
    pub fn contains(&self, region: RegionIndex) -> bool {
        !self.regions.is_empty() && self.regions.contains(region)
    }

    /// Removes regions: they are synced, or a write to them was interrupted.
    pub fn forget(&mut self, regions: &RegionSet) {
        if !self.regions.is_empty() {
            self.regions.remove_all(regions);
            self.missing.iter_mut().for_each(|missing| missing.remove_all(regions));
            self.by_log.remove_all(regions);
        }
    }

    /// Whether redundancy may replace a slot's content in a region: it was missing when the region
    /// was forced, or a log covers the region. A drive that fails later held acknowledged data.
    pub fn is_about(&self, slot: DriveIndex, region: RegionIndex) -> bool {
        self.by_log.contains(region)
            || self.missing.get(slot.as_usize()).is_some_and(|missing| missing.contains(region))
    }
}

/// The state of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeState {
    /// Number of regions.
    pub(crate) regions: u32,
    /// Whether it has parity. Copies are never forced: the first readable one counts.
    pub(crate) has_parity: bool,
    /// Slots whose drive is used, except where it is stale.
    pub(crate) in_service: DriveSet,
    pub(crate) slots: Vec<SlotState>,
    pub(crate) unsynced: RegionSet,
    pub(crate) marked: RegionSet,
    pub(crate) unwritten: RegionSet,
    /// `None`: never written regions hold zeros on all drives that are not stale there.
    pub(crate) initialisation: Option<Initialisation>,
    pub(crate) forced: Forced,
    pub(crate) relocated: Option<Relocated>,
    /// Number of applied changes that may change a plan.
    pub(crate) revision: u64,
    pub(crate) summary: Summary,
}

/// Summary of the slots for checks in every request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Summary {
    pub(crate) stale: DriveSet,
    pub(crate) punctured: DriveSet,
    pub(crate) excluded: DriveSet,
    pub(crate) being_replaced: DriveSet,
}

impl VolumeState {
    /// A volume with all drives in service and no faults.
    pub fn optimal(regions: &Regions) -> VolumeState {
        VolumeState::with_drives(regions, DriveSet::first(regions.geometry().drives()))
    }

    /// The same with only these drives in service.
    pub fn with_drives(regions: &Regions, in_service: DriveSet) -> VolumeState {
        let drives = regions.geometry().drives();
        VolumeState {
            regions: regions.count,
            has_parity: regions.geometry().parity_strips() > 0,
            in_service: in_service.intersection(&DriveSet::first(drives)),
            slots: vec![SlotState::default(); drives.as_usize()],
            unsynced: RegionSet::EMPTY,
            marked: RegionSet::EMPTY,
            unwritten: RegionSet::EMPTY,
            initialisation: None,
            forced: Forced::default(),
            relocated: None,
            revision: 0,
            summary: Summary::default(),
        }
    }

    /// Number of slots.
    pub fn drives(&self) -> DriveCount {
        DriveCount(self.slots.len() as u16)
    }

    /// Slots whose drive is used, except where it is stale.
    pub fn in_service(&self) -> DriveSet {
        self.in_service
    }

    /// The state of a slot; `None` if it does not exist.
    pub fn slot(&self, slot: DriveIndex) -> Option<&SlotState> {
        self.slots.get(slot.as_usize())
    }

    /// Regions whose redundancy and data may differ.
    pub fn unsynced(&self) -> &RegionSet {
        &self.unsynced
    }

    /// Regions marked in the durable write-intent map, which a crash resyncs. A shard knows its own
    /// marks, and those of other shards' first writes; cleared marks are not reported to it.
    pub fn marked(&self) -> &RegionSet {
        &self.marked
    }

    /// Never written regions: they read as zeros, and need no resync, rebuild or check.
    pub fn unwritten(&self) -> &RegionSet {
        &self.unwritten
    }

    /// Partly initialised regions. `None`: all stripes count as initialised.
    pub fn initialisation(&self) -> Option<&Initialisation> {
        self.initialisation.as_ref()
    }

    /// Whether every stripe is initialised.
    pub fn is_initialised(&self) -> bool {
        self.initialisation
            .as_ref()
            .is_none_or(|partly| self.unwritten.is_empty() && partly.has_no_partial())
    }

    /// Whether every stripe of a region is initialised.
    pub fn is_region_initialised(&self, region: RegionIndex) -> bool {
        self.initialisation
            .as_ref()
            .is_none_or(|partly| !self.is_unwritten(region) && partly.stripes_in(region).is_none())
    }

    /// Whether a stripe is initialised. Only the region's owner has the current state: another
    /// shard may see an initialised stripe as uninitialised.
    pub fn is_stripe_initialised(&self, regions: &Regions, stripe: StripeIndex) -> bool {
        let Some(partly) = &self.initialisation else { return true };
        let region = regions.region_of(stripe);
        let nth = || stripe.0 - regions.stripes_of(region).start;
        !self.is_unwritten(region)
            && partly.stripes_in(region).is_none_or(|stripes| stripes.contains(nth()))
    }

    /// The initialised stripes of a partly initialised region.
    pub fn initialised_in(&self, region: RegionIndex) -> Option<&StripeSet> {
        self.initialisation.as_ref()?.stripes_in(region)
    }

    /// Regions whose redundancy is accepted.
    pub fn forced(&self) -> &Forced {
        &self.forced
    }

    /// Cells in the distributed spare.
    pub fn relocated(&self) -> Option<&Relocated> {
        self.relocated.as_ref()
    }

    /// The drive whose cells of a region are in the distributed spare.
    pub fn relocated_in(&self, region: RegionIndex) -> Option<DriveIndex> {
        self.relocated
            .as_ref()
            .filter(|moved| moved.regions.contains(region))
            .map(|moved| moved.slot)
    }

    /// Counts the changes that may change a plan. A plan of an earlier revision is made again
    /// before its commit.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether redundancy and data of a region agree.
    pub fn is_synced(&self, region: RegionIndex) -> bool {
        self.unsynced.is_empty() || !self.unsynced.contains(region)
    }

    /// Whether a region was never written.
    pub fn is_unwritten(&self, region: RegionIndex) -> bool {
        !self.unwritten.is_empty() && self.unwritten.contains(region)
    }

    /// Slots whose drive is stale somewhere.
    pub fn stale_somewhere(&self) -> DriveSet {
        self.summary.stale
    }

    /// Slots whose drive is stale in a region.
    pub fn stale_in(&self, region: RegionIndex) -> DriveSet {
        let suspects = self.summary.stale;
        if suspects.is_empty() {
            return suspects;
        }
        suspects.iter().filter(|slot| self.slots[slot.as_usize()].stale.contains(region)).collect()
    }

    /// Slots that have punctured blocks.
    pub fn punctured_somewhere(&self) -> DriveSet {
        self.summary.punctured
    }

    /// The punctured parts of a range of a slot's part of the volume.
    pub fn punctured_within(
        &self,
        slot: DriveIndex,
        range: ByteRange,
    ) -> impl Iterator<Item = ByteRange> + '_ {
        let table =
            self.summary.punctured.contains(slot).then(|| &self.slots[slot.as_usize()].punctured);
        table.into_iter().flat_map(move |table| table.within(range))
    }

    /// Whether blocks of a range of a slot's part of the volume are punctured.
    pub fn is_punctured(&self, slot: DriveIndex, range: ByteRange) -> bool {
        self.summary.punctured.contains(slot)
            && self.slots[slot.as_usize()].punctured.overlaps(range)
    }

    /// Slots that have excluded blocks.
    pub fn excluded_somewhere(&self) -> DriveSet {
        self.summary.excluded
    }

    /// The excluded parts of a range of a slot's part of the volume.
    pub fn excluded_within(
        &self,
        slot: DriveIndex,
        range: ByteRange,
    ) -> impl Iterator<Item = ByteRange> + '_ {
        let table =
            self.summary.excluded.contains(slot).then(|| &self.slots[slot.as_usize()].excluded);
        table.into_iter().flat_map(move |table| table.within(range))
    }

    /// Whether blocks of a range of a slot's part of the volume are excluded.
    pub fn is_excluded(&self, slot: DriveIndex, range: ByteRange) -> bool {
        self.summary.excluded.contains(slot) && self.slots[slot.as_usize()].excluded.overlaps(range)
    }

    /// Slots for which a replacement is being filled.
    pub fn being_replaced(&self) -> DriveSet {
        self.summary.being_replaced
    }

    /// Slots that the volume must do without somewhere: out of service, or stale in a written
    /// region. A drive that is completely in the distributed spare is not missing. `failing`:
    /// drives out of service that are not recorded yet.
    pub fn missed(&self, failing: &DriveSet) -> DriveSet {
        let out = DriveSet::first(self.drives()).minus(&self.in_service.minus(failing));
        let misses = |slot: &DriveIndex| {
            let stale = &self.slots[slot.as_usize()].stale;
            !stale.clone().minus(&self.unwritten).is_empty()
        };
        let missed = out.union(&self.summary.stale.iter().filter(misses).collect());
        match &self.relocated {
            Some(moved) if moved.regions.len() == self.regions => missed.without(moved.slot),
            _ => missed,
        }
    }

    /// Whether a region has no faults, so that requests to its initialised stripes need no further
    /// checks. `place`: the region's part of each drive's volume data.
    pub fn is_well_in(&self, region: RegionIndex, place: impl FnOnce() -> ByteRange) -> bool {
        let Summary { punctured, excluded, being_replaced, .. } = self.summary;
        self.in_service == DriveSet::first(self.drives())
            && self.is_synced(region)
            && self.stale_in(region).is_empty()
            && being_replaced.is_empty()
            && self.relocated_in(region).is_none()
            && (punctured.is_empty() && excluded.is_empty() || {
                let place = place();
                let is_listed =
                    |slot| self.is_punctured(slot, place) || self.is_excluded(slot, place);
                !punctured.union(&excluded).iter().any(is_listed)
            })
    }

    /// Whether the volume has no faults at all, so that requests need no further checks.
    pub fn is_optimal(&self) -> bool {
        let Summary { stale, punctured, excluded, being_replaced } = self.summary;
        self.in_service == DriveSet::first(self.drives())
            && self.is_initialised()
            && self.unsynced.is_empty()
            && stale.is_empty()
            && punctured.is_empty()
            && excluded.is_empty()
            && being_replaced.is_empty()
            && self.relocated.is_none()
    }

    /// Checks the invariants at the top.
    ///
    /// # Errors
    /// The first violated invariant: a programming error, not a drive fault.
    pub fn check(&self) -> Result<(), String> {
        let sets = [&self.unsynced, &self.marked, &self.unwritten, &self.forced.regions];
        let of_slots = self
            .slots
            .iter()
            .flat_map(|slot| std::iter::once(&slot.stale).chain(&slot.replacement));
        let moved = self.relocated.iter().map(|moved| &moved.regions);
        let ends =
            sets.into_iter().chain(of_slots).chain(moved).chain(&self.forced.missing).map(end);
        let ends = ends.chain(self.initialisation.as_ref().map(Initialisation::end));
        let mut partial = self.initialisation.iter().flat_map(Initialisation::partial);
        let checks = [
            (ends.max().unwrap_or(0) <= self.regions, "a set contains a region past the last one"),
            (
                !partial.any(|(region, _)| self.unwritten.contains(region)),
                "a partly initialised region is never written",
            ),
            (is_disjoint(&self.unwritten, &self.marked), "a marked region is never written"),
            (is_disjoint(&self.unwritten, &self.unsynced), "an unsynced region is never written"),
            (is_within(&self.forced.regions, &self.unsynced), "a forced region is synced"),
            (
                self.forced.missing.iter().all(|missing| is_within(missing, &self.forced.regions)),
                "a drive was missing in a region that is not forced",
            ),
            (
                is_within(&self.forced.by_log, &self.forced.regions),
                "a log covers a region that is not forced",
            ),
            (
                self.relocated.as_ref().is_none_or(|moved| !moved.regions.is_empty()),
                "the distributed spare is listed without regions",
            ),
            (self.summary == self.sum_up(), "the summary differs from the slots"),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            Some((_, sentence)) => Err(format!("{sentence}: {self:?}")),
            None => Ok(()),
        }
    }

    pub(crate) fn sum_up(&self) -> Summary {
        let slots = |test: &dyn Fn(&SlotState) -> bool| -> DriveSet {
            let slots = self.slots.iter().enumerate().filter(|(_, slot)| test(slot));
            slots.map(|(index, _)| DriveIndex(index as u16)).collect()
        };
        Summary {
            stale: slots(&|slot| !slot.stale.is_empty()),
            punctured: slots(&|slot| !slot.punctured.is_empty()),
            excluded: slots(&|slot| !slot.excluded.is_empty()),
            being_replaced: slots(&|slot| slot.replacement.is_some()),
        }
    }
}

fn end(set: &RegionSet) -> u32 {
    set.runs().last().map_or(0, |run| run[1])
}

fn is_disjoint(one: &RegionSet, other: &RegionSet) -> bool {
    one.intersection(other).is_empty()
}

fn is_within(part: &RegionSet, whole: &RegionSet) -> bool {
    part.clone().minus(whole).is_empty()
}
