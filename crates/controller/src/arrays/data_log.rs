//! Data logs: durable data of hosts on log devices, before it is on the members.
//!
//! A volume has one while it is write-back, its journal is on a log, and its place there is large
//! enough for both; the data log is the second half. Without one a flush waits for the drives.
//!
//! # Order of steps
//! - *It begins.* The label names devices, place, and an identity that no record has; then shards
//!   write there.
//! - *It ends.* No shard issues durability tokens by it; each destages dirty data and flushes the
//!   drives. Then the label names none; then shards issue tokens again, by the drives. Failed steps
//!   are retried: flushes of hosts wait meanwhile.
//! - *A device fails*, or exceeds its time limit. The label drops it before a write that it lacks
//!   is acknowledged. With the last device the log ends, as above: its records are still in the
//!   cache, and count until the drives have the data.
//! - *A start.* Where the cache's memory that the label names is present, it is complete, and the
//!   records hold nothing newer. After a power cut, or where the memory is gone (`lost_memory`),
//!   records are read from the devices that are present; the label drops the others. Their data is
//!   dirty then, on top of the drives' content: hosts are served at once. In both cases the log
//!   ends first, as above, before another one begins.

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

/// Why a volume is write-through while the content of its data log is destaged.
pub(super) const RESTORES: &str =
    "data that its log device had after a power cut is written to its drives first";

/// The data log state with which a volume is attached.
#[derive(Default)]
pub(super) struct FoundOnLog {
    pub(super) terms: DataLogTerms,
    /// Logged data that is newer than the drives' content.
    pub(super) restored: Vec<(ByteRange, Slice)>,
}

/// The parts of a place on a log: the length of the journal, and offset and length of the data log,
/// if there is space for one.
pub(super) fn parts_of(place: &LogPlace, shards: usize) -> (u64, Option<(u64, u64)>) {
    let half = ByteCount(place.len_bytes / 2).align_down(write_log::BLOCK);
    match ring_len(half, shards as u16) {
        Some(_) => (half.0, Some((place.start_bytes + half.0, place.len_bytes - half.0))),
        None => (place.len_bytes, None),
    }
}

impl Arrays {
    /// The data on log devices of a volume that is about to be attached to the shards. `in_memory`:
    /// the memory is present and complete; `is_void`: no data of the volume counts any more.
    ///
    /// # Errors
    /// When the records cannot be read, or a missing device cannot be recorded.
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
            "'{name}' was not cleanly shut down, and the cache's memory is lost: {bytes} of \
            flushed data were on its log device and are written to its drives now"
        );
        let effect = "all flushed data is present; flushes wait until this is done";
        let cause = "the cache's memory is lost";
        self.events.report(EventCode::VolumeDataLogReplayed, &name, cause, effect, text);
        Ok(FoundOnLog { terms: DataLogTerms::Unfenced, restored })
    }

    /// Reads the valid records of the devices that are present. The label drops the others.
    async fn read_data_log(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        label: &DataLogLabel,
    ) -> Result<Vec<(ByteRange, Slice)>> {
        let read = self.read_records(volume, label).await;
        let (restored, here) = read.map_err(|why| {
            let name = volume.name();
            let names: Vec<String> =
                label.devices.iter().map(|id| self.log_device_name(*id)).collect();
            let loss = self.lost_with_records(volume);
            let sentence = format!(
                "'{name}' cannot be started: its last flushed data is on log device {}, which \
                {why}; run 'softroc volume start {name}' to try again; or, to accept the loss of \
                that data, run 'softroc log discard {name} --yes' ({loss})",
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

    /// The same, and which devices are present. Nothing is changed.
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
        let records = counting(records).map_err(|missing| {
            format!("lacks record {} of ring {}", missing.sequence, missing.ring)
        })?;
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
            return Err("has log records for bytes past the end of the volume".to_owned());
        }
        let patches = patches.into_iter();
        Ok((patches.map(|patch| (patch.range, slice(patch.range, patch.bytes))).collect(), here))
    }

    /// A volume has been attached to the shards: the content of an earlier data log is destaged,
    /// and another one begins, if configured.
    pub(super) fn keep_data_log(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        let label = volume.label();
        let may_begin = || label.journal.is_some_and(|journal| journal.log.is_some());
        if label.data_log.is_none() && !may_begin() {
            return;
        }
        let (this, array, volume) = (self.clone(), array.clone(), volume.clone());
        self.env.spawn("keep a data log", async move {
            let Some(id) = volume.id() else { return };
            while volume.id() == Some(id)
                && volume.label().data_log.is_some()
                && !volume.has_data_log.get()
            {
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

    /// All logged data is on the drives: no record of the data log counts any more. The caller
    /// holds the starting lock.
    async fn end_settled(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        id: VolumeId,
    ) -> Result<()> {
        if volume.id() != Some(id) || volume.has_data_log.get() || volume.label().data_log.is_none()
        {
            return Ok(()); // A concurrent task has ended it.
        }
        let is_logged =
            volume.mode_in_effect().is_some_and(|now| now.mode == WriteMode::LoggedWriteBack);
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
        // Nothing is dirty, and no write arrives: the same state as after an attach.
        self.absorb(volume, Absorb::Nothing, 0).await?;
        match volume.label().write_mode {
            WriteMode::WriteThrough => Ok(()),
            // The volume gets no data log by this: the caller that ended one may be about to remove
            // the log.
            mode => self.take_up_mode(array, volume, mode).await.map(drop),
        }
    }

    /// Begins a data log for a volume, if it should have one and has none. The caller holds the
    /// starting lock.
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
        let (_, Some((start_bytes, len_bytes))) = parts_of(&place, self.shards.len()) else {
            return;
        };
        if start_bytes < on.start_bytes + on.len_bytes {
            return; // Its journal was made without a data log; the next one is shorter.
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
            tracing::warn!("the data log of '{}' could not be ended: {error}", volume.name());
        }
    }

    /// Ends the use of its data log for durability tokens of a volume. The caller holds the
    /// starting lock.
    ///
    /// # Errors
    /// When some data cannot be destaged: the destage is retried, and flushes of hosts wait.
    pub(super) async fn end_data_log(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let Some(id) = volume.id() else { return Ok(()) };
        volume.has_data_log.set(false);
        if volume.label().data_log.is_none() {
            return self.give_data_log(id, DataLogTerms::None).await;
        }
        let ended = async {
            self.give_data_log(id, DataLogTerms::Unfenced).await?;
            let drained = self.tell_shards(|done| ShardMessage::Drain(id, done)).await;
            drained.map_err(|why| {
                let sentence = format!(
                    "not all dirty data of '{}' could be written to its drives: {why}",
                    volume.name()
                );
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

    /// The last device of a data log failed or does not respond. Its records count until the drives
    /// have the data: after a power cut they may be the only copy. So the log ends in the usual
    /// order. The message is sent within this poll, so it precedes later ones. Requests that wait
    /// for the device complete when no shard issues durability tokens by it.
    pub(super) fn data_log_fails(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        id: VolumeId,
    ) {
        // Otherwise it is ending already.
        if !volume.has_data_log.replace(false) {
            return;
        }
        let told =
            self.send_shards(|done| ShardMessage::SetDataLog(id, DataLogTerms::Unfenced, done));
        let name = volume.name();
        self.env.spawn("a data log fails", async move {
            if let Err(why) = answers(told).await {
                tracing::warn!(
                    "the shards of '{name}' were not notified that its data log ends: {why}"
                );
            }
        });
        self.keep_data_log(array, volume);
    }

    async fn give_data_log(&self, id: VolumeId, terms: DataLogTerms) -> Result<()> {
        let told = self.tell_shards(|done| ShardMessage::SetDataLog(id, terms.clone(), done)).await;
        told.map_err(|why| Error::new(ErrorKind::Failed, why))
    }

    /// The place of a volume on the log in use, as recorded on its devices.
    fn log_place_of(&self, volume: Uuid) -> Option<LogPlace> {
        let labels = self.all_log_devices().into_iter().filter_map(|drive| drive.log_label());
        let newest = labels.max_by_key(|label| label.generation)?;
        newest.place.into_iter().find(|place| place.volume == volume)
    }
}
