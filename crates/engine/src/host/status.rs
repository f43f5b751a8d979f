//! Block status: which blocks hold data and which read as zeros, from the shards that own their
//! stripes.
//!
//! # Invariants
//! - It destages nothing. Dirty blocks in the cache are data, whatever the drives hold. The cache's
//!   map, the volume's state and the requests to the drives belong to one step: acknowledged data
//!   is in one of them.
//! - A stripe that is not initialised reads as zeros, and no drive is asked.
//! - Unknown blocks are data: their drive is offline, does not respond, or may not have kept the
//!   written data.
//! - All drives are asked at once, so that unresponsive ones cost one time limit together.

use crate::cache::Cache;
use crate::host::parts::stripes;
use layout::CopyIndex;
use platform::{BlockStatus, Io, IoRequest, Member, StatusExtent};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveSet, StripeIndex};

/// Runs of blocks, with adjacent runs of the same status merged.
#[derive(Default)]
pub(super) struct Extents(Vec<StatusExtent>);

impl Extents {
    pub(super) fn add(&mut self, len: ByteCount, status: BlockStatus) {
        match self.0.last_mut() {
            Some(last) if last.status == status => last.len += len,
            _ => self.0.push(StatusExtent { len, status }),
        }
    }

    pub(super) fn into_vec(self) -> Vec<StatusExtent> {
        self.0
    }

    /// Adds the status that the drives report for a range, overlaid with dirty data: ascending
    /// ranges without overlap.
    fn add_beneath(&mut self, range: ByteRange, drives: &[StatusExtent], dirty: &[ByteRange]) {
        let (mut at, mut dirty) = (range.start, dirty.iter().peekable());
        for extent in drives {
            let end = at + extent.len;
            while at < end {
                while dirty.next_if(|dirty| dirty.end() <= at).is_some() {}
                let (until, status) = match dirty.peek() {
                    Some(dirty) if dirty.start <= at => (dirty.end().min(end), BlockStatus::Data),
                    Some(dirty) => (dirty.start.min(end), extent.status),
                    None => (end, extent.status),
                };
                self.add(until - at, status);
                at = until;
            }
        }
    }
}

/// A part of a strip, and the source of its status beneath the cache.
struct Part {
    stripe: StripeIndex,
    /// The bytes of the stripe.
    range: ByteRange,
    dirty: SmallVec<[ByteRange; 4]>,
    beneath: Beneath,
}

enum Beneath {
    Known(BlockStatus),
    Asked(Io),
}

/// The status of all bytes of this shard's stripes from the given one on.
pub(super) async fn of_stripes(
    volume: &Rc<Cache>,
    first: StripeIndex,
    within: ByteRange,
) -> Vec<StatusExtent> {
    let mut parts = Vec::new();
    for (stripe, within) in stripes(volume.geometry(), volume.in_volume(first, within)) {
        let mut rest = within;
        while !rest.is_empty() {
            let strip = volume.geometry().strip().bytes();
            let end = (rest.start.align_down(strip) + strip).min(rest.end());
            parts.push(ask(volume, stripe, ByteRange::from_to(rest.start, end)));
            rest = ByteRange::from_to(end, rest.end());
        }
    }
    let mut extents = Extents::default();
    for Part { stripe, range, dirty, beneath } in parts {
        let answer = match beneath {
            Beneath::Known(status) => vec![StatusExtent { len: range.len, status }],
            Beneath::Asked(io) => {
                let outcome = io.await;
                let covered: u64 = outcome.extents.iter().map(|extent| extent.len.0).sum();
                let is_known = outcome.result.is_ok() && covered == range.len.0;
                // Blocks given up meanwhile are filled with zeros: a client that skips them would
                // never get the error.
                match is_known && !volume.is_lost(stripe, range) {
                    true => outcome.extents,
                    false => vec![StatusExtent { len: range.len, status: BlockStatus::Data }],
                }
            }
        };
        extents.add_beneath(range, &answer, &dirty);
    }
    extents.into_vec()
}

/// Examines a part of a strip, and asks a drive with it, unless the status is already known.
fn ask(volume: &Rc<Cache>, stripe: StripeIndex, range: ByteRange) -> Part {
    let dirty = volume.dirty_within(stripe, range);
    let is_all_dirty = matches!(dirty[..], [whole] if whole == range);
    let is_data = is_all_dirty || volume.is_lost(stripe, range) || !volume.is_live(stripe);
    let beneath = match () {
        () if is_data => Beneath::Known(BlockStatus::Data),
        () if !volume.is_initialised(stripe) => Beneath::Known(BlockStatus::Zero),
        // The drive may not have kept the data written there.
        () if volume.has_excluded(stripe) => Beneath::Known(BlockStatus::Data),
        () => ask_drive(volume, stripe, range)
            .map_or(Beneath::Known(BlockStatus::Data), Beneath::Asked),
    };
    Part { stripe, range, dirty, beneath }
}

/// Asks a drive with a part of a strip; `None`: there is none.
fn ask_drive(volume: &Rc<Cache>, stripe: StripeIndex, range: ByteRange) -> Option<Io> {
    let (index, at) = volume.geometry().strip_of(ByteCount(range.start.0));
    let readable = volume.stripe_health(stripe, &DriveSet::EMPTY).readable;
    let late = volume.members.late();
    // Where copies may differ, the first readable one counts.
    let may_choose = volume.state().is_synced(volume.region_of(stripe));
    let map = volume.map(stripe);
    let mut cells =
        (0..volume.geometry().copies()).map(|copy| map.data_cell(index, CopyIndex(copy)));
    let cell = cells
        .find(|cell| readable.contains(cell.drive) && !(may_choose && late.contains(cell.drive)))?;
    if late.contains(cell.drive) {
        return None;
    }
    let member: Rc<Member> = volume.member(cell.drive).ok()?;
    let place = ByteRange::new(ByteOffset(volume.raw(cell.offset).0 + at.0), range.len);
    Some(match volume.is_had_elsewhere(cell.drive) {
        true => member.status_or_late(place),
        false => member.start(IoRequest::Status { range: place }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(ByteOffset(start), ByteCount(len))
    }

    #[test]
    fn what_is_dirty_lies_over_what_the_drives_say() {
        use BlockStatus::{Data, Hole, Zero};
        let drives = [(100, Hole), (50, Data), (50, Zero)];
        let drives = drives.map(|(len, status)| StatusExtent { len: ByteCount(len), status });
        let case = |dirty: &[ByteRange], expected: &[(u64, BlockStatus)]| {
            let mut extents = Extents::default();
            extents.add_beneath(range(1000, 200), &drives, dirty);
            let got: Vec<_> =
                extents.into_vec().iter().map(|extent| (extent.len.0, extent.status)).collect();
            assert_eq!(got, expected, "{dirty:?}");
        };
        case(&[], &[(100, Hole), (50, Data), (50, Zero)]);
        case(&[range(1000, 200)], &[(200, Data)]);
        case(&[range(1000, 10)], &[(10, Data), (90, Hole), (50, Data), (50, Zero)]);
        case(&[range(1090, 30)], &[(90, Hole), (60, Data), (50, Zero)]);
        let ends = [range(1010, 10), range(1190, 10)];
        case(&ends, &[(10, Hole), (10, Data), (80, Hole), (50, Data), (40, Zero), (10, Data)]);
        let three = [range(1010, 10), range(1030, 70), range(1150, 50)];
        case(&three, &[(10, Hole), (10, Data), (10, Hole), (170, Data)]);
    }
}
