//! The end of a volume's way to another layout: what follows what was moved is filled, and the part by the new layout becomes the volume.
//!
//! # The order of things
//! 1. What follows what was moved is filled with zeroes, up to the end of its region: redundancy of a region is trusted as a whole. All is,
//!    while a drive is missing. Regions beyond are recorded as not initialised: what the drives hold there means nothing. Killed here: once
//!    more.
//! 2. The next label names one volume, by the new layout: the part has the volume's UUID from then on, and the map is as long as that label says.
//!    Killed here: it is so.
//! 3. The shards hear what of it is not initialised.
//! 4. When all have, they pass hosts on to it.
//!
//! Members that it does not lie on any more: `leaving`.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::initialised::stripe_in_record;
use crate::arrays::reshape::forget_regions;
use crate::arrays::shards::answers;
use crate::arrays::volume::Volume;
use engine::{Change, RegionIndex, RegionSet, ReshapeOrder, ShardMessage, VolumeId};
use ondisk::{Init, Label, Uuid};
use std::rc::Rc;
use units::ByteCount;

/// What is filled at a time in the end: a stop and a pause wait for it.
const FILLED: ByteCount = ByteCount(16 << 20);

/// What has to be filled when all is moved: what follows it in the same region, whose redundancy is relied upon as a whole.
fn to_fill(array: &Array, volume: &Volume, to: &Volume) -> std::ops::Range<u64> {
    let (regions, all) = (engine::Regions::of(&to.geometry), to.geometry.stripes().0);
    if !to.is_redundant() {
        return all..all;
    }
    let moved = array.usable_bytes(volume).div_ceil(to.geometry.stripe_bytes().0);
    let ends = (0..regions.count).map(|region| regions.stripes_of(RegionIndex(region)).end.min(all));
    let end = ends.filter(|end| *end >= moved).min().unwrap_or(all);
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

    /// Tells the shards what of a volume that has come to its layout is not initialised, before any of them has hosts write there. Its initialisation
    /// begins, so all of its stripes are in use by then: nothing of the old layout is any more.
    async fn tell_rest(self: &Rc<Self>, to: &Volume, (id, to_id): (VolumeId, VolumeId), rest: RegionSet) {
        let all = ReshapeOrder::Widen(0..to.geometry.stripes().0);
        let widened = self.tell_shards(|done| ShardMessage::Reshape(id, all.clone(), done)).await;
        let mut told = widened;
        if told.is_ok() && !rest.is_empty() {
            told = self.apply(to_id, &Change::Uninitialised(rest)).await;
        }
        if let Err(why) = told {
            tracing::error!("what is not initialised of '{}' did not reach every shard: {why}", to.name());
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

    /// Steps 1 and 2 of an end. Which regions are not initialised. The caller has the metadata turn.
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
        if !rest.is_empty() {
            // Until the label of the volume names the record, it means nothing there.
            array.initialise_all_but(to, &rest);
        }
        let cannot = || format!("that '{}' has come to its new layout cannot be recorded", volume.name());
        if !self.heal_map(array, &array.in_use()).await.is_empty() {
            return Err(cannot());
        }
        let mut next = array.label();
        name_once(&mut next, volume.uuid());
        if let Some(label) = next.volume_mut(volume.uuid()).filter(|_| !rest.is_empty()) {
            label.initialised_by_bytes = Some(stripe_in_record(&to.geometry));
            label.init = Init::Background;
        }
        match self.commit(array, next, Vec::new()).await {
            true => {
                // Whoever has the turn next relies on the map being as long as the label says.
                array.forget_regions(vec![volume.regions(), save.regions()]);
                Ok(rest)
            }
            false => Err(cannot()),
        }
    }
}
