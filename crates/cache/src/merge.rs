//! What several writes of a stripe come to.

use units::{ByteCount, ByteRange};

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
    let mut extents: Vec<Extent> = Vec::with_capacity(writes.len());
    for (write, range) in writes.iter().enumerate().rev() {
        let mut at = range.start;
        // What is there already is newer, and ascends.
        let newer: Vec<ByteRange> = extents.iter().map(|extent| extent.range).collect();
        for taken in newer.into_iter().filter(|newer| newer.overlaps(*range)) {
            if at < taken.start {
                add(&mut extents, *range, write, ByteRange::from_to(at, taken.start));
            }
            at = at.max(taken.end());
        }
        if at < range.end() {
            add(&mut extents, *range, write, ByteRange::from_to(at, range.end()));
        }
        extents.sort_unstable_by_key(|extent| extent.range.start);
    }
    extents
}

fn add(extents: &mut Vec<Extent>, whole: ByteRange, write: usize, range: ByteRange) {
    extents.push(Extent { range, write, at: range.start - whole.start });
}
