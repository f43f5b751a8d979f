//! Attaches volumes to the shards, and detaches them.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::data_log::FoundOnLog;
use crate::arrays::sectors;
use crate::arrays::shards::answers;
use crate::arrays::shifted::ShiftedSource;
use crate::arrays::volume::Volume;
use crate::arrays::work::Running;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::access::Access;
use engine::{
    Attachment, BlockList, CacheTerms, Change, FaultPolicy, RegionIndex, RegionSet, Regions,
    ShardMessage, VolumeId, VolumeSpec, VolumeState,
};
use ondisk::{Init, Punctured, VolumeLabel};
use platform::DriveSource;
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet};
use volume_state::Tolerance;

/// The blocks of a slot in one of the lists of a label.
pub(super) fn listed_blocks(list: &[Punctured], slot: usize) -> BlockList {
    let of_slot = list.iter().filter(|listed| usize::from(listed.slot) == slot);
    let runs = of_slot.flat_map(|listed| &listed.bytes);
    BlockList::from_ranges(
        runs.map(|run| ByteRange::from_to(ByteOffset(run[0]), ByteOffset(run[1]))),
    )
}

/// The state of a volume from the label, the map and the array. Shards are attached with this
/// value, and `explain` plans by it.
pub(crate) fn volume_state(array: &Array, volume: &Volume) -> VolumeState {
    let (of_array, label) = (array.label(), volume.label());
    let mut state =
        VolumeState::with_drives(&Regions::of(&volume.geometry), array.in_service(volume));
    if volume.is_redundant() {
        let marked: RegionSet = array.map.borrow().iter().map(RegionIndex).collect();
        state.apply(&Change::Marked(volume.own_regions(&marked)));
    }
    state.apply(&Change::Unsynced(volume.own_regions(&array.unsynced_regions())));
    state = match volume.is_initialised_by_stripe() {
        true => {
            let none = volume.own_regions(&array.uninitialised(volume));
            state.with_initialisation(&none, array.initialised_in_part(volume))
        }
        false => state.with_unwritten(&volume.own_regions(&array.unwritten(volume))),
    };
    for (index, member) in
        of_array.member.iter().enumerate().filter(|(slot, _)| volume.is_on(*slot))
    {
        let slot = DriveIndex(index as u16);
        state = state.with_stale(slot, &volume.own_regions(&array.missed(index)));
        if member.replacement.is_some() {
            let left = volume.own_regions(&array.left_on_replacement(index));
            state.apply(&Change::ReplacementBegan { slot, left });
        }
        let ranges = listed_blocks(&label.punctured, index).ranges().to_vec();
        state.apply(&Change::Punctured { slot, ranges });
        let ranges = listed_blocks(&label.excluded, index).ranges().to_vec();
        state.apply(&Change::Excluded { slot, ranges });
    }
    if let Some(ondisk::Relocated { slot, regions }) = &label.relocated {
        let (slot, regions) =
            (DriveIndex(*slot), volume.own_regions(&crate::arrays::array::set_of(regions)));
        state.apply(&Change::Moved { slot, regions, to_spare: true });
    }
    state.with_forced(volume.forced())
}

impl Array {
    /// Which further failures of drives a volume tolerates, with its parts if it is reshaped.
    pub(crate) fn tolerance(&self, volume: &Volume) -> Tolerance {
        self.tolerance_without(volume, &DriveSet::EMPTY)
    }

    /// The same if these drives have failed as well.
    pub(crate) fn tolerance_without(&self, volume: &Volume, lost: &DriveSet) -> Tolerance {
        let failing =
            ondisk::slots(self.lost.borrow().keys().copied()).union(&volume.lost()).union(lost);
        let of_part = |part: &Volume| {
            let mut state = volume_state(self, part);
            // Regions that the reshape has left, or has not reached, hold no data.
            let own = part.own_regions(&self.unsynced_regions());
            let first = part.regions().start;
            let is_unused = |region: &RegionIndex| !self.is_in_use(part, first + region.0);
            state.apply(&Change::Synced(own.iter().filter(is_unused).collect()));
            state.tolerance(&Regions::of(&part.geometry), &failing)
        };
        let parts = self.together_with(volume);
        let others = parts.iter().filter(|part| part.uuid() != volume.uuid());
        others.fold(of_part(volume), |all, part| all.and(of_part(part)))
    }
}

fn label_is_part(volume: &Volume) -> bool {
    volume.label().is_part()
}

/// Access to a drive for the shards of a volume. The volume of saved windows begins elsewhere on
/// the drive than all others, so every path that gives shards a drive uses this.
pub(super) fn place_on(label: &VolumeLabel, access: Access) -> Option<Arc<dyn DriveSource>> {
    match label.saves() {
        false => Some(access.source),
        true => {
            let room = access.tail()?.journals();
            Some(Arc::new(ShiftedSource::new(access.source, ByteCount(room.start.0))))
        }
    }
}

impl Arrays {
    /// The error limits at which drives of an array are taken out.
    pub(crate) fn fault_policy(&self, policy: &ondisk::Policy) -> FaultPolicy {
        FaultPolicy { limits: self.limits, unrepaired_limit: policy.medium_error_limit }
    }

    /// Begins the background work for an array.
    pub(crate) fn begin(self: &Rc<Self>, array: &Rc<Array>) {
        let running = Rc::new(Running::default());
        array.set_running(Some(running.clone()));
        self.env.spawn("failures", self.clone().handle_failures(array.clone(), running.clone()));
        self.env.spawn("recorder", self.clone().record(array.clone(), running.clone()));
        self.env.spawn("bitmap clearer", self.clone().clear_bitmap(array.clone(), running));
    }

    fn attachment(
        &self,
        array: &Array,
        volume: &Volume,
        id: VolumeId,
        (cache, on_log): (CacheTerms, FoundOnLog),
    ) -> Result<Attachment> {
        let (of_array, label) = (array.label(), volume.label());
        let sector =
            label.sector().map_err(|error| Error::new(ErrorKind::WrongState, error.to_string()))?;
        let spec = VolumeSpec {
            id,
            name: label.name.clone(),
            geometry: volume.geometry,
            sector,
            data_start: ByteOffset(label.data_start_bytes),
            capacity: ByteCount(label.capacity_bytes),
            policy: self.fault_policy(&of_array.policy),
        };
        let in_use = array.in_use();
        let members = (0..of_array.member.len()).filter(|slot| volume.is_on(*slot));
        let place = |access: Access| place_on(&label, access);
        let source = |slot: usize| -> Option<Arc<dyn DriveSource>> {
            let access = array.drive(slot).and_then(|drive| drive.access());
            access.filter(|_| in_use.contains(&slot)).and_then(place)
        };
        let places = array.places();
        let replacement = |slot: usize| -> Option<Arc<dyn DriveSource>> {
            of_array.member[slot].replacement.as_ref()?;
            places.get(slot)?.replacement.as_ref()?.access().and_then(place)
        };
        let live = array.live_of(volume);
        Ok(Attachment {
            replacements: members.clone().map(replacement).collect(),
            journal: volume.journal_place(self.shards.len(), of_array.tail),
            initialises: volume.is_initialised_by_stripe() && label.init == Init::Background,
            // A reshaping volume is offered to hosts when it is served by both layouts.
            hidden: volume.is_hidden() || live.is_some(),
            live: live.unwrap_or(0..u64::MAX),
            cache,
            reads: self.read_terms(volume),
            told: sectors::told(array, volume),
            data_log: on_log.terms,
            restored: Arc::new(on_log.restored),
            meter: volume.meter(),
            ..Attachment::new(
                Arc::new(spec),
                members.map(source).collect(),
                volume_state(array, volume),
            )
        })
    }

    /// Attaches a volume to all shards.
    ///
    /// # Errors
    /// When a shard cannot serve it; then none does.
    pub(crate) async fn attach(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let attached = match volume.is_on_its_way() {
            true => Box::pin(self.attach_on_its_way(array, volume)).await,
            false => self.try_attach(array, volume).await,
        };
        *volume.refusal.borrow_mut() = attached.as_ref().err().map(|error| error.message.clone());
        array.state(volume, self.env.unix_time());
        attached
    }

    pub(super) async fn try_attach(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        self.check_returned(array, volume).await.map_err(|error| {
            Error::new(
                error.kind,
                format!("'{}' cannot be served: {}", volume.name(), error.message),
            )
        })?;
        if !self.freshen_journal(array, volume).await {
            let sentence =
                format!("'{}' cannot be served: its journal cannot be created", volume.name());
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        // It is recorded in the label by now.
        volume.replayed.take();
        self.set_drive_caches(array).await;
        let cache = self.cache_terms(array, volume).await?;
        let id = self.new_volume_id();
        volume.hide((self.hides)(volume.uuid()) || label_is_part(volume));
        let attachment = self.attachment(array, volume, id, cache)?;
        volume.set_served(Some(id));
        let with = array.label().member.into_iter().zip(&attachment.replacements).enumerate();
        for (slot, (member, _)) in with.filter(|(_, (_, source))| source.is_some()) {
            member.replacement.iter().for_each(|filled| volume.note_replacement(slot, filled.uuid));
        }
        let told =
            self.tell_shards(|done| ShardMessage::Attach(Box::new(attachment.clone()), done)).await;
        if let Err(why) = told {
            self.withdraw_one(array, volume).await;
            let sentence = format!("'{}' cannot be served: {why}", volume.name());
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        self.cache_taken_up(array, volume);
        self.note_initialised(array, volume);
        self.attention.look_after();
        Ok(())
    }

    /// Sends the shards the new name of a volume. Connected hosts are not affected.
    ///
    /// # Errors
    /// When a shard could not be notified.
    pub(crate) async fn tell_name(&self, volume: &Volume) -> Result<()> {
        let (Some(id), name) = (volume.id(), volume.name()) else { return Ok(()) };
        let told = self.tell_shards(|done| ShardMessage::Rename(id, name.clone(), done)).await;
        told.map_err(|why| {
            Error::new(ErrorKind::Failed, format!("'{name}' is not served under that name: {why}"))
        })
    }

    /// Shows a volume to hosts, or hides it, if that has to change: its hosts are disconnected.
    ///
    /// # Errors
    /// When a shard cannot serve it; then none does.
    pub(crate) async fn offer_anew(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let _turn = array.starting.take(1).await;
        // A part of a reshaping volume is always hidden, whichever of its tasks has ended.
        let is_right = volume.is_hidden() == (self.hides)(volume.uuid()) || label_is_part(volume);
        if is_right || !volume.is_served() {
            return Ok(());
        }
        self.withdraw(array, volume).await;
        self.attach(array, volume).await
    }

    /// Detaches a volume from all shards, once outstanding operations are done; with the volumes
    /// that share its fate.
    pub(crate) async fn withdraw(self: &Rc<Self>, array: &Rc<Array>, volume: &Volume) {
        let others = array.together_with(volume);
        if others.is_empty() {
            return self.withdraw_one(array, volume).await;
        }
        for volume in others {
            self.withdraw_one(array, &volume).await;
        }
    }

    /// Detaches that volume alone.
    pub(super) async fn withdraw_one(self: &Rc<Self>, array: &Rc<Array>, volume: &Volume) {
        let Some(id) = volume.id() else { return };
        // The attachment tracks operations that timed out: the drives track them from here on.
        let (draining, asked) = self.drain_seats(array);
        draining.note(array, volume);
        let told = self.send_shards(|done| ShardMessage::Detach(id, asked.clone(), done));
        drop(asked);
        let told = answers(told).await;
        if let Err(why) = &told {
            tracing::error!(
                "some threads of SoftROC did not stop serving '{}': {why}",
                volume.name()
            );
        }
        // Another drive may have got a position meanwhile, with outstanding writes.
        draining.note(array, volume);
        if volume.id() == Some(id) {
            volume.set_served(None);
        }
        // A clearing that still runs must not unmark regions that the next attachment is about to
        // write.
        let (own, work) = (volume.regions(), &array.work);
        work.quiet.borrow_mut().retain(|region| !own.contains(region));
        work.clearing.borrow_mut().retain(|region, _| !own.contains(region));
        array.state(volume, self.env.unix_time());
        self.cache_given_back(array, volume, told.is_ok()).await;
    }

    /// Detaches all volumes of an array from the shards, and ends its background work.
    pub(crate) async fn detach(self: &Rc<Self>, array: &Rc<Array>) {
        let _turn = array.starting.take(1).await;
        let Some(running) = array.running() else { return };
        for volume in array.served() {
            self.withdraw(array, &volume).await;
        }
        running.stopped.set(true);
        array.work.changed.notify(&self.env);
        array.set_running(None);
        array.work.quiet.take();
        array.work.clearing.take();
        array.look_at_state(self.env.unix_time());
    }
}
