//! Lists of blocks: *punctured* on a slot, and *excluded* from reads on its drive.
//!
//! - A *punctured* block can be neither read nor recovered. Reads of it fail until a host writes
//!   it. A rebuild may fill its place with zeros, to protect the other blocks of its stripe; hosts
//!   must never get these zeros.
//! - An *excluded* block was lost or refused by its drive. It is neither read nor used in
//!   computations until the drive has taken it again, can read it, and was flushed.
//!
//! The content that redundancy has for a data block:
//!
//! | punctured | excluded | its content in redundancy |
//! | --- | --- | --- |
//! | no | no | the drive's content |
//! | yes | no | the drive's content (usually zeros); hosts do not get it |
//! | no | yes | the last host write: only redundancy has it |
//! | yes | yes | zeros, which the drive refused |
//!
//! Blocks are addressed by slot and by ranges of its drive's part of the volume, in sectors: a
//! punctured block at its first copy, an excluded one at the drive concerned.

use units::{ByteCount, ByteOffset, ByteRange};

/// Blocks of a drive's part of a volume: ascending ranges that do not touch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct BlockList {
    ranges: Vec<ByteRange>,
}

impl BlockList {
    /// The empty list.
    pub const NONE: BlockList = BlockList { ranges: Vec::new() };

    /// The list of these ranges, in any order.
    pub fn from_ranges(ranges: impl IntoIterator<Item = ByteRange>) -> BlockList {
        let mut table = BlockList::NONE;
        ranges.into_iter().for_each(|range| table.insert(range));
        table
    }

    /// Its ranges, ascending.
    pub fn ranges(&self) -> &[ByteRange] {
        &self.ranges
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Length of all ranges.
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.ranges.iter().map(|range| range.len.0).sum())
    }

    /// The ranges that overlap `range`.
    fn overlapping(&self, range: ByteRange) -> &[ByteRange] {
        let first = self.ranges.partition_point(|listed| listed.end() <= range.start);
        let last = self.ranges.partition_point(|listed| listed.start < range.end());
        &self.ranges[first..last.max(first)]
    }

    /// Whether any block of `range` is listed.
    pub fn overlaps(&self, range: ByteRange) -> bool {
        !range.is_empty() && !self.overlapping(range).is_empty()
    }

    /// The listed parts of `range`, ascending.
    pub fn within(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let found = if range.is_empty() { &[] } else { self.overlapping(range) };
        found.iter().map(move |listed| listed.intersection(range))
    }

    /// Adds a range.
    pub fn insert(&mut self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        // Joins adjacent ranges.
        let first = self.ranges.partition_point(|listed| listed.end() < range.start);
        let last = self.ranges.partition_point(|listed| listed.start <= range.end());
        let touched = &self.ranges[first..last];
        let start = touched.first().map_or(range.start, |listed| listed.start.min(range.start));
        let end = touched.last().map_or(range.end(), |listed| listed.end().max(range.end()));
        self.ranges.splice(first..last, [ByteRange::from_to(start, end)]);
    }

    /// Removes a range.
    pub fn remove(&mut self, range: ByteRange) {
        let touched = if range.is_empty() { &[] } else { self.overlapping(range) };
        let (Some(low), Some(high)) = (touched.first().copied(), touched.last().copied()) else {
            return;
        };
        let first = self.ranges.partition_point(|listed| listed.end() <= range.start);
        let count = touched.len();
        let part = |start: ByteOffset, end: ByteOffset| {
            (start < end).then(|| ByteRange::from_to(start, end))
        };
        let kept = [part(low.start, range.start), part(range.end(), high.end())];
        self.ranges.splice(first..first + count, kept.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(ByteOffset(start), ByteCount(len))
    }

    proptest! {
        #[test]
        fn a_table_of_ranges_is_a_set_of_bytes(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..60)
        ) {
            let (mut table, mut model) = (BlockList::NONE, [false; 80]);
            for (listed, start, len) in steps {
                match listed {
                    true => table.insert(range(start, len)),
                    false => table.remove(range(start, len)),
                }
                model[start as usize..(start + len) as usize].fill(listed);
                let bytes = model.iter().filter(|listed| **listed).count() as u64;
                prop_assert_eq!(table.bytes().0, bytes);
                prop_assert!(table.ranges().windows(2).all(|pair| pair[0].end() < pair[1].start));
                for start in 0..70 {
                    let look = range(start, 5);
                    let part = &model[start as usize..start as usize + 5];
                    prop_assert_eq!(table.overlaps(look), part.contains(&true));
                    let found: u64 = table.within(look).map(|listed| listed.len.0).sum();
                    prop_assert_eq!(found, part.iter().filter(|listed| **listed).count() as u64);
                }
            }
        }
    }
}
