//! The failure handler: makes failures and marks of a started array durable.
//!
//! # Fault model and invariants
//! The process may crash and the power may fail at any point; any write to a drive may fail,
//! including these.
//! - *Rule (a).* A failure is in the labels of all other drives, with a new generation, **before**
//!   a shard continues without the drive (`Change::InService`) and before the report is confirmed.
//!   After an earlier crash: the drive counts as online, and no write that skipped it was
//!   acknowledged; its region is marked. After a later one: the drive is out, and stale in the
//!   marked regions.
//! - A drive whose loss no volume tolerates is *lost*, not failed: nothing is recorded and the
//!   report gets an error, so no write that skipped it is acknowledged. The drives stay consistent,
//!   and the volumes can be started when the drive is back. Where only some volumes tolerate it,
//!   its failure is recorded, and the others record that they lost it.
//! - A report concerns the drive that its shard had in the slot. If another drive has the slot now,
//!   the departure of the old one is recorded: the report is confirmed, and the new one stays.
//! - *Rule (b).* A mark is confirmed when it is durable on every drive in use. A drive that cannot
//!   take it fails first, by rule (a).
//! - *The map is the journal of the label.* A marked region may have been written: drives that are
//!   out are stale there, and it does not count as unwritten. The label records that before the
//!   mark is cleared (`bitmap_clearer.rs`).
//! - All of this happens under the array's metadata lock, one after the other.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::suspended::cause_of;
use crate::arrays::volume::Volume;
use crate::arrays::work::{MarkReport, Running};
use crate::events::{EventCode, Subject};
use crate::inventory::access::Access;
use crate::inventory::access::{Ios, join};
use engine::{Change, RegionSet, ShardIndex, ShardMessage, VolumeId};
use ondisk::{BlockWrite, Cause};
use platform::{IoError, IoErrorKind};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use units::{ByteRange, DriveIndex, counted};

/// A drive to take out: its slot, and the reason.
#[derive(Clone)]
pub(crate) struct Failing {
    pub(crate) slot: usize,
    pub(crate) cause: Cause,
    /// The error, as part of a sentence.
    pub(crate) what: String,
    /// Whether the drive itself is at fault, which is recorded; a drive that vanished may come
    /// back.
    pub(crate) is_lasting: bool,
}

/// A shard's report that the drive of a slot failed.
pub(crate) struct FailureReport {
    pub(crate) from: ShardIndex,
    pub(crate) number: u64,
    pub(crate) volume: Rc<Volume>,
    /// While the volume has that number, `swaps` identifies the drive of the slot
    /// ([`Volume::swaps`]).
    pub(crate) id: VolumeId,
    pub(crate) drive: DriveIndex,
    pub(crate) swaps: u64,
    pub(crate) what: String,
    pub(crate) error: IoErrorKind,
}

impl FailureReport {
    /// Whether it concerns the current drive of the slot. `None`: this is not known any more.
    pub(super) fn is_about_present(&self) -> Option<bool> {
        let is_served = self.volume.id() == Some(self.id);
        is_served.then(|| self.volume.swaps(self.drive.as_usize()) == self.swaps)
    }
}

/// Whether a drive with that error is recorded as failed. A drive that exceeds a time limit is
/// suspended.
pub(super) fn is_lasting(error: IoErrorKind) -> bool {
    !matches!(error, IoErrorKind::Gone | IoErrorKind::Changed | IoErrorKind::TimedOut)
}

pub(crate) fn failing(errors: BTreeMap<usize, IoError>, operation: &str) -> Vec<Failing> {
    let fail = |(slot, error): (usize, IoError)| {
        let what = format!("{operation}: {error}");
        Failing { slot, cause: cause_of(error.kind), what, is_lasting: is_lasting(error.kind) }
    };
    errors.into_iter().map(fail).collect()
}

impl Arrays {
    /// Handles failures and marks until the array is stopped.
    pub(super) async fn handle_failures(self: Rc<Self>, array: Rc<Array>, running: Rc<Running>) {
        loop {
            let work = &array.work;
            work.changed.wait_until(&self.env, || work.is_waiting() || running.stopped.get()).await;
            if !work.is_waiting() {
                return;
            }
            let _turn = array.metadata.take(1).await;
            if work.silent.is_due() {
                self.deal_with_silent(&array).await;
            }
            let failures = work.failures.take();
            if !failures.is_empty() {
                self.deal_with_failures(&array, failures).await;
            }
            let marks = work.marks.take();
            if !marks.is_empty() {
                self.deal_with_marks(&array, marks).await;
            }
            let initialised = work.initialised.take();
            if !initialised.is_empty() {
                self.record_initialised(&array, initialised).await;
            }
        }
    }

    async fn deal_with_failures(self: &Rc<Self>, array: &Rc<Array>, reports: Vec<FailureReport>) {
        let mut failing: Vec<Failing> = Vec::new();
        // Reports about an earlier drive of the slot do not affect its current one.
        let present = |report: &&FailureReport| report.is_about_present() == Some(true);
        for FailureReport { drive, what, error, .. } in reports.iter().filter(present) {
            let slot = drive.as_usize();
            if array.in_use().contains(&slot) && failing.iter().all(|other| other.slot != slot) {
                let is_lasting = is_lasting(*error);
                failing.push(Failing {
                    slot,
                    cause: cause_of(*error),
                    what: what.clone(),
                    is_lasting,
                });
            }
        }
        if !failing.is_empty() {
            self.put_out(array, failing).await;
        }
        for report in reports {
            let has_left =
                report.is_about_present() == Some(false) && array.lost.borrow().is_empty();
            let FailureReport { from, number, volume, drive, .. } = report;
            let goes_on = array.has(&volume) && !volume.lost().contains(drive);
            let recorded = goes_on && (has_left || array.label().out().contains(drive));
            let gone = Err(IoError::new(IoErrorKind::Gone));
            self.answer_report(from, number, if recorded { Ok(()) } else { gone });
        }
    }

    /// Makes marks durable and confirms the reports. One write covers several reports.
    async fn deal_with_marks(self: &Rc<Self>, array: &Rc<Array>, reports: Vec<MarkReport>) {
        let work = &array.work;
        let news: Vec<RegionSet> =
            reports.iter().map(|report| self.newly_written(array, report)).collect();
        for region in reports.iter().flat_map(|report| report.regions.iter()) {
            work.quiet.borrow_mut().remove(&region.0);
            work.clearing.borrow_mut().remove(&region.0);
            array.map.borrow_mut().mark(region.0);
        }
        let result = match array.lost.borrow().is_empty() {
            true => Ok(()),
            false => Err(IoError::new(IoErrorKind::Gone)),
        };
        let result = match result {
            Ok(()) => self.write_map(array).await,
            lost => lost,
        };
        for (MarkReport { from, number, volume, .. }, news) in reports.into_iter().zip(news) {
            if result.is_ok() && !news.is_empty() {
                let written = volume.own_regions(&news);
                self.tell_others(&volume, from, &Change::Marked(written));
            }
            self.answer_report(from, number, result);
        }
    }

    /// Regions of a report that were never written before.
    fn newly_written(&self, array: &Array, report: &MarkReport) -> RegionSet {
        if !array.has(&report.volume) {
            return RegionSet::EMPTY;
        }
        let unwritten = array.unwritten(&report.volume);
        report.regions.iter().filter(|region| unwritten.contains(*region)).collect()
    }

    /// Writes the changed blocks of the map to every drive in use. The caller holds the metadata
    /// lock.
    ///
    /// # Errors
    /// When it is not durable on all remaining drives.
    pub(crate) async fn write_map(self: &Rc<Self>, array: &Rc<Array>) -> Result<(), IoError> {
        let writes = array.map.borrow_mut().take_changed();
        if writes.is_empty() {
            return Ok(());
        }
        let errors = self.write_blocks(array, &writes, &array.in_use()).await;
        let full = errors.values().find(|error| error.spares_drive()).copied();
        if let Some(full) = full {
            // Rule (i): a full backing store is no failure of the drive. But the mark is not
            // durable.
            array.map.borrow_mut().not_written(&writes);
            return Err(full);
        }
        if errors.is_empty() || self.put_out(array, failing(errors, "marking a region")).await {
            return Ok(());
        }
        array.map.borrow_mut().not_written(&writes);
        Err(IoError::new(IoErrorKind::Gone))
    }

    /// Writes the whole map, and the record of initialised stripes, to the drives in `slots`, both
    /// copies of every block. Returns the failed drives with their errors, among them a full
    /// backing store.
    pub(crate) async fn heal_map(
        &self,
        array: &Array,
        slots: &[usize],
    ) -> BTreeMap<usize, IoError> {
        let mut failed = BTreeMap::new();
        let tail = array.label().tail;
        for access in slots.iter().filter_map(|slot| array.drive(*slot)?.access()) {
            access.set_place(tail);
        }
        for _ in 0..2 {
            let writes = array.map.borrow_mut().take_all();
            let errors = self.write_blocks(array, &writes, slots).await;
            if !errors.is_empty() {
                array.map.borrow_mut().not_written(&writes);
            }
            failed.extend(errors);
            failed.extend(self.heal_record(array, slots).await);
        }
        failed
    }

    /// Writes blocks of the map to the drives in `slots` in parallel, and retries for some time
    /// while the system is busy. Returns the failed drives.
    pub(super) async fn write_blocks(
        &self,
        array: &Array,
        writes: &[BlockWrite],
        slots: &[usize],
    ) -> BTreeMap<usize, IoError> {
        let write =
            async || Ok::<_, Infallible>(self.write_blocks_once(array, writes, slots).await);
        let Ok(errors) = self.until_not_busy(write).await;
        errors
    }

    async fn write_blocks_once(
        &self,
        array: &Array,
        writes: &[BlockWrite],
        slots: &[usize],
    ) -> BTreeMap<usize, IoError> {
        let written = self.watch_writes(array);
        let mut ios: Ios = Vec::new();
        for &slot in slots {
            let drive = array.drive(slot).filter(|_| !array.deleted.get());
            let access = drive.and_then(|drive| drive.access());
            written.watch(slot, access.as_ref());
            for run in writes.chunk_by(lies_before) {
                let start = |access: &Access| access.write_blocks(&access.tail()?, run);
                ios.push((slot, access.as_ref().and_then(start)));
            }
        }
        join(ios).await
    }

    /// A shard has resynced regions: all shards are notified.
    pub(super) fn regions_synced(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        from: ShardIndex,
        regions: &RegionSet,
    ) {
        self.tell_others(volume, from, &Change::Synced(regions.clone()));
        let own = volume.regions();
        let mut unsynced = array.unsynced.borrow_mut();
        let before = unsynced.range(own.clone()).count();
        regions.iter().for_each(|region| {
            unsynced.remove(&volume.array_region(region));
        });
        volume.forget_forced(regions);
        self.attention.notify();
        if before > 0 && unsynced.range(own).next().is_none() {
            let name = volume.name();
            let text =
                format!("the resync of '{name}' is complete: all redundancy agrees with its data");
            self.events.report(
                EventCode::VolumeResynced,
                &name,
                "the resync is complete",
                "all redundancy agrees",
                text,
            );
            self.cover(array, volume);
        }
    }

    /// A write was left unfinished: no shard trusts its regions, nor does the next start, until
    /// they are resynced. The regions are marked (they were being written) and stay so.
    pub(super) fn regions_unsynced(
        &self,
        array: &Rc<Array>,
        volume: &Volume,
        from: ShardIndex,
        regions: &RegionSet,
    ) {
        array
            .unsynced
            .borrow_mut()
            .extend(regions.iter().map(|region| volume.array_region(region)));
        volume.forget_forced(regions);
        self.tell_others(volume, from, &Change::Unsynced(regions.clone()));
        let name = volume.name();
        let text = format!(
            "a write to '{name}' was left unfinished on a drive: {} are unsynced until the next \
            resync",
            counted(regions.len(), "region")
        );
        self.events.report(
            EventCode::VolumeUnsynced,
            &name,
            "a write failed on a drive",
            "redundancy is not used there",
            text,
        );
    }

    /// Sends a change to every shard except the one that reported it: newer state of that shard
    /// must not be undone.
    pub(super) fn tell_others(&self, volume: &Volume, from: ShardIndex, change: &Change) {
        let Some(id) = volume.id() else { return };
        for (index, shard) in self.shards.iter().enumerate() {
            let message = ShardMessage::Apply(id, change.clone(), None, None);
            if index != usize::from(from.0) && shard.send(message).is_err() {
                tracing::warn!(
                    shard = index,
                    "a thread of SoftROC did not accept a change of a volume's state"
                );
            }
        }
    }

    /// A drive could not read some blocks. Every one is counted; the 1st, 10th, 100th and so on
    /// cause an event.
    pub(super) fn medium_error(
        &self,
        array: &Array,
        volume: &Volume,
        drive: DriveIndex,
        range: ByteRange,
        recovered: bool,
    ) {
        let Some(drive) = array.drive(drive.as_usize()) else { return };
        let count = drive.count_medium_error();
        if !is_power_of_ten(count) && recovered {
            return;
        }
        let (name, volume) = (&drive.name, volume.name());
        let (start, end) = (range.start.0, range.end().0);
        let effect = if recovered {
            "redundancy serves these blocks"
        } else {
            "hosts get an I/O error there"
        };
        let text = format!(
            "drive {name} of '{volume}' cannot read bytes {start} to {end}: {effect} ({count} such \
                errors since the start)"
        );
        let (code, about) = match recovered {
            true => (EventCode::DriveMediumError, Subject::both(name, &volume)),
            false => (EventCode::VolumeBlocksUnreadable, Subject::both(&volume, name)),
        };
        self.events.report(code, about, "medium error", effect, text);
    }
}

/// Whether a block is directly before another one on the drives.
fn lies_before(one: &BlockWrite, next: &BlockWrite) -> bool {
    one.area == next.area && one.copy == next.copy && one.block + 1 == next.block
}

fn is_power_of_ten(mut count: u64) -> bool {
    while count >= 10 && count.is_multiple_of(10) {
        count /= 10;
    }
    count == 1
}
