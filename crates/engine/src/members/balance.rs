//! The choice of a copy to read.
//!
//! The drive with the fewest operations in progress; of those the one whose last read ended
//! nearest, so that a stream stays with a drive while that is fast enough; of those a different one
//! for every stripe.
//!
//! On rotating drives, a stream deeper than one drive needs is different. Distributed request by
//! request, each drive skips what the other one reads, which takes as long as reading it. So such a
//! stream goes to one drive for a long *run*, then to another: both read at full speed, and seek
//! only between runs. A run is about half of the outstanding reads. It ends only when its drive has
//! enough queued reads while the other one seeks. Volumes can be set to distribute by request
//! ([`StreamSharing`]), to predict controllers that do so.

use crate::attachment::StreamSharing;
use crate::members::Drives;
use crate::members::slots::Slot;
use crate::members::streams::{LEAST_RUN_BYTES, Stream, next_run};
use layout::{CopyIndex, DataIndex, StripeMap};
use plan::CopyChoice;
use smallvec::SmallVec;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, StripeIndex};

/// Reads of one strip from this length on are split between copies that are nearly idle.
const SPLIT_FROM_BYTES: u64 = 128 << 10;

impl Drives {
    /// The copy of a data strip to read some bytes of. `None`: no copy is on a drive that `may` be
    /// read.
    pub(crate) fn choose_copy(
        &self,
        stripe: StripeIndex,
        map: &StripeMap,
        index: DataIndex,
        bytes: ByteRange,
        may: impl Fn(DriveIndex) -> bool,
    ) -> Option<CopyIndex> {
        let copies = self.geometry().copies();
        if copies == 1 {
            return may(map.data_cell(index, CopyIndex(0)).drive).then_some(CopyIndex(0));
        }
        let slot_of = |copy: CopyIndex| {
            let cell = map.data_cell(index, copy);
            let slot = self.members.slot(cell.drive).filter(|_| may(cell.drive))?;
            Some((slot, cell.offset.0 + bytes.start.0))
        };
        let least_busy = || {
            let turn = (stripe.0 % u64::from(copies)) as u16;
            let copies = (turn..copies).chain(0..turn).map(CopyIndex);
            let weighed = copies.filter_map(|copy| {
                let (slot, start) = slot_of(copy)?;
                Some(((slot.outstanding(), slot.last_end.get().abs_diff(start)), copy))
            });
            weighed.min_by_key(|(weight, _)| *weight).map(|(_, copy)| copy)
        };
        let copy = match self.members.rotate() && self.streams.sharing == StreamSharing::Runs {
            true => self.run_of(
                stripe,
                index,
                bytes,
                |copy| slot_of(copy).map(|(slot, _)| slot),
                least_busy,
            )?,
            false => least_busy()?,
        };
        let (slot, start) = slot_of(copy)?;
        slot.last_end.set(start + bytes.len.0);
        Some(copy)
    }

    /// The copy to read a part of a large read from; `before` bytes of the read precede it. Nearly
    /// idle copies share the read, each with a run of it. `None`: fewer than two are nearly idle,
    /// or a stream's run decides.
    pub(crate) fn copy_by_share(
        &self,
        map: &StripeMap,
        index: DataIndex,
        bytes: ByteRange,
        (before, all): (ByteCount, ByteCount),
    ) -> Option<CopyIndex> {
        let copies = self.geometry().copies();
        let by_runs = self.members.rotate() && self.streams.sharing == StreamSharing::Runs;
        if copies == 1 || by_runs {
            return None;
        }
        let drive_of = |copy: &CopyIndex| map.data_cell(index, *copy).drive;
        let is_idle = |copy: &CopyIndex| self.members.is_idle(drive_of(copy));
        let idle: SmallVec<[CopyIndex; 4]> = (0..copies).map(CopyIndex).filter(is_idle).collect();
        let nth = before.0 * idle.len() as u64 / all.0.max(1);
        let copy = *idle.get(nth as usize).filter(|_| idle.len() > 1)?;
        let cell = map.data_cell(index, copy);
        let slot = self.members.slot(cell.drive)?;
        slot.last_end.set(cell.offset.0 + bytes.end().0);
        Some(copy)
    }

    /// The copy of a read's stream, current or next; `other` if it continues none.
    fn run_of<'a>(
        &self,
        stripe: StripeIndex,
        index: DataIndex,
        bytes: ByteRange,
        slot_of: impl Fn(CopyIndex) -> Option<&'a Slot>,
        other: impl Fn() -> Option<CopyIndex>,
    ) -> Option<CopyIndex> {
        let geometry = self.geometry();
        let strips = geometry.stripe_bytes().0 / geometry.strip().bytes().0;
        let start = stripe.0 * geometry.stripe_bytes().0
            + u64::from(index.0) * geometry.strip().bytes().0
            + bytes.start.0;
        let fresh = |copy| Stream { end: start, copy, left: LEAST_RUN_BYTES * strips };
        let mut stream = match self.streams.take(start) {
            None => fresh(other()?),
            Some(stream) => match slot_of(stream.copy) {
                None => fresh(other()?),
                Some(slot) if stream.left == 0 => {
                    let waiting = u64::from(slot.outstanding()) * bytes.len.0;
                    match next_run(waiting) {
                        Some(run) => Stream { left: run * strips, ..fresh(other()?) },
                        None => stream,
                    }
                }
                Some(_) => stream,
            },
        };
        stream.end = start + bytes.len.0;
        stream.left = stream.left.saturating_sub(bytes.len.0);
        self.streams.put(stream);
        Some(stream.copy)
    }

    /// The copies to read some bytes of a stripe's data from, and whether several copies share a
    /// strip's bytes: a large read uses all idle copies.
    pub(crate) fn choose_copies(
        &self,
        stripe: StripeIndex,
        within: ByteRange,
    ) -> (CopyChoice, bool) {
        let geometry = self.geometry();
        let mut choice = CopyChoice::FIRST;
        if geometry.copies() == 1 || within.is_empty() {
            return (choice, false);
        }
        let readable = self.in_service();
        let map = geometry.stripe_map(stripe);
        let may = |drive| readable.contains(drive) && self.is_current(drive, stripe);
        let mut split = false;
        let mut rest = within;
        while !rest.is_empty() {
            let (index, at) = geometry.strip_of(ByteCount(rest.start.0));
            let len = (geometry.strip().bytes() - at).min(rest.len);
            rest = ByteRange::from_to(rest.start + len, rest.end());
            if len.0 >= SPLIT_FROM_BYTES && !split {
                split = (0..geometry.copies())
                    .map(|copy| map.data_cell(index, CopyIndex(copy)).drive)
                    .filter(|drive| may(*drive) && self.members.is_idle(*drive))
                    .nth(1)
                    .is_some();
            }
            let bytes = ByteRange::new(ByteOffset(at.0), len);
            if let Some(copy) = self.choose_copy(stripe, &map, index, bytes, may) {
                choice = choice.with(index, copy);
            }
        }
        (choice, split)
    }
}
