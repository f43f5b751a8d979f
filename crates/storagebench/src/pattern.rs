//! Where requests go and what they do: the load profile as a stream of (read or write, offset).

use crate::profile::{Access, Profile};
use crate::random::Random;
use std::cell::Cell;
use units::{ByteCount, ByteOffset, ByteRange};

/// What the next request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read,
    Write,
}

/// A profile over an area. Offsets are multiples of the block from the area's start, so that requests never
/// overlap half; a rest at the end that is shorter than a block is left alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    sequential: bool,
    /// Reads out of 2^32 requests.
    reads: u64,
    blocks: u64,
    pub(crate) block: ByteCount,
    start: ByteOffset,
}

impl Pattern {
    pub(crate) fn new(profile: &Profile, area: ByteRange) -> Pattern {
        Pattern {
            sequential: profile.access() == Access::Sequential,
            reads: (u64::from(profile.read_percent()) << 32) / 100,
            blocks: area.len.0 / profile.block().0,
            block: profile.block(),
            start: area.start,
        }
    }
}

/// One worker's way through a pattern: its random numbers, and its place in the sequential stream, which all
/// its outstanding I/Os share and which goes on from one point to the next.
#[derive(Debug)]
pub(crate) struct Walk {
    random: Cell<Random>,
    cursor: Cell<u64>,
}

impl Walk {
    /// The way of `worker` out of `workers`: sequential streams start evenly spaced over the area.
    pub(crate) fn new(pattern: &Pattern, seed: u64, worker: u32, workers: u32) -> Walk {
        let share = u128::from(pattern.blocks) * u128::from(worker) / u128::from(workers);
        Walk {
            random: Cell::new(Random::new(seed.wrapping_add(u64::from(worker)))),
            cursor: Cell::new(share as u64),
        }
    }

    /// The next request.
    pub(crate) fn next(&self, pattern: &Pattern) -> (Operation, ByteOffset) {
        let mut random = self.random.get();
        // A pure profile draws no number for what it knows.
        let reads = match pattern.reads {
            0 => false,
            share if share == 1 << 32 => true,
            share => random.next() >> 32 < share,
        };
        let block = if pattern.sequential {
            let block = self.cursor.get();
            let following = block + 1;
            self.cursor.set(if following < pattern.blocks { following } else { 0 });
            block
        } else {
            random.below(pattern.blocks)
        };
        self.random.set(random);
        let operation = if reads { Operation::Read } else { Operation::Write };
        (operation, pattern.start + pattern.block * block)
    }

    /// A number to make payloads differ by.
    pub(crate) fn stamp(&self) -> u64 {
        let mut random = self.random.get();
        let stamp = random.next();
        self.random.set(random);
        stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(profile: &str, start: u64, len: u64) -> Pattern {
        let area = ByteRange::new(ByteOffset(start), ByteCount(len));
        Pattern::new(&profile.parse().unwrap(), area)
    }

    #[test]
    fn sequential_streams_go_block_by_block_and_wrap_around() {
        let pattern = pattern("sequential,read,4K", 8192, 5 * 4096 + 100);
        let walk = Walk::new(&pattern, 1, 0, 1);
        let offsets: Vec<u64> = (0..7).map(|_| walk.next(&pattern).1.0).collect();
        assert_eq!(offsets, [8192, 12288, 16384, 20480, 24576, 8192, 12288]);
    }

    #[test]
    fn the_streams_of_several_workers_start_apart() {
        let pattern = pattern("sequential,write,4K", 0, 100 * 4096);
        let starts: Vec<u64> =
            (0..4).map(|worker| Walk::new(&pattern, 1, worker, 4).next(&pattern).1.0 / 4096).collect();
        assert_eq!(starts, [0, 25, 50, 75]);
    }

    #[test]
    fn random_offsets_are_whole_blocks_all_over_the_area_and_nowhere_else() {
        let pattern = pattern("random,50%read,4K", 4096, 10 * 4096 + 4095);
        let walk = Walk::new(&pattern, 3, 0, 1);
        let mut hits = [0_u32; 10];
        for _ in 0..100_000 {
            let offset = walk.next(&pattern).1.0 - 4096;
            assert_eq!(offset % 4096, 0);
            hits[(offset / 4096) as usize] += 1;
        }
        assert!(hits.iter().all(|count| (9500..10_500).contains(count)), "{hits:?}");
    }

    #[test]
    fn the_share_of_reads_is_the_profiles() {
        for (percent, low, high) in [(0, 0, 0), (1, 900, 1100), (67, 66_400, 67_600), (100, 100_000, 100_000)]
        {
            let pattern = pattern(&format!("random,{percent}%read,4K"), 0, 1 << 20);
            let walk = Walk::new(&pattern, 3, 0, 1);
            let reads = (0..100_000).filter(|_| walk.next(&pattern).0 == Operation::Read).count();
            assert!((low..=high).contains(&reads), "{percent}: {reads}");
        }
    }

    #[test]
    fn a_walk_is_a_function_of_its_seed() {
        let pattern = pattern("random,67%read,8K", 0, 1 << 30);
        let walk = |seed| {
            let walk = Walk::new(&pattern, seed, 0, 1);
            (0..100).map(|_| walk.next(&pattern)).collect::<Vec<_>>()
        };
        assert_eq!(walk(5), walk(5));
        assert_ne!(walk(5), walk(6));
    }
}
