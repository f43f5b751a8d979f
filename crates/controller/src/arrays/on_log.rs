//! Journals on log devices: the place of each volume there, and the handling of failed or missing
//! devices.
//!
//! # Order of steps
//! - *A volume gets a place.* The labels of the log's devices name it. Then the volume's label
//!   names the devices and the place, with an identity that no record has; then records are written
//!   there. After a crash in between, the place is unused, and the volume gets it again.
//! - *A device fails*, or exceeds the time limit of a write. The labels of its volumes drop it;
//!   then waiting requests complete. Records on the last device count until the drives have the
//!   data: they may be the only copy of a durable write. So no shard issues durability tokens by it
//!   any more; then the drives are flushed; then the labels name the place on the members with
//!   another identity, which does not cover all writes; and the shards write there from then on.
//!   When earlier operations are done and the drives are flushed, it covers all. A crash before
//!   that is handled as without a journal.
//! - *A start after a crash.* Records are read from the devices that the volume's label names.
//!   Where one of two is missing, the label drops it before a record is applied: an incomplete
//!   write may have its record on one device only, and once the replay has begun, the missing
//!   device must not count as complete. Where all are missing, the volume waits for them.
//! - *A place is freed.* First the volume's label drops it, then those of the devices.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::data_log::parts_of;
use crate::arrays::extents;
use crate::arrays::journal::{JournalCopies, members_of, read_journal, spread};
use crate::arrays::shards::answers;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use crate::inventory::access::Access;
use engine::{LogDevice, ShardIndex, ShardMessage, VolumeId};
use ondisk::{DataLogLabel, JournalLabel, LogLabel, LogPlace, OnLog, Uuid, VolumeLabel};
use platform::{IoError, IoErrorKind};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::{Holders, LogId, Record, scan};

/// The maximum length of a volume's place on a log device, for its journal and its data log. It is
/// read completely after a crash.
const LONGEST: ByteCount = ByteCount(128 << 20);

/// The minimum length of a place; lengths are multiples of it.
const SHORTEST: ByteCount = ByteCount(1 << 20);

/// How often the drives are flushed to replace the records of the last log device, and the delay
/// between attempts, before volumes continue without them.
const HOLD_TRIES: usize = 3;
const HOLD_AGAIN: Duration = Duration::from_secs(1);

/// The minimum number of volumes that fit on a log device.
const VOLUMES: u64 = 16;

/// A place on the devices of a log, and access to these; or none.
#[derive(Default)]
pub(crate) struct LogPlaced {
    pub(super) on: Option<OnLog>,
    pub(super) devices: Vec<LogDevice>,
}

impl Arrays {
    /// A place for the journal of a volume on the log in use, if there is a log with free space.
    pub(super) async fn place_on_log(&self, volume: &Volume) -> LogPlaced {
        self.find_place_on_log(volume).await.unwrap_or_default()
    }

    async fn find_place_on_log(&self, volume: &Volume) -> Option<LogPlaced> {
        let log = self.log_in_use()?;
        let _turn = self.logs.turn.take(1).await;
        let devices = self.log_devices(log);
        let newest = |drive: &Rc<Drive>| drive.log_label();
        let label = devices.iter().filter_map(newest).max_by_key(|label| label.generation)?;
        let len = room_of(&devices)?;
        let (label, place) =
            match label.place.iter().find(|place| place.volume == volume.uuid()).cloned() {
                Some(place) => (label, place),
                None => {
                    with_place(label, self.owner_place(volume), self.taken_of_log(&devices), len)?
                }
            };
        let label = LogLabel { generation: label.generation + 1, ..label };
        let mut served = Vec::new();
        for drive in devices {
            let Some(own) = drive.log_label() else { continue };
            let Some(access) = drive.access() else { continue };
            let label = LogLabel { device: own.device, ..label.clone() };
            match self.inventory.write_log_label(&drive, label).await {
                Ok(()) => served.push(LogDevice { id: own.device, source: access.source }),
                // The device works, but has no place for the volume yet: the next start retries.
                Err(error) if error.kind == ErrorKind::Busy => return None,
                Err(error) => self.log_device_is_out(own.device, &error.message),
            }
        }
        if served.is_empty() {
            return None;
        }
        let on = OnLog {
            devices: served.iter().map(|device| device.id).collect(),
            start_bytes: place.start_bytes,
            len_bytes: parts_of(&place, self.shards.len()).0,
        };
        Some(LogPlaced { on: Some(on), devices: served })
    }

    /// A part of a reshaping volume has no public name: messages name that volume.
    fn name_for_people(&self, volume: &Volume) -> String {
        let part = volume.label().part;
        let arrays = self.all();
        let owner = part.and_then(|part| arrays.iter().find_map(|array| array.volume(part.of)));
        owner.map_or_else(|| volume.name(), |owner| owner.name())
    }

    /// The entry of a volume's place on a log device.
    fn owner_place(&self, volume: &Volume) -> LogPlace {
        let name = self.name_for_people(volume);
        LogPlace { volume: volume.uuid(), name, start_bytes: 0, len_bytes: 0 }
    }

    /// The ranges that may be in use on any of a log's devices. A device that was absent lacks
    /// later places of the other one, and volumes' labels may name places that neither lists.
    fn taken_of_log(&self, devices: &[Rc<Drive>]) -> Vec<Range<u64>> {
        let labels: Vec<LogLabel> = devices.iter().filter_map(|drive| drive.log_label()).collect();
        let places = labels.iter().flat_map(|label| &label.place);
        let places = places
            .map(|place| place.start_bytes..place.start_bytes.saturating_add(place.len_bytes));
        let volumes = self.all().into_iter().flat_map(|array| array.volumes());
        let named = volumes.flat_map(|volume| {
            let VolumeLabel { journal, data_log, .. } = volume.label();
            let journal = journal.and_then(|journal| journal.log);
            let journal = journal.map(|on| (on.devices, on.start_bytes, on.len_bytes));
            journal
                .into_iter()
                .chain(data_log.map(|log| (log.devices, log.start_bytes, log.len_bytes)))
        });
        let is_here = |devices: &[Uuid]| labels.iter().any(|label| devices.contains(&label.device));
        let named = named.filter(|(devices, ..)| is_here(devices));
        let named = named.map(|(_, start, len)| start..start.saturating_add(len));
        places.chain(named).collect()
    }

    /// A volume has no records on a log any more, and its label says so: its place is free.
    pub(crate) async fn free_on_log(&self, volume: Uuid) {
        self.change_places(volume, |places| places.retain(|place| place.volume != volume)).await;
    }

    /// A part of a reshaping volume has become that volume: its place follows. The place of the old
    /// layout is free.
    pub(super) async fn pass_on_log(&self, part: Uuid, volume: Uuid) {
        self.free_on_log(volume).await;
        let is_its = |place: &&mut LogPlace| place.volume == part;
        self.change_places(part, |places| {
            places.iter_mut().filter(is_its).for_each(|place| place.volume = volume)
        })
        .await;
    }

    /// At a start: an entry under the volume's name that differs from the place in its label is
    /// stale. The entry remains when a crash after a reshape precedes the update of the devices.
    /// The volume gets its own place again.
    pub(super) async fn free_what_it_came_from(&self, volume: &Volume) {
        let Some(on) = volume.label().journal.and_then(|journal| journal.log) else { return };
        let (own, name, end) =
            (volume.uuid(), self.name_for_people(volume), on.start_bytes + on.len_bytes);
        let is_left = |place: &LogPlace| {
            let overlaps = place.start_bytes < end
                && on.start_bytes < place.start_bytes.saturating_add(place.len_bytes);
            overlaps && place.volume != own && place.name == name
        };
        let devices = self.all_log_devices().into_iter().filter_map(|drive| drive.log_label());
        let places = devices
            .filter(|label| on.devices.contains(&label.device))
            .flat_map(|label| label.place);
        let left: Vec<Uuid> = places.filter(is_left).map(|place| place.volume).collect();
        for part in left {
            self.free_on_log(part).await;
        }
    }

    /// Changes the places on the log devices, where they name a volume.
    async fn change_places(&self, volume: Uuid, change: impl Fn(&mut Vec<LogPlace>)) {
        let _turn = self.logs.turn.take(1).await;
        for drive in self.all_log_devices() {
            let Some(mut label) = drive.log_label() else { continue };
            if label.place.iter().all(|place| place.volume != volume) {
                continue;
            }
            change(&mut label.place);
            label.generation += 1;
            let device = label.device;
            match self.inventory.write_log_label(&drive, label).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Busy => tracing::warn!("{}", error.message),
                Err(error) => self.log_device_is_out(device, &error.message),
            }
        }
    }

    /// Whether all log devices are present that the volumes of an array name.
    pub(crate) fn has_all_log_devices(&self, array: &Array) -> bool {
        array.volumes().iter().map(|volume| volume.label()).all(|label| {
            let of_journal = label.journal.and_then(|journal| journal.log).map(|log| log.devices);
            let of_data = label.data_log.map(|log| log.devices);
            let mut named = of_journal.into_iter().chain(of_data);
            named.all(|devices| self.ways_to_log(&devices).len() == devices.len())
        })
    }

    /// Access to those of these devices that are present and have not failed.
    pub(super) fn ways_to_log(&self, devices: &[Uuid]) -> Vec<(Uuid, Access)> {
        let drives = self.all_log_devices().into_iter();
        let way = |drive: Rc<Drive>| {
            let device = drive.log_label()?.device;
            let is_wanted = devices.contains(&device) && !self.logs.has_failed(device);
            is_wanted.then_some(())?;
            Some((device, drive.access()?))
        };
        drives.filter_map(way).collect()
    }

    /// Reads a journal from the present devices of its log, for members that have not failed.
    pub(super) async fn read_log(
        &self,
        array: &Array,
        id: Uuid,
        on: &OnLog,
        failed: &mut BTreeMap<usize, IoError>,
    ) -> JournalCopies {
        let members = members_of(array, failed).into_iter().collect();
        let range = ByteRange::new(ByteOffset(on.start_bytes), ByteCount(on.len_bytes));
        let (mut copies, mut log, mut is_told) = (BTreeMap::new(), BTreeMap::new(), false);
        for (number, (device, access)) in self.ways_to_log(&on.devices).into_iter().enumerate() {
            match read_journal(&access, range).await {
                Ok((bytes, is_whole)) => {
                    is_told |= is_whole;
                    copies.insert(number, scan(&bytes, LogId(id.0)));
                    log.insert(number, (device, access));
                }
                Err(error) => self.log_device_is_out(device, &error.to_string()),
            }
        }
        let names = || {
            let names = log.values().map(|(device, _)| self.log_device_name(*device));
            names.collect::<Vec<String>>().join(" or ")
        };
        let untold = (!is_told && !log.is_empty()).then(names);
        JournalCopies { members, copies, untold, log }
    }

    /// Before records from a log are applied: each present device gets the records that it lacks,
    /// and the volume's label drops the other devices. Returns whether that is done.
    pub(super) async fn settle_log(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        on: &OnLog,
        log: BTreeMap<usize, (Uuid, Access)>,
        (records, holders): (&[Record], &mut Holders),
    ) -> bool {
        let mut drives: BTreeMap<usize, Access> =
            log.iter().map(|(number, (_, access))| (*number, access.clone())).collect();
        let start = |_: &Access| Some(ByteOffset::ZERO);
        let failed = spread(on.start_bytes, &mut drives, start, records, holders, |_| false).await;
        if failed.values().any(IoError::spares_drive) {
            return false;
        }
        for (number, error) in &failed {
            self.log_device_is_out(log[number].0, &error.to_string());
        }
        let left: Vec<Uuid> = drives.keys().map(|number| log[number].0).collect();
        if left.is_empty() || left.len() == on.devices.len() {
            return !left.is_empty();
        }
        let on = OnLog { devices: left, ..on.clone() };
        let named = |label: &mut VolumeLabel| {
            label.journal.iter_mut().for_each(|journal| journal.log = Some(on.clone()));
        };
        self.relabel(array, volume, named).await.is_ok()
    }

    /// Whether the records of a volume that is about to be started are discarded: by an operator,
    /// or because its log is missing after a clean stop before its redundancy agreed. It is started
    /// as if it had no journal.
    pub(super) fn is_log_given_up(&self, array: &Array, volume: &Volume) -> bool {
        let Some(JournalLabel { id: Some(id), log: Some(on), .. }) = volume.label().journal else {
            return false;
        };
        let is_missing =
            || array.label().was_shut_down() && self.ways_to_log(&on.devices).is_empty();
        volume.given_up_log.get() == Some(id) || is_missing()
    }

    /// Checks whether a volume may be started with regard to its records: those of a crash are
    /// present.
    ///
    /// # Errors
    /// Which devices they are on.
    pub(crate) fn check_log_is_here(&self, array: &Array, volume: &Volume) -> Result<()> {
        // After a clean stop the drives have all data, also where regions still need a resync.
        let is_settled = array.label().was_shut_down() || volume.has_fresh_journal();
        let label = volume.label();
        let records = match label.journal {
            // The drives' labels still name a discarded journal, and are read once more by a start.
            Some(JournalLabel { id, log: Some(on), .. })
                if id.is_some() && volume.given_up_log.get() != id =>
            {
                Some(on.devices)
            }
            _ => None,
        };
        let is_given_up = |log: &DataLogLabel| volume.given_up_data_log.get() == Some(log.id);
        let promised =
            label.data_log.filter(|log| !self.is_in_memory(label.kept) && !is_given_up(log));
        let promised = promised.map(|log| log.devices);
        let is_missing = |devices: &Vec<Uuid>| self.ways_to_log(devices).is_empty();
        let (what, devices) = match (records.filter(is_missing), promised.filter(is_missing)) {
            (Some(devices), _) if !is_settled => ("the records of its interrupted writes", devices),
            (_, Some(devices)) => ("its last flushed data", devices),
            _ => return Ok(()),
        };
        let name = self.name_for_people(volume);
        let names: Vec<String> = devices.iter().map(Uuid::to_string).collect();
        let loss = self.lost_with_records(volume);
        let sentence = format!(
            "'{name}' cannot be started: it was not cleanly shut down, and the missing log device \
            {} holds {what}. Connect it, and register it with 'softroc drive add' if it is not \
            listed; or, to accept the loss of the last acknowledged writes, run 'softroc log \
            discard {name} --yes' ({loss})",
            names.join(" or ")
        );
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// A shard could not write a record to a log device.
    pub(super) fn log_failed(
        self: &Rc<Self>,
        (array, volume): (&Rc<Array>, &Rc<Volume>),
        (from, number): (ShardIndex, u64),
        device: Uuid,
        error: IoError,
    ) {
        self.log_device_is_out(device, &error.to_string());
        let (this, array, volume) = (self.clone(), array.clone(), volume.clone());
        self.env.spawn("go on without a log device", async move {
            let gone_on = this.go_on_without(&array, &volume, device).await;
            this.answer_report(from, number, gone_on);
            for array in this.all() {
                for volume in array.volumes() {
                    if let Err(error) = this.go_on_without(&array, &volume, device).await {
                        tracing::warn!(
                            "the label of '{}' still names a failed log device: {error}",
                            volume.name()
                        );
                    }
                }
            }
        });
    }

    /// Drops a device from the label of a volume, and notifies its shards.
    ///
    /// # Errors
    /// When that cannot be recorded.
    async fn go_on_without(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        device: Uuid,
    ) -> std::result::Result<(), IoError> {
        let mut is_held = false;
        loop {
            // For a volume that is not served, the device may hold the only copy of its interrupted
            // writes.
            let Some(served) = volume.id().filter(|_| volume.is_on_log(&[device])) else {
                return Ok(());
            };
            if is_last_of_journal(&volume.label(), device) && !is_held {
                self.have_drives_promise(volume, served, device).await;
                is_held = true;
            }
            let _turn = array.metadata.take(1).await;
            // The other one may have failed meanwhile.
            if volume.id() == Some(served)
                && (is_held || !is_last_of_journal(&volume.label(), device))
            {
                return self.name_no_more(array, volume, served, device).await;
            }
        }
    }

    /// Makes the drives durable for the records of a journal's last device; afterwards no
    /// durability token relies on it. Until then its records count, as they may be the only copy.
    /// The caller holds no lock that a flush may wait for.
    async fn have_drives_promise(&self, volume: &Volume, served: VolumeId, device: Uuid) {
        for _ in 0..HOLD_TRIES {
            let held =
                self.tell_shards(|done| ShardMessage::HoldLogDevice(served, device, done)).await;
            let Err(why) = held else { return };
            tracing::warn!(
                "data of '{}' on a log device is not on its drives yet: {why}",
                volume.name()
            );
            if volume.id() != Some(served) {
                return;
            }
            self.env.sleep(HOLD_AGAIN).await;
        }
    }

    /// The same as [`go_on_without`](Self::go_on_without). The caller holds the array's metadata
    /// lock.
    async fn name_no_more(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        served: VolumeId,
        device: Uuid,
    ) -> std::result::Result<(), IoError> {
        let before = volume.label();
        let mut next = array.label();
        let Some(label) = next.volume_mut(volume.uuid()) else { return Ok(()) };
        let another = without_device(label, device).then(|| self.new_uuid());
        if let (Some(id), Some(journal)) = (another, &mut label.journal) {
            journal.id = Some(id);
        }
        let is_news = *label != before;
        if is_news && !self.commit(array, next, Vec::new()).await {
            // The shards use the device themselves again, and detect its failure.
            drop(self.send_shards(|done| ShardMessage::TakeBackLogDevice(served, device, done)));
            return Err(IoError::new(IoErrorKind::Gone));
        }
        if before.data_log.is_some_and(|log| log.devices == [device]) {
            self.data_log_fails(array, volume, served);
        }
        let lost = before.journal.and_then(|journal| journal.id);
        let (Some(id), Some(lost)) = (another, lost) else {
            // Shards that have not seen the failure would detect it with their next record. They
            // are not waited for: they may wait for this.
            let told = self.send_shards(|done| ShardMessage::LeaveLogDevice(served, device, done));
            let name = volume.name();
            self.env.spawn("tell that a log device is out", async move {
                if let Err(why) = answers(told).await {
                    tracing::warn!("'{name}' may use a failed log device once more: {why}");
                }
            });
            return Ok(());
        };
        // A journal that is being removed meanwhile does not cover all writes again.
        if volume.journal_id.get().is_some() {
            volume.journal_id.set(Some(id));
        }
        let place = volume.journal_place_as(id, self.shards.len(), array.label().tail);
        let told =
            self.send_shards(|done| ShardMessage::LoseJournal(served, lost, place.clone(), done));
        let (this, array, volume) = (self.clone(), array.clone(), volume.clone());
        self.env.spawn("settle a lost journal", async move {
            match answers(told).await {
                Ok(()) => this.cover_now(&array, &volume).await,
                Err(why) => {
                    tracing::warn!("the journal of '{}' is incomplete: {why}", volume.name())
                }
            }
        });
        Ok(())
    }

    /// A log device is out of use until the controller is restarted.
    pub(super) fn log_device_is_out(&self, device: Uuid, why: &str) {
        if !self.logs.note_failed(device, why) {
            return;
        }
        let name = self.log_device_name(device);
        let text = format!(
            "log device {name} failed: {why}; volumes continue with the other device of the log, \
            or with journals on their own drives. Replace it: run 'softroc log remove {name}', \
            then 'softroc log add' with another one"
        );
        let effect = "volumes continue without it";
        self.events.report(EventCode::LogDeviceFailed, &name, why, effect, text);
        self.attention.notify();
    }
}

/// Whether a device is the last one of a volume's journal.
fn is_last_of_journal(label: &VolumeLabel, device: Uuid) -> bool {
    let on = label.journal.as_ref().and_then(|journal| journal.log.as_ref());
    on.is_some_and(|on| on.devices == [device])
}

/// Drops a log device from a volume's label. Returns whether it was the last one of its journal,
/// which is on the members then and does not cover all writes. The data log keeps its last device:
/// its records count until the drives have the data ([`Arrays::data_log_fails`]).
fn without_device(label: &mut VolumeLabel, device: Uuid) -> bool {
    let is_last = is_last_of_journal(label, device);
    if let Some(log) = label.data_log.as_mut().filter(|log| log.devices.len() > 1) {
        log.devices.retain(|other| *other != device);
    }
    let Some(journal) = &mut label.journal else { return false };
    if let Some(on) = journal.log.as_mut().filter(|_| !is_last) {
        on.devices.retain(|other| *other != device);
    } else if is_last {
        (journal.log, journal.tells_all) = (None, false);
    }
    is_last
}

/// The usable range of a log on these devices: that of the shortest.
fn room_of(devices: &[Rc<Drive>]) -> Option<(u64, u64)> {
    let rooms = devices.iter().map(|drive| LogLabel::room(drive.extent().0));
    let rooms: Vec<_> = rooms.collect::<Option<_>>()?;
    let start = rooms.iter().map(|room| room.start.0).max()?;
    let end = rooms.iter().map(|room| room.end().0).min()?;
    Some((start, end))
}

/// A log's label with a place for one more volume, beside the taken ranges. `None`: there is no
/// space.
fn with_place(
    mut label: LogLabel,
    of: LogPlace,
    mut taken: Vec<Range<u64>>,
    (start, end): (u64, u64),
) -> Option<(LogLabel, LogPlace)> {
    // The bytes before the usable range count as taken.
    taken.push(0..start);
    let gap = extents::longest(&extents::gaps(taken, end))?;
    let fair = ByteCount(end.saturating_sub(start) / VOLUMES).align_down(SHORTEST);
    let len =
        fair.max(SHORTEST).min(LONGEST).min(ByteCount(gap.end - gap.start).align_down(SHORTEST));
    let place = LogPlace { start_bytes: gap.start, len_bytes: len.0, ..of };
    (!len.is_zero()).then(|| {
        label.place.push(place.clone());
        (label, place)
    })
}
