//! Who has which part of a log: the ring of each shard, and the members that a record is copied to.

use crate::record::BLOCK;
use crate::ring::Ring;
use units::{ByteCount, DriveCount, DriveIndex};

/// What each of so many shards has of a log of that length; `None` where that is too little to serve.
pub fn ring_len(log: ByteCount, shards: u16) -> Option<ByteCount> {
    let share = ByteCount(log.0 / u64::from(shards.max(1))).align_down(BLOCK);
    (share >= Ring::LEAST).then_some(share)
}

/// The drives among which the copies of a record are, in the order in which they are asked: those of one span, any of which has more
/// of them than it may lose. Records take turns with spans, and with the drives of a span.
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
