//! The bitmap clearer: clears marks of quiet regions.
//!
//! # Invariants
//! - A mark is cleared after the region was quiet *and then* every drive in use was flushed: every
//!   write that a power cut can still lose is marked.
//! - Before a mark is cleared, the label records what it stood for: a drive that is out is stale in
//!   the region. After a crash in between, the mark repeats that.
//! - A drive that cannot flush for now stays in use, and the marks stay: the same regions are
//!   retried soon.
//! - An array that is offline, or that has unrecorded failures, clears nothing.
//! - The flush runs concurrently with other changes. A region that is marked again meanwhile keeps
//!   its mark. A drive that took a slot meanwhile is not blamed for a failed flush of its
//!   predecessor.

use crate::arrays::Arrays;
use crate::arrays::array::{Array, runs, set_of};
use crate::arrays::failures::failing;
use crate::arrays::replacement::Ending;
use crate::arrays::work::Running;
use crate::inventory::Drive;
use crate::inventory::access::join;
use engine::{RegionIndex, RegionSet, Seat};
use platform::{IoError, IoErrorKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use units::DriveIndex;

/// Delay before a flush is retried, where a drive could not flush for now.
pub(super) const FLUSH_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A drive that did not complete a flush.
pub(super) struct Unflushed {
    /// Its position when the flush was sent.
    seat: Seat,
    /// `None`: the position had no drive.
    drive: Option<Rc<Drive>>,
    error: IoError,
}

impl Unflushed {
    /// Its current position: it may have left, or have taken the slot that it was filled for.
    fn seat_now(&self, array: &Array) -> Option<Seat> {
        let Some(drive) = &self.drive else {
            return array.drive_at(self.seat).is_none().then_some(self.seat);
        };
        let has_it = |seat: &Seat| array.drive_at(*seat).is_some_and(|now| Rc::ptr_eq(&now, drive));
        array.seats().into_iter().find(has_it)
    }
}

/// Whether a drive could not flush for now, and still has its cached data.
pub(super) fn is_busy(unflushed: &Unflushed) -> bool {
    unflushed.error.kind == IoErrorKind::Busy
}

impl Arrays {
    /// Clears the marks of quiet regions until the array is stopped.
    pub(super) async fn clear_bitmap(self: Rc<Self>, array: Rc<Array>, running: Rc<Running>) {
        let work = &array.work;
        while !running.stopped.get() {
            let waiting = || !work.quiet.borrow().is_empty() || running.stopped.get();
            work.changed.wait_until(&self.env, waiting).await;
            if running.stopped.get() {
                return;
            }
            let quiet = work.quiet.take();
            if !self.clear_marks(&array, quiet).await {
                self.env.sleep(FLUSH_AGAIN_AFTER).await;
            }
        }
    }

    /// Flushes the drives at these positions in parallel. Returns those that did not complete.
    pub(super) async fn flush(
        &self,
        array: &Array,
        seats: impl IntoIterator<Item = Seat>,
    ) -> Vec<Unflushed> {
        let seats = seats.into_iter().map(|seat| (seat, array.drive_at(seat)));
        // A position without a replacement has nothing to flush.
        let is_asked =
            |(seat, drive): &(Seat, Option<_>)| drive.is_some() || matches!(seat, Seat::Slot(_));
        let asked: Vec<(Seat, Option<Rc<Drive>>)> = seats.filter(is_asked).collect();
        let start = |(number, (_, drive)): (usize, &(Seat, Option<Rc<Drive>>))| {
            let access = drive.as_ref().and_then(|drive| drive.access());
            (number, access.map(|access| access.member.flush()))
        };
        let errors = join(asked.iter().enumerate().map(start).collect()).await;
        // Without a volatile cache there is nothing to flush.
        let errors =
            errors.into_iter().filter(|(_, error)| error.kind != IoErrorKind::NotSupported);
        let unflushed = |(number, error): (usize, IoError)| {
            let (seat, drive) = asked[number].clone();
            Unflushed { seat, drive, error }
        };
        errors.map(unflushed).collect()
    }

    /// Flushes every drive in use, and every replacement. Returns those that did not complete.
    pub(super) async fn flush_drives(&self, array: &Array) -> Vec<Unflushed> {
        let members = array.in_use().into_iter().map(|slot| Seat::Slot(DriveIndex(slot as u16)));
        let filled =
            (0..array.places().len()).map(|slot| Seat::Replacement(DriveIndex(slot as u16)));
        self.flush(array, members.chain(filled)).await
    }

    /// Takes drives that did not flush out of use, each by its current role. A drive that could not
    /// flush for now stays: it still has its cached data. Returns true if all failures are recorded
    /// and no drive was busy. The caller holds the metadata lock.
    pub(super) async fn take_out_unflushed(
        self: &Rc<Self>,
        array: &Rc<Array>,
        unflushed: Vec<Unflushed>,
    ) -> bool {
        let (mut members, mut filled, mut recorded) = (BTreeMap::new(), Vec::new(), true);
        for one in unflushed {
            if is_busy(&one) {
                recorded = false;
                continue;
            }
            match one.seat_now(array) {
                Some(Seat::Slot(slot)) => drop(members.insert(slot.as_usize(), one.error)),
                Some(Seat::Replacement(slot)) => filled.push((slot.as_usize(), one.error)),
                None => {} // It has left the array, and that was recorded then.
            }
        }
        // Replacements first: one of them would take the slot of a failed drive.
        for (slot, error) in filled {
            recorded &= self.end_replacement(array, slot, Ending::Failed("flushed", error)).await;
        }
        let in_use = array.in_use();
        members.retain(|slot, _| in_use.contains(slot));
        recorded & (members.is_empty() || self.put_out(array, failing(members, "flush")).await)
    }

    /// Flushes, then clears the marks of `regions`, except those that were marked again meanwhile
    /// or that a later clearing includes: an earlier flush does not cover later writes. False: a
    /// drive could not flush for now, and the regions count as quiet again.
    pub(crate) async fn clear_marks(
        self: &Rc<Self>,
        array: &Rc<Array>,
        regions: impl IntoIterator<Item = u32>,
    ) -> bool {
        let work = &array.work;
        let run = work.clearings.get() + 1;
        work.clearings.set(run);
        work.clearing.borrow_mut().extend(regions.into_iter().map(|region| (region, run)));
        let unflushed = self.flush_drives(array).await;
        let busy = unflushed.iter().any(is_busy);
        let _turn = array.metadata.take(1).await;
        let certain = self.take_out_unflushed(array, unflushed).await;
        let mut mine = Vec::new();
        work.clearing.borrow_mut().retain(|region, by| {
            if *by == run {
                mine.push(*region);
            }
            *by != run
        });
        if !certain || !array.lost.borrow().is_empty() || !array.unrecorded.borrow().is_empty() {
            if busy {
                work.quiet.borrow_mut().extend(mine);
            }
            return !busy; // The drives' content is uncertain: the marks stay.
        }
        mine.retain(|region| {
            array.map.borrow().is_marked(*region) && !array.unsynced.borrow().contains(region)
        });
        if !self.record_written(array, &mine).await {
            return true;
        }
        for region in mine {
            array.map.borrow_mut().unmark(region);
        }
        if let Err(error) = self.write_map(array).await {
            tracing::warn!("marks of {} could not be cleared: {error}", array.names());
        }
        true
    }

    /// Before the marks of `regions` are cleared: the label records that drives which are out, and
    /// replacements, are stale there, and that the regions are written. Returns whether that is
    /// recorded.
    async fn record_written(self: &Rc<Self>, array: &Rc<Array>, regions: &[u32]) -> bool {
        let regions: RegionSet = regions.iter().copied().map(RegionIndex).collect();
        let before = array.label();
        let mut next = before.clone();
        for (slot, member) in
            next.member.iter_mut().enumerate().filter(|(_, member)| !member.is_online())
        {
            let mut missed = regions.clone();
            let drive = DriveIndex(slot as u16);
            for volume in array.volumes().iter().filter(|volume| volume.lost().contains(drive)) {
                missed.remove_all(&volume.all_regions());
            }
            member.stale = runs(&set_of(&member.stale).union(&missed));
        }
        for volume in &mut next.volume {
            volume.unwritten = runs(&set_of(&volume.unwritten).minus(&regions));
        }
        next == before || self.commit(array, next, Vec::new()).await
    }
}
