//! The journals of volumes with parity: their space, their identity, and their replay after a
//! crash.
//!
//! # Order of steps
//! - Records carry an identity from the label of their volume. Each attachment to the shards has
//!   its own, durable before its first record. So records of earlier attachments do not count.
//! - A start replays records before the label gets another identity: it reads them from all current
//!   members, applies them there and flushes. After a crash here, the replay is repeated with the
//!   same result.
//! - A torn record was not applied yet, and may have few copies. It gets its full number of copies
//!   before it is applied. Otherwise a crash in the middle and the loss of the few drives with a
//!   copy would leave a stripe half written.
//! - A journal *covers all* writes that a crash may interrupt, unless redundancy of some region may
//!   disagree for another reason (the drives' content at the creation; a failed write that could
//!   not be finished). Then it is replayed too, because its writes are durable; but a crash is
//!   handled as without a journal, until all regions agree.
//! - Missing members: every record is on more drives of some span than the span may lose, so a copy
//!   is present whenever the volume can be served. A member whose journal is partly unreadable
//!   counts as missing.
//! - A replay updates the block lists: a punctured block that it wrote has data again, even if a
//!   drive refused it, because the same record has its redundancy. An excluded block stays excluded
//!   unless its drive can read it. A refused block is excluded, or punctured where redundancy
//!   cannot restore it; no other block is lost. The next identity is recorded together with these
//!   changes; until then the records count.
//! - A member that does not respond, or cannot take the replay, is out: it lacks the writes. Where
//!   the volume needs it, the records keep their identity and wait for it.

use crate::arrays::Arrays;
use crate::arrays::array::{Array, is_full};
use crate::arrays::carrying_out::{Written, carry_out};
use crate::arrays::extents;
use crate::arrays::noting::note_change;
use crate::arrays::on_log::LogPlaced;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::access::Access;
use crate::inventory::access::join;
use engine::RegionSet;
use ondisk::{JournalLabel, Label, Readiness, Role, Tail, Uuid, VolumeLabel, WriteHole, slots};
use platform::{IoError, IoErrorKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet};
use write_log::{Holders, LogId, Missing, Record, counting, patches, scan};

/// The maximum length of a journal.
const LONGEST: ByteCount = ByteCount(8 << 20);

/// The minimum length of a useful journal.
const SHORTEST: ByteCount = ByteCount(256 << 10);

/// The maximum for a small volume: it limits outstanding writes, and is read completely after a
/// crash.
const OF_SMALL_VOLUMES: ByteCount = ByteCount(1 << 20);

/// A place for the journal of another volume that takes `member` of each drive: half of the longest
/// free space, so that later volumes find some too.
fn place(beside: Option<&Label>, member: ByteCount) -> Option<JournalLabel> {
    let taken = beside.map(|label| label.volume.iter().flat_map(VolumeLabel::in_journals));
    let taken = taken.map(|taken| taken.map(|(start, end)| start..end).collect());
    let gaps = extents::gaps(taken.unwrap_or_default(), Tail::JOURNALS.0);
    let gap = extents::longest(&gaps)?;
    let most = LONGEST.min(member.max(OF_SMALL_VOLUMES));
    let len = ByteCount((gap.end - gap.start) / 2).min(most).max(SHORTEST).align_down(SHORTEST);
    let fits = gap.start + len.0 <= gap.end;
    fits.then_some(JournalLabel {
        start_bytes: gap.start,
        len_bytes: len.0,
        id: None,
        tells_all: false,
        log: None,
    })
}

/// The result of replaying a volume's journal.
enum Replayed {
    /// The number of byte ranges that were written.
    Done(usize),
    /// The volume cannot be served without drives that failed meanwhile.
    Waits,
    /// A drive's backing store is full, or the write failed temporarily.
    Full(IoError),
    /// A device of its log failed, and that cannot be recorded: its records stay valid.
    Unsettled,
    /// The journal does not cover all writes: a sentence.
    Incomplete(String),
}

fn described(missing: Missing) -> String {
    format!("record {} of ring {} is missing", missing.sequence, missing.ring)
}

fn full_below(volume: &Volume, full: IoError) -> Error {
    let (kind, what_helps) = match is_full(&full) {
        true => (ErrorKind::OutOfSpace, "free space on the file systems of its drive files"),
        false => (ErrorKind::Failed, "free memory of this system"),
    };
    let sentence = format!(
        "'{}' cannot be started: its journal cannot be replayed ({full}); {what_helps} and start \
            it again",
        volume.name()
    );
    Error::new(kind, sentence)
}

fn unsettled(volume: &Volume) -> Error {
    let name = volume.name();
    let sentence = format!(
        "'{name}' cannot be started: a device of its log is missing or has failed, and its loss \
        cannot be recorded; run 'softroc volume start {name}' to try again"
    );
    Error::new(ErrorKind::Failed, sentence)
}

impl Arrays {
    /// Replays the journals of the volumes that are about to be started and were not cleanly
    /// stopped. Returns failed drives, by slot. A volume whose journal cannot be replayed is not
    /// covered any more.
    ///
    /// # Errors
    /// When a drive's backing store is full, which is no failure of the drive: no volume may be
    /// started.
    pub(crate) async fn replay_journals(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volumes: &[Rc<Volume>],
    ) -> Result<BTreeMap<usize, IoError>> {
        let mut failed = BTreeMap::new();
        if array.label().clean {
            return Ok(failed);
        }
        for volume in volumes {
            if array.readiness(volume) == Readiness::Offline || !volume.lost().is_empty() {
                continue; // Its records wait until it can be served.
            }
            if volume.is_served() || volume.has_fresh_journal() {
                continue;
            }
            if self.is_log_given_up(array, volume) {
                array.forget_journal(volume);
            }
            if self.check_log_is_here(array, volume).is_err() {
                continue;
            }
            let Some(id) = volume.label().journal.and_then(|journal| journal.id) else { continue };
            match self.replay_one(array, volume, id, &mut failed).await {
                Replayed::Done(0) | Replayed::Waits => {}
                Replayed::Full(full) => return Err(full_below(volume, full)),
                Replayed::Unsettled => return Err(unsettled(volume)),
                Replayed::Done(runs) => {
                    let name = volume.name();
                    let text = format!(
                        "'{name}' was not cleanly shut down: interrupted writes were finished from \
                            its journal ({runs} runs of bytes)"
                    );
                    self.events.report(
                        EventCode::VolumeJournalReplayed,
                        &name,
                        "its journal was replayed",
                        "no write is left unfinished",
                        text,
                    );
                }
                Replayed::Incomplete(why) => {
                    let name = volume.name();
                    let text = format!(
                        "the journal of '{name}' is incomplete ({why}): the volume is started as \
                            if it had no journal"
                    );
                    self.events.report(
                        EventCode::VolumeJournalIncomplete,
                        &name,
                        &why,
                        "blocks of interrupted writes may be wrong",
                        text,
                    );
                    array.forget_journal(volume);
                }
            }
        }
        Ok(failed)
    }

    /// Failed members are added to `failed`; members that are in it already are skipped.
    async fn replay_one(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        id: Uuid,
        failed: &mut BTreeMap<usize, IoError>,
    ) -> Replayed {
        let Some(journal) = volume.label().journal else { return Replayed::Done(0) };
        let places = array.places();
        let JournalCopies { mut members, copies, untold, log } = match &journal.log {
            None => self.read_copies(array, volume, id, &journal, failed).await,
            Some(on) => self.read_log(array, id, on, failed).await,
        };
        let without = |members: &mut dyn Iterator<Item = usize>| {
            slots(0..places.len()).minus(&slots(members))
        };
        let is_away = journal.log.is_some() && log.is_empty();
        if is_away || !array.can_spare(volume, &without(&mut members.keys().copied())) {
            return Replayed::Waits;
        }
        if let Some(untold) = untold {
            return Replayed::Incomplete(format!("it cannot be read from {untold}"));
        }
        let found = copies.iter().map(|(slot, records)| (DriveIndex(*slot as u16), &records[..]));
        let mut holders = Holders::of(found);
        let records = match counting(copies.into_values().flatten()) {
            Ok(records) => records,
            Err(missing) => return Replayed::Incomplete(described(missing)),
        };
        let mut errors = match &journal.log {
            None => {
                let room = |access: &Access| Some(access.tail()?.journals().start);
                let enough = |holding: &DriveSet| !volume.survives(holding);
                spread(journal.start_bytes, &mut members, room, &records, &mut holders, enough)
                    .await
            }
            Some(on) => {
                if !self.settle_log(array, volume, on, log, (&records, &mut holders)).await {
                    return Replayed::Unsettled;
                }
                BTreeMap::new()
            }
        };
        let patches = patches(&records);
        let runs = patches.len();
        let mut written = Written::default();
        // A record with too few copies is not applied yet.
        let may_begin = !errors.values().any(IoError::spares_drive)
            && array.can_spare(volume, &without(&mut members.keys().copied()));
        if may_begin {
            written = Written::of(array, volume, &patches);
            let start = ByteOffset(volume.label().data_start_bytes);
            let (failed, refused) = carry_out(&members, start, patches).await;
            errors.extend(failed);
            members.retain(|slot, _| !errors.contains_key(slot));
            errors
                .extend(written.deal_with_refused((array, volume), &members, start, refused).await);
        }
        if let Some(full) = errors.values().find(|error| error.spares_drive()) {
            return Replayed::Full(*full);
        }
        let mut left = members.keys().copied().filter(|slot| !errors.contains_key(slot));
        let can_go_on = array.can_spare(volume, &without(&mut left));
        failed.extend(errors);
        *volume.replayed.borrow_mut() = written.changes;
        if can_go_on { Replayed::Done(runs) } else { Replayed::Waits }
    }

    /// Finds the volumes about to be attached that get a place for their journal on the log in use.
    pub(crate) async fn find_log_places(&self, volumes: &[Rc<Volume>]) {
        for volume in volumes {
            self.free_what_it_came_from(volume).await;
            let placed = match volume.label().journal {
                Some(_) => self.place_on_log(volume).await,
                None => LogPlaced::default(),
            };
            *volume.log_place.borrow_mut() = placed;
        }
    }

    /// Draws new identities for the journals of volumes that are about to be attached, for their
    /// next label. `unsynced`: whether redundancy of any region may disagree although the journal
    /// was replayed.
    pub(crate) fn renew_journals(
        &self,
        next: &mut Label,
        volumes: &[Rc<Volume>],
        unsynced: impl Fn(&Volume) -> bool,
    ) {
        for volume in volumes {
            for change in volume.replayed.borrow().iter() {
                let is_noted = note_change(next, volume.uuid(), RegionSet::clone, change);
                assert!(is_noted, "the changes of a replay are recorded: {change:?}");
            }
            let was_covered = volume.is_covered();
            let Some(journal) =
                next.volume_mut(volume.uuid()).and_then(|label| label.journal.as_mut())
            else {
                continue;
            };
            let id = self.new_uuid();
            volume.journal_id.set(Some(id));
            volume.journal_is_fresh.set(true);
            let LogPlaced { on, devices } = volume.log_place.take();
            volume.set_log_devices(devices);
            journal.log = on;
            let len = journal.log.as_ref().map_or(journal.len_bytes, |on| on.len_bytes);
            let is_kept = engine::ring_len(ByteCount(len), self.shards.len() as u16).is_some();
            (journal.id, journal.tells_all) =
                (Some(id), is_kept && (was_covered || !unsynced(volume)));
        }
    }

    /// Gives the journal of a volume an identity that no record carries, before the volume is
    /// attached.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(super) async fn freshen_journal(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> bool {
        let is_fresh = volume.has_fresh_journal();
        volume.journal_is_fresh.set(false);
        if volume.label().journal.is_none() || is_fresh {
            return true;
        }
        self.find_log_places(std::slice::from_ref(volume)).await;
        // Writes of the previous identity must not need its records any more.
        let unflushed = self.flush_drives(array).await;
        let _turn = array.metadata.take(1).await;
        if !self.take_out_unflushed(array, unflushed).await {
            return false;
        }
        if !volume.lost().is_empty() {
            return false; // It needs a drive that was taken out just now.
        }
        let mut next = array.label();
        self.renew_journals(&mut next, std::slice::from_ref(volume), |volume| {
            array.is_unsynced(volume)
        });
        volume.journal_is_fresh.set(false);
        self.commit(array, next, Vec::new()).await
    }

    /// All regions of a volume agree: from now on its journal covers all writes that a crash can
    /// interrupt.
    pub(super) fn cover(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        if volume.is_covered()
            || volume.journal_place(self.shards.len(), array.label().tail).is_none()
        {
            return;
        }
        let (this, array, volume) = (self.clone(), array.clone(), volume.clone());
        self.env
            .spawn("cover by the journal", async move { this.cover_now(&array, &volume).await });
    }

    /// The same, complete when it is recorded.
    pub(super) async fn cover_now(self: &Rc<Self>, array: &Rc<Array>, volume: &Volume) {
        let _turn = array.metadata.take(1).await;
        // It may be discarded before the lock is free.
        let is_kept = volume.journal_place(self.shards.len(), array.label().tail).is_some();
        let agrees = !array.is_unsynced(volume) && volume.is_served() && is_kept;
        if agrees && array.is_running() && !volume.is_covered() {
            let mut next = array.label();
            let label = next.volume_mut(volume.uuid()).and_then(|label| label.journal.as_mut());
            let Some(journal) = label else { return };
            journal.tells_all = true;
            self.commit(array, next, Vec::new()).await;
        }
    }
}

/// The label of a new volume with the configured write-hole policy; by default with a journal, if
/// there is space.
///
/// # Errors
/// A sentence, when the configured policy is impossible.
pub(crate) fn with_write_hole(
    label: VolumeLabel,
    asked: Option<WriteHole>,
    beside: Option<&Label>,
) -> std::result::Result<VolumeLabel, String> {
    if !label.level.has_parity() && asked == Some(WriteHole::Journal) {
        return Err(format!(
            "{} has no parity and therefore no write hole; leave --write-hole out",
            label.level
        ));
    }
    if !label.level.has_parity() || asked == Some(WriteHole::Resync) {
        return Ok(label);
    }
    let journal = place(beside, ByteCount(label.member_bytes));
    if journal.is_none() && asked.is_some() {
        let journals =
            beside.map_or(0, |label| label.volume.iter().filter(|of| of.journal.is_some()).count());
        return Err(format!(
            "{journals} volumes of the array have journals, and there is no space for another one; \
            use --write-hole resync, or other drives"
        ));
    }
    Ok(VolumeLabel { write_hole: WriteHole::Journal, journal, ..label })
}

/// The journal copies on the members of a volume, or on the devices of its log.
pub(super) struct JournalCopies {
    /// Members to which records can be applied.
    pub(super) members: BTreeMap<usize, Access>,
    /// The records on each member, or each device.
    pub(super) copies: BTreeMap<usize, Vec<Record>>,
    /// The error, if a required copy cannot be read.
    pub(super) untold: Option<String>,
    /// The log devices that are present.
    pub(super) log: BTreeMap<usize, (Uuid, Access)>,
}

impl Arrays {
    /// Reads the journal's copies. Failed members are added to `failed`; members that are in it
    /// already are skipped.
    async fn read_copies(
        &self,
        array: &Array,
        volume: &Volume,
        id: Uuid,
        journal: &JournalLabel,
        failed: &mut BTreeMap<usize, IoError>,
    ) -> JournalCopies {
        let (mut members, mut copies) = (BTreeMap::new(), BTreeMap::new());
        let mut told = DriveSet::EMPTY;
        for (slot, access) in members_of(array, failed) {
            let read = match access.tail() {
                Some(tail) => {
                    let at = tail.journals().start + ByteCount(journal.start_bytes);
                    read_journal(&access, ByteRange::new(at, ByteCount(journal.len_bytes))).await
                }
                None => Err(IoError::new(IoErrorKind::Gone)),
            };
            match read {
                Ok((bytes, is_whole)) => {
                    copies.insert(slot, scan(&bytes, LogId(id.0)));
                    members.insert(slot, access);
                    if is_whole {
                        told.insert(DriveIndex(slot as u16));
                    }
                }
                Err(error) => drop(failed.insert(slot, error)),
            }
        }
        let untold = slots(0..array.places().len()).minus(&told);
        let untold = (!volume.survives(&untold)).then(|| {
            let names = untold.iter().map(|drive| self.member_name(array, drive.as_usize()));
            names.collect::<Vec<String>>().join(", ")
        });
        JournalCopies { members, copies, untold, log: BTreeMap::new() }
    }
}

/// The members in use that can be reached. The others are added to `failed`; members that are in it
/// already are skipped.
pub(super) fn members_of(
    array: &Array,
    failed: &mut BTreeMap<usize, IoError>,
) -> Vec<(usize, Access)> {
    let in_use = array.in_use();
    let mut members = Vec::new();
    for (slot, place) in
        array.places().iter().enumerate().filter(|(_, place)| place.role == Role::Current)
    {
        if !in_use.contains(&slot) || failed.contains_key(&slot) {
            continue;
        }
        match place.drive.as_ref().and_then(|drive| drive.access()) {
            Some(access) => members.push((slot, access)),
            None => drop(failed.insert(slot, IoError::new(IoErrorKind::Gone))),
        }
    }
    members
}

/// A copy of a journal, with zeros where it cannot be read, and whether all of it can.
///
/// # Errors
/// When the drive does not respond.
pub(super) async fn read_journal(
    access: &Access,
    range: ByteRange,
) -> std::result::Result<(Vec<u8>, bool), IoError> {
    let is_out = |error: &IoError| {
        matches!(error.kind, IoErrorKind::Gone | IoErrorKind::Changed | IoErrorKind::TimedOut)
    };
    match access.read(range).await {
        Ok(bytes) => return Ok((bytes, true)),
        Err(error) if is_out(&error) => return Err(error),
        Err(_) => {}
    }
    let mut bytes = Vec::with_capacity(range.len.as_usize());
    let mut at = range.start;
    while at < range.end() {
        match access.read(ByteRange::new(at, ondisk::BLOCK)).await {
            Ok(block) => bytes.extend(block),
            Err(error) if is_out(&error) => return Err(error),
            Err(_) => bytes.resize(bytes.len() + ondisk::BLOCK.as_usize(), 0),
        }
        at += ondisk::BLOCK;
    }
    Ok((bytes, false))
}

/// Copies records to further drives until each is on `enough` of them, or on all. Failed drives, by
/// number, are removed from `drives`. `room`: the offset of journals on a drive; `start`: the
/// offset of this journal from there.
pub(super) async fn spread(
    start: u64,
    drives: &mut BTreeMap<usize, Access>,
    room: impl Fn(&Access) -> Option<ByteOffset>,
    records: &[Record],
    holders: &mut Holders,
    enough: impl Fn(&DriveSet) -> bool,
) -> BTreeMap<usize, IoError> {
    let mut errors = BTreeMap::new();
    loop {
        let (mut started, mut given) = (Vec::new(), Vec::new());
        // The drives that can take a record.
        let able = drives.iter().filter(|(_, access)| room(access).is_some());
        let able = slots(able.map(|(slot, _)| *slot));
        for record in records {
            for drive in holders.wanting(record, &able, &enough) {
                let slot = drive.as_usize();
                let Some((access, room)) =
                    drives.get(&slot).and_then(|access| Some((access, room(access)?)))
                else {
                    continue;
                };
                let at = room + ByteCount(start + record.head.place);
                started.push((slot, Some(access.write(at, &record.encode()))));
                given.push((record, drive));
            }
        }
        if started.is_empty() {
            return errors;
        }
        let mut failed = join(started).await;
        let is_busy = |(_, error): &(&usize, &IoError)| error.kind == IoErrorKind::Busy;
        let busy: Vec<usize> = failed.iter().filter(is_busy).map(|(slot, _)| *slot).collect();
        for slot in busy {
            let Some((access, room)) =
                drives.get(&slot).and_then(|access| Some((access, room(access)?)))
            else {
                continue;
            };
            failed.remove(&slot);
            for (record, _) in given.iter().filter(|(_, drive)| drive.as_usize() == slot) {
                let (at, bytes) = (room + ByteCount(start + record.head.place), record.encode());
                let write = async || access.write(at, &bytes).await.result;
                if let Err(error) = access.until_not_busy(write).await {
                    failed.insert(slot, error);
                }
            }
        }
        for (record, drive) in
            given.into_iter().filter(|(_, drive)| !failed.contains_key(&drive.as_usize()))
        {
            holders.add(record, drive);
        }
        drives.retain(|slot, _| !failed.contains_key(slot));
        errors.extend(failed);
    }
}
