//! What other rooms may read and change of an array's marks, and of what keeps it from being served.

use super::array::{Array, runs, set_of};
use super::volume::Volume;
use engine::RegionSet;
use ondisk::{IntentMap, Uuid};
use platform::sync::Taken;
use std::collections::BTreeMap;
use std::ops::Range;
use volume_state::Forced;

impl Array {
    /// The turn to change labels and map.
    pub(crate) async fn metadata_turn(&self) -> Taken {
        self.metadata.take(1).await
    }

    /// The turn to give volumes of an array that is started to the shards, and to take them away. It is taken before
    /// [`metadata_turn`](Array::metadata_turn).
    pub(crate) async fn starting_turn(&self) -> Taken {
        self.starting.take(1).await
    }

    /// Whether drives failed that no volume can spare, so that all are offline.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.borrow().is_empty()
    }

    /// Drives that failed when no volume could spare them: why, by slot.
    pub(crate) fn lost(&self) -> BTreeMap<usize, String> {
        self.lost.borrow().clone()
    }

    /// The array is to be started anew, or to go: what was lost is looked at again.
    pub(crate) fn forget_lost(&self) {
        self.lost.borrow_mut().clear();
    }

    /// Whether failures could not be recorded for want of space.
    pub(crate) fn has_unrecorded(&self) -> bool {
        !self.unrecorded.borrow().is_empty()
    }

    /// The array is started anew: what could not be recorded before is judged by what its drives say.
    pub(crate) fn forget_unrecorded(&self) {
        self.unrecorded.borrow_mut().clear();
    }

    /// Whether shards have reported failures that are still to be dealt with.
    pub(crate) fn has_new_failures(&self) -> bool {
        !self.work.failures.borrow().is_empty()
    }

    /// Whether the drive that was being filled for a slot is about to take it.
    pub(crate) fn is_taken_over(&self, slot: usize) -> bool {
        self.work.taking_over.borrow().contains(&slot)
    }

    /// Whether a replacement is one that a shard could not take, though labels name it still.
    pub(crate) fn is_unfillable(&self, replacement: Uuid) -> bool {
        self.work.unfillable.borrow().contains(&replacement)
    }

    /// Why it is not optimal, as its drives tell.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.reasons.borrow().clone()
    }

    /// Whether nothing of it may be started, whatever drives there are.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart.borrow().is_some()
    }

    /// The marks are these.
    pub(crate) fn set_map(&self, map: IntentMap) {
        *self.map.borrow_mut() = map;
    }

    /// Regions that are marked.
    pub(crate) fn marked(&self) -> Vec<u32> {
        self.map.borrow().iter().collect()
    }

    /// How many regions of a volume are marked.
    pub(crate) fn marked_of(&self, volume: &Volume) -> usize {
        let map = self.map.borrow();
        volume.regions().filter(|region| map.is_marked(*region)).count()
    }

    /// In how many regions of a volume redundancy may not agree with data.
    pub(crate) fn unsynced_of(&self, volume: &Volume) -> u32 {
        u32::try_from(self.unsynced.borrow().range(volume.regions()).count()).unwrap_or(u32::MAX)
    }

    /// The array is started: exactly what is marked may not agree, and nothing is forced.
    pub(crate) fn distrust_marked(&self) {
        *self.unsynced.borrow_mut() = self.map.borrow().iter().collect();
        self.volumes().iter().for_each(|volume| volume.set_forced(Forced::default()));
    }

    /// Marks of regions are about to go that also say that drives which are away missed what was written there: that is said otherwise from
    /// now on, and recorded with the next change.
    pub(crate) fn missed_by_the_absent(&self, regions: &RegionSet) {
        for member in self.label.borrow_mut().member.iter_mut().filter(|member| !member.is_online()) {
            member.stale = runs(&set_of(&member.stale).union(regions));
        }
    }

    /// Regions mean nothing any more, so their redundancy is not in doubt.
    pub(crate) fn trust(&self, regions: Range<u32>) {
        self.unsynced.borrow_mut().retain(|region| !regions.contains(region));
    }

    /// Regions get a meaning, marked or not; the map has so many then.
    pub(crate) fn add_regions(&self, regions: Range<u32>, total: u32, marked: bool) {
        let mut map = self.map.borrow_mut();
        map.resize(total);
        if let Some(record) = &mut *self.initialised.borrow_mut() {
            record.resize(total);
            record.forget(regions.clone());
        }
        regions.for_each(|region| {
            if marked {
                map.mark(region)
            } else {
                map.unmark(region)
            };
        });
    }

    /// Regions have no meaning any more: the map is as long as the label says.
    pub(crate) fn drop_regions(&self, regions: Range<u32>) {
        let mut map = self.map.borrow_mut();
        regions.for_each(|region| {
            map.unmark(region);
        });
        map.resize(self.label().regions());
        if let Some(record) = &mut *self.initialised.borrow_mut() {
            record.resize(self.label().regions());
        }
    }
}
