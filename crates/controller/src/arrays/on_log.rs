//! Journals on log devices: where each volume has its place there, and what becomes of volumes whose devices fail or are missing.
//!
//! # The order of things
//! - *A volume gets a place.* The labels of the log's devices name it. Then the volume's label names the devices and the place, with
//!   an identity that no record has; then records are written there. Killed in between: a place that nobody uses, which the volume
//!   gets again.
//! - *A device fails*, or has not answered within the time limit of a write. The labels of the volumes that have records there go on
//!   without it; then what waited for it is answered. Where it was the last one, its records count until the drives have what they
//!   promised: they may be all that there is of a write that a host was told is durable. So no shard promises anything there any more; then
//!   the drives are flushed; then the labels name the room on the members with another identity, which does not tell all; and the shards
//!   write there from then on. When all that was under way is done, and the drives are flushed, it tells all. A crash before that is
//!   dealt with as without a journal.
//! - *A start after a crash.* Records are read from the devices that the volume's label names. Where one of two is missing, the label
//!   goes on without it before anything is carried out: a record that was under way may be on one of them alone, and once its replay
//!   has begun, the other one must not count for all that there is. Where all are missing, the volume waits for them.
//! - *A place is given up.* First the volume's label does not name it any more, then those of the devices.

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

/// The longest place of a volume on a log device, for its journal and its data log. It is read as a whole after a crash.
const LONGEST: ByteCount = ByteCount(128 << 20);

/// The shortest that is worth it; lengths are whole multiples of it.
const SHORTEST: ByteCount = ByteCount(1 << 20);

/// How often the drives are flushed for what the last log device promised, and after which time again, before volumes go on without that.
const HOLD_TRIES: usize = 3;
const HOLD_AGAIN: Duration = Duration::from_secs(1);

/// How many volumes at least find room on a log device.
const VOLUMES: u64 = 16;

/// A place on the devices of a log, and the ways to these; or that there is none.
#[derive(Default)]
pub(crate) struct LogPlaced {
    pub(super) on: Option<OnLog>,
    pub(super) devices: Vec<LogDevice>,
}

impl Arrays {
    /// A place for the journal of a volume on the log in use, if there is one, and it has some.
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
        let (label, place) = match label.place.iter().find(|place| place.volume == volume.uuid()).cloned() {
            Some(place) => (label, place),
            None => with_place(label, self.owner_place(volume), self.taken_of_log(&devices), len)?,
        };
        let label = LogLabel { generation: label.generation + 1, ..label };
        let mut served = Vec::new();
        for drive in devices {
            let Some(own) = drive.log_label() else { continue };
            let Some(access) = drive.access() else { continue };
            let label = LogLabel { device: own.device, ..label.clone() };
            match self.inventory.write_log_label(&drive, label).await {
                Ok(()) => served.push(LogDevice { id: own.device, source: access.source }),
                // It is fine, and has no place for the volume yet: the next start tries again.
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

    /// A part of a volume on its way has no name that people know: to them it is that volume.
    fn name_for_people(&self, volume: &Volume) -> String {
        let part = volume.label().part;
        let arrays = self.all();
        let owner = part.and_then(|part| arrays.iter().find_map(|array| array.volume(part.of)));
        owner.map_or_else(|| volume.name(), |owner| owner.name())
    }

    /// What a log device is to say of a volume's place.
    fn owner_place(&self, volume: &Volume) -> LogPlace {
        let name = self.name_for_people(volume);
        LogPlace { volume: volume.uuid(), name, start_bytes: 0, len_bytes: 0 }
    }

    /// What may lie on any of a log's devices. One that was away does not know what came to the other one meanwhile, and the labels
    /// of volumes know what neither does.
    fn taken_of_log(&self, devices: &[Rc<Drive>]) -> Vec<Range<u64>> {
        let labels: Vec<LogLabel> = devices.iter().filter_map(|drive| drive.log_label()).collect();
        let places = labels.iter().flat_map(|label| &label.place);
        let places = places.map(|place| place.start_bytes..place.start_bytes.saturating_add(place.len_bytes));
        let volumes = self.all().into_iter().flat_map(|array| array.volumes());
        let named = volumes.flat_map(|volume| {
            let VolumeLabel { journal, data_log, .. } = volume.label();
            let journal = journal.and_then(|journal| journal.log);
            let journal = journal.map(|on| (on.devices, on.start_bytes, on.len_bytes));
            journal.into_iter().chain(data_log.map(|log| (log.devices, log.start_bytes, log.len_bytes)))
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

    /// A part of a volume on its way has become that volume: so has its place. What the volume had by the layout that it left is free.
    pub(super) async fn pass_on_log(&self, part: Uuid, volume: Uuid) {
        self.free_on_log(volume).await;
        let is_its = |place: &&mut LogPlace| place.volume == part;
        self.change_places(part, |places| {
            places.iter_mut().filter(is_its).for_each(|place| place.volume = volume)
        })
        .await;
    }

    /// A start: where the volume's label says that it has a place, one of another volume of that name is that of the part that it was, when
    /// it came to another layout and was killed before the devices said so. It is about to get its own again.
    pub(super) async fn free_what_it_came_from(&self, volume: &Volume) {
        let Some(on) = volume.label().journal.and_then(|journal| journal.log) else { return };
        let (own, name, end) = (volume.uuid(), self.name_for_people(volume), on.start_bytes + on.len_bytes);
        let is_left = |place: &LogPlace| {
            let overlaps =
                place.start_bytes < end && on.start_bytes < place.start_bytes.saturating_add(place.len_bytes);
            overlaps && place.volume != own && place.name == name
        };
        let devices = self.all_log_devices().into_iter().filter_map(|drive| drive.log_label());
        let places = devices.filter(|label| on.devices.contains(&label.device)).flat_map(|label| label.place);
        let left: Vec<Uuid> = places.filter(is_left).map(|place| place.volume).collect();
        for part in left {
            self.free_on_log(part).await;
        }
    }

    /// Changes what the log devices say of the places on them, where they name a volume.
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

    /// Whether all log devices are here that the volumes of an array name.
    pub(crate) fn has_all_log_devices(&self, array: &Array) -> bool {
        array.volumes().iter().map(|volume| volume.label()).all(|label| {
            let of_journal = label.journal.and_then(|journal| journal.log).map(|log| log.devices);
            let of_data = label.data_log.map(|log| log.devices);
            let mut named = of_journal.into_iter().chain(of_data);
            named.all(|devices| self.ways_to_log(&devices).len() == devices.len())
        })
    }

    /// The ways to those of these devices that are here and have not failed.
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

    /// Reads a journal from those devices of its log that are here, for members that do not fail.
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

    /// Before records that were read from a log are carried out: each device that is here gets what it lacks, and the volume's label
    /// goes on without the others. Whether that is so.
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

    /// Whether the records of a volume that is about to be started are given up: by order; or, after a stop in order before its
    /// redundancy agreed, as its log is not here. It is started as if it had no journal.
    pub(super) fn is_log_given_up(&self, array: &Array, volume: &Volume) -> bool {
        let Some(JournalLabel { id: Some(id), log: Some(on), .. }) = volume.label().journal else {
            return false;
        };
        let is_missing = || array.label().was_shut_down() && self.ways_to_log(&on.devices).is_empty();
        volume.given_up_log.get() == Some(id) || is_missing()
    }

    /// Whether a volume may be started as to its records: those of a crash are here.
    ///
    /// # Errors
    /// Which devices they are on.
    pub(crate) fn check_log_is_here(&self, array: &Array, volume: &Volume) -> Result<()> {
        // After a stop in order the drives have all, also where regions are still to be resynced.
        let is_settled = array.label().was_shut_down() || volume.has_fresh_journal();
        let label = volume.label();
        let records = match label.journal {
            // The drives' labels still name a journal that was given up, and are read once more by a start.
            Some(JournalLabel { id, log: Some(on), .. })
                if id.is_some() && volume.given_up_log.get() != id =>
            {
                Some(on.devices)
            }
            _ => None,
        };
        let is_given_up = |log: &DataLogLabel| volume.given_up_data_log.get() == Some(log.id);
        let promised = label.data_log.filter(|log| !self.is_in_memory(label.kept) && !is_given_up(log));
        let promised = promised.map(|log| log.devices);
        let is_missing = |devices: &Vec<Uuid>| self.ways_to_log(devices).is_empty();
        let (what, devices) = match (records.filter(is_missing), promised.filter(is_missing)) {
            (Some(devices), _) if !is_settled => ("what finishes its interrupted writes", devices),
            (_, Some(devices)) => ("what its hosts had flushed last", devices),
            _ => return Ok(()),
        };
        let name = self.name_for_people(volume);
        let names: Vec<String> = devices.iter().map(Uuid::to_string).collect();
        let loss = self.lost_with_records(volume);
        let sentence = format!(
            "'{name}' cannot be started: it was not cleanly shut down, and {what} is on log device {}, which is not here. Connect it, and run 'softroc drive add' for it if it is not known; or, if writes that were acknowledged last may be lost, run 'softroc log discard {name} --yes' ({loss})",
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
                        tracing::warn!("'{}' still names a log device that failed: {error}", volume.name());
                    }
                }
            }
        });
    }

    /// Has the label of a volume name a device no more, and its shards know.
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
            // Of one that is not served, what is there may be all that finishes its writes.
            let Some(served) = volume.id().filter(|_| volume.is_on_log(&[device])) else { return Ok(()) };
            if is_last_of_journal(&volume.label(), device) && !is_held {
                self.have_drives_promise(volume, served, device).await;
                is_held = true;
            }
            let _turn = array.metadata.take(1).await;
            // The other one may have failed meanwhile.
            if volume.id() == Some(served) && (is_held || !is_last_of_journal(&volume.label(), device)) {
                return self.name_no_more(array, volume, served, device).await;
            }
        }
    }

    /// What the last device of a journal promises is on the drives when this is done, and nothing is promised there any more: it counts
    /// until then, as it may be nowhere else. The caller has no turn that a flush may wait for.
    async fn have_drives_promise(&self, volume: &Volume, served: VolumeId, device: Uuid) {
        for _ in 0..HOLD_TRIES {
            let held = self.tell_shards(|done| ShardMessage::HoldLogDevice(served, device, done)).await;
            let Err(why) = held else { return };
            tracing::warn!("what '{}' has on a log device is not on its drives yet: {why}", volume.name());
            if volume.id() != Some(served) {
                return;
            }
            self.env.sleep(HOLD_AGAIN).await;
        }
    }

    /// The same as [`go_on_without`](Self::go_on_without). The caller has the turn of the array's metadata.
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
            // They ask the device themselves from now on, and fail by that.
            drop(self.send_shards(|done| ShardMessage::TakeBackLogDevice(served, device, done)));
            return Err(IoError::new(IoErrorKind::Gone));
        }
        if before.data_log.is_some_and(|log| log.devices == [device]) {
            self.data_log_fails(array, volume, served);
        }
        let lost = before.journal.and_then(|journal| journal.id);
        let (Some(id), Some(lost)) = (another, lost) else {
            // Shards that have not met the failure would find out by their next record. They are not waited for: they may wait for this.
            let told = self.send_shards(|done| ShardMessage::LeaveLogDevice(served, device, done));
            let name = volume.name();
            self.env.spawn("tell that a log device is out", async move {
                if let Err(why) = answers(told).await {
                    tracing::warn!("'{name}' may ask a log device that is out once more: {why}");
                }
            });
            return Ok(());
        };
        // One that is being given up meanwhile does not tell all again.
        if volume.journal_id.get().is_some() {
            volume.journal_id.set(Some(id));
        }
        let place = volume.journal_place_as(id, self.shards.len(), array.label().tail);
        let told = self.send_shards(|done| ShardMessage::LoseJournal(served, lost, place.clone(), done));
        let (this, array, volume) = (self.clone(), array.clone(), volume.clone());
        self.env.spawn("settle a lost journal", async move {
            match answers(told).await {
                Ok(()) => this.cover_now(&array, &volume).await,
                Err(why) => tracing::warn!("the journal of '{}' does not tell all: {why}", volume.name()),
            }
        });
        Ok(())
    }

    /// A log device does not serve any more, until the controller is started anew.
    pub(super) fn log_device_is_out(&self, device: Uuid, why: &str) {
        if !self.logs.note_failed(device, why) {
            return;
        }
        let name = self.log_device_name(device);
        let text = format!(
            "log device {name} failed: {why}; volumes go on with the other device of the log, or with journals on their own drives. Replace it: run 'softroc log remove {name}', then 'softroc log add' with another one"
        );
        let effect = "volumes go on without it";
        self.events.report(EventCode::LogDeviceFailed, &name, why, effect, text);
        self.attention.notify();
    }
}

/// Whether a device is the only one left of those that a volume's journal is on.
fn is_last_of_journal(label: &VolumeLabel, device: Uuid) -> bool {
    let on = label.journal.as_ref().and_then(|journal| journal.log.as_ref());
    on.is_some_and(|on| on.devices == [device])
}

/// A volume goes on without a log device. Whether that was the last one of its journal, which is on the members then, and does not
/// tell all. The data log stays on its last one: what that has promised counts until the drives have it ([`Arrays::data_log_fails`]).
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

/// How long a log is whose devices are these: as long as the shortest.
fn room_of(devices: &[Rc<Drive>]) -> Option<(u64, u64)> {
    let rooms = devices.iter().map(|drive| LogLabel::room(drive.extent().0));
    let rooms: Vec<_> = rooms.collect::<Option<_>>()?;
    let start = rooms.iter().map(|room| room.start.0).max()?;
    let end = rooms.iter().map(|room| room.end().0).min()?;
    Some((start, end))
}

/// A log's label with a place for one more volume, beside what is taken. `None`: there is no room.
fn with_place(
    mut label: LogLabel,
    of: LogPlace,
    mut taken: Vec<Range<u64>>,
    (start, end): (u64, u64),
) -> Option<(LogLabel, LogPlace)> {
    // What lies before the room is taken, as it were.
    taken.push(0..start);
    let gap = extents::longest(&extents::gaps(taken, end))?;
    let fair = ByteCount(end.saturating_sub(start) / VOLUMES).align_down(SHORTEST);
    let len = fair.max(SHORTEST).min(LONGEST).min(ByteCount(gap.end - gap.start).align_down(SHORTEST));
    let place = LogPlace { start_bytes: gap.start, len_bytes: len.0, ..of };
    (!len.is_zero()).then(|| {
        label.place.push(place.clone());
        (label, place)
    })
}
