//! Lines of four data strips, and test writes.

use block_cache::{Held, LineShape};
use proptest::prelude::*;
use std::cell::RefCell;
use std::ops::Range;
use units::{ByteCount, ByteOffset, ByteRange};

pub const KIB: u64 = 1024;
pub const SHAPE: LineShape = LineShape {
    stripe: ByteCount(4 * 64 * KIB),
    strip: ByteCount(64 * KIB),
    parity_strips: 1,
    cell: ByteCount(8 * KIB),
    most_runs: 16,
};

/// The number of a write, which its parts inherit, and the range of this part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number(pub u64, pub ByteRange);

thread_local! {
    /// The settled parts.
    pub static SETTLED: RefCell<Vec<Number>> = const { RefCell::new(Vec::new()) };
}

impl Held for Number {
    fn cut(&self, at: ByteCount, len: ByteCount) -> Number {
        assert!(at.0 + len.0 <= self.1.len.0, "a part of {self:?}");
        Number(self.0, ByteRange::new(self.1.start + at, len))
    }

    fn settled(&self) {
        SETTLED.with_borrow_mut(|settled| settled.push(*self));
    }

    fn destaged(&self) {
        self.settled();
    }
}

pub fn kib(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start * KIB), ByteCount(len * KIB))
}

/// The columns of a write: its own within one strip, all of them over several.
pub fn columns(range: ByteRange) -> Range<u32> {
    let strip = SHAPE.strip.0;
    match range.start.0 / strip == (range.end().0 - 1) / strip {
        true => (range.start.0 % strip) as u32..((range.end().0 - 1) % strip + 1) as u32,
        false => 0..strip as u32,
    }
}

pub fn ranges() -> impl Strategy<Value = ByteRange> {
    prop_oneof![
        (0u64..64, 1u64..12)
            .prop_map(|(start, len)| kib(start * 4, (len * 4).min(256 - start * 4))),
        (0u64..4).prop_map(|strip| kib(strip * 64, 64)),
        Just(kib(0, 256)),
    ]
}
