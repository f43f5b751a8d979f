//! The state of a volume, and the questions that it answers.
//!
//! # Invariants ([`VolumeState::check`])
//! - No set names a region past the last one.
//! - A region that was never written is neither marked nor unsynced.
//! - A region that is initialised in part is not called never written.
//! - What is forced is unsynced; what was missing when it was forced, and what a log told, lie within it.
//! - What lies in the distributed spare is of one slot, and is not nothing.
//! - The summaries agree with the slots.

use crate::initialisation::{Initialisation, StripeSet};
use crate::punctured::BlockList;
use crate::region_set::{RegionIndex, RegionSet};
use crate::regions::Regions;
use units::{ByteRange, DriveCount, DriveIndex, DriveSet, StripeIndex};

/// Where a failed drive's cells live in the distributed spare (RAID 5EE).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relocated {
    /// The drive that failed.
    pub slot: DriveIndex,
    /// Regions in which its cells have been moved into the spare cells.
    pub regions: RegionSet,
}

/// What is known of one slot's drive.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SlotState {
    /// Regions in which what it holds is not current. Of a drive that is out of service this says what it has missed
    /// as far as that is recorded; what is marked may be missed as well.
    pub(crate) stale: RegionSet,
    /// Regions that its replacement still has to be given, if one is being filled.
    pub(crate) replacement: Option<RegionSet>,
    /// Blocks whose content is lost. They stay so whoever has the slot: no drive brings back what was given up.
    pub(crate) punctured: BlockList,
    /// Blocks that its drive did not keep: what it holds there is not read.
    pub(crate) excluded: BlockList,
}

impl SlotState {
    /// Regions in which its drive is not current.
    pub fn stale(&self) -> &RegionSet {
        &self.stale
    }

    /// Regions that the drive still has to be given which is being filled to take the slot; `None` if none is.
    pub fn replacement(&self) -> Option<&RegionSet> {
        self.replacement.as_ref()
    }

    /// Blocks of it whose content is lost.
    pub fn punctured(&self) -> &BlockList {
        &self.punctured
    }

    /// Blocks that its drive did not keep.
    pub fn excluded(&self) -> &BlockList {
        &self.excluded
    }
}

/// Regions whose redundancy is taken as it is, though a crash may have interrupted it: drives are missing that could
/// tell, and an operator said so, or a log was replayed that tells what was interrupted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Forced {
    /// The regions.
    pub(crate) regions: RegionSet,
    /// By slot, regions among them in which its content was missing when they were forced.
    pub(crate) missing: Vec<RegionSet>,
    /// Regions among them of which a replayed log told what was interrupted: there redundancy speaks for every drive, also
    /// for one that goes out later.
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

    /// These regions are not forced any more: they are synced, or a write to them was left unfinished.
    pub fn forget(&mut self, regions: &RegionSet) {
        if !self.regions.is_empty() {
            self.regions.remove_all(regions);
            self.missing.iter_mut().for_each(|missing| missing.remove_all(regions));
            self.by_log.remove_all(regions);
        }
    }

    /// Whether what a slot held in a region may be told from redundancy: it was missing when the region was forced, or
    /// a log tells what was interrupted. A drive that fails later held what hosts were promised.
    pub fn is_about(&self, slot: DriveIndex, region: RegionIndex) -> bool {
        self.by_log.contains(region)
            || self.missing.get(slot.as_usize()).is_some_and(|missing| missing.contains(region))
    }
}

/// What is known of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeState {
    /// How many regions it has.
    pub(crate) regions: u32,
    /// Whether it has parity. Copies are never forced: one of them speaks for all.
    pub(crate) has_parity: bool,
    /// Slots whose drive is read and written, but where it is stale.
    pub(crate) in_service: DriveSet,
    pub(crate) slots: Vec<SlotState>,
    pub(crate) unsynced: RegionSet,
    pub(crate) marked: RegionSet,
    pub(crate) unwritten: RegionSet,
    /// `None`: what was never written holds zeros on the drives, but for drives that are stale there.
    pub(crate) initialisation: Option<Initialisation>,
    pub(crate) forced: Forced,
    pub(crate) relocated: Option<Relocated>,
    /// Counts what was applied and may change a plan.
    pub(crate) revision: u64,
    pub(crate) summary: Summary,
}

/// What is asked with every request: kept beside what it sums up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Summary {
    pub(crate) stale: DriveSet,
    pub(crate) punctured: DriveSet,
    pub(crate) excluded: DriveSet,
    pub(crate) being_replaced: DriveSet,
}

impl VolumeState {
    /// A volume whose drives are all in service, with nothing wrong.
    pub fn optimal(regions: &Regions) -> VolumeState {
        VolumeState::with_drives(regions, DriveSet::first(regions.geometry().drives()))
    }

    /// The same with these drives in service, and no others.
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

    /// How many slots it has.
    pub fn drives(&self) -> DriveCount {
        DriveCount(self.slots.len() as u16)
    }

    /// Slots whose drive is read and written, but where it is stale.
    pub fn in_service(&self) -> DriveSet {
        self.in_service
    }

    /// What is known of a slot; `None` if there is no such slot.
    pub fn slot(&self, slot: DriveIndex) -> Option<&SlotState> {
        self.slots.get(slot.as_usize())
    }

    /// Regions whose redundancy may not agree with their data.
    pub fn unsynced(&self) -> &RegionSet {
        &self.unsynced
    }

    /// Regions that are marked in the durable write-intent map: a crash is followed by their resync. A shard knows of
    /// its own, and of other shards' where that was the first write to the region; it is not told when marks are cleared.
    pub fn marked(&self) -> &RegionSet {
        &self.marked
    }

    /// Regions that were never written since the volume was made: they read as zeroes from any drive that is not stale
    /// there, and need no resync, no rebuild, no check.
    pub fn unwritten(&self) -> &RegionSet {
        &self.unwritten
    }

    /// Of a volume that is initialised stripe by stripe: what is initialised in part. `None`: all stripes of the volume
    /// count as initialised.
    pub fn initialisation(&self) -> Option<&Initialisation> {
        self.initialisation.as_ref()
    }

    /// Whether every stripe is initialised.
    pub fn is_initialised(&self) -> bool {
        self.initialisation.as_ref().is_none_or(|partly| self.unwritten.is_empty() && partly.has_no_partial())
    }

    /// Whether every stripe of a region is initialised.
    pub fn is_region_initialised(&self, region: RegionIndex) -> bool {
        self.initialisation
            .as_ref()
            .is_none_or(|partly| !self.is_unwritten(region) && partly.stripes_in(region).is_none())
    }

    /// Whether a stripe is initialised. Only the owner of its region knows of all that are: what another shard takes for
    /// uninitialised may be initialised.
    pub fn is_stripe_initialised(&self, regions: &Regions, stripe: StripeIndex) -> bool {
        let Some(partly) = &self.initialisation else { return true };
        let region = regions.region_of(stripe);
        let nth = || stripe.0 - regions.stripes_of(region).start;
        !self.is_unwritten(region) && partly.stripes_in(region).is_none_or(|stripes| stripes.contains(nth()))
    }

    /// The initialised stripes of a region that is initialised in part.
    pub fn initialised_in(&self, region: RegionIndex) -> Option<&StripeSet> {
        self.initialisation.as_ref()?.stripes_in(region)
    }

    /// Regions whose redundancy is taken as it is.
    pub fn forced(&self) -> &Forced {
        &self.forced
    }

    /// What lies in the distributed spare.
    pub fn relocated(&self) -> Option<&Relocated> {
        self.relocated.as_ref()
    }

    /// The drive whose cells in a region lie in the distributed spare.
    pub fn relocated_in(&self, region: RegionIndex) -> Option<DriveIndex> {
        self.relocated.as_ref().filter(|moved| moved.regions.contains(region)).map(|moved| moved.slot)
    }

    /// Counts the changes that may make another plan of a request. A plan that was made under an earlier number is made
    /// again before its commit.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether the redundancy of a region agrees with its data.
    pub fn is_synced(&self, region: RegionIndex) -> bool {
        self.unsynced.is_empty() || !self.unsynced.contains(region)
    }

    /// Whether nothing was ever written to a region.
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
        let table = self.summary.punctured.contains(slot).then(|| &self.slots[slot.as_usize()].punctured);
        table.into_iter().flat_map(move |table| table.within(range))
    }

    /// Whether blocks of a range of a slot's part of the volume are punctured.
    pub fn is_punctured(&self, slot: DriveIndex, range: ByteRange) -> bool {
        self.summary.punctured.contains(slot) && self.slots[slot.as_usize()].punctured.overlaps(range)
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
        let table = self.summary.excluded.contains(slot).then(|| &self.slots[slot.as_usize()].excluded);
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

    /// Slots without which the volume has to do somewhere: those out of service, and those that are stale where
    /// somebody wrote. A drive of which everything lies in the distributed spare is not missed. `failing`: drives that
    /// are out of service though nobody has recorded it yet.
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

    /// Whether nothing is wrong in a region, so that no request to an initialised stripe of it has to look further. `place`: what of a
    /// slot's part of the volume the region is.
    pub fn is_well_in(&self, region: RegionIndex, place: impl FnOnce() -> ByteRange) -> bool {
        let Summary { punctured, excluded, being_replaced, .. } = self.summary;
        self.in_service == DriveSet::first(self.drives())
            && self.is_synced(region)
            && self.stale_in(region).is_empty()
            && being_replaced.is_empty()
            && self.relocated_in(region).is_none()
            && (punctured.is_empty() && excluded.is_empty() || {
                let place = place();
                let is_listed = |slot| self.is_punctured(slot, place) || self.is_excluded(slot, place);
                !punctured.union(&excluded).iter().any(is_listed)
            })
    }

    /// Whether nothing at all is wrong, so that no request has to look further.
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

    /// Checks the invariants at the top. An error is a sentence about the first that does not hold: somebody's mistake,
    /// and never a drive's.
    ///
    /// # Errors
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let sets = [&self.unsynced, &self.marked, &self.unwritten, &self.forced.regions];
        let of_slots =
            self.slots.iter().flat_map(|slot| std::iter::once(&slot.stale).chain(&slot.replacement));
        let moved = self.relocated.iter().map(|moved| &moved.regions);
        let ends = sets.into_iter().chain(of_slots).chain(moved).chain(&self.forced.missing).map(end);
        let ends = ends.chain(self.initialisation.as_ref().map(Initialisation::end));
        let mut partial = self.initialisation.iter().flat_map(Initialisation::partial);
        let checks = [
            (ends.max().unwrap_or(0) <= self.regions, "a set names a region past the last one"),
            (
                !partial.any(|(region, _)| self.unwritten.contains(region)),
                "a region that is initialised in part is called never written",
            ),
            (is_disjoint(&self.unwritten, &self.marked), "a marked region is called never written"),
            (is_disjoint(&self.unwritten, &self.unsynced), "an unsynced region is called never written"),
            (is_within(&self.forced.regions, &self.unsynced), "a forced region is synced"),
            (
                self.forced.missing.iter().all(|missing| is_within(missing, &self.forced.regions)),
                "a drive was missing in a region that is not forced",
            ),
            (
                is_within(&self.forced.by_log, &self.forced.regions),
                "a log tells of a region that is not forced",
            ),
            (
                self.relocated.as_ref().is_none_or(|moved| !moved.regions.is_empty()),
                "nothing lies in the distributed spare, and is listed",
            ),
            (self.summary == self.sum_up(), "the summary does not agree with the slots"),
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
