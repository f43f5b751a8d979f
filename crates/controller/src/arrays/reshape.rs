//! Volumes on their way to another layout: three of the array's volumes each, which stand and fall together.
//!
//! # The order of things
//! A beginning:
//! 1. New drives are made blank, and get the map. Killed here: drives that are nobody's.
//! 2. The next label names the new drives, and the volume's parts; nothing has begun. Killed here: the next start takes that back
//!    (a new drive may lack its label).
//! 3. The next label says that it has begun. Every member has heard of it by now.
//! 4. The shards get the parts, and are told.
//!
//! On the way, what has moved is in the label of every member before hosts get at it ([`engine::Mover`] has the order). Killed
//! anywhere: a start goes on from there.
//!
//! How a volume comes to its layout in the end: `arriving`. What the array's other volumes do: `following`.
//!
//! While nothing has moved, all of it can be taken back (`unbegun`): a label without the parts and without the new drives, in which no other volume follows.

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

/// Why its writes are not answered from the cache.
pub(super) const MOVES: &str = "it is on its way to another layout";

/// What of each drive is moved at a time at most, where no host asks for anything: the more, the less it matters what recording it takes.
pub(crate) const MOST: ByteCount = ByteCount(64 << 20);

/// In how many windows a volume is moved at least, where its rows allow it: hosts are never to wait for all of it.
const LEAST_WINDOWS: u64 = 32;

/// What of each drive is saved or moved at a time, of a volume that takes so much of each: `most`, or less of a small one.
pub(crate) fn at_a_time(member: ByteCount, most: ByteCount) -> ByteCount {
    most.min(ByteCount(member.0 / LEAST_WINDOWS))
}

fn failed(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::Failed, sentence)
}

impl Array {
    /// Its volumes that people know of: parts of those on their way are none.
    pub(crate) fn known_volumes(&self) -> Vec<Rc<Volume>> {
        self.volumes().into_iter().filter(|volume| !volume.label().is_part()).collect()
    }

    /// Regions have no meaning any more: those of volumes that its label names no more.
    pub(crate) fn forget_regions(&self, regions: Vec<std::ops::Range<u32>>) {
        for regions in regions {
            self.trust(regions.clone());
            self.drop_regions(regions);
        }
    }

    /// The volume that a label speaks of, if there is one: a volume that has come to another layout is what was its part until then.
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

    /// The volumes that stand and fall with one: those of a volume on its way, that one first; none of any other.
    pub(crate) fn together_with(&self, volume: &Volume) -> Vec<Rc<Volume>> {
        let label = volume.label();
        let owner = label.part.as_ref().map_or(volume.uuid(), |part| part.of);
        let all = self.volumes();
        match all.iter().find(|other| other.uuid() == owner && other.is_on_its_way()) {
            Some(first) => {
                let is_part = |other: &&Rc<Volume>| other.label().part.is_some_and(|part| part.of == owner);
                std::iter::once(first).chain(all.iter().filter(is_part)).cloned().collect()
            }
            None => Vec::new(),
        }
    }

    /// A volume that people know of, and its parts, if it is on its way: what is decided of a start is decided of all of them.
    pub(crate) fn with_parts(&self, volume: &Rc<Volume>) -> Vec<Rc<Volume>> {
        let together = self.together_with(volume);
        if together.is_empty() { vec![volume.clone()] } else { together }
    }

    /// Which stripes of a volume are in use, if it is on its way or a part of one that is.
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

    /// Whether any stripe of a region of the array, a volume's, is in use. Of one on its way some are not any more, and what it has given up is not once
    /// anything has moved; of its part by the new layout some are not yet.
    pub(crate) fn is_in_use(&self, volume: &Volume, region: u32) -> bool {
        let Some(live) = self.live_of(volume) else { return true };
        let own = RegionIndex(region - volume.regions().start);
        let stripes = engine::Regions::of(&volume.geometry).stripes_of(own);
        stripes.start < live.end && live.start < stripes.end
    }

    /// The parts of a volume on its way, by the new layout and where windows are saved.
    pub(crate) fn parts_of(&self, volume: &Volume) -> Option<(Rc<Volume>, Rc<Volume>)> {
        let reshape = volume.label().reshape.filter(|reshape| reshape.begun)?;
        Some((self.volume(reshape.to)?, self.volume(reshape.save)?))
    }

    /// The way of a volume that is on one, and how far it is.
    pub(crate) fn reshape_of(&self, volume: &Volume) -> Option<(Reshape, Moved)> {
        let (label, (to, save)) = (volume.label(), self.parts_of(volume)?);
        let room = (ByteCount(to.label().capacity_bytes), save.geometry.member_size());
        let from = (&volume.geometry, ByteCount(label.capacity_bytes));
        let (reshape, at) = (reshape_between(from, &to.geometry, room).ok()?, label.reshape?);
        let moved = Moved { bytes: ByteCount(at.moved_bytes), saved: ByteCount(at.saved_bytes) };
        (reshape.is_down() == at.down).then_some((reshape, moved))
    }

    /// Bytes that hosts can use of a volume: of one on its way, what it has by both layouts.
    pub(crate) fn usable_bytes(&self, volume: &Volume) -> u64 {
        let (label, parts) = (volume.label(), self.parts_of(volume));
        parts.map_or(label.capacity_bytes, |(to, _)| to.label().capacity_bytes.min(label.capacity_bytes))
    }

    /// Up to which byte a volume on its way is whole by the layout that it leaves, from its cursor on: nothing of it is in doubt, and all drives have
    /// what they should.
    pub(crate) fn whole_up_to(&self, volume: &Volume) -> ByteOffset {
        let label = volume.label();
        let at = label.reshape.as_ref().map_or(0, |at| at.moved_bytes);
        let (regions, stripe) = (engine::Regions::of(&volume.geometry), volume.geometry.stripe_bytes().0);
        let doubtful = self.doubtful(volume);
        let ahead = doubtful.iter().map(|region| regions.stripes_of(region));
        let first = ahead.filter(|stripes| stripes.end * stripe > at).map(|stripes| stripes.start * stripe);
        ByteOffset(first.min().unwrap_or(label.capacity_bytes).max(at))
    }

    /// How much of a volume would be copied though each byte stays in its place.
    pub(crate) fn doubtful_bytes(&self, volume: &Volume) -> ByteCount {
        let (regions, stripe) = (engine::Regions::of(&volume.geometry), volume.geometry.stripe_bytes().0);
        let stripes = |region| regions.stripes_of(region).count() as u64;
        let bytes = self.doubtful(volume).iter().map(|region| stripes(region) * stripe).sum::<u64>();
        ByteCount(bytes.min(volume.label().capacity_bytes))
    }

    /// Regions of a volume that are not known to be whole: redundancy is in doubt, not all of it is initialised, or a drive lacks what it
    /// should have. All of them while a drive is missing, or blocks are punctured or excluded.
    fn doubtful(&self, volume: &Volume) -> RegionSet {
        let (label, members) = (volume.label(), self.label().member);
        let is_missing = !self.out().is_empty() || members.iter().any(|member| member.replacement.is_some());
        let are_listed = !(label.punctured.is_empty() && label.excluded.is_empty());
        if is_missing || label.relocated.is_some() || are_listed {
            return RegionSet::first(engine::Regions::of(&volume.geometry).count);
        }
        let mut doubtful = volume.own_regions(&self.unsynced_regions());
        // By the new layout all of it counts as initialised.
        doubtful.insert_all(&self.not_initialised(volume));
        for member in &members {
            doubtful.insert_all(&volume.own_regions(&set_of(&member.stale)));
        }
        doubtful
    }

    /// Whether redundancy may not agree in any volume that stands and falls with one.
    pub(crate) fn is_unsynced_on_its_way(&self, volume: &Volume) -> bool {
        let together = self.together_with(volume);
        if together.is_empty() {
            return self.is_unsynced(volume);
        }
        let is_saved =
            together.iter().any(|volume| volume.label().reshape.is_some_and(|at| at.saved_bytes > 0));
        // Where nothing is saved it does not matter what lies there.
        let mut counted = together.iter().filter(|volume| is_saved || !volume.label().saves());
        counted.any(|volume| self.is_unsynced(volume))
    }
}

/// The way from a volume's layout, with so many bytes in it, to another one, of which hosts can use so much in the end, with so much room on each drive to save what is written over.
///
/// # Errors
/// A sentence, when it cannot be gone.
pub(crate) fn reshape_between(
    (from, has): (&layout::Geometry, ByteCount),
    to: &layout::Geometry,
    (capacity, save): (ByteCount, ByteCount),
) -> std::result::Result<Reshape, String> {
    let (from, to) = (engine::served(from), engine::served(to));
    let most = at_a_time(from.member_size(), MOST);
    Reshape::new(from, to, has.min(capacity), save, most)
}

/// Regions mean nothing any more.
pub(crate) fn forget_regions(next: &mut Label, gone: &RegionSet) {
    for member in &mut next.member {
        member.stale = runs(&set_of(&member.stale).minus(gone));
        if let Some(replacement) = &mut member.replacement {
            replacement.stale = runs(&set_of(&replacement.stale).minus(gone));
        }
    }
}

impl Arrays {
    /// Steps 1 to 4 of a beginning. `next` makes the label that names the new drives and the parts, out of the array's newest when
    /// nobody else changes that: what is recorded meanwhile must not be taken back.
    ///
    /// # Errors
    /// Why it has not begun: then all is as it was.
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
            // Whoever has the turn before changes places as well.
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
                // Where that cannot be either, it is tried again (`unbegun`).
                self.attention.look_after();
                self.leave_reshape_now(array, volume).await?;
            }
            for drive in drives {
                self.inventory.take_label_off(drive, &array.names()).await;
            }
        }
        begun
    }

    /// Whether shards can serve the parts of a volume: without, no start could serve it from the moment on that its label names them.
    async fn check_memory_of_parts(&self, volume: &Volume, next: &Label) -> Result<()> {
        let invalid = |error: ondisk::Error| Error::new(ErrorKind::Invalid, error.to_string());
        for part in
            next.volume.iter().filter(|of| of.part.as_ref().is_some_and(|part| part.of == volume.uuid()))
        {
            let geometry = engine::served(&part.geometry(next.member.len()).map_err(invalid)?);
            let part = Box::new((volume.name(), geometry));
            self.tell_shards(|done| ShardMessage::CanServe(part.clone(), done)).await.map_err(|why| {
                let sentence = format!("'{}' cannot be moved: by that layout {why}", volume.name());
                Error::new(ErrorKind::WrongState, sentence)
            })?;
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
        // Those that are out by now are done without.
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
        let cannot =
            || failed(format!("'{}' stays as it is: that cannot be recorded on its drives", volume.name()));
        if let Some((slot, error)) = self.heal_map(array, &slots).await.into_iter().next() {
            let name = &next.member[slot].name;
            return Err(failed(format!("drive {name} could not be written ({error})")));
        }
        if !self.commit(array, next, Vec::new()).await || array.in_use().len() < slots.len() {
            return Err(cannot());
        }
        drives.iter().for_each(|drive| drive.set_zeroed(false));
        let mut next = array.label();
        if let Some(reshape) = next.volume_mut(volume.uuid()).and_then(|label| label.reshape.as_mut()) {
            reshape.begun = true;
        }
        // A drive that went out by the very change may be one that a part cannot do without: it is taken back then.
        match self.commit(array, next, Vec::new()).await && array.can_spare(volume, &array.out()) {
            true => Ok(()),
            false => Err(cannot()),
        }
    }

    /// Gives the parts of a volume to the shards, and has the volume served by both layouts.
    ///
    /// # Errors
    /// When that cannot be; then the parts are not served.
    async fn attach_parts(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        let begun = self.try_attach_parts(array, volume).await;
        if begun.is_err() {
            self.serve_as_before(array, volume).await?;
        }
        begun
    }

    async fn try_attach_parts(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        self.give_parts(array, volume).await?;
        self.serve_both(array, volume).await
    }

    /// Gives the parts of a volume to the shards that do not have them. Hosts ask for one volume, and are counted so.
    async fn give_parts(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        for part in array.together_with(volume).iter().skip(1).filter(|part| !part.is_served()) {
            part.counts_with(volume);
            self.try_attach(array, part).await?;
        }
        Ok(())
    }

    /// A volume on its way is given to the shards: its parts first.
    ///
    /// # Errors
    /// When a shard cannot serve all of it; then none does.
    pub(super) async fn attach_on_its_way(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let gone = || failed(format!("'{}' is on its way to a layout that it cannot come to", volume.name()));
        // Otherwise hosts, or a resync, would get to all of it by one layout.
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
        let gone = || failed(format!("'{}' is on its way to a layout that it cannot come to", volume.name()));
        let (reshape, moved) = array.reshape_of(volume).ok_or_else(gone)?;
        let (to, save) = array.parts_of(volume).ok_or_else(gone)?;
        let (Some(id), Some(to), Some(save)) = (volume.id(), to.id(), save.id()) else { return Err(gone()) };
        let place = ReshapePlace { reshape, moved, to, save };
        let begin = |done| ShardMessage::Reshape(id, ReshapeOrder::Begin(Box::new(place.clone())), done);
        self.tell_shards(begin)
            .await
            .map_err(|why| failed(format!("'{}' cannot be served: {why}", volume.name())))
    }

    /// Carries out a step of a volume's way.
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
        let order = |order: ReshapeOrder| move |done| ShardMessage::Reshape(id, order.clone(), done);
        match step {
            Step::Close(window) => {
                self.tell_first(order(ReshapeOrder::Reserve(window.bytes.len))).await?;
                self.tell_shards(order(ReshapeOrder::Close(window))).await?;
                for volume in [id, to] {
                    self.tell_shards(|done| ShardMessage::Drain(volume, done)).await?;
                }
                Ok(())
            }
            Step::Save(window) => self.tell_first(order(ReshapeOrder::Copy(window, CopyWay::Save))).await,
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

    /// A step has failed, and nobody goes on with its window for now.
    ///
    /// # Errors
    /// When a shard is gone, or the volume is not served: a sentence.
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

    /// Tells the first shard, and waits until it has dealt with it.
    pub(super) async fn tell_first(
        &self,
        message: impl Fn(engine::Done) -> ShardMessage,
    ) -> std::result::Result<(), String> {
        let (done, told) = mailbox::mailbox(&self.env, 1);
        let sent = self.shards.first().is_some_and(|shard| shard.send(message(done)).is_ok());
        match sent {
            true => answers(told).await,
            false => Err("a shard is gone; restart the controller".to_owned()),
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
        if let Some(reshape) = next.volume_mut(volume.uuid()).and_then(|label| label.reshape.as_mut()) {
            (reshape.moved_bytes, reshape.saved_bytes) = (moved.bytes.0, moved.saved.0);
        }
        let is_whole = array.is_running() && volume.lost().is_empty() && !array.has_lost();
        match is_whole && self.commit(array, next, Vec::new()).await && volume.lost().is_empty() {
            true => Ok(()),
            false => Err(format!("how far '{}' is cannot be recorded on its drives", volume.name())),
        }
    }

    /// Nothing has moved, and nothing is to be.
    ///
    /// # Errors
    /// When something has moved, or it cannot be recorded.
    pub(crate) async fn leave_reshape(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        let _starting = array.starting.take(1).await;
        if volume.label().reshape.is_none() {
            return Ok(()); // Somebody else has done it meanwhile.
        }
        self.leave_reshape_now(array, volume).await
    }

    /// Has the shards serve a volume by its old layout alone, and takes its parts from them. Hosts notice nothing.
    async fn serve_as_before(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        if let Some(id) = volume.id() {
            let told = self.tell_shards(|done| ShardMessage::Reshape(id, ReshapeOrder::TakeBack, done)).await;
            told.map_err(|why| failed(format!("'{}' cannot stay as it is: {why}", volume.name())))?;
        }
        volume.set_left_closed(false);
        for part in array.together_with(volume).iter().skip(1) {
            self.withdraw_one(array, part).await;
        }
        Ok(())
    }

    /// The same, where the caller has the turn of starts.
    pub(super) async fn leave_reshape_now(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let at = volume.label().reshape.map_or((0, 0), |at| (at.moved_bytes, at.saved_bytes));
        if at != (0, 0) {
            return Err(Error::new(
                ErrorKind::WrongState,
                format!("'{}' has begun to move; let it come to its end", volume.name()),
            ));
        }
        // A record may have failed that some drive has: what hosts write from now on would be written over by a start that finds it. And where this cannot be
        // recorded, the rest cannot either: then nothing is changed.
        self.record_moved(array, volume, Moved::default()).await.map_err(failed)?;
        // Whoever writes from now on writes by the old layout alone, whether that is recorded by then or not.
        self.serve_as_before(array, volume).await?;
        // Killed before the label says so: a start gives them places again.
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
            left.ok_or_else(|| failed(format!("that '{}' stays as it is cannot be recorded", volume.name())))
        };
        for drive in recorded.iter().flatten() {
            self.inventory.take_label_off(drive, &array.names()).await;
        }
        if recorded.is_err() && volume.is_served() {
            // The label still says that it is on its way: it is served so.
            self.withdraw(array, volume).await;
            if !array.has_lost() {
                self.attach(array, volume).await?;
            }
        }
        recorded.map(drop)
    }

    /// Records a label that names fewer members. The drives that are free then; `None` if that could not be.
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

    /// What is known of the volume that hosts have at a byte: by the layout that it lies by there.
    pub(crate) fn side_of(
        &self,
        array: &Array,
        volume: &Rc<Volume>,
        at: u64,
    ) -> (Rc<Volume>, engine::VolumeState) {
        let byte = ByteRange::new(ByteOffset(at), ByteCount(1));
        let is_there = |(reshape, moved): &(Reshape, Moved)| reshape.by_new(moved.bytes).overlaps(byte);
        let to = array.reshape_of(volume).filter(is_there);
        let side = to.and_then(|_| array.parts_of(volume)).map_or_else(|| volume.clone(), |(to, _)| to);
        let state = volume_state(array, &side);
        (side, state)
    }
}
