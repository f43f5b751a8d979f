//! Merges several writes of a stripe into extents.

use std::collections::BinaryHeap;
use units::{ByteCount, ByteOffset, ByteRange};

/// An extent of a stripe, and the write it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Range in the stripe's data.
    pub range: ByteRange,
    /// Index of the write.
    pub write: usize,
    /// Offset in that write.
    pub at: ByteCount,
}

/// Merges writes in this order into ascending, disjoint extents. The last write of a byte wins.
///
/// ```
/// use units::{ByteCount, ByteOffset, ByteRange};
/// let kib = |start: u64, len: u64| ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10));
///
/// let extents = block_cache::merge(&[kib(0, 12), kib(4, 4)]);
/// let found: Vec<_> = extents.iter().map(|extent| (extent.range, extent.write)).collect();
/// assert_eq!(found, [(kib(0, 4), 0), (kib(4, 4), 1), (kib(8, 4), 0)]);
/// ```
pub fn merge(writes: &[ByteRange]) -> Vec<Extent> {
    sweep(writes, || {})
}

/// A sweep in ascending order: the last write that has begun wins until it ends or a later one
/// begins. The number of steps grows linearly. `step` is called for each.
fn sweep(writes: &[ByteRange], mut step: impl FnMut()) -> Vec<Extent> {
    let mut order: Vec<usize> =
        (0..writes.len()).filter(|write| !writes[*write].is_empty()).collect();
    order.sort_unstable_by_key(|write| writes[*write].start);
    let mut extents: Vec<Extent> = Vec::with_capacity(writes.len());
    let mut begun: BinaryHeap<usize> = BinaryHeap::new();
    let (mut next, mut at) = (0, ByteOffset::ZERO);
    let begins = |next: usize| order.get(next).map(|write| (*write, writes[*write].start));
    loop {
        step();
        if begun.peek().is_some_and(|latest| writes[*latest].end() <= at) {
            begun.pop();
            continue;
        }
        match (begun.peek(), begins(next)) {
            (None, None) => return extents,
            (None, Some((write, start))) => {
                at = at.max(start);
                begun.push(write);
                next += 1;
            }
            // This write begins before or where the winning one ends; choose between them after its
            // begin.
            (Some(_), Some((write, start))) if start <= at => {
                begun.push(write);
                next += 1;
            }
            (Some(&latest), Some((write, start)))
                if write < latest && start < writes[latest].end() =>
            {
                begun.push(write);
                next += 1;
            }
            (Some(&latest), following) => {
                let end = writes[latest].end();
                let until = following.map_or(end, |(_, start)| start.min(end));
                let range = ByteRange::from_to(at, until);
                extents.push(Extent { range, write: latest, at: at - writes[latest].start });
                at = until;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(ByteOffset(start), ByteCount(len))
    }

    /// Write bursts to one stripe: adjacent, overlapping, nested, and many over a large one.
    fn waiting(count: u64) -> [Vec<ByteRange>; 4] {
        let under = std::iter::once(range(0, 1 << 30));
        [
            (0..count).map(|nth| range(512 * (nth * 7919 % count), 512)).collect(),
            (0..count).map(|nth| range(512 * nth, 4096)).collect(),
            (0..count).map(|nth| range(512 * nth, 512 * 2 * (count - nth))).collect(),
            under.chain((0..count).map(|nth| range(1024 * nth, 512))).collect(),
        ]
    }

    /// An earlier version compared all pairs: a burst cost the square of the number of writes.
    #[test]
    fn twice_as_many_writes_take_twice_as_many_steps() {
        let steps = |writes: &[ByteRange]| {
            let mut steps = 0_u64;
            sweep(writes, || steps += 1);
            steps
        };
        for (few, many) in waiting(1_000).iter().zip(&waiting(2_000)) {
            assert!(steps(few) <= 4 * few.len() as u64 + 1, "{} for {}", steps(few), few.len());
            assert!(steps(many) <= 4 * many.len() as u64 + 1, "{} for {}", steps(many), many.len());
        }
    }

    #[test]
    fn every_byte_comes_from_the_last_write_of_it() {
        let mut random = 1_u64;
        let mut below = |limit: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        for _ in 0..2_000 {
            let writes: Vec<ByteRange> =
                (0..below(12)).map(|_| range(below(40), below(12))).collect();
            let mut bytes = [None; 64];
            for (write, range) in writes.iter().enumerate() {
                bytes[range.start.0 as usize..range.end().0 as usize].fill(Some(write));
            }
            let mut found = [None; 64];
            let mut before = ByteOffset::ZERO;
            for Extent { range, write, at } in merge(&writes) {
                assert!(range.start >= before && !range.is_empty(), "{writes:?}");
                assert_eq!(writes[write].start + at, range.start, "{writes:?}");
                found[range.start.0 as usize..range.end().0 as usize].fill(Some(write));
                before = range.end();
            }
            assert_eq!(found, bytes, "{writes:?}");
        }
    }
}
