//! Reshaping volumes: each consists of three volumes of the array, which share one fate.
//!
//! # Order of steps
//! A start:
//! 1. New drives are cleared, and get the map. After a crash here, the drives are unassigned.
//! 2. The next label names the new drives, and the volume's parts; nothing has begun. After a crash
//!    here, the next start rolls that back (a new drive may lack its label).
//! 3. The next label records that it has begun. Every member has the label by now.
//! 4. The shards get the parts and the new mapping.
//!
//! During a reshape, progress is in the label of every member before hosts access the moved data
//! ([`engine::Mover`] has the order). After a crash, the next start continues from there.
//!
//! The commit of a reshape: `arriving`. The array's other volumes: `following`.
//!
//! Before any data has moved, all can be rolled back (`unbegun`), to a label without the parts, the
//! new drives and the queued volumes.

use crate::arrays::Arrays;
use crate::arrays::array::{Array, SlotContent, runs, set_of};
use crate::arrays::serve::volume_state;
use crate::arrays::shards::answers;
use crate::arrays::unbegun::{regions_of_parts, taken_back};
use crate::arrays::volume::Volume;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use engine::{
    CopyWay, Moved, RegionIndex, RegionSet, Reshape, ReshapeOrder, ReshapePlace, ShardMessage, Step,
};
use ondisk::{Label, Role, VolumeLabel};
use platform::mailbox;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// Why its writes are not acknowledged from the cache.
pub(super) const MOVES: &str = "it is being reshaped";

/// The maximum that is moved at a time on each drive, without host I/O: larger steps reduce the
/// cost of the records.
pub(crate) const MOST: ByteCount = ByteCount(64 << 20);

/// The minimum number of windows of a reshape, where its rows allow it: hosts never wait for the
/// whole volume.
const LEAST_WINDOWS: u64 = 32;

/// The amount that is saved or moved at a time on each drive, for a volume that takes `member` of
/// each: `most`, or less for a small volume.
pub(crate) fn at_a_time(member: ByteCount, most: ByteCount) -> ByteCount {
    most.min(ByteCount(member.0 / LEAST_WINDOWS))
}

fn failed(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::Failed, sentence)
}

impl Array {
    /// Its volumes that users see: without the parts of reshaping volumes.
    pub(crate) fn known_volumes(&self) -> Vec<Rc<Volume>> {
        self.volumes().into_iter().filter(|volume| !volume.label().is_part()).collect()
    }

    /// Regions of volumes that its label does not name any more are not in use.
    pub(crate) fn forget_regions(&self, regions: Vec<std::ops::Range<u32>>) {
        for regions in regions {
            self.trust(regions.clone());
            self.drop_regions(regions);
        }
    }

    /// The volume that a label describes, if it exists: after a reshape, that is the former part
    /// with the new layout.
    pub(super) fn meant_by(&self, of: &VolumeLabel) -> Option<Rc<Volume>> {
        let volumes = self.volumes();
        let has_come = |volume: &&Rc<Volume>| {
            let label = volume.label();
            let is_part = label.part.as_ref().is_some_and(|part| part.of == of.uuid && !part.saves);
            is_part && of.part.is_none() && label.first_region == of.first_region
        };
        let by_uuid = || volumes.iter().find(|volume| volume.uuid() == of.uuid);
        volumes.iter().find(has_come).or_else(by_uuid).cloned()
    }

    /// The volumes that share one fate with a volume: a reshaping volume, first, and its parts;
    /// none for any other.
    pub(crate) fn together_with(&self, volume: &Volume) -> Vec<Rc<Volume>> {
        let label = volume.label();
        let owner = label.part.as_ref().map_or(volume.uuid(), |part| part.of);
        let all = self.volumes();
        match all.iter().find(|other| other.uuid() == owner && other.is_on_its_way()) {
            Some(first) => {
                let is_part =
                    |other: &&Rc<Volume>| other.label().part.is_some_and(|part| part.of == owner);
                std::iter::once(first).chain(all.iter().filter(is_part)).cloned().collect()
            }
            None => Vec::new(),
        }
    }

    /// A volume that users see, and its parts, if it is reshaping: a decision on a start applies to
    /// all of them.
    pub(crate) fn with_parts(&self, volume: &Rc<Volume>) -> Vec<Rc<Volume>> {
        let together = self.together_with(volume);
        if together.is_empty() { vec![volume.clone()] } else { together }
    }

    /// Which stripes of a volume are in use, if it is reshaping or a part of such a volume.
    pub(super) fn live_of(&self, volume: &Volume) -> Option<std::ops::Range<u64>> {
        let owner = self.together_with(volume).into_iter().next()?;
        let (reshape, moved) = self.reshape_of(&owner)?;
        let end = moved.bytes + moved.saved;
        Some(match volume.label().part {
            None => reshape.old_stripes(end),
            Some(part) if part.saves => 0..u64::MAX,
            Some(_) => reshape.new_stripes(end),
        })
    }

    /// Whether any stripe of a region of a volume is in use, numbered as in the array. A reshaping
    /// volume has stripes that are not in use any more, and its released space is not in use once
    /// data has moved; its new part has stripes that are not in use yet.
    pub(crate) fn is_in_use(&self, volume: &Volume, region: u32) -> bool {
        let Some(live) = self.live_of(volume) else { return true };
        let own = RegionIndex(region - volume.regions().start);
        let stripes = engine::Regions::of(&volume.geometry).stripes_of(own);
        stripes.start < live.end && live.start < stripes.end
    }

    /// The parts of a reshaping volume: the new layout, and the saved windows.
    pub(crate) fn parts_of(&self, volume: &Volume) -> Option<(Rc<Volume>, Rc<Volume>)> {
        let reshape = volume.label().reshape.filter(|reshape| reshape.begun)?;
        Some((self.volume(reshape.to)?, self.volume(reshape.save)?))
    }

    /// The reshape of a volume, if any, and its progress.
    pub(crate) fn reshape_of(&self, volume: &Volume) -> Option<(Reshape, Moved)> {
        let (label, (to, save)) = (volume.label(), self.parts_of(volume)?);
        let room = (ByteCount(to.label().capacity_bytes), save.geometry.member_size());
        let from = (&volume.geometry, ByteCount(label.capacity_bytes));
        let (reshape, at) = (reshape_between(from, &to.geometry, room).ok()?, label.reshape?);
        let moved = Moved { bytes: ByteCount(at.moved_bytes), saved: ByteCount(at.saved_bytes) };
        (reshape.is_down() == at.down).then_some((reshape, moved))
    }

    /// The bytes of a volume that hosts can use: for a reshaping one, those available in both
    /// layouts.
    pub(crate) fn usable_bytes(&self, volume: &Volume) -> u64 {
        let (label, parts) = (volume.label(), self.parts_of(volume));
        parts.map_or(label.capacity_bytes, |(to, _)| {
            to.label().capacity_bytes.min(label.capacity_bytes)
        })
    }

    /// The end of the consistent part of a reshaping volume in its old layout, from its cursor on:
    /// nothing is unsynced there, and all drives are current.
    pub(crate) fn whole_up_to(&self, volume: &Volume) -> ByteOffset {
        let label = volume.label();
        let at = label.reshape.as_ref().map_or(0, |at| at.moved_bytes);
        let (regions, stripe) =
            (engine::Regions::of(&volume.geometry), volume.geometry.stripe_bytes().0);
        let doubtful = self.doubtful(volume);
        let ahead = doubtful.iter().map(|region| regions.stripes_of(region));
        let first =
            ahead.filter(|stripes| stripes.end * stripe > at).map(|stripes| stripes.start * stripe);
        ByteOffset(first.min().unwrap_or(label.capacity_bytes).max(at))
    }

    /// The bytes of a volume that would be copied although each byte keeps its place.
    pub(crate) fn doubtful_bytes(&self, volume: &Volume) -> ByteCount {
        let (regions, stripe) =
            (engine::Regions::of(&volume.geometry), volume.geometry.stripe_bytes().0);
        let stripes = |region| regions.stripes_of(region).count() as u64;
        let bytes =
            self.doubtful(volume).iter().map(|region| stripes(region) * stripe).sum::<u64>();
        ByteCount(bytes.min(volume.label().capacity_bytes))
    }

    /// Regions of a volume that are not known to be consistent: unsynced, not fully initialised, or
    /// stale on a drive. All regions while a drive is missing, or blocks are punctured or excluded.
    fn doubtful(&self, volume: &Volume) -> RegionSet {
        let (label, members) = (volume.label(), self.label().member);
        let is_missing =
            !self.out().is_empty() || members.iter().any(|member| member.replacement.is_some());
        let are_listed = !(label.punctured.is_empty() && label.excluded.is_empty());
        if is_missing || label.relocated.is_some() || are_listed {
            return RegionSet::first(engine::Regions::of(&volume.geometry).count);
        }
        let mut doubtful = volume.own_regions(&self.unsynced_regions());
        // In the new layout all of it counts as initialised.
        doubtful.insert_all(&self.not_initialised(volume));
        for member in &members {
            doubtful.insert_all(&volume.own_regions(&set_of(&member.stale)));
        }
        doubtful
    }

    /// Whether redundancy may not agree in any volume that shares one fate with this one.
    pub(crate) fn is_unsynced_on_its_way(&self, volume: &Volume) -> bool {
        let together = self.together_with(volume);
        if together.is_empty() {
            return self.is_unsynced(volume);
        }
        let is_saved = together
            .iter()
            .any(|volume| volume.label().reshape.is_some_and(|at| at.saved_bytes > 0));
        // The content of the save area does not matter while nothing is saved.
        let mut counted = together.iter().filter(|volume| is_saved || !volume.label().saves());
        counted.any(|volume| self.is_unsynced(volume))
    }
}

/// The reshape from a volume's layout and size to another layout and final size, with the given
/// space per drive for saved windows.
///
/// # Errors
/// A sentence, when it is impossible.
pub(crate) fn reshape_between(
    (from, has): (&layout::Geometry, ByteCount),
    to: &layout::Geometry,
    (capacity, save): (ByteCount, ByteCount),
) -> std::result::Result<Reshape, String> {
    let (from, to) = (engine::served(from), engine::served(to));
    let most = at_a_time(from.member_size(), MOST);
    Reshape::new(from, to, has.min(capacity), save, most)
}

/// Regions are not in use any more.
pub(crate) fn forget_regions(next: &mut Label, gone: &RegionSet) {
    for member in &mut next.member {
        member.stale = runs(&set_of(&member.stale).minus(gone));
        if let Some(replacement) = &mut member.replacement {
            replacement.stale = runs(&set_of(&replacement.stale).minus(gone));
        }
    }
}

impl Arrays {
    /// Steps 1 to 4 of a start. `next` makes the label that names the new drives and the parts,
    /// from the array's newest label under the lock: concurrent records must not be reverted.
    ///
    /// # Errors
    /// Why it has not begun: then all is unchanged.
    pub(crate) async fn begin_reshape(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        next: impl FnOnce() -> Result<Label>,
        drives: &[Rc<Drive>],
    ) -> Result<()> {
        let _starting = array.starting.take(1).await;
        let recorded = {
            let _turn = array.metadata.take(1).await;
            // The previous holder of the lock changes slots as well.
            let before = array.places().len();
            let recorded = async {
                let next = next()?;
                self.check_memory_of_parts(volume, &next).await?;
                self.record_beginning(array, volume, next, drives).await
            };
            let recorded = recorded.await;
            if recorded.is_err() && volume.label().reshape.is_none() {
                let mut places = array.places();
                places.truncate(before);
                array.set_places(places);
                array.drop_regions(0..0);
            }
            recorded
        };
        let begun = match recorded {
            Ok(()) => self.attach_parts(array, volume).await,
            Err(error) => Err(error),
        };
        if begun.is_err() {
            if volume.label().reshape.is_some() {
                // Where that fails too, it is retried (`unbegun`).
                self.attention.look_after();
                self.leave_reshape_now(array, volume).await?;
            }
            for drive in drives {
                self.inventory.take_label_off(drive, &array.names()).await;
            }
        }
        begun
    }

    /// Checks that shards can serve the parts of a volume: otherwise no start could serve it once
    /// its label names them.
    async fn check_memory_of_parts(&self, volume: &Volume, next: &Label) -> Result<()> {
        let invalid = |error: ondisk::Error| Error::new(ErrorKind::Invalid, error.to_string());
        for part in next
            .volume
            .iter()
            .filter(|of| of.part.as_ref().is_some_and(|part| part.of == volume.uuid()))
        {
            let geometry = engine::served(&part.geometry(next.member.len()).map_err(invalid)?);
            let part = Box::new((volume.name(), geometry));
            self.tell_shards(|done| ShardMessage::CanServe(part.clone(), done)).await.map_err(
                |why| {
                    let sentence =
                        format!("'{}' cannot be reshaped: in the new layout, {why}", volume.name());
                    Error::new(ErrorKind::WrongState, sentence)
                },
            )?;
        }
        Ok(())
    }

    async fn record_beginning(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        next: Label,
        drives: &[Rc<Drive>],
    ) -> Result<()> {
        // Drives that are out by now are left out.
        let mut slots = array.in_use();
        slots.extend(array.label().member.len()..next.member.len());
        for drive in drives {
            let unwritable = |error: platform::IoError| {
                failed(format!("drive {} could not be written ({error})", drive.name))
            };
            self.inventory.make_blank(drive).await.map_err(unwritable)?;
        }
        let mut places = array.places();
        places.extend(drives.iter().map(|drive| SlotContent {
            drive: Some(drive.clone()),
            role: Role::Current,
            reason: None,
            replacement: None,
        }));
        array.set_places(places);
        for part in next.volume.iter().filter(|of| of.is_part()) {
            array.add_regions(part.first_region..part.end_region(), next.regions(), false);
        }
        let cannot = || {
            failed(format!(
                "'{}' was not reshaped: the change cannot be recorded on its drives",
                volume.name()
            ))
        };
        if let Some((slot, error)) = self.heal_map(array, &slots).await.into_iter().next() {
            let name = &next.member[slot].name;
            return Err(failed(format!("drive {name} could not be written ({error})")));
        }
        if !self.commit(array, next, Vec::new()).await || array.in_use().len() < slots.len() {
            return Err(cannot());
        }
        drives.iter().for_each(|drive| drive.set_zeroed(false));
        let mut next = array.label();
        if let Some(reshape) =
            next.volume_mut(volume.uuid()).and_then(|label| label.reshape.as_mut())
        {
            reshape.begun = true;
        }
        // A part may need a drive that this very change took out: then the change is rolled back.
        match self.commit(array, next, Vec::new()).await && array.can_spare(volume, &array.out()) {
            true => Ok(()),
            false => Err(cannot()),
        }
    }

    /// Attaches the parts of a volume to the shards, and makes them serve the volume by both
    /// layouts.
    ///
    /// # Errors
    /// When that fails; then the parts are not served.
    async fn attach_parts(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        let begun = self.try_attach_parts(array, volume).await;
        if begun.is_err() {
            self.serve_as_before(array, volume).await?;
        }
        begun
    }

    async fn try_attach_parts(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        self.give_parts(array, volume).await?;
        self.serve_both(array, volume).await
    }

    /// Attaches the parts of a volume to the shards that do not have them. To hosts they are one
    /// volume, and are counted so.
    async fn give_parts(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        for part in array.together_with(volume).iter().skip(1).filter(|part| !part.is_served()) {
            part.counts_with(volume);
            self.try_attach(array, part).await?;
        }
        Ok(())
    }

    /// Attaches a reshaping volume to the shards: its parts first.
    ///
    /// # Errors
    /// When a shard cannot serve all of it; then none does.
    pub(super) async fn attach_on_its_way(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let gone = || failed(format!("the new layout of '{}' is invalid", volume.name()));
        // Otherwise hosts, or a resync, would access all of it by one layout.
        array.reshape_of(volume).ok_or_else(gone)?;
        let attached = async {
            self.give_parts(array, volume).await?;
            self.try_attach(array, volume).await?;
            self.serve_both(array, volume).await
        };
        let attached = attached.await;
        if attached.is_err() {
            self.withdraw(array, volume).await;
        }
        attached
    }

    async fn serve_both(&self, array: &Array, volume: &Volume) -> Result<()> {
        let gone = || failed(format!("the new layout of '{}' is invalid", volume.name()));
        let (reshape, moved) = array.reshape_of(volume).ok_or_else(gone)?;
        let (to, save) = array.parts_of(volume).ok_or_else(gone)?;
        let (Some(id), Some(to), Some(save)) = (volume.id(), to.id(), save.id()) else {
            return Err(gone());
        };
        let place = ReshapePlace { reshape, moved, to, save };
        let begin =
            |done| ShardMessage::Reshape(id, ReshapeOrder::Begin(Box::new(place.clone())), done);
        self.tell_shards(begin)
            .await
            .map_err(|why| failed(format!("'{}' cannot be served: {why}", volume.name())))
    }

    /// Performs a step of a volume's reshape.
    ///
    /// # Errors
    /// Why not: a sentence.
    pub(crate) async fn reshape_step(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        step: Step,
    ) -> std::result::Result<(), String> {
        let gone = || format!("'{}' is not served", volume.name());
        let id = volume.id().ok_or_else(gone)?;
        let (to, _) = array.parts_of(volume).ok_or_else(gone)?;
        let to = to.id().ok_or_else(gone)?;
        let order =
            |order: ReshapeOrder| move |done| ShardMessage::Reshape(id, order.clone(), done);
        match step {
            Step::Close(window) => {
                self.tell_first(order(ReshapeOrder::Reserve(window.bytes.len))).await?;
                self.tell_shards(order(ReshapeOrder::Close(window))).await?;
                for volume in [id, to] {
                    self.tell_shards(|done| ShardMessage::Drain(volume, done)).await?;
                }
                Ok(())
            }
            Step::Save(window) => {
                self.tell_first(order(ReshapeOrder::Copy(window, CopyWay::Save))).await
            }
            Step::Record(moved) => self.record_moved(array, volume, moved).await,
            Step::Write { window, from_save } => {
                let free = ReshapeOrder::Free { window: window.clone(), is_saved: from_save };
                self.tell_shards(order(free)).await?;
                let way = if from_save { CopyWay::MoveSaved } else { CopyWay::Move };
                self.tell_first(order(ReshapeOrder::Copy(window, way))).await
            }
            Step::Keep(window) => self.tell_shards(order(ReshapeOrder::Keep(window))).await,
            Step::Open(moved) => {
                let opened = self.tell_shards(order(ReshapeOrder::Open(moved))).await;
                volume.set_left_closed(opened.is_err() && volume.is_left_closed());
                opened
            }
        }
    }

    /// Abandons the window of a failed step for now.
    ///
    /// # Errors
    /// When a shard has ended, or the volume is not served: a sentence.
    pub(crate) async fn leave_window(
        &self,
        volume: &Volume,
        is_saved: bool,
    ) -> std::result::Result<(), String> {
        let id = volume.id().ok_or_else(|| format!("'{}' is not served", volume.name()))?;
        volume.set_left_closed(true);
        let leave = ReshapeOrder::Leave { is_saved };
        self.tell_shards(|done| ShardMessage::Reshape(id, leave.clone(), done)).await
    }

    /// Sends the first shard a message, and waits until it has handled it.
    pub(super) async fn tell_first(
        &self,
        message: impl Fn(engine::Done) -> ShardMessage,
    ) -> std::result::Result<(), String> {
        let (done, told) = mailbox::mailbox(&self.env, 1);
        let sent = self.shards.first().is_some_and(|shard| shard.send(message(done)).is_ok());
        match sent {
            true => answers(told).await,
            false => Err("a shard has ended; restart the controller".to_owned()),
        }
    }

    async fn record_moved(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        moved: Moved,
    ) -> std::result::Result<(), String> {
        let _turn = array.metadata.take(1).await;
        let mut next = array.label();
        if let Some(reshape) =
            next.volume_mut(volume.uuid()).and_then(|label| label.reshape.as_mut())
        {
            (reshape.moved_bytes, reshape.saved_bytes) = (moved.bytes.0, moved.saved.0);
        }
        let is_whole = array.is_running() && volume.lost().is_empty() && !array.has_lost();
        match is_whole && self.commit(array, next, Vec::new()).await && volume.lost().is_empty() {
            true => Ok(()),
            false => Err(format!(
                "the reshape progress of '{}' cannot be recorded on its drives",
                volume.name()
            )),
        }
    }

    /// Rolls back a reshape that has not moved data.
    ///
    /// # Errors
    /// When data has moved, or it cannot be recorded.
    pub(crate) async fn leave_reshape(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let _starting = array.starting.take(1).await;
        if volume.label().reshape.is_none() {
            return Ok(()); // Another task has done it meanwhile.
        }
        self.leave_reshape_now(array, volume).await
    }

    /// Makes the shards serve a volume by its old layout alone, and detaches its parts. Hosts are
    /// not affected.
    async fn serve_as_before(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        if let Some(id) = volume.id() {
            let told = self
                .tell_shards(|done| ShardMessage::Reshape(id, ReshapeOrder::TakeBack, done))
                .await;
            told.map_err(|why| {
                failed(format!("the reshape of '{}' cannot be rolled back: {why}", volume.name()))
            })?;
        }
        volume.set_left_closed(false);
        for part in array.together_with(volume).iter().skip(1) {
            self.withdraw_one(array, part).await;
        }
        Ok(())
    }

    /// The same, where the caller holds the lock of starts.
    pub(super) async fn leave_reshape_now(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let at = volume.label().reshape.map_or((0, 0), |at| (at.moved_bytes, at.saved_bytes));
        if at != (0, 0) {
            return Err(Error::new(
                ErrorKind::WrongState,
                format!("the reshape of '{}' has begun; wait for its end", volume.name()),
            ));
        }
        // A failed record of progress may be on some drive: a start that finds it would overwrite
        // later host writes. Where this cannot be recorded, the rest cannot either: then nothing is
        // changed.
        self.record_moved(array, volume, Moved::default()).await.map_err(failed)?;
        // Later host writes use the old layout alone, whether that is recorded by then or not.
        self.serve_as_before(array, volume).await?;
        // After a crash before the label records it, a start gives them places again.
        for part in array.together_with(volume).iter().skip(1) {
            self.free_on_log(part.uuid()).await;
        }
        let recorded = {
            let _turn = array.metadata.take(1).await;
            let mut next = array.label();
            let regions = regions_of_parts(&next, volume.uuid());
            taken_back(&mut next, volume.uuid());
            let left = self.commit_fewer(array, next).await;
            if left.is_some() {
                array.forget_regions(regions);
            }
            left.ok_or_else(|| {
                failed(format!(
                    "the rollback of the reshape of '{}' cannot be recorded",
                    volume.name()
                ))
            })
        };
        for drive in recorded.iter().flatten() {
            self.inventory.take_label_off(drive, &array.names()).await;
        }
        if recorded.is_err() && volume.is_served() {
            // The label still calls it reshaping: it is served so.
            self.withdraw(array, volume).await;
            if !array.has_lost() {
                self.attach(array, volume).await?;
            }
        }
        recorded.map(drop)
    }

    /// Records a label with fewer members. Returns the drives that are free then; `None` if that
    /// failed.
    pub(super) async fn commit_fewer(
        self: &Rc<Self>,
        array: &Rc<Array>,
        next: Label,
    ) -> Option<Vec<Rc<Drive>>> {
        let (before, mut places) = (array.places(), array.places());
        let left = places.split_off(next.member.len().min(places.len()));
        array.set_places(places);
        if !self.commit(array, next, Vec::new()).await {
            array.set_places(before);
            return None;
        }
        Some(left.into_iter().filter_map(|place| place.drive).collect())
    }

    /// The state and the layout of a volume's data at a host byte address.
    pub(crate) fn side_of(
        &self,
        array: &Array,
        volume: &Rc<Volume>,
        at: u64,
    ) -> (Rc<Volume>, engine::VolumeState) {
        let byte = ByteRange::new(ByteOffset(at), ByteCount(1));
        let is_there =
            |(reshape, moved): &(Reshape, Moved)| reshape.by_new(moved.bytes).overlaps(byte);
        let to = array.reshape_of(volume).filter(is_there);
        let side =
            to.and_then(|_| array.parts_of(volume)).map_or_else(|| volume.clone(), |(to, _)| to);
        let state = volume_state(array, &side);
        (side, state)
    }
}
