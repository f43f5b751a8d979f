//! Access of other modules to an array's marks, and to the reasons that keep it from being served.

use super::array::{Array, runs, set_of};
use super::volume::Volume;
use engine::RegionSet;
use ondisk::{IntentMap, Uuid};
use platform::sync::Taken;
use std::collections::BTreeMap;
use std::ops::Range;
use volume_state::Forced;

impl Array {
    /// The lock for changes of labels and map.
    pub(crate) async fn metadata_turn(&self) -> Taken {
        self.metadata.take(1).await
    }

    /// The lock for attaching volumes of a started array to the shards, and for detaching them. It
    /// is taken before [`metadata_turn`](Array::metadata_turn).
    pub(crate) async fn starting_turn(&self) -> Taken {
        self.starting.take(1).await
    }

    /// Whether drives failed whose loss no volume tolerates, so that all volumes are offline.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.borrow().is_empty()
    }

    /// Drives that failed when no volume tolerated the loss: the reasons, by slot.
    pub(crate) fn lost(&self) -> BTreeMap<usize, String> {
        self.lost.borrow().clone()
    }

    /// The array is about to be restarted or removed: lost drives are evaluated again.
    pub(crate) fn forget_lost(&self) {
        self.lost.borrow_mut().clear();
    }

    /// Whether failures could not be recorded for lack of space.
    pub(crate) fn has_unrecorded(&self) -> bool {
        !self.unrecorded.borrow().is_empty()
    }

    /// The array is restarted: unrecorded failures are evaluated again from the labels of its
    /// drives.
    pub(crate) fn forget_unrecorded(&self) {
        self.unrecorded.borrow_mut().clear();
    }

    /// Whether shards have reported failures that are not handled yet.
    pub(crate) fn has_new_failures(&self) -> bool {
        !self.work.failures.borrow().is_empty()
    }

    /// Whether the replacement of a slot is about to take it.
    pub(crate) fn is_taken_over(&self, slot: usize) -> bool {
        self.work.taking_over.borrow().contains(&slot)
    }

    /// Whether a shard could not take a replacement, although labels still name it.
    pub(crate) fn is_unfillable(&self, replacement: Uuid) -> bool {
        self.work.unfillable.borrow().contains(&replacement)
    }

    /// Why the array is not optimal, according to its drives.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.reasons.borrow().clone()
    }

    /// Whether no volume of it may be started, whatever drives are present.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart.borrow().is_some()
    }

    /// Replaces the marks.
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

    /// The number of regions of a volume whose redundancy may not agree with its data.
    pub(crate) fn unsynced_of(&self, volume: &Volume) -> u32 {
        u32::try_from(self.unsynced.borrow().range(volume.regions()).count()).unwrap_or(u32::MAX)
    }

    /// The array is started: exactly the marked regions may not agree, and no redundancy is
    /// accepted as it is.
    pub(crate) fn distrust_marked(&self) {
        *self.unsynced.borrow_mut() = self.map.borrow().iter().collect();
        self.volumes().iter().for_each(|volume| volume.set_forced(Forced::default()));
    }

    /// Marks of regions are about to be cleared that also stand for writes which absent drives
    /// missed: these are noted as stale in the label, and the next change records that.
    pub(crate) fn missed_by_the_absent(&self, regions: &RegionSet) {
        for member in self.label.borrow_mut().member.iter_mut().filter(|member| !member.is_online())
        {
            member.stale = runs(&set_of(&member.stale).union(regions));
        }
    }

    /// Regions are not in use any more, so their redundancy is not in doubt.
    pub(crate) fn trust(&self, regions: Range<u32>) {
        self.unsynced.borrow_mut().retain(|region| !regions.contains(region));
    }

    /// Regions come into use, marked or not; the map has `total` regions then.
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

    /// Regions are not in use any more: the map is as long as the label says.
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
