//! What several writes of a stripe come to.

use std::collections::BinaryHeap;
use units::{ByteCount, ByteOffset, ByteRange};

/// Bytes of a stripe, and which write they come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Which bytes of the stripe's data.
    pub range: ByteRange,
    /// Which of the writes, by its place among them.
    pub write: usize,
    /// Where in that write they begin.
    pub at: ByteCount,
}

/// The extents that writes come to which are carried out in this order: ascending, none overlapping. Where several write
/// the same bytes, those of the last one count.
///
/// ```
/// use units::{ByteCount, ByteOffset, ByteRange};
/// let kib = |start: u64, len: u64| ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10));
///
/// let extents = cache::merge(&[kib(0, 12), kib(4, 4)]);
/// let found: Vec<_> = extents.iter().map(|extent| (extent.range, extent.write)).collect();
/// assert_eq!(found, [(kib(0, 4), 0), (kib(4, 4), 1), (kib(8, 4), 0)]);
/// ```
pub fn merge(writes: &[ByteRange]) -> Vec<Extent> {
    sweep(writes, || {})
}

/// Goes over the bytes once, in their order. Of the writes that have begun and not ended, the last one counts until it ends or a later one
/// begins. Each write begins and ends once, so that the steps grow with the number of writes. `step` is told of each.
fn sweep(writes: &[ByteRange], mut step: impl FnMut()) -> Vec<Extent> {
    let mut order: Vec<usize> = (0..writes.len()).filter(|write| !writes[*write].is_empty()).collect();
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
            // It begins before the latest one ends, or where that does: which of them counts is known when it has begun.
            (Some(_), Some((write, start))) if start <= at => {
                begun.push(write);
                next += 1;
            }
            (Some(&latest), Some((write, start))) if write < latest && start < writes[latest].end() => {
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

    /// Writes that wait for one stripe: next to each other, over each other, each within the one before, and a large one under them all.
    fn waiting(count: u64) -> [Vec<ByteRange>; 4] {
        let under = std::iter::once(range(0, 1 << 30));
        [
            (0..count).map(|nth| range(512 * (nth * 7919 % count), 512)).collect(),
            (0..count).map(|nth| range(512 * nth, 4096)).collect(),
            (0..count).map(|nth| range(512 * nth, 512 * 2 * (count - nth))).collect(),
            under.chain((0..count).map(|nth| range(1024 * nth, 512))).collect(),
        ]
    }

    /// Each write was compared with all that had been merged, and those were sorted again: a burst of writes to one stripe cost the square of
    /// their number.
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
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        for _ in 0..2_000 {
            let writes: Vec<ByteRange> = (0..below(12)).map(|_| range(below(40), below(12))).collect();
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
