//! Everything that can happen to a volume's state, and what it makes of it.

use crate::initialisation::{Initialisation, StripeSet};
use crate::punctured::BlockList;
use crate::region_set::{RegionIndex, RegionSet};
use crate::volume::{Forced, Relocated, SlotState, VolumeState};
use std::sync::atomic::{AtomicBool, Ordering};
use units::{ByteRange, DriveIndex, DriveSet};

/// One change of a volume's state. The controller makes it durable before it sends it, where a start has to know of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// These slots are in service from now on, and no others.
    InService(DriveSet),
    /// Another drive, or none, has a slot.
    ///
    /// Writes may be under way that were planned without it. So `stale` holds at least every region that is marked or
    /// may be marked until every shard knows, and of a drive that is new every region there is: it may hold anything.
    Drive {
        /// Which slot.
        slot: DriveIndex,
        /// Regions in which the drive is not current.
        stale: RegionSet,
        /// Slots in service from now on.
        in_service: DriveSet,
    },
    /// A drive is filled to take a slot: from now on it gets every write that the slot's drive gets.
    ReplacementBegan {
        /// Which slot.
        slot: DriveIndex,
        /// Regions that it has to be given.
        left: RegionSet,
    },
    /// The drive that is being filled has been given these regions.
    Copied {
        /// For which slot.
        slot: DriveIndex,
        /// The regions.
        regions: RegionSet,
    },
    /// The drive that was being filled for a slot is left alone.
    ReplacementEnded {
        /// Which slot.
        slot: DriveIndex,
    },
    /// The drive that was being filled takes the slot.
    Promoted {
        /// Which slot.
        slot: DriveIndex,
        /// Regions in which it is not current. While the slot's drive is in use these are the regions that were not
        /// copied; once it is not, every region that is marked as well.
        stale: RegionSet,
    },
    /// A slot's drive was made current in these regions.
    Current {
        /// Which slot.
        slot: DriveIndex,
        /// The regions.
        regions: RegionSet,
    },
    /// These regions are marked in the durable write-intent map: they are about to be written.
    Marked(RegionSet),
    /// These marks are cleared.
    Unmarked(RegionSet),
    /// These regions have been written, though nobody marked them: levels without redundancy have no marks.
    Written(RegionSet),
    /// Stripes of a region that is initialised in part are initialised: written as a whole, flushed, and recorded.
    StripesInitialised {
        /// Which region.
        region: RegionIndex,
        /// Which of its stripes.
        stripes: StripeSet,
    },
    /// Every stripe of these regions is initialised.
    Initialised(RegionSet),
    /// No stripe of these regions is initialised: they come into use, and drives hold anything there.
    Uninitialised(RegionSet),
    /// The redundancy of these regions agrees with their data.
    Synced(RegionSet),
    /// The redundancy of these regions may not agree with their data.
    Unsynced(RegionSet),
    /// What the redundancy of these regions says of the drives that are missing now is taken as it is, as far as they
    /// are unsynced.
    Forced(RegionSet),
    /// The same, because a log was replayed that tells what was interrupted: it counts for every drive, whichever goes
    /// out.
    ForcedByLog(RegionSet),
    /// What a slot's drive has in these regions was moved into the distributed spare, or back.
    Moved {
        /// Which slot.
        slot: DriveIndex,
        /// The regions.
        regions: RegionSet,
        /// Whether it lies in the spare now; otherwise it is at home.
        to_spare: bool,
    },
    /// The content of these blocks is lost.
    Punctured {
        /// Which slot's.
        slot: DriveIndex,
        /// Which bytes of its part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
    },
    /// These blocks were written again.
    Rewritten {
        /// Which slot's.
        slot: DriveIndex,
        /// Which bytes of its part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
    },
    /// A slot's drive did not keep these blocks: what it holds there is not read any more.
    Excluded {
        /// Which slot's.
        slot: DriveIndex,
        /// Which bytes of its part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
    },
    /// A slot's drive has these blocks again, and was flushed since.
    Included {
        /// Which slot's.
        slot: DriveIndex,
        /// Which bytes of its part of the volume, whole sectors.
        ranges: Vec<ByteRange>,
    },
}

impl Change {
    /// Whether a request may have another plan after it: another drive has a seat, or a stripe has another health.
    fn may_change_plans(&self) -> bool {
        !matches!(
            self,
            Change::Copied { .. }
                | Change::Marked(_)
                | Change::Unmarked(_)
                | Change::Written(_)
                | Change::StripesInitialised { .. }
                | Change::Initialised(_)
                | Change::Punctured { .. }
                | Change::Rewritten { .. }
        )
    }
}

static CHECKS_EACH_CHANGE: AtomicBool = AtomicBool::new(false);

impl VolumeState {
    /// Checks the invariants after every change from now on, also in a release build. There hosts wait for changes, and a check goes over
    /// all regions; so only simulations ask for it.
    pub fn check_each_change() {
        CHECKS_EACH_CHANGE.store(true, Ordering::Relaxed);
    }

    /// Applies a change. It is total: slots and regions that the volume has not are passed over. Applied twice, a change
    /// comes to the same, but that a plan made before may be made again.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::InService(drives) => self.serve_with(*drives),
            Change::Drive { slot, stale, in_service } => {
                self.swap(*slot, stale);
                self.serve_with(*in_service);
            }
            Change::Promoted { slot, stale } => {
                self.swap(*slot, stale);
                self.set_replacement(*slot, None);
                // What was given to the new drive it has: one that refused any of it was not promoted.
                let slot = self.slots.get_mut(slot.as_usize());
                slot.into_iter().for_each(|slot| slot.excluded = BlockList::NONE);
            }
            Change::ReplacementBegan { slot, left } => {
                let left = self.own(left);
                self.set_replacement(*slot, Some(left));
            }
            Change::ReplacementEnded { slot } => self.set_replacement(*slot, None),
            Change::Copied { slot, regions } => {
                let left = self.slots.get_mut(slot.as_usize()).and_then(|slot| slot.replacement.as_mut());
                left.into_iter().for_each(|left| left.remove_all(regions));
            }
            Change::Current { slot, regions } => {
                let slot = self.slots.get_mut(slot.as_usize());
                slot.into_iter().for_each(|slot| slot.stale.remove_all(regions));
            }
            Change::Marked(regions) => {
                let regions = self.own(regions);
                self.marked.insert_all(&regions);
                self.begin_writes(&regions);
            }
            Change::Unmarked(regions) => self.marked.remove_all(regions),
            Change::Written(regions) => self.unwritten.remove_all(regions),
            Change::StripesInitialised { region, stripes } => self.initialise(*region, stripes),
            Change::Initialised(regions) => self.complete(regions),
            Change::Uninitialised(regions) => self.uninitialise(regions),
            Change::Synced(regions) => {
                self.unsynced.remove_all(regions);
                self.forced.forget(regions);
            }
            Change::Unsynced(regions) => {
                let regions = self.own(regions);
                self.unsynced.insert_all(&regions);
                self.begin_writes(&regions);
                self.forced.forget(&regions);
            }
            Change::Forced(regions) => drop(self.force(regions)),
            Change::ForcedByLog(regions) => {
                let forced = self.force(regions);
                self.forced.by_log.insert_all(&forced);
            }
            Change::Moved { slot, regions, to_spare } => self.move_cells(*slot, regions, *to_spare),
            Change::Punctured { slot, ranges }
            | Change::Rewritten { slot, ranges }
            | Change::Excluded { slot, ranges }
            | Change::Included { slot, ranges } => self.change_blocks(change, *slot, ranges),
        }
        self.summary = self.sum_up();
        self.revision += u64::from(change.may_change_plans());
        self.check_after(change);
    }

    fn check_after(&self, change: &Change) {
        if cfg!(debug_assertions) || CHECKS_EACH_CHANGE.load(Ordering::Relaxed) {
            assert_eq!(self.check(), Ok(()), "{change:?}");
        }
    }

    fn change_blocks(&mut self, change: &Change, slot: DriveIndex, ranges: &[ByteRange]) {
        let Some(SlotState { punctured, excluded, .. }) = self.slots.get_mut(slot.as_usize()) else { return };
        for range in ranges {
            match change {
                Change::Punctured { .. } => punctured.insert(*range),
                Change::Rewritten { .. } => punctured.remove(*range),
                Change::Excluded { .. } => excluded.insert(*range),
                _ => excluded.remove(*range),
            }
        }
    }

    /// The state before anything is known to be wrong, with these regions never written. For a state that is put
    /// together from what a label says.
    #[must_use]
    pub fn with_unwritten(mut self, regions: &RegionSet) -> VolumeState {
        self.unwritten = self.own(regions).minus(&self.marked).minus(&self.unsynced);
        self
    }

    /// The same of a volume that is initialised stripe by stripe: in the regions `none` no stripe is initialised, in those of `some` these
    /// are, and in all others every one. Regions of `none` that are marked, or unsynced, were about to be written.
    #[must_use]
    pub fn with_initialisation(
        mut self,
        none: &RegionSet,
        some: impl IntoIterator<Item = (RegionIndex, StripeSet)>,
    ) -> VolumeState {
        let mut partly = Initialisation::default();
        for (region, stripes) in some.into_iter().filter(|(region, _)| region.0 < self.regions) {
            partly.begin(&region.into());
            partly.insert(region, &stripes);
        }
        let known: RegionSet = partly.partial().map(|(region, _)| region).collect();
        let none = self.own(none).minus(&known);
        partly.begin(&none.intersection(&self.marked.clone().union(&self.unsynced)));
        self.initialisation = Some(partly);
        self.with_unwritten(&none)
    }

    /// The same with these regions forced. What of them is synced is not.
    #[must_use]
    pub fn with_forced(mut self, mut forced: Forced) -> VolumeState {
        let synced = forced.regions().clone().minus(&self.unsynced);
        forced.forget(&synced);
        self.forced = forced;
        self
    }

    /// The same with this drive's content not current in these regions.
    #[must_use]
    pub fn with_stale(mut self, slot: DriveIndex, regions: &RegionSet) -> VolumeState {
        self.swap(slot, regions);
        self.summary = self.sum_up();
        self
    }

    /// The regions of a set that the volume has.
    fn own(&self, regions: &RegionSet) -> RegionSet {
        regions.intersection(&RegionSet::first(self.regions))
    }

    /// These stripes of a region are initialised.
    fn initialise(&mut self, region: RegionIndex, stripes: &StripeSet) {
        let partly = self.initialisation.as_mut();
        partly.into_iter().for_each(|partly| partly.insert(region, stripes));
    }

    /// Every stripe of these regions is initialised.
    fn complete(&mut self, regions: &RegionSet) {
        if let Some(partly) = &mut self.initialisation {
            partly.complete(regions);
            self.unwritten.remove_all(regions);
        }
    }

    /// No stripe of these regions is initialised.
    fn uninitialise(&mut self, regions: &RegionSet) {
        let regions = self.own(regions);
        let partly = self.initialisation.get_or_insert_default();
        partly.complete(&regions);
        partly.begin(&regions.intersection(&self.marked.clone().union(&self.unsynced)));
        self.unwritten.insert_all(&regions.minus(&self.marked).minus(&self.unsynced));
    }

    /// Writes to these regions are about to begin, or were left unfinished.
    fn begin_writes(&mut self, regions: &RegionSet) {
        if let Some(partly) = &mut self.initialisation {
            partly.begin(&regions.intersection(&self.unwritten));
        }
        self.unwritten.remove_all(regions);
    }

    fn serve_with(&mut self, drives: DriveSet) {
        self.in_service = drives.intersection(&DriveSet::first(self.drives()));
    }

    fn swap(&mut self, slot: DriveIndex, stale: &RegionSet) {
        let stale = self.own(stale);
        if let Some(slot) = self.slots.get_mut(slot.as_usize()) {
            slot.stale = stale;
        }
    }

    fn set_replacement(&mut self, slot: DriveIndex, left: Option<RegionSet>) {
        if let Some(slot) = self.slots.get_mut(slot.as_usize()) {
            slot.replacement = left;
        }
    }

    /// Forces what of these regions is unsynced, and says which they are. Who forced them before is forgotten.
    fn force(&mut self, regions: &RegionSet) -> RegionSet {
        if !self.has_parity {
            return RegionSet::EMPTY;
        }
        let regions = regions.intersection(&self.unsynced);
        self.forced.forget(&regions);
        self.forced.missing.resize(self.slots.len(), RegionSet::EMPTY);
        for (index, slot) in self.slots.iter().enumerate() {
            let missing = match self.in_service.contains(DriveIndex(index as u16)) {
                true => slot.stale.intersection(&regions),
                false => regions.clone(),
            };
            self.forced.missing[index].insert_all(&missing);
        }
        self.forced.regions.insert_all(&regions);
        regions
    }

    fn move_cells(&mut self, slot: DriveIndex, regions: &RegionSet, to_spare: bool) {
        let before = match self.relocated.take() {
            Some(moved) if moved.slot != slot => {
                self.relocated = Some(moved); // The spare holds one drive's cells at a time.
                return;
            }
            Some(moved) => moved.regions,
            None => RegionSet::EMPTY,
        };
        let now = if to_spare { before.union(&self.own(regions)) } else { before.minus(regions) };
        self.relocated = (!now.is_empty()).then_some(Relocated { slot, regions: now });
    }
}
