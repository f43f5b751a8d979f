//! The extent of a volume on the drives of its array: a run of bytes, the same on all of them, and
//! a run of regions.

use crate::interface::Coercion;
use ondisk::{Label, Tail, TailPlace, VolumeLabel, intent::MAX_REGIONS};
use std::ops::Range;
use units::{ByteCount, StripSize};

/// Volumes begin at multiples of this, or of their strip if that is larger.
const ALIGNMENT: ByteCount = ByteCount::MIB;

/// The common end of the data space on drives of these sizes, with their tails at that place.
pub(crate) fn free_end(sizes: impl Iterator<Item = ByteCount>, tail: TailPlace) -> ByteCount {
    let end =
        |size| Tail::at(size, tail).map_or(ByteCount::ZERO, |tail| ByteCount(tail.data().end().0));
    let rooms = sizes.map(end);
    rooms.min().unwrap_or(ByteCount::ZERO)
}

/// The same for a new volume with the default rounding of sizes.
pub(crate) fn usual_end(size_bytes: impl Iterator<Item = u64>, tail: TailPlace) -> ByteCount {
    free_end(size_bytes.map(|size| Coercion::default().used_of(ByteCount(size))), tail)
}

/// The gaps between the taken ranges, up to `end`, ascending.
pub(crate) fn gaps(mut taken: Vec<Range<u64>>, end: u64) -> Vec<Range<u64>> {
    taken.sort_unstable_by_key(|range| range.start);
    let mut gaps = Vec::new();
    let mut from = 0;
    for range in taken {
        if range.start > from {
            gaps.push(from..range.start.min(end));
        }
        from = from.max(range.end);
    }
    gaps.push(from..end);
    gaps.retain(|gap| gap.start < gap.end);
    gaps
}

/// The free runs of bytes on drives with `room` bytes before their labels: aligned for a strip,
/// ascending.
pub(crate) fn free_bytes(
    label: Option<&Label>,
    room: ByteCount,
    strip: StripSize,
) -> Vec<Range<u64>> {
    let bytes = |volume: &VolumeLabel| volume.data_start_bytes..volume.data_end_bytes();
    // Some drives have the tail before their data.
    let taken = label.map(|label| {
        std::iter::once(0..label.tail.data_start().0)
            .chain(label.volume.iter().map(bytes))
            .collect()
    });
    let taken = taken.unwrap_or_default();
    let alignment = ALIGNMENT.max(strip.bytes()).0;
    let aligned = |gap: Range<u64>| gap.start.next_multiple_of(alignment)..gap.end;
    gaps(taken, room.0).into_iter().map(aligned).filter(|gap| gap.start < gap.end).collect()
}

/// The first free run of regions of that length.
pub(crate) fn free_regions(label: Option<&Label>, count: u32) -> Option<u32> {
    let regions =
        |volume: &VolumeLabel| u64::from(volume.first_region)..u64::from(volume.end_region());
    let taken = label.map(|label| label.volume.iter().map(regions).collect()).unwrap_or_default();
    let gaps = gaps(taken, u64::from(MAX_REGIONS));
    let gap = gaps.into_iter().find(|gap| gap.end - gap.start >= u64::from(count))?;
    u32::try_from(gap.start).ok()
}

/// The offset for a volume that uses `need` of each drive: the first gap that is long enough.
pub(crate) fn first_fit(gaps: &[Range<u64>], need: ByteCount) -> Option<u64> {
    gaps.iter().find(|gap| gap.end - gap.start >= need.0).map(|gap| gap.start)
}

/// The longest gap, the first of equal ones.
pub(crate) fn longest(gaps: &[Range<u64>]) -> Option<Range<u64>> {
    gaps.iter().rev().max_by_key(|gap| gap.end - gap.start).cloned()
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one gap is a list of gaps")]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_is_free() {
        assert_eq!(gaps(vec![], 10), [0..10]);
        assert_eq!(gaps(vec![0..3, 5..7], 10), [3..5, 7..10]);
        assert_eq!(gaps(vec![5..10, 0..5], 10), []);
        assert_eq!(gaps(vec![8..20], 10), [0..8]);
    }

    #[test]
    fn the_first_gap_that_is_long_enough_is_taken() {
        let gaps = [3..5, 10..20, 30..40];
        assert_eq!(first_fit(&gaps, ByteCount(2)), Some(3));
        assert_eq!(first_fit(&gaps, ByteCount(10)), Some(10));
        assert_eq!(first_fit(&gaps, ByteCount(11)), None);
        assert_eq!((longest(&gaps), longest(&[])), (Some(10..20), None));
    }

    #[test]
    fn volumes_begin_at_whole_mebibytes() {
        let whole = free_bytes(None, ByteCount(10 << 20), StripSize::KIB_64);
        assert_eq!(whole, [0..10 << 20]);
        assert_eq!(free_regions(None, MAX_REGIONS), Some(0));
        assert_eq!(free_regions(None, MAX_REGIONS + 1), None);
    }
}
