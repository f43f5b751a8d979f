//! The commit of a reshape: the space behind the moved data is filled, and the part with the new
//! layout becomes the volume.
//!
//! # Order of steps
//! 1. The space behind the moved data is filled with zeros up to the end of its region, because
//!    redundancy of a region is trusted as a whole. While a drive is missing, all of it is filled.
//!    Regions beyond are recorded as not initialised: the drives' content there does not count.
//!    After a crash here, the step is repeated.
//! 2. The next label names one volume, by the new layout: the part has the volume's UUID from then
//!    on, and the map is as long as that label says. After a crash here, the commit is complete.
//! 3. The shards learn which regions of it are not initialised.
//! 4. When all shards have, they hand hosts over to it.
//!
//! Members that the volume does not use any more: `leaving`.

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

/// Bytes that are filled in one step of the commit; a stop and a pause wait for one step.
const FILLED: ByteCount = ByteCount(16 << 20);

/// The range to fill when all data is moved: the rest of the last region, because redundancy of a
/// region is trusted as a whole.
fn to_fill(array: &Array, volume: &Volume, to: &Volume) -> std::ops::Range<u64> {
    let (regions, all) = (engine::Regions::of(&to.geometry), to.geometry.stripes().0);
    if !to.is_redundant() {
        return all..all;
    }
    let moved = array.usable_bytes(volume).div_ceil(to.geometry.stripe_bytes().0);
    let ends =
        (0..regions.count).map(|region| regions.stripes_of(RegionIndex(region)).end.min(all));
    let end = ends.filter(|end| *end >= moved).min().unwrap_or(all);
    moved..end
}

/// Makes a label name a reshaping volume once: the part with the new layout is the volume.
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
    /// Ends a reshape whose data is moved and whose rest is filled: see the order of steps. Returns
    /// the volume with the new layout; `None` if there is more to fill.
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
        let (id, (to, save)) =
            (volume.id().ok_or_else(gone)?, array.parts_of(volume).ok_or_else(gone)?);
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

    /// Sends the shards the uninitialised regions of a committed volume, before any shard lets
    /// hosts write there. Initialisation starts here, so all stripes are in use: none has the old
    /// layout any more.
    async fn tell_rest(
        self: &Rc<Self>,
        to: &Volume,
        (id, to_id): (VolumeId, VolumeId),
        rest: RegionSet,
    ) {
        let all = ReshapeOrder::Widen(0..to.geometry.stripes().0);
        let widened = self.tell_shards(|done| ShardMessage::Reshape(id, all.clone(), done)).await;
        let mut told = widened;
        if told.is_ok() && !rest.is_empty() {
            told = self.apply(to_id, &Change::Uninitialised(rest)).await;
        }
        if let Err(why) = told {
            tracing::error!(
                "some threads of SoftROC lack the list of uninitialised stripes of '{}': {why}",
                to.name()
            );
        }
    }

    /// Notifies the shards that a reshape is committed. Outstanding operations of the old layout
    /// may still overwrite data of the new layout on a drive.
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

    /// Fills a part of the space behind the moved data. Returns filled and total bytes: the reshape
    /// can be committed when they are equal.
    ///
    /// # Errors
    /// Why it cannot be filled: a sentence.
    pub(crate) async fn fill_some(
        &self,
        array: &Array,
        volume: &Volume,
    ) -> std::result::Result<(u64, u64), String> {
        let gone = || format!("'{}' is not served", volume.name());
        let (id, (to, _)) =
            (volume.id().ok_or_else(gone)?, array.parts_of(volume).ok_or_else(gone)?);
        let (goal, stripe) = (to_fill(array, volume, &to), to.geometry.stripe_bytes().0);
        let start = to.filled().max(goal.start);
        let end = (start + (FILLED.0 / stripe).max(1)).min(goal.end);
        let order =
            |order: ReshapeOrder| move |done| ShardMessage::Reshape(id, order.clone(), done);
        if start < end {
            self.tell_shards(order(ReshapeOrder::Widen(start..end))).await?;
            self.tell_first(order(ReshapeOrder::Fill(start..end))).await?;
        }
        to.set_filled(end.max(start));
        Ok(((end.max(start) - goal.start) * stripe, (goal.end - goal.start) * stripe))
    }

    /// Steps 1 and 2 of a commit. Returns the regions that are not initialised. The caller holds
    /// the metadata lock.
    async fn record_end(
        self: &Rc<Self>,
        array: &Rc<Array>,
        (volume, to, save): (&Volume, &Volume, &Volume),
        filled: u64,
    ) -> std::result::Result<RegionSet, String> {
        let regions = engine::Regions::of(&to.geometry);
        let first = (0..regions.count)
            .find(|region| regions.stripes_of(RegionIndex(*region)).start >= filled);
        let rest = RegionSet::from_runs(
            first.filter(|_| to.is_redundant()).map(|first| [first, regions.count]),
        );
        if !rest.is_empty() {
            // The record does not count until the label of the volume names it.
            array.initialise_all_but(to, &rest);
        }
        let cannot = || format!("the completed reshape of '{}' cannot be recorded", volume.name());
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
                // The next holder of the lock relies on a map as long as the label says.
                array.forget_regions(vec![volume.regions(), save.regions()]);
                Ok(rest)
            }
            false => Err(cannot()),
        }
    }
}
