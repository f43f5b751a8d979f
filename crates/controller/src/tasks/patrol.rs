//! Patrol read: reads every drive from end to end, to find medium errors early.
//!
//! Members, spares and unused drives are read alike, each at its own pace: a piece, then a pause in
//! proportion to the time of the piece and the configured share. A drive that is busy with hosts
//! takes longer for a piece and thus pauses longer: the patrol yields without tracking hosts.
//!
//! Unreadable sectors in the data of a served volume are passed to the shards, which rewrite them
//! from redundancy under their locks. Elsewhere they are reported and counted against the drive: no
//! data is lost there.

use super::steps::{Moved, StepEnd, StepPlan};
use super::task::{Pace, Progress, Task, Wish};
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::{EventCode, Subject};
use crate::inventory::Drive;
use crate::inventory::access::Access;
use crate::tasks::Tasks;
use engine::TaskKind as ShardTask;
use platform::sync::Credits;
use platform::{Buf, IoError, IoErrorKind};
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex};

/// The read size: small enough that host requests do not wait long behind it.
const PIECE: ByteCount = ByteCount(256 << 10);

/// The maximum number of drives read at the same time.
const DRIVES_AT_A_TIME: u64 = 64;

/// The longest pause before the patrol checks again whether it may continue.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The owner of unreadable bytes on a drive.
enum Home {
    /// A served volume: its slot there, and the range within the drive's part of the volume.
    Volume(Rc<Volume>, DriveIndex, ByteRange),
    /// No owner that could rewrite them.
    Nobody(&'static str),
}

impl Tasks {
    /// Reads the drives of the task, from the stored position of each.
    pub(super) async fn patrol(self: &Rc<Self>, task: &Rc<Task>) -> StepEnd {
        let positions = task.record().positions;
        let drives: Vec<(Rc<Drive>, u64)> = positions
            .iter()
            .filter_map(|(name, at)| Some((self.inventory.drive_called(name)?, *at)))
            .collect();
        let at_a_time = Credits::new(&self.env, DRIVES_AT_A_TIME);
        let share = Rc::new(std::cell::Cell::new(drives.len().max(1) as u64));
        let reading: Vec<_> = drives
            .into_iter()
            .map(|(drive, at)| {
                let (this, task, credits, share) =
                    (self.clone(), task.clone(), at_a_time.clone(), share.clone());
                self.env.spawn("patrol", async move {
                    let _turn = credits.take(1).await;
                    this.patrol_drive(&task, &drive, at, &share).await;
                    share.set(share.get().saturating_sub(1).max(1));
                })
            })
            .collect();
        for drive in reading {
            drive.await;
        }
        if self.patrol_stops(task) { StepEnd::Stopped } else { StepEnd::Done }
    }

    fn patrol_stops(&self, task: &Task) -> bool {
        task.wish() == Wish::Stop || self.attention.is_closing()
    }

    /// Reads one drive from `at` on. `drives`: the number of drives being read, which share the
    /// limit.
    async fn patrol_drive(
        self: &Rc<Self>,
        task: &Rc<Task>,
        drive: &Rc<Drive>,
        mut at: u64,
        drives: &std::cell::Cell<u64>,
    ) {
        let mut buffer = Buf::unpooled(PIECE);
        loop {
            let may_go_on = || task.wish() == Wish::Run || self.patrol_stops(task);
            if !may_go_on() {
                self.list.checkpoint();
            }
            task.changed.wait_until(&self.env, may_go_on).await;
            let Some(access) = drive.access().filter(|_| !self.patrol_stops(task)) else { return };
            let size = access.info().size.0;
            if at >= size {
                return;
            }
            let len = ByteCount(PIECE.0.min(size - at));
            if buffer.len() != len {
                buffer = Buf::unpooled(len);
            }
            let began = self.env.now();
            let outcome = access.member.read(ByteOffset(at), smallvec![buffer]).await;
            buffer = outcome.buffers.into_iter().next().unwrap_or_else(|| Buf::unpooled(PIECE));
            match outcome.result {
                Ok(_) => {}
                // The error says nothing about blocks if the drive received no request or the
                // system failed to read.
                Err(error) if !error.is_of_blocks() => return self.patrol_left(drive, at, error),
                Err(_) => {
                    let piece = ByteRange::new(ByteOffset(at), len);
                    self.patrol_unreadable(task, drive, &access, piece).await;
                }
            }
            at += len.0;
            self.patrol_advance(task, &drive.name, at, len);
            let took = self.env.now().since(began);
            self.rest(task, rest_after(took, len, task.pace(), drives.get())).await;
        }
    }

    fn patrol_advance(&self, task: &Task, drive: &str, at: u64, len: ByteCount) {
        let mut progress = task.progress();
        progress.done_bytes = progress.done_bytes.saturating_add(len.0).min(progress.total_bytes);
        task.advance(self.env.now(), progress);
        if task.keep_position(drive, at) {
            self.list.checkpoint();
        }
    }

    /// Pauses; returns early if the task is to stop.
    async fn rest(&self, task: &Task, rest: Duration) {
        let until = self.env.now() + rest;
        while self.env.now() < until && !self.patrol_stops(task) {
            let next = until.min(self.env.now() + LONGEST_REST);
            let stops = || self.patrol_stops(task);
            crate::signals::wait_or(&self.env, &task.changed, stops, next).await;
        }
    }

    fn patrol_left(&self, drive: &Drive, at: u64, why: IoError) {
        let what_helps = match why.kind {
            IoErrorKind::Busy | IoErrorKind::Unknown => {
                "run it again, and check the system's log if it stops again"
            }
            _ => "check its cable",
        };
        let text = format!(
            "drive {} cannot be read ({why}): the patrol read stopped at byte {at}; {what_helps}",
            drive.name
        );
        self.events.report(
            EventCode::DrivePatrolStopped,
            &drive.name,
            &why.to_string(),
            "the rest of it was not read",
            text,
        );
    }

    /// Handles an unreadable piece: finds its bad sectors, and has them rewritten where possible.
    async fn patrol_unreadable(
        self: &Rc<Self>,
        task: &Rc<Task>,
        drive: &Rc<Drive>,
        access: &Access,
        piece: ByteRange,
    ) {
        for range in unreadable_within(access, piece).await {
            task.note(|found| found.unreadable += 1);
            drive.count_medium_error();
            let (start, end) = (range.start.0, range.end().0);
            let what = format!(
                "the patrol read found that drive {} cannot read bytes {start} to {end}",
                drive.name
            );
            let (effect, repaired) = match self.home_of(drive, range) {
                Home::Nobody(whose) => (whose.to_owned(), false),
                Home::Volume(volume, slot, part) => {
                    self.repair_range(task, &volume, slot, part).await;
                    let reads = access.read(range).await.is_ok();
                    (after_repair(&volume.name(), reads), reads)
                }
            };
            let text = format!("{what}: {effect}");
            if repaired {
                task.note(|found| found.repaired += 1);
                self.events.report(
                    EventCode::DriveMediumErrorRepaired,
                    &drive.name,
                    "medium error",
                    &effect,
                    text,
                );
            } else {
                let cause = "medium error";
                match self.home_of(drive, range) {
                    Home::Volume(volume, ..) => {
                        task.note(|found| found.unrecoverable_bytes += range.len.0);
                        let volume = volume.name();
                        let about = Subject::both(&volume, &drive.name);
                        self.events.report(
                            EventCode::VolumeBlocksUnreadable,
                            about,
                            cause,
                            &effect,
                            text,
                        );
                    }
                    Home::Nobody(_) => {
                        self.events.report(
                            EventCode::DriveMediumError,
                            &drive.name,
                            cause,
                            &effect,
                            text,
                        );
                    }
                }
            }
        }
    }

    /// The owner of the bytes.
    fn home_of(&self, drive: &Drive, range: ByteRange) -> Home {
        let Some((array, slot)) = self.arrays.place_of(drive) else {
            return Home::Nobody(
                "there is no data in these blocks; a write may repair them; replace a drive with \
                many such errors",
            );
        };
        if !array.in_use().contains(&slot) {
            return Home::Nobody("it is out of service, and no data is lost");
        }
        match volume_at(&array, range) {
            Some((volume, part)) => match u16::try_from(slot) {
                Ok(slot) => Home::Volume(volume, DriveIndex(slot), part),
                Err(_) => Home::Nobody("there is no volume in these blocks"),
            },
            None => Home::Nobody("there is no served volume in these blocks"),
        }
    }

    /// Has the shards rewrite a range, and waits for the result.
    async fn repair_range(
        &self,
        task: &Rc<Task>,
        volume: &Volume,
        slot: DriveIndex,
        range: ByteRange,
    ) {
        let Some(id) = volume.id() else { return };
        // It runs as a separate task, since its progress is not that of the patrol.
        let mut record = task.record();
        record.progress = Progress::default();
        // The patrol may have been paused just now; this part of it could not be resumed.
        record.wish = Wish::Run;
        let part = Rc::new(Task::new(record));
        let kind = ShardTask::RepairRange { slot, range };
        let moved = Moved::by(kind, &volume.geometry);
        let plan = StepPlan { volume: id, kind, regions: None, bytes: 0, moved };
        match self.run_step(&part, plan).await {
            StepEnd::Done | StepEnd::Stopped | StepEnd::Interrupted => {}
            StepEnd::Failed(why) => tracing::warn!("'{}' drive {slot}: {why}", volume.name()),
        }
    }
}

fn after_repair(volume: &str, reads: bool) -> String {
    match reads {
        true => format!("these bytes were rewritten from the redundancy of '{volume}'"),
        false => {
            format!(
                "redundancy of '{volume}' could not restore all of these bytes; hosts get an I/O \
                 error there"
            )
        }
    }
}

/// The served volume that holds a range of its members, and the range within each drive's part of
/// it. A range that extends beyond its end is clipped.
fn volume_at(array: &Array, range: ByteRange) -> Option<(Rc<Volume>, ByteRange)> {
    array.served().into_iter().find_map(|volume| {
        let label = volume.label();
        let start = label.data_start_bytes.max(range.start.0);
        let end = label.data_end_bytes().min(range.end().0);
        let part = |at: u64| ByteOffset(at - label.data_start_bytes);
        (start < end).then(|| (volume, ByteRange::from_to(part(start), part(end))))
    })
}

/// The unreadable parts of a piece, in units of the drive's physical write size.
async fn unreadable_within(access: &Access, piece: ByteRange) -> Vec<ByteRange> {
    let unit = access.info().physical_sector.bytes().max(access.info().logical_sector.bytes());
    let mut bad: BTreeMap<u64, u64> = BTreeMap::new();
    let mut open = vec![piece];
    while let Some(range) = open.pop() {
        if !access.read(range).await.is_err_and(|error| error.is_of_blocks()) {
            continue; // It can be read, or its state is unknown.
        }
        let half = ByteCount(range.len.0 / 2).align_up(unit);
        if range.len <= unit || half >= range.len {
            bad.insert(range.start.0, range.end().0);
            continue;
        }
        open.push(ByteRange::from_to(range.start + half, range.end()));
        open.push(ByteRange::new(range.start, half));
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (start, end) in bad {
        match runs.last_mut() {
            Some(run) if run.1 == start => run.1 = end,
            _ => runs.push((start, end)),
        }
    }
    runs.into_iter()
        .map(|(start, end)| ByteRange::from_to(ByteOffset(start), ByteOffset(end)))
        .collect()
}

/// The pause after a piece that took this long: reading takes at most `share_percent` of the time,
/// within this drive's part of the limit.
fn rest_after(took: Duration, len: ByteCount, pace: Pace, drives: u64) -> Duration {
    let share = u32::from(pace.share_percent.clamp(1, 100));
    let by_share = took * (100 - share) / share;
    let by_limit = pace.limit_bytes_per_s.map_or(Duration::ZERO, |limit| {
        let whole = len.0 as f64 * drives.max(1) as f64 / limit.max(1) as f64;
        Duration::try_from_secs_f64(whole).unwrap_or(Duration::MAX).saturating_sub(took)
    });
    by_share.max(by_limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_by_its_share_and_by_its_limit() {
        let pace = |share_percent, limit_bytes_per_s| Pace { share_percent, limit_bytes_per_s };
        let ms = Duration::from_millis;
        let rest = |pace| rest_after(ms(3), ByteCount(1 << 20), pace, 2);
        assert_eq!(rest(pace(100, None)), Duration::ZERO);
        assert_eq!(rest(pace(30, None)), ms(7));
        assert_eq!(rest(pace(1, None)), ms(297));
        assert_eq!(rest(pace(100, Some(2 << 20))), ms(997), "two drives share the limit");
        assert_eq!(rest(pace(30, Some(1 << 40))), ms(7));
    }
}
