//! The bitmap clearer: how marks go.
//!
//! # Invariants
//! - A mark is cleared after the region was quiet *and then* every drive in use was flushed: what a power cut can
//!   still take back is marked.
//! - Before it goes, the label has learned what it stood for: that a drive which is out missed the region. Killed
//!   between: the mark says the same once more.
//! - An array that is offline, or whose failures are not all recorded, clears nothing.
//! - The flush goes on beside other changes; a region that is marked again meanwhile keeps its mark.

use crate::arrays::Arrays;
use crate::arrays::array::{Array, Running, runs, set_of};
use crate::arrays::failures::failing;
use crate::inventory::Drive;
use crate::inventory::access::join;
use engine::{RegionIndex, RegionSet};
use env::{IoError, IoErrorKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::DriveIndex;

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
            self.clear_marks(&array, quiet).await;
        }
    }

    /// Flushes every drive in use. Which failed.
    pub(super) async fn flush_drives(&self, array: &Array) -> BTreeMap<usize, IoError> {
        let start = |slot: usize| {
            let access = array.drive(slot).and_then(|drive| drive.access());
            (slot, access.map(|access| access.member.flush()))
        };
        let mut errors = join(array.in_use().into_iter().map(start).collect()).await;
        // Without a volatile cache there is nothing to flush.
        errors.retain(|_, error| error.kind != IoErrorKind::NotSupported);
        errors
    }

    /// Flushes every drive that is being filled. The slots of those that failed.
    async fn flush_replacements(&self, array: &Array) -> Vec<usize> {
        let replacements = array
            .places()
            .into_iter()
            .enumerate()
            .filter_map(|(slot, place)| Some((slot, place.replacement?)));
        let start =
            |(slot, drive): (usize, Rc<Drive>)| (slot, drive.access().map(|access| access.member.flush()));
        let mut errors = join(replacements.map(start).collect()).await;
        errors.retain(|_, error| error.kind != IoErrorKind::NotSupported);
        errors.into_keys().collect()
    }

    /// Flushes, then clears the marks of `regions`, but of those that were marked again in the meantime, or that
    /// somebody else set out to clear later: an earlier flush says nothing about later writes.
    pub(crate) async fn clear_marks(
        self: &Rc<Self>,
        array: &Rc<Array>,
        regions: impl IntoIterator<Item = u32>,
    ) {
        let work = &array.work;
        let run = work.clearings.get() + 1;
        work.clearings.set(run);
        work.clearing.borrow_mut().extend(regions.into_iter().map(|region| (region, run)));
        let errors = self.flush_drives(array).await;
        let unflushed = self.flush_replacements(array).await;
        let _turn = array.metadata.take(1).await;
        let errors: BTreeMap<_, _> = {
            let in_use = array.in_use();
            errors.into_iter().filter(|(slot, _)| in_use.contains(slot)).collect()
        };
        let flushed = errors.is_empty() || self.put_out(array, failing(errors, "flush")).await;
        let mut certain = true;
        for slot in unflushed {
            certain &= self.end_replacement(array, slot, "it cannot be flushed").await;
        }
        let mut mine = Vec::new();
        work.clearing.borrow_mut().retain(|region, by| {
            if *by == run {
                mine.push(*region);
            }
            *by != run
        });
        if !flushed || !certain || !array.lost.borrow().is_empty() || !array.unrecorded.borrow().is_empty() {
            return; // What the drives hold is not certain: the marks stay.
        }
        mine.retain(|region| {
            array.map.borrow().is_marked(*region) && !array.unsynced.borrow().contains(region)
        });
        if !self.record_written(array, &mine).await {
            return;
        }
        for region in mine {
            array.map.borrow_mut().unmark(region);
        }
        if let Err(error) = self.write_map(array).await {
            tracing::warn!("marks of {} could not be cleared: {error}", array.names());
        }
    }

    /// Before the marks of `regions` go: the label says that drives which are out, and those that are being filled, have
    /// missed them, and that they are written. Whether it does.
    async fn record_written(self: &Rc<Self>, array: &Rc<Array>, regions: &[u32]) -> bool {
        let regions: RegionSet = regions.iter().copied().map(RegionIndex).collect();
        let before = array.label();
        let mut next = before.clone();
        for (slot, member) in next.member.iter_mut().enumerate().filter(|(_, member)| !member.is_online()) {
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
