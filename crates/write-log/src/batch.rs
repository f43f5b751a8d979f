//! Group commit: the writes that share one record, and the time when the next record begins.

use crate::record::{BLOCK, Head};
use units::ByteCount;

/// The most memory ranges in one record.
pub const MOST_SLICES: usize = 256;

/// A record of this length takes no more writes: the next one begins concurrently.
const ENOUGH: u64 = 512 << 10;

/// The most concurrent records.
const AT_A_TIME: usize = 4;

/// The part of one write in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The number of changes.
    pub changes: usize,
    /// The number of memory ranges.
    pub slices: usize,
    /// The carried bytes.
    pub carried: ByteCount,
}

/// The content of one record.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The number of writes.
    pub entries: usize,
    /// The number of changes.
    pub changes: usize,
    /// The carried bytes.
    pub carried: ByteCount,
}

impl Batch {
    /// The waiting writes that fit one record, in order, at least the first. `most`: the longest
    /// record of the ring.
    pub fn of(waiting: impl IntoIterator<Item = Part>, most: u64) -> Batch {
        let most = most.min(ENOUGH);
        let (mut batch, mut slices) = (Batch::default(), 0);
        for part in waiting {
            slices += part.slices;
            let with = Batch {
                entries: batch.entries + 1,
                changes: batch.changes + part.changes,
                carried: batch.carried + part.carried,
            };
            if batch.entries > 0 && (with.len().0 > most || slices > MOST_SLICES) {
                break;
            }
            batch = with;
        }
        batch
    }

    /// The length of the record behind its head.
    pub fn body(&self) -> ByteCount {
        self.carried.align_up(BLOCK)
    }

    /// The length of the record.
    pub fn len(&self) -> ByteCount {
        Head::len(self.changes) + self.body()
    }

    /// Whether no write waits.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }
}

/// Whether the next record should begin, by the numbers of concurrent records, of waiting writes,
/// and of writes in the last record.
pub fn is_time(under_way: usize, waiting: usize, last: usize) -> bool {
    match under_way {
        0 => true,
        // A concurrent record begins when it has as many writes as the last: small records cost as
        // much as large ones.
        some => some < AT_A_TIME && waiting >= last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(carried: u64) -> Part {
        Part { changes: 2, slices: 2, carried: ByteCount(carried) }
    }

    #[test]
    fn a_record_takes_what_fits_and_always_the_first() {
        let entries = |parts: Vec<Part>, most: u64| Batch::of(parts, most).entries;
        assert_eq!(entries(vec![part(64 << 10); 3], 256 << 10), 3);
        assert_eq!(entries(vec![part(64 << 10); 4], 256 << 10), 3, "the head takes a block");
        assert_eq!(entries(vec![part(1 << 20), part(512)], 256 << 10), 1);
        assert_eq!(entries(vec![part(256 << 10); 3], 4 << 20), 1, "enough is enough");
        assert_eq!(entries(vec![part(0); 200], 4 << 20), MOST_SLICES / 2);
        assert!(Batch::of([], 4096).is_empty());
    }

    #[test]
    fn a_record_is_as_long_as_its_head_and_whole_blocks() {
        let batch = Batch::of([part(512), part(5000)], 1 << 20);
        assert_eq!(
            (batch.changes, batch.body(), batch.len()),
            (4, ByteCount(8192), ByteCount(12288))
        );
    }

    #[test]
    fn beside_others_only_a_record_begins_that_is_as_large() {
        assert!(is_time(0, 1, 9) && is_time(1, 9, 9));
        assert!(!is_time(1, 8, 9) && !is_time(AT_A_TIME, 99, 9));
    }
}
