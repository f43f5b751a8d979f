//! Byte addresses, byte sizes and byte ranges.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// A byte address: an index into a volume, a drive's data area, or a raw drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteOffset(pub u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub u64);

impl ByteOffset {
    /// Address zero.
    pub const ZERO: ByteOffset = ByteOffset(0);

    /// Rounds down to a multiple of `unit`, which must not be zero.
    pub fn align_down(self, unit: ByteCount) -> ByteOffset {
        ByteOffset(self.0 / unit.0 * unit.0)
    }

    /// Rounds up to a multiple of `unit`, which must not be zero.
    pub fn align_up(self, unit: ByteCount) -> ByteOffset {
        ByteOffset(self.0.div_ceil(unit.0) * unit.0)
    }

    /// Whether this address is a multiple of `unit`.
    pub fn is_aligned(self, unit: ByteCount) -> bool {
        self.0.is_multiple_of(unit.0)
    }

    /// The address plus `count`, or `None` past 2^64.
    pub fn checked_add(self, count: ByteCount) -> Option<ByteOffset> {
        self.0.checked_add(count.0).map(ByteOffset)
    }
}

impl ByteCount {
    /// Zero bytes.
    pub const ZERO: ByteCount = ByteCount(0);
    /// 1 KiB.
    pub const KIB: ByteCount = ByteCount(1 << 10);
    /// 1 MiB.
    pub const MIB: ByteCount = ByteCount(1 << 20);
    /// 1 GiB.
    pub const GIB: ByteCount = ByteCount(1 << 30);

    /// The size of a slice.
    pub fn of(bytes: &[u8]) -> ByteCount {
        ByteCount(bytes.len() as u64)
    }

    /// The size as a `usize`.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// Rounds down to a multiple of `unit`, which must not be zero.
    pub fn align_down(self, unit: ByteCount) -> ByteCount {
        ByteCount(self.0 / unit.0 * unit.0)
    }

    /// Rounds up to a multiple of `unit`, which must not be zero.
    pub fn align_up(self, unit: ByteCount) -> ByteCount {
        ByteCount(self.0.div_ceil(unit.0) * unit.0)
    }

    /// Whether this size is a multiple of `unit`.
    pub fn is_aligned(self, unit: ByteCount) -> bool {
        self.0.is_multiple_of(unit.0)
    }

    /// Whether the size is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self - other`, or zero if `other` is larger.
    pub fn saturating_sub(self, other: ByteCount) -> ByteCount {
        ByteCount(self.0.saturating_sub(other.0))
    }

    /// The smaller of two sizes.
    pub fn min(self, other: ByteCount) -> ByteCount {
        ByteCount(self.0.min(other.0))
    }
}

impl Add<ByteCount> for ByteOffset {
    type Output = ByteOffset;
    fn add(self, count: ByteCount) -> ByteOffset {
        ByteOffset(self.0 + count.0)
    }
}

impl AddAssign<ByteCount> for ByteOffset {
    fn add_assign(&mut self, count: ByteCount) {
        self.0 += count.0;
    }
}

impl Sub<ByteCount> for ByteOffset {
    type Output = ByteOffset;
    fn sub(self, count: ByteCount) -> ByteOffset {
        ByteOffset(self.0 - count.0)
    }
}

impl Sub for ByteOffset {
    type Output = ByteCount;
    fn sub(self, start: ByteOffset) -> ByteCount {
        ByteCount(self.0 - start.0)
    }
}

impl Add for ByteCount {
    type Output = ByteCount;
    fn add(self, other: ByteCount) -> ByteCount {
        ByteCount(self.0 + other.0)
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: ByteCount) {
        self.0 += other.0;
    }
}

impl Sub for ByteCount {
    type Output = ByteCount;
    fn sub(self, other: ByteCount) -> ByteCount {
        ByteCount(self.0 - other.0)
    }
}

impl SubAssign for ByteCount {
    fn sub_assign(&mut self, other: ByteCount) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for ByteCount {
    type Output = ByteCount;
    fn mul(self, times: u64) -> ByteCount {
        ByteCount(self.0 * times)
    }
}

/// A byte range: start and length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteRange {
    /// Its first byte.
    pub start: ByteOffset,
    /// Its length.
    pub len: ByteCount,
}

impl ByteRange {
    /// The `len` bytes from `start`.
    pub const fn new(start: ByteOffset, len: ByteCount) -> ByteRange {
        ByteRange { start, len }
    }

    /// The bytes from `start` to `end` (exclusive), which must not be before `start`.
    pub fn from_to(start: ByteOffset, end: ByteOffset) -> ByteRange {
        ByteRange { start, len: end - start }
    }

    /// The first byte after it.
    pub fn end(self) -> ByteOffset {
        self.start + self.len
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.len.is_zero()
    }

    /// Whether the ranges have a byte in common.
    pub fn overlaps(self, other: ByteRange) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether the range includes all of `other`.
    pub fn contains(self, other: ByteRange) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    /// The bytes in both; empty (at the later start) if there are none.
    pub fn intersection(self, other: ByteRange) -> ByteRange {
        let start = self.start.max(other.start);
        let end = self.end().min(other.end()).max(start);
        ByteRange::from_to(start, end)
    }

    /// Whether start and length are multiples of `unit`.
    pub fn is_aligned(self, unit: ByteCount) -> bool {
        self.start.is_aligned(unit) && self.len.is_aligned(unit)
    }

    /// The largest range of whole `unit`s inside this one; empty if there is none.
    pub fn align_in(self, unit: ByteCount) -> ByteRange {
        let (start, end) = (self.start.align_up(unit), self.end().align_down(unit));
        if start < end { ByteRange::from_to(start, end) } else { ByteRange::default() }
    }

    /// The smallest range of whole `unit`s that includes this one.
    pub fn align_out(self, unit: ByteCount) -> ByteRange {
        ByteRange::from_to(self.start.align_down(unit), self.end().align_up(unit))
    }
}

impl fmt::Debug for ByteOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Debug for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

impl fmt::Debug for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start.0, self.start.0 + self.len.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_meet_and_part() {
        let a = ByteRange::from_to(ByteOffset(10), ByteOffset(20));
        let b = ByteRange::from_to(ByteOffset(20), ByteOffset(30));
        let c = ByteRange::from_to(ByteOffset(15), ByteOffset(25));
        assert!(!a.overlaps(b) && a.overlaps(c) && b.overlaps(c));
        assert_eq!(a.intersection(c), ByteRange::from_to(ByteOffset(15), ByteOffset(20)));
        assert!(a.intersection(b).is_empty());
        assert_eq!(c.align_out(ByteCount(16)), ByteRange::from_to(ByteOffset(0), ByteOffset(32)));
        assert!(a.contains(a) && !a.contains(c));
    }
}
