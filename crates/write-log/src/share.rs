//! The parts of a log: the ring of each shard, and the members that get copies of a record.

use crate::record::BLOCK;
use crate::ring::Ring;
use units::{ByteCount, DriveCount, DriveIndex};

/// The length of each shard's ring in a log of that length; `None` where it is too short.
pub fn ring_len(log: ByteCount, shards: u16) -> Option<ByteCount> {
    let share = ByteCount(log.0 / u64::from(shards.max(1))).align_down(BLOCK);
    (share >= Ring::LEAST).then_some(share)
}

/// The drives for the copies of a record, in the order of preference: those of one span, which
/// always has more drives than it may lose. Records alternate between spans, and between the drives
/// of a span.
pub fn span_of(
    number: u64,
    copies: usize,
    drives: DriveCount,
    width: DriveCount,
) -> impl Iterator<Item = DriveIndex> + use<> {
    let width = width.0.max(1);
    let spans = u64::from((drives.0 / width).max(1));
    let first = (number % spans) as u16 * width;
    let turn = (number.wrapping_mul(copies as u64) % u64::from(width)) as u16;
    (0..width).map(move |at| DriveIndex(first + (turn + at) % width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_take_turns_with_spans_and_with_their_drives() {
        let of = |number| -> Vec<u16> {
            span_of(number, 2, DriveCount(6), DriveCount(3)).map(|drive| drive.0).collect()
        };
        assert_eq!([of(0), of(1), of(2)], [vec![0, 1, 2], vec![5, 3, 4], vec![1, 2, 0]]);
    }

    #[test]
    fn a_share_is_whole_blocks_and_large_enough() {
        assert_eq!(ring_len(ByteCount(256 << 10), 3), Some(ByteCount(84 << 10)));
        assert_eq!(ring_len(ByteCount(256 << 10), 5), None);
    }
}
