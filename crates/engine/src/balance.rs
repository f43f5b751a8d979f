//! Which copy to read where there are several: the drive with the fewest operations under way; of those the one
//! whose last read ended nearest, so that a stream stays with a drive as long as that alone keeps up; of those a
//! different one for every stripe.

use crate::members::Slot;
use crate::volume::Volume;
use layout::{CopyIndex, DataIndex, StripeMap};
use plan::CopyChoice;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, StripeIndex};

/// Reads of one strip from this length on are split between copies that are next to idle.
const SPLIT_FROM_BYTES: u64 = 128 << 10;

impl Volume {
    /// The copy of a data strip to read some bytes of. `None`: no copy is on a drive that `may` be read.
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
        let turn = (stripe.0 % u64::from(copies)) as u16;
        let mut best: Option<((u32, u64), CopyIndex, &Slot, u64)> = None;
        for i in 0..copies {
            let copy = CopyIndex(if turn + i < copies { turn + i } else { turn + i - copies });
            let cell = map.data_cell(index, copy);
            let Some(slot) = self.members.slot(cell.drive).filter(|_| may(cell.drive)) else { continue };
            let start = cell.offset.0 + bytes.start.0;
            let weight = (slot.outstanding(), slot.last_end.get().abs_diff(start));
            if best.as_ref().is_none_or(|(least, ..)| weight < *least) {
                best = Some((weight, copy, slot, start));
            }
        }
        let (_, copy, slot, start) = best?;
        slot.last_end.set(start + bytes.len.0);
        Some(copy)
    }

    /// The copies to read some bytes of a stripe's data from, and whether to read a strip's bytes from several of
    /// them at once: a large read that finds them idle is served by all.
    pub(crate) fn choose_copies(&self, stripe: StripeIndex, within: ByteRange) -> (CopyChoice, bool) {
        let geometry = self.geometry();
        let mut choice = CopyChoice::FIRST;
        if geometry.copies() == 1 || within.is_empty() {
            return (choice, false);
        }
        let (readable, _) = self.health.usable();
        let (map, lane) = (geometry.stripe_map(stripe), self.lane_of(stripe));
        let may = |drive| readable.contains(drive) && self.members.is_current(drive, lane, stripe);
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
