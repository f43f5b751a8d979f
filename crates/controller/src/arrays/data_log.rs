//! Data logs: what hosts of a volume were told is durable, on log devices before it is on the members.
//!
//! A volume has one while it is write-back, its journal lies on a log, and its place there is long enough for both: the second half of
//! it. Without one a flush waits for the drives.
//!
//! # The order of things
//! - *It begins.* The label names devices, place, and an identity that no record has; then shards write there.
//! - *It ends.* No shard promises anything; each destages what is dirty, and flushes the drives. Then the label names none; then
//!   shards promise again, by the drives. What goes wrong in between is tried again: hosts that flush wait meanwhile.
//! - *A device fails*, or does not answer in time. The label goes on without it before anything is answered that it lacks. With the last
//!   one it ends, as above: what the records have promised is in the cache still, and counts there until the drives have it.
//! - *A start.* Where the memory of the cache is here that the label names, it has everything, and records say nothing newer. After a
//!   power cut, or where the memory is gone (`lost_memory`), records are read, from those devices that are here; the label goes on without the others. What they say is dirty
//!   then, laid over what the drives hold: hosts are served at once. In both cases it ends first, as above, before another one begins.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::cache::{AGAIN, InEffect};
use crate::arrays::journal::read_journal;
use crate::arrays::shards::answers;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use engine::{Absorb, DataLogPlace, DataLogTerms, ShardMessage, VolumeId, ring_len};
use ondisk::{DataLogLabel, LogPlace, Uuid, VolumeLabel, WriteMode};
use platform::{Buf, Slice};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::{LogId, counting, patches, scan};

/// Why a volume is write-through while what its data log had is destaged.
pub(super) const RESTORES: &str = "what its log device had after a power cut is written to its drives first";

/// What a volume is attached with.
#[derive(Default)]
pub(super) struct FoundOnLog {
    pub(super) terms: DataLogTerms,
    /// What is to be laid over what the drives hold.
    pub(super) restored: Vec<(ByteRange, Slice)>,
}

/// The parts of a place on a log: how long a journal there is, and where the data log begins and how long it is, if there is room for
/// one.
pub(super) fn parts_of(place: &LogPlace, shards: usize) -> (u64, Option<(u64, u64)>) {
    let half = ByteCount(place.len_bytes / 2).align_down(write_log::BLOCK);
    match ring_len(half, shards as u16) {
        Some(_) => (half.0, Some((place.start_bytes + half.0, place.len_bytes - half.0))),
        None => (place.len_bytes, None),
    }
}

impl Arrays {
    /// What a volume that is about to be given to the shards has on log devices. `in_memory`: the memory is here that has everything;
    /// `is_void`: nothing of the volume counts any more.
    ///
    /// # Errors
    /// When what is there cannot be read, or what is missing cannot be recorded.
    pub(super) async fn find_data_log(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        in_memory: bool,
        is_void: bool,
    ) -> Result<FoundOnLog> {
        volume.has_data_log.set(false);
        volume.restores.set(false);
        let Some(label) = volume.label().data_log else { return Ok(FoundOnLog::default()) };
        if is_void || volume.given_up_data_log.get() == Some(label.id) {
            self.relabel(array, volume, |label| label.data_log = None).await?;
            return Ok(FoundOnLog::default());
        }
        if in_memory {
            return Ok(FoundOnLog { terms: DataLogTerms::Unfenced, restored: Vec::new() });
        }
        let restored = self.read_data_log(array, volume, &label).await?;
        if restored.is_empty() {
            self.relabel(array, volume, |label| label.data_log = None).await?;
            return Ok(FoundOnLog::default());
        }
        volume.restores.set(true);
        let bytes = ByteCount(restored.iter().map(|(range, _)| range.len.0).sum());
        let name = volume.name();
        let text = format!(
            "'{name}' was not cleanly shut down, and the memory of the cache is gone: {bytes} that its hosts had flushed were on its log device and are written to its drives now"
        );
        let effect =
            "what hosts had flushed is there, as after a power cut; a flush waits until this is done";
        let cause = "the memory of the cache is gone";
        self.events.report(EventCode::VolumeDataLogReplayed, &name, cause, effect, text);
        Ok(FoundOnLog { terms: DataLogTerms::Unfenced, restored })
    }

    /// What the records say that count, of those devices that are here. The label goes on without the others.
    async fn read_data_log(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        label: &DataLogLabel,
    ) -> Result<Vec<(ByteRange, Slice)>> {
        let read = self.read_records(volume, label).await;
        let (restored, here) = read.map_err(|why| {
            let name = volume.name();
            let names: Vec<String> = label.devices.iter().map(|id| self.log_device_name(*id)).collect();
            let loss = self.lost_with_records(volume);
            let sentence = format!(
                "'{name}' cannot be started: what its hosts had flushed is on log device {}, and {why}; run 'softroc volume start {name}' to try again; or, if that data may be lost, run 'softroc log discard {name} --yes' ({loss})",
                names.join(" or ")
            );
            Error::new(ErrorKind::WrongState, sentence)
        })?;
        if here.len() < label.devices.len() {
            let named = |label: &mut VolumeLabel| {
                label.data_log.iter_mut().for_each(|log| log.devices.clone_from(&here));
            };
            self.relabel(array, volume, named).await?;
        }
        Ok(restored)
    }

    /// The same, and which devices are here. Nothing is changed.
    ///
    /// # Errors
    /// Why they cannot be read: the end of a sentence about the devices.
    pub(super) async fn read_records(
        &self,
        volume: &Volume,
        label: &DataLogLabel,
    ) -> std::result::Result<(Vec<(ByteRange, Slice)>, Vec<Uuid>), String> {
        let range = ByteRange::new(ByteOffset(label.start_bytes), ByteCount(label.len_bytes));
        let (mut records, mut here, mut is_told) = (Vec::new(), Vec::new(), false);
        for (device, access) in self.ways_to_log(&label.devices) {
            match read_journal(&access, range).await {
                Ok((bytes, is_whole)) => {
                    is_told |= is_whole;
                    records.extend(scan(&bytes, LogId(label.id.0)));
                    here.push(device);
                }
                Err(error) => self.log_device_is_out(device, &error.to_string()),
            }
        }
        if !is_told {
            return Err("cannot be read".to_owned());
        }
        let records = counting(records)
            .map_err(|missing| format!("record {} of ring {} is missing", missing.sequence, missing.ring))?;
        let slice = |range: ByteRange, bytes: Option<Vec<u8>>| match bytes {
            Some(bytes) => {
                let mut buf = Buf::unpooled(range.len);
                buf.bytes_mut().copy_from_slice(&bytes);
                buf.freeze()
            }
            None => Slice::zero(range.len),
        };
        let patches = patches(&records);
        let capacity = volume.label().capacity_bytes;
        if patches.iter().any(|patch| patch.range.end().0 > capacity) {
            return Err("has records of bytes past the end of the volume".to_owned());
        }
        let patches = patches.into_iter();
        Ok((patches.map(|patch| (patch.range, slice(patch.range, patch.bytes))).collect(), here))
    }

    /// A volume has been given to the shards: what an earlier data log had is destaged, and another one begins, if it is to have one.
    pub(super) fn keep_data_log(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        let label = volume.label();
        let may_begin = || label.journal.is_some_and(|journal| journal.log.is_some());
        if label.data_log.is_none() && !may_begin() {
            return;
        }
        let (this, array, volume) = (self.clone(), array.clone(), volume.clone());
        self.env.spawn("keep a data log", async move {
            let Some(id) = volume.id() else { return };
            while volume.id() == Some(id) && volume.label().data_log.is_some() && !volume.has_data_log.get() {
                let drained = this.tell_shards(|done| ShardMessage::Drain(id, done)).await;
                let starting = array.starting_turn().await;
                if drained.is_ok() && this.end_settled(&array, &volume, id).await.is_ok() {
                    break;
                }
                drop(starting);
                this.env.sleep(AGAIN).await;
            }
            let _starting = array.starting_turn().await;
            if volume.id() == Some(id) {
                this.begin_data_log(&array, &volume).await;
            }
        });
    }

    /// Everything is on the drives that was promised before: nothing of the data log counts any more. The caller has the starting
    /// turn.
    async fn end_settled(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        id: VolumeId,
    ) -> Result<()> {
        if volume.id() != Some(id) || volume.has_data_log.get() || volume.label().data_log.is_none() {
            return Ok(()); // Somebody else has seen to it.
        }
        let is_logged = volume.mode_in_effect().is_some_and(|now| now.mode == WriteMode::LoggedWriteBack);
        let ended = |label: &mut VolumeLabel| {
            label.data_log = None;
            if is_logged && label.write_mode == WriteMode::LoggedWriteBack {
                // Every acknowledged write is on the drives: the memory is not waited for.
                label.kept = None;
            }
        };
        self.relabel(array, volume, ended).await?;
        self.give_data_log(id, DataLogTerms::None).await?;
        if !volume.restores.replace(false) {
            return Ok(());
        }
        // Nothing is dirty, and nothing comes: as if it had been attached just now.
        self.absorb(volume, Absorb::Nothing, 0).await?;
        match volume.label().write_mode {
            WriteMode::WriteThrough => Ok(()),
            // It has no data log by that: whoever ended one may be about to take the log from it.
            mode => self.take_up_mode(array, volume, mode).await.map(drop),
        }
    }

    /// Has a volume begin a data log, if it is to have one and has none. The caller has the starting turn.
    pub(super) async fn begin_data_log(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        let is_write_back =
            |now: InEffect| matches!(now.mode, WriteMode::WriteBack | WriteMode::LoggedWriteBack);
        let (label, Some(id)) = (volume.label(), volume.id()) else { return };
        if label.data_log.is_some() || !volume.mode_in_effect().is_some_and(is_write_back) {
            return;
        }
        let (Some(on), Some(place)) =
            (label.journal.and_then(|journal| journal.log), self.log_place_of(volume.uuid()))
        else {
            return;
        };
        let (_, Some((start_bytes, len_bytes))) = parts_of(&place, self.shards.len()) else { return };
        if start_bytes < on.start_bytes + on.len_bytes {
            return; // Its journal was made when there was none beside it; the next one is shorter.
        }
        let (identity, memory) = (self.new_uuid(), self.named());
        let named = |label: &mut VolumeLabel| {
            label.kept = label.kept.or(memory);
            let on = label.journal.as_ref().and_then(|journal| journal.log.as_ref());
            label.data_log = on.map(|on| DataLogLabel {
                id: identity,
                devices: on.devices.clone(),
                start_bytes,
                len_bytes,
            });
        };
        if self.relabel(array, volume, named).await.is_err() {
            return;
        }
        let Some(named) = volume.label().data_log else { return };
        let place = DataLogPlace {
            id: identity,
            at: ByteOffset(start_bytes),
            len: ByteCount(len_bytes),
            devices: volume.log_devices_of(&named.devices),
        };
        volume.has_data_log.set(true);
        let given = self.give_data_log(id, DataLogTerms::At(place)).await;
        // Its last device may have failed in the meantime.
        let is_lost = given.is_err()
            || volume.label().data_log.is_none_or(|log| log.id != identity)
            || self.ways_to_log(&named.devices).is_empty();
        if is_lost && let Err(error) = self.end_data_log(array, volume).await {
            tracing::warn!("'{}' answers no flush from its log: {error}", volume.name());
        }
    }

    /// Has a volume promise nothing by its data log any more. The caller has the starting turn.
    ///
    /// # Errors
    /// When something cannot be destaged: then it goes on being tried, and hosts that flush wait.
    pub(super) async fn end_data_log(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        let Some(id) = volume.id() else { return Ok(()) };
        volume.has_data_log.set(false);
        if volume.label().data_log.is_none() {
            return self.give_data_log(id, DataLogTerms::None).await;
        }
        let ended = async {
            self.give_data_log(id, DataLogTerms::Unfenced).await?;
            let drained = self.tell_shards(|done| ShardMessage::Drain(id, done)).await;
            drained.map_err(|why| {
                let sentence =
                    format!("not all of '{}' could be written to its drives: {why}", volume.name());
                Error::new(ErrorKind::Failed, sentence)
            })?;
            self.end_settled(array, volume, id).await
        };
        let ended = ended.await;
        if ended.is_err() {
            self.keep_data_log(array, volume);
        }
        ended
    }

    /// The last device of a data log failed, or does not answer. What it has promised counts until the drives have it, since it may be there
    /// alone by the time of the next power cut: it ends in the usual order. Sent in this very poll: what is sent next comes after it, and who
    /// waits for the device is answered when no shard promises anything by it any more.
    pub(super) fn data_log_fails(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>, id: VolumeId) {
        // Otherwise it is about to end already.
        if !volume.has_data_log.replace(false) {
            return;
        }
        let told = self.send_shards(|done| ShardMessage::SetDataLog(id, DataLogTerms::Unfenced, done));
        let name = volume.name();
        self.env.spawn("a data log fails", async move {
            if let Err(why) = answers(told).await {
                tracing::warn!("'{name}' was not told that its data log ends: {why}");
            }
        });
        self.keep_data_log(array, volume);
    }

    async fn give_data_log(&self, id: VolumeId, terms: DataLogTerms) -> Result<()> {
        let told = self.tell_shards(|done| ShardMessage::SetDataLog(id, terms.clone(), done)).await;
        told.map_err(|why| Error::new(ErrorKind::Failed, why))
    }

    /// The place of a volume on the log in use, as its devices know it.
    fn log_place_of(&self, volume: Uuid) -> Option<LogPlace> {
        let labels = self.all_log_devices().into_iter().filter_map(|drive| drive.log_label());
        let newest = labels.max_by_key(|label| label.generation)?;
        newest.place.into_iter().find(|place| place.volume == volume)
    }
}
