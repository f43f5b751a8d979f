//! The ranges of a read that have been received.
//!
//! A server may reply to a read in chunks of any size and order. A count of bytes would accept a
//! duplicate chunk in place of a missing one, and leave stale data in the gap. Therefore ranges are
//! tracked.

/// More separate ranges are treated as an attack: normal servers fill a read in order.
const MAX_RANGES: usize = 4096;

/// The received ranges of one read, relative to its start; ascending, disjoint, never adjacent.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    ranges: Vec<(u64, u64)>,
}

impl Coverage {
    /// Removes all ranges, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Adds the range from `start` to `end` (exclusive, not empty). False if a part of it was
    /// received already, or if there are too many ranges.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.0 < start);
        let joins_left = match after.checked_sub(1).map(|left| self.ranges[left]) {
            Some((_, left_end)) if left_end > start => return false,
            Some((_, left_end)) => left_end == start,
            None => false,
        };
        let joins_right = match self.ranges.get(after) {
            Some((right_start, _)) if *right_start < end => return false,
            Some((right_start, _)) => *right_start == end,
            None => false,
        };
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[after - 1].1 = self.ranges[after].1;
                self.ranges.remove(after);
            }
            (true, false) => self.ranges[after - 1].1 = end,
            (false, true) => self.ranges[after].0 = start,
            (false, false) if self.ranges.len() == MAX_RANGES => return false,
            (false, false) => self.ranges.insert(after, (start, end)),
        }
        true
    }

    /// Whether all bytes up to `length` were received.
    pub(crate) fn is_complete(&self, length: u64) -> bool {
        length == 0 || self.ranges == [(0, length)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_range_is_accepted_exactly_if_none_of_its_bytes_is_there(
            ranges in proptest::collection::vec((0u64..64, 1u64..12), 1..40)
        ) {
            let mut coverage = Coverage::default();
            let mut model = [false; 80];
            for (start, length) in ranges {
                let cells = &mut model[start as usize..(start + length) as usize];
                let free = cells.iter().all(|there| !there);
                prop_assert_eq!(coverage.add(start, start + length), free);
                if free {
                    cells.fill(true);
                }
                for length in 0..80 {
                    let complete = model[..length].iter().all(|there| *there)
                        && !model[length..].iter().any(|there| *there);
                    prop_assert_eq!(coverage.is_complete(length as u64), complete || length == 0);
                }
            }
        }
    }

    #[test]
    fn a_read_in_thousands_of_separate_pieces_is_refused() {
        let mut coverage = Coverage::default();
        for piece in 0..MAX_RANGES as u64 {
            assert!(coverage.add(piece * 2, piece * 2 + 1));
        }
        assert!(!coverage.add(1 << 40, (1 << 40) + 1));
        assert!(coverage.add(1, 2), "a range that merges others is accepted");
    }
}
