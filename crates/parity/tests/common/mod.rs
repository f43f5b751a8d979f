//! Strips of chosen lengths and alignments, and parity computed one byte at a time.
#![allow(dead_code)] // Each test takes what it needs.

use parity::field::{multiply, power};

/// Cheap deterministic bytes.
pub struct Random(u64);

impl Random {
    pub fn new(seed: usize) -> Random {
        Random((seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// What stands before and after every strip; results must leave it alone.
const GUARD: u8 = 0xA5;
const LINE: usize = 64;

/// `len` bytes that begin `alignment` bytes after a cache line, between guards.
pub struct Placed {
    room: Vec<u8>,
    at: usize,
    len: usize,
}

impl Placed {
    pub fn new(len: usize, alignment: usize) -> Placed {
        let room = vec![GUARD; len + 3 * LINE];
        let at = room.as_ptr().align_offset(LINE) + alignment % LINE;
        Placed { room, at, len }
    }

    pub fn random(len: usize, alignment: usize, random: &mut Random) -> Placed {
        let mut placed = Placed::new(len, alignment);
        random.fill(placed.bytes_mut());
        placed
    }

    /// The same bytes at another alignment. (A plain clone would lie wherever the allocator puts it.)
    pub fn clone_at(&self, alignment: usize) -> Placed {
        let mut clone = Placed::new(self.len, alignment);
        clone.bytes_mut().copy_from_slice(self.bytes());
        clone
    }

    pub fn bytes(&self) -> &[u8] {
        &self.room[self.at..self.at + self.len]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.at..self.at + self.len]
    }

    /// That nothing around the strip has changed.
    pub fn check_guards(&self) {
        let (before, after) = (&self.room[..self.at], &self.room[self.at + self.len..]);
        assert!(before.iter().chain(after).all(|byte| *byte == GUARD), "written beyond the strip");
    }
}

/// P and Q, a byte at a time.
pub fn naive(data: &[(u8, &[u8])], len: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut p, mut q) = (vec![0; len], vec![0; len]);
    for (exponent, strip) in data {
        let weight = power(usize::from(*exponent));
        for ((byte, p), q) in strip.iter().zip(&mut p).zip(&mut q) {
            *p ^= byte;
            *q ^= multiply(*byte, weight);
        }
    }
    (p, q)
}

/// Exponents for `count` strips: as md numbers them, as DDF does (with holes for P and Q), from above, and any.
pub fn exponents(count: usize, way: usize, random: &mut Random) -> Vec<u8> {
    match way % 4 {
        _ if count > 250 => (0..count as u8).collect(),
        0 => (0..count as u8).collect(),
        1 => {
            let hole = random.below(count + 1);
            (0..count).map(|i| (if i < hole { i } else { i + 2 }) as u8).collect()
        }
        2 => (0..count as u8).map(|i| 254 - i).collect(),
        _ => {
            let mut all: Vec<u8> = (0..255).collect();
            for i in 0..count {
                all.swap(i, i + random.below(255 - i));
            }
            all.truncate(count);
            all
        }
    }
}
