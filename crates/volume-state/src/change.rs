//! All changes of a volume's state, and their effects.

use crate::initialisation::{Initialisation, StripeSet};
use crate::punctured::BlockList;
use crate::region_set::{RegionIndex, RegionSet};
use crate::volume::{Forced, Relocated, SlotState, VolumeState};
use std::sync::atomic::{AtomicBool, Ordering};
use units::{ByteRange, DriveIndex, DriveSet};

/// A change of a volume's state. The controller first makes it durable, if a start must know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Exactly these slots are in service.
    InService(DriveSet),
    /// A slot has another drive, or none.
    ///
    /// Writes planned without it may be in flight. So `stale` contains every region that is or may
    /// be marked until all shards know of the change; for a new drive with unknown content, all
    /// regions.
    Drive {
        /// The slot.
        slot: DriveIndex,
        /// Regions in which the drive is stale.
        stale: RegionSet,
        /// The slots in service.
        in_service: DriveSet,
    },
    /// The fill of a replacement begins: it gets every write of the slot's drive.
    ReplacementBegan {
        /// The slot.
        slot: DriveIndex,
        /// Regions still to be copied.
        left: RegionSet,
    },
    /// These regions have been copied to the replacement.
    Copied {
        /// The slot.
        slot: DriveIndex,
        /// The regions.
        regions: RegionSet,
    },
    /// The fill of a replacement ends without success.
    ReplacementEnded {
        /// The slot.
        slot: DriveIndex,
    },
    /// The replacement takes the slot.
    Promoted {
        /// The slot.
        slot: DriveIndex,
        /// Regions in which it is stale: those not copied, and, if the slot's drive is out of
        /// service, all marked ones.
        stale: RegionSet,
    },
    /// These regions of a slot's drive were rebuilt.
    Current {
        /// The slot.
        slot: DriveIndex,
        /// The regions.
        regions: RegionSet,
    },
    /// These regions are marked in the durable write-intent map before writes to them.
    Marked(RegionSet),
    /// These marks are cleared.
    Unmarked(RegionSet),
    /// These regions were written without a mark: levels without redundancy have none.
    Written(RegionSet),
    /// Stripes of a partly initialised region are initialised: written as a whole, flushed,
    /// recorded.
    StripesInitialised {
        /// The region.
        region: RegionIndex,
        /// Its stripes.
        stripes: StripeSet,
    },
    /// Every stripe of these regions is initialised.
    Initialised(RegionSet),
    /// No stripe of these regions is initialised: they come into use with unknown content.
    Uninitialised(RegionSet),
    /// Redundancy and data of these regions agree.
    Synced(RegionSet),
    /// Redundancy and data of these regions may differ.
    Unsynced(RegionSet),
    /// An operator accepts the redundancy of these regions for the drives missing now, as far as
    /// the regions are unsynced.
    Forced(RegionSet),
    /// The same after the replay of a log that knows all interrupted writes: valid for every drive,
    /// also for one that fails later.
    ForcedByLog(RegionSet),
    /// A slot's cells in these regions were moved into the distributed spare, or back.
    Moved {
        /// The slot.
        slot: DriveIndex,
        /// The regions.
        regions: RegionSet,
        /// True: into the spare; false: back.
        to_spare: bool,
    },
    /// The content of these blocks is lost.
    Punctured {
        /// The slot.
        slot: DriveIndex,
        /// Whole sectors of its drive's part of the volume.
        ranges: Vec<ByteRange>,
    },
    /// These punctured blocks were rewritten.
    Rewritten {
        /// The slot.
        slot: DriveIndex,
        /// Whole sectors of its drive's part of the volume.
        ranges: Vec<ByteRange>,
    },
    /// A slot's drive lost or refused these blocks: they are excluded from reads.
    Excluded {
        /// The slot.
        slot: DriveIndex,
        /// Whole sectors of its drive's part of the volume.
        ranges: Vec<ByteRange>,
    },
    /// A slot's drive has these blocks again, and was flushed since.
    Included {
        /// The slot.
        slot: DriveIndex,
        /// Whole sectors of its drive's part of the volume.
        ranges: Vec<ByteRange>,
    },
}

impl Change {
    /// Whether it may change a plan: a slot has another drive, or a stripe another health.
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
    /// Checks the invariants after every change, also in release builds. Only for simulations: a
    /// check visits all regions while hosts wait.
    pub fn check_each_change() {
        CHECKS_EACH_CHANGE.store(true, Ordering::Relaxed);
    }

    /// Applies a change. Unknown slots and regions are ignored. A repeated change has no effect,
    /// except that the revision may rise.
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
                // A drive that refused any of its data is not promoted.
                let slot = self.slots.get_mut(slot.as_usize());
                slot.into_iter().for_each(|slot| slot.excluded = BlockList::NONE);
            }
            Change::ReplacementBegan { slot, left } => {
                self.set_replacement(*slot, Some(self.own(left)));
            }
            Change::ReplacementEnded { slot } => self.set_replacement(*slot, None),
            Change::Copied { slot, regions } => {
                let left =
                    self.slots.get_mut(slot.as_usize()).and_then(|slot| slot.replacement.as_mut());
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
        let Some(SlotState { punctured, excluded, .. }) = self.slots.get_mut(slot.as_usize())
        else {
            return;
        };
        for range in ranges {
            match change {
                Change::Punctured { .. } => punctured.insert(*range),
                Change::Rewritten { .. } => punctured.remove(*range),
                Change::Excluded { .. } => excluded.insert(*range),
                _ => excluded.remove(*range),
            }
        }
    }

    /// The state with these regions never written; used to build the state from a label.
    #[must_use]
    pub fn with_unwritten(mut self, regions: &RegionSet) -> VolumeState {
        self.unwritten = self.own(regions).minus(&self.marked).minus(&self.unsynced);
        self
    }

    /// The state of a volume with per-stripe initialisation: no stripe of `none`, these stripes of
    /// `some`, all of the others. Marked or unsynced regions of `none` were about to be written.
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

    /// The state with these regions accepted (forced), except for synced ones.
    #[must_use]
    pub fn with_forced(mut self, mut forced: Forced) -> VolumeState {
        let synced = forced.regions().clone().minus(&self.unsynced);
        forced.forget(&synced);
        self.forced = forced;
        self
    }

    /// The state with this drive stale in these regions.
    #[must_use]
    pub fn with_stale(mut self, slot: DriveIndex, regions: &RegionSet) -> VolumeState {
        self.swap(slot, regions);
        self.summary = self.sum_up();
        self
    }

    /// The regions of a set that exist in the volume.
    fn own(&self, regions: &RegionSet) -> RegionSet {
        regions.intersection(&RegionSet::first(self.regions))
    }

    /// Marks these stripes of a region as initialised.
    fn initialise(&mut self, region: RegionIndex, stripes: &StripeSet) {
        let partly = self.initialisation.as_mut();
        partly.into_iter().for_each(|partly| partly.insert(region, stripes));
    }

    /// Marks these regions as completely initialised.
    fn complete(&mut self, regions: &RegionSet) {
        if let Some(partly) = &mut self.initialisation {
            partly.complete(regions);
            self.unwritten.remove_all(regions);
        }
    }

    /// Marks these regions as uninitialised.
    fn uninitialise(&mut self, regions: &RegionSet) {
        let regions = self.own(regions);
        let partly = self.initialisation.get_or_insert_default();
        partly.complete(&regions);
        partly.begin(&regions.intersection(&self.marked.clone().union(&self.unsynced)));
        self.unwritten.insert_all(&regions.minus(&self.marked).minus(&self.unsynced));
    }

    /// Writes to these regions begin, or were interrupted.
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

    /// Forces the unsynced ones of these regions and returns them; earlier acceptance is dropped.
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
