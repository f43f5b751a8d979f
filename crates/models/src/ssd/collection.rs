//! What garbage collection moves: a scaled-down copy of the drive's blocks, brought to its steady state.
//!
//! Flash is written in order and erased by blocks. To gain a block, the drive takes the one with the least that
//! is still of use, and writes that again elsewhere. How much that is follows from how full the drive is and
//! from how writes are spread, so it is found by doing it: the drive is filled in order, then its area is
//! written at random until the share no longer changes, on blocks of a few thousand units for the whole drive.

use crate::device::Prepared;
use platform_sim::{Rng, SimHandle};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Units of the scaled-down drive that hosts see.
const UNITS: u64 = 1 << 14;
/// Units in a block.
const BLOCK: u64 = 32;
/// How often the area is written over before it counts, and while it is counted.
const SETTLING: u64 = 4;
/// Blocks that stay free, so that there is always somewhere to write.
const RESERVE: usize = 2;

struct Blocks {
    /// In which block each unit lies.
    home: Vec<u32>,
    /// What was written to each block since it was erased.
    written: Vec<Vec<u32>>,
    /// How much of that is still of use.
    valid: Vec<u32>,
    full: Full,
    free: Vec<u32>,
    open: u32,
    moved: u64,
}

/// Full blocks by how much of them is still of use, each number's as bits: the next to be collected is found at once.
struct Full {
    is_full: Vec<bool>,
    by_valid: Vec<Vec<u64>>,
    count: Vec<u32>,
}

impl Full {
    fn new(blocks: u32) -> Full {
        let words = blocks.div_ceil(64) as usize;
        Full {
            is_full: vec![false; blocks as usize],
            by_valid: vec![vec![0; words]; BLOCK as usize + 1],
            count: vec![0; BLOCK as usize + 1],
        }
    }

    fn flip(&mut self, block: u32, valid: u32) {
        self.by_valid[valid as usize][block as usize / 64] ^= 1 << (block % 64);
    }

    fn add(&mut self, block: u32, valid: u32) {
        self.is_full[block as usize] = true;
        self.count[valid as usize] += 1;
        self.flip(block, valid);
    }

    /// Less of a block is of use, which may be full or not.
    fn lessen(&mut self, block: u32, valid: u32) {
        if self.is_full[block as usize] {
            self.count[valid as usize + 1] -= 1;
            self.count[valid as usize] += 1;
            self.flip(block, valid + 1);
            self.flip(block, valid);
        }
    }

    /// Takes out the first of those of which least is of use, unless all of it is.
    fn take_least(&mut self) -> Option<u32> {
        let valid = (0..BLOCK as usize).find(|valid| self.count[*valid] > 0)?;
        let bits = &self.by_valid[valid];
        let word = bits.iter().position(|word| *word != 0)?;
        let block = word as u32 * 64 + bits[word].trailing_zeros();
        self.is_full[block as usize] = false;
        self.count[valid] -= 1;
        self.flip(block, valid as u32);
        Some(block)
    }
}

impl Blocks {
    fn put(&mut self, unit: u32) {
        if self.written[self.open as usize].len() as u64 == BLOCK {
            // There is a free one: `write` keeps a reserve.
            let Some(next) = self.free.pop() else { return };
            self.full.add(self.open, self.valid[self.open as usize]);
            self.open = next;
        }
        let old = self.home[unit as usize];
        if old != u32::MAX {
            self.valid[old as usize] -= 1;
            self.full.lessen(old, self.valid[old as usize]);
        }
        self.home[unit as usize] = self.open;
        self.written[self.open as usize].push(unit);
        self.valid[self.open as usize] += 1;
    }

    fn write(&mut self, unit: u32) {
        self.put(unit);
        while self.free.len() < RESERVE {
            let Some(victim) = self.full.take_least() else { return };
            let mut units = std::mem::take(&mut self.written[victim as usize]);
            for unit in units.drain(..) {
                if self.home[unit as usize] == victim {
                    self.put(unit);
                    self.moved += 1;
                }
            }
            self.written[victim as usize] = units;
            self.free.push(victim);
        }
    }
}

/// What decides what is moved: the seed (by the first number that it gives), the bytes that hosts see, the gigabytes of flash, and how
/// much of it was written at random.
type Found = (u64, u64, u64, u64);

thread_local! {
    /// What was found on this thread. Loads after loads are put on servers of the same drives, whose steady state is the same.
    static MOVED_PERMILLE: RefCell<BTreeMap<Found, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// How many of a thousand units that hosts write are moved besides in the steady state, for a drive with so much raw flash.
pub(crate) fn moved_in_steady_state(sim: &SimHandle, capacity: u64, raw_gb: u64, prepared: Prepared) -> u64 {
    let rng = || sim.rng("collection", &raw_gb.to_string());
    let kind = (rng().next_u64(), capacity, raw_gb, prepared.random_percent);
    MOVED_PERMILLE.with(|found| {
        let mut found = found.borrow_mut();
        *found
            .entry(kind)
            .or_insert_with(|| moved_permille(&mut rng(), capacity, raw_gb * 1_000_000_000, prepared))
    })
}

/// How many of a thousand units that hosts write are moved besides, for a drive with so much raw flash.
fn moved_permille(rng: &mut Rng, capacity: u64, raw: u64, prepared: Prepared) -> u64 {
    let area = UNITS * prepared.random_percent.min(100) / 100;
    if area == 0 {
        return 0; // Written in order, blocks fall free as wholes.
    }
    let physical = (u128::from(UNITS) * u128::from(raw) / u128::from(capacity.max(1))) as u64;
    let blocks = (physical / BLOCK).max(UNITS / BLOCK + RESERVE as u64 + 2) as u32;
    let mut state = Blocks {
        home: vec![u32::MAX; UNITS as usize],
        written: (0..blocks).map(|_| Vec::with_capacity(BLOCK as usize)).collect(),
        valid: vec![0; blocks as usize],
        full: Full::new(blocks),
        free: (1..blocks).rev().collect(),
        open: 0,
        moved: 0,
    };
    (0..UNITS as u32).for_each(|unit| state.write(unit));
    for round in 0..2 {
        state.moved = 0;
        for _ in 0..area * SETTLING {
            state.write(rng.below(area) as u32);
        }
        // The first round settles, the second counts.
        if round == 1 {
            return state.moved * 1000 / (area * SETTLING);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(raw_percent: u64, random_percent: u64) -> u64 {
        let mut rng = Rng::new(1, "collection", "");
        moved_permille(&mut rng, 100, raw_percent, Prepared { random_percent })
    }

    /// A log may be on a drive of the same kind as those of the array.
    #[test]
    fn a_drive_does_not_take_over_what_was_written_to_another() {
        let sim = platform_sim::Sim::new(platform_sim::SimOptions::default());
        let of = |random_percent| {
            moved_in_steady_state(&sim.handle(), 100 << 30, 120, Prepared { random_percent })
        };
        let (members, log) = (of(100), of(0));
        assert!(members > 0 && log == 0, "{members} {log}");
        assert_eq!(of(100), members, "nor forgets what it was itself");
    }

    #[test]
    fn less_room_moves_more() {
        assert_eq!(moved(107, 0), 0);
        let (tight, usual, ample) = (moved(112, 100), moved(128, 100), moved(156, 100));
        assert!(tight > usual && usual > ample, "{tight} {usual} {ample}");
        // Desnoyers (2012): greedy collection, uniform writes, 28 % more flash than is seen: about 2 in all.
        assert!((700..1500).contains(&usual), "{usual}");
        let quarter = moved(128, 25);
        assert!(quarter < usual / 2, "an area of a quarter has all the spare room: {quarter}");
    }
}
