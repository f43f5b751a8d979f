//! What keeps an array's promises while it is started: failures, marks, and the clearing of marks.
//!
//! # Fault model and invariants
//! The process or the power may go at any point; drives may fail at any write, these here too.
//! - *Rule (a).* A failure is in the labels of all drives that are left, with a new generation, **before** any
//!   shard is told to go on without the drive (`SetHealth`) and before the report is answered. Killed before:
//!   the drive counts as online, and no write that skipped it was acknowledged; its lane is marked. Killed
//!   after: it is stale.
//! - A drive that the level cannot spare is *lost*, not failed: nothing is recorded and the report is answered
//!   with an error, so no write that skipped it is acknowledged. What all drives hold together stays whole, and
//!   the volume can be started again when the drive is back.
//! - *Rule (b).* A mark is answered when it is durable on every drive in use. A drive that cannot take it fails
//!   first, by rule (a).
//! - The first mark after a drive went out also makes it stale, durably, before it is answered: from then on
//!   that drive may have missed a write.
//! - A mark is cleared after the lane was quiet *and then* every drive in use was flushed: what a power cut can
//!   still take back is marked. A volume that is offline clears nothing.
//! - All of this happens under the array's metadata turn, one after the other; the flush alone goes on beside it,
//!   and a lane that is marked again meanwhile keeps its mark.

use crate::array::{Array, FailureReport, MarkReport, Running};
use crate::core::Core;
use crate::disk::Access;
use engine::{LaneSet, ShardIndex, ShardMessage, VolumeId};
use env::{Io, IoError, IoErrorKind};
use ondisk::{BlockWrite, Cause, Label, MemberState};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{ByteRange, DriveIndex};

/// A drive that is to go out: its slot, and why.
pub(crate) struct Failing {
    pub(crate) slot: usize,
    pub(crate) cause: Cause,
    /// What happened, to be read within a sentence.
    pub(crate) what: String,
}

/// Operations on several drives, by slot.
type Ios = Vec<(usize, Option<Io>)>;

/// Waits for all; which failed, by slot.
async fn join(ios: Ios) -> BTreeMap<usize, IoError> {
    let mut failed = BTreeMap::new();
    for (slot, io) in ios {
        let result = match io {
            Some(io) => io.await.result,
            None => Err(IoError::new(IoErrorKind::Gone)),
        };
        if let Err(error) = result {
            failed.insert(slot, error);
        }
    }
    failed
}

fn failing(errors: BTreeMap<usize, IoError>, operation: &str) -> Vec<Failing> {
    let fail = |(slot, error)| Failing { slot, cause: Cause::Error, what: format!("{operation}: {error}") };
    errors.into_iter().map(fail).collect()
}

impl Core {
    /// Deals with failures and marks until the array is stopped.
    pub(crate) async fn keep(self: Rc<Self>, array: Rc<Array>, running: Rc<Running>) {
        loop {
            let work = &array.work;
            let waiting = || !work.failures.borrow().is_empty() || !work.marks.borrow().is_empty();
            work.changed.wait_until(&self.env, || waiting() || running.stopped.get()).await;
            if !waiting() {
                return;
            }
            let _turn = array.metadata.take(1).await;
            let failures = work.failures.take();
            if !failures.is_empty() {
                self.deal_with_failures(&array, failures).await;
            }
            let marks = work.marks.take();
            if !marks.is_empty() {
                self.deal_with_marks(&array, marks).await;
            }
        }
    }

    async fn deal_with_failures(&self, array: &Rc<Array>, reports: Vec<FailureReport>) {
        let mut failing: Vec<Failing> = Vec::new();
        for FailureReport { drive, what, .. } in &reports {
            let slot = drive.as_usize();
            if array.in_use().contains(&slot) && failing.iter().all(|other| other.slot != slot) {
                failing.push(Failing { slot, cause: Cause::Error, what: what.clone() });
            }
        }
        if !failing.is_empty() {
            self.put_out(array, failing).await;
        }
        let label = array.label();
        for FailureReport { from, number, drive, .. } in reports {
            let recorded = label.member.get(drive.as_usize()).is_some_and(|member| !member.is_online());
            let gone = Err(IoError::new(IoErrorKind::Gone));
            self.answer_report(from, number, if recorded { Ok(()) } else { gone });
        }
    }

    /// Takes drives out of the array: recorded on all others, then told to the shards. Whether the array goes
    /// on; the caller has the metadata turn.
    pub(crate) async fn put_out(&self, array: &Rc<Array>, failing: Vec<Failing>) -> bool {
        let label = array.label();
        if !self.commit(array, label, failing).await {
            return false;
        }
        self.set_health(array).await;
        true
    }

    /// Writes `next`, one generation on and with those `failing` out, to all drives that it calls online. A
    /// drive that cannot take it goes out too, with one more generation. Whether it is durable on all that are
    /// left; if it is not, the array's label stays as it was, but for the generation, which is used up. The
    /// caller has the metadata turn.
    pub(crate) async fn commit(&self, array: &Rc<Array>, mut next: Label, mut failing: Vec<Failing>) -> bool {
        let missed = array.map.borrow().marked() > 0 || !array.unsynced.borrow().is_empty();
        loop {
            next.generation += 1;
            for Failing { slot, cause, .. } in &failing {
                let member = &mut next.member[*slot];
                if member.is_online() {
                    (member.state, member.since) = (MemberState::Failed, next.generation);
                    (member.cause, member.missed_writes) = (Some(*cause), missed);
                }
            }
            let out = next.member.len() - next.online() + array.lost.borrow().len();
            if !failing.is_empty() && out > array.survives() {
                array.use_up(next.generation);
                self.lose(array, failing);
                return false;
            }
            let errors = self.write_labels(array, &next).await;
            if let Some(full) = errors.values().find(|error| error.kind == IoErrorKind::OutOfSpace) {
                // Rule (i): no space below a drive is no failure of the drive. But nothing is recorded.
                array.use_up(next.generation);
                self.say_not_recorded(array, full);
                return false;
            }
            if errors.is_empty() {
                array.set_label(next);
                failing.iter().for_each(|failing| self.say_out(array, failing));
                return true;
            }
            failing.extend(self::failing(errors, "writing its label"));
        }
    }

    fn say_not_recorded(&self, array: &Array, error: &IoError) {
        let volume = array.name();
        let text = format!(
            "the state of '{volume}' cannot be recorded on its drives ({error}): writes that depend on it fail; free space below its drives"
        );
        self.events.critical(&volume, &error.to_string(), "writes fail", text);
    }

    /// Writes a label to every drive that it calls online, all at once. Which failed.
    pub(crate) async fn write_labels(&self, array: &Array, label: &Label) -> BTreeMap<usize, IoError> {
        let mut ios: Ios = Vec::new();
        let mut seats = Vec::new();
        let lost: Vec<usize> = array.lost.borrow().keys().copied().collect();
        for (slot, member) in label.member.iter().enumerate() {
            if !member.is_online() || lost.contains(&slot) {
                continue;
            }
            let drive = array.drive(slot);
            let io = drive.as_ref().and_then(|drive| {
                let (access, seat) = (drive.access()?, drive.seat.get());
                let bytes = ondisk::encode(&label.for_drive(member.uuid), seat.sequence).ok()?;
                Some(access.write(access.tail()?.slot(seat.slot).start, &bytes))
            });
            ios.push((slot, io));
            seats.push((slot, drive));
        }
        let errors = join(ios).await;
        for (slot, drive) in seats {
            if let Some(drive) = drive {
                drive.seat.set(drive.seat.get().next(!errors.contains_key(&slot)));
            }
        }
        errors
    }

    /// The level cannot spare these drives: the volume is offline until they are back.
    fn lose(&self, array: &Rc<Array>, failing: Vec<Failing>) {
        for Failing { slot, what, .. } in failing {
            let (name, volume) = (self.member_name(array, slot), array.name());
            let text = format!(
                "drive {name} failed ({what}) and '{volume}' cannot do without it: '{volume}' is offline; reconnect the drive and say volume start {volume}"
            );
            array.lost.borrow_mut().insert(slot, text.clone());
            self.events.critical(&volume, &format!("drive {name}: {what}"), "the volume is offline", text);
        }
        array.state(self.env.unix_time());
    }

    fn say_out(&self, array: &Array, failing: &Failing) {
        let Failing { slot, cause, what } = failing;
        let (name, volume) = (self.member_name(array, *slot), array.name());
        let out = array.geometry.drives().as_usize() - array.label().online();
        let left = array.survives().saturating_sub(out);
        let effect = format!("'{volume}' is degraded and survives {left} more");
        let text = match cause {
            Cause::Missing => format!("drive {name} of '{volume}' is missing: {effect}"),
            Cause::Offline => format!("drive {name} was taken offline by an operator: {effect}"),
            Cause::Operator => format!("drive {name} was declared failed by an operator: {effect}"),
            Cause::Error => format!("drive {name} failed ({what}): {effect}"),
        };
        array.set_reason(*slot, Some(text.clone()));
        self.events.warn(&volume, &format!("drive {name}: {what}"), &effect, text);
        array.state(self.env.unix_time());
    }

    /// How the drive in a slot is called, present or not.
    pub(crate) fn member_name(&self, array: &Array, slot: usize) -> String {
        let recorded =
            || array.label().member.get(slot).map_or_else(String::new, |member| member.name.clone());
        array.drive(slot).map_or_else(recorded, |drive| drive.name.clone())
    }

    /// Tells the shards which drives to use, as recorded.
    pub(crate) async fn set_health(&self, array: &Array) {
        let Some(id) = array.volume_id() else { return };
        let view = array.health();
        if let Err(why) = self.tell_shards(|done| ShardMessage::SetHealth(id, view, done)).await {
            tracing::error!("the health of '{}' did not reach every shard: {why}", array.name());
        }
    }

    /// Makes marks durable and answers. Several reports are dealt with by one write.
    async fn deal_with_marks(&self, array: &Rc<Array>, reports: Vec<MarkReport>) {
        let work = &array.work;
        for lane in reports.iter().flat_map(|report| report.lanes.iter()) {
            work.quiet.borrow_mut().remove(&lane.0);
            work.clearing.borrow_mut().remove(&lane.0);
            array.map.borrow_mut().mark(lane.0);
        }
        let result = self.record_marks(array).await;
        for MarkReport { from, number, .. } in reports {
            self.answer_report(from, number, result);
        }
    }

    async fn record_marks(&self, array: &Rc<Array>) -> Result<(), IoError> {
        let gone = IoError::new(IoErrorKind::Gone);
        if !array.lost.borrow().is_empty() {
            return Err(gone);
        }
        let mut label = array.label();
        let mut stale =
            label.member.iter_mut().filter(|member| !member.is_online() && !member.missed_writes).peekable();
        if stale.peek().is_some() {
            stale.for_each(|member| member.missed_writes = true);
            if !self.commit(array, label, Vec::new()).await {
                return Err(gone);
            }
            self.set_health(array).await;
        }
        self.write_map(array).await
    }

    /// Writes what changed of the map to every drive in use. The caller has the metadata turn.
    ///
    /// # Errors
    /// When it is not durable on all drives that are left.
    pub(crate) async fn write_map(&self, array: &Rc<Array>) -> Result<(), IoError> {
        let writes = array.map.borrow_mut().take_changed();
        if writes.is_empty() {
            return Ok(());
        }
        let errors = self.write_blocks(array, &writes, &array.in_use()).await;
        let full = errors.values().find(|error| error.kind == IoErrorKind::OutOfSpace).copied();
        if let Some(full) = full {
            // Rule (i): no space below a drive is no failure of the drive. But the mark is not durable.
            array.map.borrow_mut().not_written(&writes);
            return Err(full);
        }
        if errors.is_empty() || self.put_out(array, failing(errors, "marking a lane")).await {
            return Ok(());
        }
        array.map.borrow_mut().not_written(&writes);
        Err(IoError::new(IoErrorKind::Gone))
    }

    /// Writes blocks of the map to the drives in `slots`, all at once. Which failed.
    pub(crate) async fn write_blocks(
        &self,
        array: &Array,
        writes: &[BlockWrite],
        slots: &[usize],
    ) -> BTreeMap<usize, IoError> {
        let mut ios: Ios = Vec::new();
        for &slot in slots {
            let access = array.drive(slot).and_then(|drive| drive.access());
            for write in writes {
                let start = |access: &Access| Some(access.write_block(&access.tail()?, write));
                ios.push((slot, access.as_ref().and_then(start)));
            }
        }
        join(ios).await
    }

    /// Flushes every drive in use. Which failed.
    pub(crate) async fn flush_drives(&self, array: &Array) -> BTreeMap<usize, IoError> {
        let access = |slot: usize| array.drive(slot).and_then(|drive| drive.access());
        let flush = |slot| (slot, access(slot).map(|access| access.member.flush()));
        let mut errors = join(array.in_use().into_iter().map(flush).collect()).await;
        // Without a volatile cache there is nothing to flush.
        errors.retain(|_, error| error.kind != IoErrorKind::NotSupported);
        errors
    }

    /// Clears the marks of quiet lanes until the array is stopped.
    pub(crate) async fn clean(self: Rc<Self>, array: Rc<Array>, running: Rc<Running>) {
        let work = &array.work;
        while !running.stopped.get() {
            let waiting = || !work.quiet.borrow().is_empty() || running.stopped.get();
            work.changed.wait_until(&self.env, waiting).await;
            if running.stopped.get() {
                return;
            }
            let quiet = work.quiet.take();
            self.clear_marks(&array, quiet).await;
        }
    }

    /// Flushes, then clears the marks of `lanes`, but of those that were marked again in the meantime, or that
    /// somebody else set out to clear later: an earlier flush says nothing about later writes.
    pub(crate) async fn clear_marks(&self, array: &Rc<Array>, lanes: impl IntoIterator<Item = u32>) {
        let work = &array.work;
        let run = work.clearings.get() + 1;
        work.clearings.set(run);
        work.clearing.borrow_mut().extend(lanes.into_iter().map(|lane| (lane, run)));
        let errors = self.flush_drives(array).await;
        let _turn = array.metadata.take(1).await;
        let errors: BTreeMap<_, _> = {
            let in_use = array.in_use();
            errors.into_iter().filter(|(slot, _)| in_use.contains(slot)).collect()
        };
        let flushed = errors.is_empty() || self.put_out(array, failing(errors, "flush")).await;
        let mut mine = Vec::new();
        work.clearing.borrow_mut().retain(|lane, by| {
            if *by == run {
                mine.push(*lane);
            }
            *by != run
        });
        if !flushed || !array.lost.borrow().is_empty() {
            return; // What the drives hold is not certain: the marks stay.
        }
        for lane in mine {
            if !array.unsynced.borrow().contains(&lane) {
                array.map.borrow_mut().unmark(lane);
            }
        }
        if let Err(error) = self.write_map(array).await {
            tracing::warn!("marks of '{}' could not be cleared: {error}", array.name());
        }
    }

    /// A shard has made the redundancy of lanes agree with their data again: all shards are told.
    pub(crate) fn lanes_synced(&self, array: &Rc<Array>, from: ShardIndex, lanes: &LaneSet) {
        self.tell_others(array, from, |id| ShardMessage::Synced(id, lanes.clone()));
        let mut unsynced = array.unsynced.borrow_mut();
        let before = unsynced.len();
        lanes.iter().for_each(|lane| {
            unsynced.remove(&lane.0);
        });
        if before > 0 && unsynced.is_empty() {
            let name = array.name();
            let text = format!("the resync of '{name}' is complete: all redundancy agrees with its data");
            self.events.info(&name, "the resync is complete", "all redundancy agrees", text);
        }
    }

    /// A write was left unfinished: what it touched is not trusted, by any shard or after the next start, until
    /// it is resynced. Its lanes are marked (they were being written) and stay so.
    pub(crate) fn lanes_unsynced(&self, array: &Rc<Array>, from: ShardIndex, lanes: &LaneSet) {
        array.unsynced.borrow_mut().extend(lanes.iter().map(|lane| lane.0));
        self.tell_others(array, from, |id| ShardMessage::Unsynced(id, lanes.clone()));
        let name = array.name();
        let text = format!(
            "a write to '{name}' was left unfinished on some drive: the redundancy of {} lanes is not trusted until they are resynced",
            lanes.len()
        );
        self.events.warn(&name, "a write failed on some drive", "redundancy is not trusted there", text);
    }

    /// Tells every shard but the one that told us: what that one learned since must not be undone.
    fn tell_others(&self, array: &Rc<Array>, from: ShardIndex, message: impl Fn(VolumeId) -> ShardMessage) {
        let Some(id) = array.volume_id() else { return };
        for (index, shard) in self.shards.iter().enumerate() {
            if index != usize::from(from.0) && shard.send(message(id)).is_err() {
                tracing::warn!(shard = index, "a shard does not take the news of what is synced");
            }
        }
    }

    /// A drive could not read some blocks. Every one is counted; the first and then every tenfold is an event.
    pub(crate) fn medium_error(&self, array: &Array, drive: DriveIndex, range: ByteRange, recovered: bool) {
        let Some(drive) = array.drive(drive.as_usize()) else { return };
        let count = drive.medium_errors.get() + 1;
        drive.medium_errors.set(count);
        if !is_power_of_ten(count) && recovered {
            return;
        }
        let (name, volume) = (&drive.name, array.name());
        let (start, end) = (range.start.0, range.end().0);
        let effect = if recovered { "redundancy stands in for it" } else { "hosts get an I/O error there" };
        let text = format!(
            "drive {name} of '{volume}' cannot read bytes {start} to {end}: {effect} ({count} such errors since the start)"
        );
        self.events.warn(name, "medium error", effect, text);
    }
}

fn is_power_of_ten(mut count: u64) -> bool {
    while count >= 10 && count.is_multiple_of(10) {
        count /= 10;
    }
    count == 1
}
