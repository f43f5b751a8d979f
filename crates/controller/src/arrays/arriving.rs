//! The end of a volume's way to another layout: what follows what was moved is filled, and the part by the new layout becomes the volume.
//!
//! # The order of things
//! 1. What follows what was moved is filled with zeroes, up to the end of its region: redundancy of a region is trusted as a whole. All is,
//!    while a drive is missing. Regions beyond are marked in the map, since what the drives hold there agrees with nothing. Killed here:
//!    once more, and more is resynced than has to be.
//! 2. The next label names one volume, by the new layout: the part has the volume's UUID from then on, and the map is as long as that label says.
//!    Killed here: it is so.
//! 3. The shards hear what of it is to be resynced.
//! 4. When all have, they pass hosts on to it.
//!
//! Members that it does not lie on any more: `leaving`.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::reshape::forget_regions;
use crate::arrays::shards::answers;
use crate::arrays::volume::Volume;
use engine::{Change, RegionIndex, RegionSet, ReshapeOrder, ShardMessage, VolumeId};
use ondisk::{Label, Uuid};
use std::rc::Rc;
use units::{ByteCount, DriveSet};

/// What is filled at a time in the end: a stop and a pause wait for it.
const FILLED: ByteCount = ByteCount(16 << 20);

/// What has to be filled when all is moved: what follows it in the same region, whose redundancy is relied upon as a whole; all of the new
/// room while a drive is missing, since nothing could be resynced then.
fn to_fill(array: &Array, volume: &Volume, to: &Volume) -> std::ops::Range<u64> {
    let (regions, all) = (engine::Regions::of(&to.geometry), to.geometry.stripes().0);
    if !to.is_redundant() {
        return all..all;
    }
    let moved = array.usable_bytes(volume).div_ceil(to.geometry.stripe_bytes().0);
    let own = DriveSet::first(to.geometry.drives());
    let is_whole = array.out().intersection(&own).is_empty() && array.behind(to).is_empty();
    let ends = (0..regions.count).map(|region| regions.stripes_of(RegionIndex(region)).end.min(all));
    let end = ends.filter(|end| *end >= moved).min().filter(|_| is_whole).unwrap_or(all);
    moved..end
}

/// Has a label name a volume on its way once: the part by the new layout is the volume.
pub(crate) fn name_once(next: &mut Label, volume: Uuid) {
    let Some(of) = next.volume_of(volume).cloned() else { return };
    let Some(reshape) = &of.reshape else { return };
    let gone = [volume, reshape.save];
    let mut forgotten = RegionSet::EMPTY;
    for left in next.volume.iter().filter(|left| gone.contains(&left.uuid)) {
        forgotten.insert_all(&RegionSet::from_runs([[left.first_region, left.end_region()]]));
    }
    next.volume.retain(|left| !gone.contains(&left.uuid));
    forget_regions(next, &forgotten);
    if let Some(label) = next.volume_mut(reshape.to) {
        (label.uuid, label.name, label.part) = (volume, of.name, None);
        label.created_unix_s = of.created_unix_s;
    }
}

impl Arrays {
    /// All is moved, and what follows it is filled: see the order of things. The volume by the new layout; none if there is more to fill.
    ///
    /// # Errors
    /// Why it has not ended: a sentence.
    pub(crate) async fn end_reshape(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> std::result::Result<Option<Rc<Volume>>, String> {
        let _starting = array.starting.take(1).await;
        let gone = || format!("'{}' is not served", volume.name());
        let (id, (to, save)) = (volume.id().ok_or_else(gone)?, array.parts_of(volume).ok_or_else(gone)?);
        let to_id = to.id().ok_or_else(gone)?;
        let (filled, part) = (to.filled(), to.uuid());
        let rest = {
            let _turn = array.metadata.take(1).await;
            if filled < to_fill(array, volume, &to).end {
                return Ok(None); // A drive went missing meanwhile.
            }
            self.record_end(array, (volume, &to, &save), filled).await?
        };
        self.pass_on_log(part, to.uuid()).await;
        self.tell_rest(&to, (id, to_id), rest).await;
        self.tell_end(array, (volume, &to), id).await?;
        to.takes_over(volume);
        volume.set_served(None);
        to.hide(false);
        self.withdraw_one(array, &save).await;
        array.look_at_state(self.env.unix_time());
        self.attention.look_after();
        Ok(Some(to))
    }

    /// Tells the shards what of a volume is to be resynced that has come to its layout, before any of them has hosts write there. A resync begins, so
    /// all of its stripes are in use by then: nothing of the old layout is any more.
    async fn tell_rest(self: &Rc<Self>, to: &Volume, (id, to_id): (VolumeId, VolumeId), rest: RegionSet) {
        let all = ReshapeOrder::Widen(0..to.geometry.stripes().0);
        let widened = self.tell_shards(|done| ShardMessage::Reshape(id, all.clone(), done)).await;
        let mut told = widened;
        for change in [Change::Marked(rest.clone()), Change::Unsynced(rest)] {
            if told.is_ok() {
                told = self.apply(to_id, &change).await;
            }
        }
        if let Err(why) = told {
            tracing::error!("what is to be resynced of '{}' did not reach every shard: {why}", to.name());
        }
    }

    /// Tells the shards that a volume has come to its layout. What a drive was asked by the old one, and has not returned, may still land there:
    /// over what lies there by the new one.
    async fn tell_end(
        self: &Rc<Self>,
        array: &Array,
        (volume, to): (&Volume, &Volume),
        id: engine::VolumeId,
    ) -> std::result::Result<(), String> {
        let (draining, asked) = self.drain_seats(array);
        draining.note(array, volume);
        draining.note(array, to);
        let told = self.send_shards(|done| ShardMessage::EndReshape(id, asked.clone(), done));
        drop(asked);
        answers(told).await
    }

    /// Fills some of what follows what was moved. How many bytes of how many are filled: the volume can come to its layout when all are.
    ///
    /// # Errors
    /// Why it cannot be filled: a sentence.
    pub(crate) async fn fill_some(
        &self,
        array: &Array,
        volume: &Volume,
    ) -> std::result::Result<(u64, u64), String> {
        let gone = || format!("'{}' is not served", volume.name());
        let (id, (to, _)) = (volume.id().ok_or_else(gone)?, array.parts_of(volume).ok_or_else(gone)?);
        let (goal, stripe) = (to_fill(array, volume, &to), to.geometry.stripe_bytes().0);
        let start = to.filled().max(goal.start);
        let end = (start + (FILLED.0 / stripe).max(1)).min(goal.end);
        let order = |order: ReshapeOrder| move |done| ShardMessage::Reshape(id, order.clone(), done);
        if start < end {
            self.tell_shards(order(ReshapeOrder::Widen(start..end))).await?;
            self.tell_first(order(ReshapeOrder::Fill(start..end))).await?;
        }
        to.set_filled(end.max(start));
        Ok(((end.max(start) - goal.start) * stripe, (goal.end - goal.start) * stripe))
    }

    /// Steps 1 and 2 of an end. Which regions nothing was ever written to. The caller has the metadata turn.
    async fn record_end(
        self: &Rc<Self>,
        array: &Rc<Array>,
        (volume, to, save): (&Volume, &Volume, &Volume),
        filled: u64,
    ) -> std::result::Result<RegionSet, String> {
        let regions = engine::Regions::of(&to.geometry);
        let first =
            (0..regions.count).find(|region| regions.stripes_of(RegionIndex(*region)).start >= filled);
        let rest =
            RegionSet::from_runs(first.filter(|_| to.is_redundant()).map(|first| [first, regions.count]));
        let marks: Vec<u32> = to.array_regions(&rest).iter().map(|region| region.0).collect();
        let before: Vec<u32> = array.map.borrow().iter().collect();
        for &region in &marks {
            array.map.borrow_mut().mark(region);
        }
        let cannot = || {
            // It goes on as it was: nothing waits for a resync that nobody was told of.
            for region in marks.iter().filter(|region| !before.contains(region)) {
                array.map.borrow_mut().unmark(*region);
            }
            format!("that '{}' has come to its new layout cannot be recorded", volume.name())
        };
        if !self.heal_map(array, &array.in_use()).await.is_empty() {
            return Err(cannot());
        }
        let mut next = array.label();
        name_once(&mut next, volume.uuid());
        if let Some(label) = next.volume_mut(volume.uuid()) {
            // Until the rest is resynced, what is written there beside a drive that goes out is in no record.
            let journal = label.journal.iter_mut().filter(|_| !rest.is_empty());
            journal.for_each(|journal| journal.tells_all = false);
        }
        match self.commit(array, next, Vec::new()).await {
            true => {
                array.unsynced.borrow_mut().extend(&marks);
                // Whoever has the turn next relies on the map being as long as the label says.
                array.forget_regions(vec![volume.regions(), save.regions()]);
                Ok(rest)
            }
            false => Err(cannot()),
        }
    }
}
