//! Strips of selected lengths and alignments, and parity computed byte by byte.
#![allow(dead_code)] // Each test uses a part.

use parity::field::{multiply, power};

/// Cheap deterministic random bytes.
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

/// The guard bytes before and after each strip, which results must not change.
const GUARD: u8 = 0xA5;
const LINE: usize = 64;

/// `len` bytes that start `alignment` bytes after a cache line, after guard bytes. They end at the
/// end of the allocation, so that an address sanitizer detects every access beyond.
pub struct Placed {
    room: *mut u8,
    at: usize,
    len: usize,
    guard: usize,
}

impl Placed {
    /// A buffer for a result: more guards after it detect writes beyond without a sanitizer.
    pub fn new(len: usize, alignment: usize) -> Placed {
        Placed::with_guard(len, alignment, LINE)
    }

    fn with_guard(len: usize, alignment: usize, guard: usize) -> Placed {
        let mut placed =
            Placed { room: std::ptr::null_mut(), at: LINE + alignment % LINE, len, guard };
        // SAFETY: the layout is not empty.
        placed.room = unsafe { std::alloc::alloc(placed.layout()) };
        assert!(!placed.room.is_null());
        // SAFETY: these bytes have just been allocated.
        unsafe { placed.room.write_bytes(GUARD, placed.layout().size()) };
        placed
    }

    fn layout(&self) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(self.at + self.len + self.guard, LINE).unwrap()
    }

    /// A source of random bytes that ends where its memory ends.
    pub fn random(len: usize, alignment: usize, random: &mut Random) -> Placed {
        let mut placed = Placed::with_guard(len, alignment, 0);
        random.fill(placed.bytes_mut());
        placed
    }

    /// The same bytes at another alignment, as a buffer for results.
    pub fn clone_at(&self, alignment: usize) -> Placed {
        let mut clone = Placed::new(self.len, alignment);
        clone.bytes_mut().copy_from_slice(self.bytes());
        clone
    }

    fn whole(&self) -> &[u8] {
        // SAFETY: the allocation is this long, and initialised.
        unsafe { std::slice::from_raw_parts(self.room, self.layout().size()) }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.whole()[self.at..self.at + self.len]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the bytes lie within the allocation, which this owns.
        unsafe { std::slice::from_raw_parts_mut(self.room.add(self.at), self.len) }
    }

    /// Checks that the bytes around the strip are unchanged.
    pub fn check_guards(&self) {
        let (before, after) = (&self.whole()[..self.at], &self.whole()[self.at + self.len..]);
        assert!(before.iter().chain(after).all(|byte| *byte == GUARD), "written beyond the strip");
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.room, self.layout()) }
    }
}

/// P and Q, byte by byte.
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

/// Exponents for `count` strips: md's numbering, DDF's (with gaps for P and Q), descending, and
/// random.
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
