//! Pages of clean data, and the bytes in them.

use crate::streams::StreamName;
use smallvec::SmallVec;
use std::ops::RangeInclusive;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// The unit of caching and eviction.
pub const PAGE: ByteCount = ByteCount(16 << 10);

/// Upper limit of a page's read count.
const MOST_ASKED: u8 = 3;

/// Repeated reads that move a page from the small queue to the main one.
const WANTED: u8 = 2;

/// The caller's bytes.
pub trait Bytes: Clone {
    /// The part of `len` bytes from `at` on.
    #[must_use]
    fn cut(&self, at: ByteCount, len: ByteCount) -> Self;

    /// A copy in its own memory, so that the original can be freed.
    #[must_use]
    fn alone(&self) -> Self;
}

/// A cached range of a stripe, and its bytes.
pub type Piece<T> = (ByteRange, T);

/// Identifies a stripe among those of all volumes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LineName {
    /// The volume.
    pub volume: u32,
    /// The stripe.
    pub stripe: StripeIndex,
}

/// Identifies a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PageName {
    pub(super) line: LineName,
    /// Index within the stripe.
    pub(super) page: u32,
}

impl PageName {
    /// The pages that a range touches.
    pub(super) fn touched(line: LineName, range: ByteRange) -> impl Iterator<Item = PageName> {
        let pages = range.start.0 / PAGE.0..range.end().0.div_ceil(PAGE.0);
        pages.map(move |page| PageName { line, page: page as u32 })
    }

    /// The names of all pages of a volume.
    pub(super) fn all_of(volume: u32) -> RangeInclusive<PageName> {
        let name = |stripe, page| PageName {
            line: LineName { volume, stripe: StripeIndex(stripe) },
            page,
        };
        name(0, 0)..=name(u64::MAX, u32::MAX)
    }

    /// The part of a range within the page.
    pub(super) fn range_within(self, range: ByteRange) -> ByteRange {
        let start = u64::from(self.page) * PAGE.0;
        let (start, end) = (start.max(range.start.0), (start + PAGE.0).min(range.end().0));
        ByteRange::from_to(ByteOffset(start), ByteOffset(end.max(start)))
    }

    /// Identifies an evicted page; collisions are rare.
    pub(super) fn fingerprint(self) -> u64 {
        let mut hash = u64::from(self.line.volume) << 32 | u64::from(self.page);
        for word in [self.line.stripe.0, 0] {
            // The finaliser of MurmurHash3 (public domain).
            hash ^= word;
            hash = (hash ^ hash >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
            hash = (hash ^ hash >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
            hash ^= hash >> 33;
        }
        hash
    }
}

/// The queue that a page is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueKind {
    /// Read ahead for a stream.
    Ahead(StreamName),
    /// Read once.
    Small,
    /// Read repeatedly.
    Main,
}

/// A cached page.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// In order, not overlapping.
    extents: SmallVec<[Piece<T>; 1]>,
    bytes: u64,
    asked: u8,
    pub(super) place: QueueKind,
    /// Its entry in the queue; 0 before it has one.
    pub(super) entry: u64,
    /// Bytes read by hosts, of read-ahead.
    pub(super) read: u64,
}

impl<T: Bytes> Page<T> {
    pub(super) fn empty() -> Page<T> {
        Page {
            extents: SmallVec::new(),
            bytes: 0,
            asked: 0,
            place: QueueKind::Small,
            entry: 0,
            read: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub(super) fn is_placed(&self) -> bool {
        self.entry > 0
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn extents(&self) -> &[Piece<T>] {
        &self.extents
    }

    /// Bytes not read by hosts.
    pub(super) fn unread(&self) -> u64 {
        self.bytes.saturating_sub(self.read)
    }

    pub(super) fn overlaps(&self, range: ByteRange) -> bool {
        self.extents.iter().any(|(part, _)| part.overlaps(range))
    }

    pub(super) fn covers(&self, range: ByteRange) -> bool {
        let within = self.extents.iter().map(|(part, _)| {
            let (start, end) = (part.start.max(range.start), part.end().min(range.end()));
            end.0.saturating_sub(start.0)
        });
        within.sum::<u64>() == range.len.0
    }

    /// Adds the cached parts of a range to `found`.
    pub(super) fn cut_into<const N: usize>(
        &self,
        range: ByteRange,
        found: &mut SmallVec<[Piece<T>; N]>,
    ) where
        [Piece<T>; N]: smallvec::Array<Item = Piece<T>>,
    {
        for (part, bytes) in &self.extents {
            let (start, end) = (part.start.max(range.start), part.end().min(range.end()));
            if start < end {
                let wanted = ByteRange::from_to(start, end);
                found.push((wanted, bytes.cut(start - part.start, wanted.len)));
            }
        }
    }

    /// Caches the missing parts of a range, and returns their length.
    pub(super) fn add(&mut self, range: ByteRange, bytes: &T) -> u64 {
        let mut at = range.start;
        let mut added: SmallVec<[Piece<T>; 2]> = SmallVec::new();
        for (part, _) in self.extents.iter().filter(|(part, _)| part.overlaps(range)) {
            if at < part.start {
                let gap = ByteRange::from_to(at, part.start);
                added.push((gap, bytes.cut(gap.start - range.start, gap.len)));
            }
            at = part.end();
        }
        if at < range.end() {
            let gap = ByteRange::from_to(at, range.end());
            added.push((gap, bytes.cut(gap.start - range.start, gap.len)));
        }
        let len = added.iter().map(|(part, _)| part.len.0).sum();
        self.bytes += len;
        self.extents.extend(added);
        self.extents.sort_by_key(|(part, _)| part.start);
        len
    }

    /// Drops a range, and returns the bytes dropped.
    pub(super) fn forget(&mut self, range: ByteRange) -> u64 {
        if !self.overlaps(range) {
            return 0;
        }
        let mut rest: SmallVec<[Piece<T>; 1]> = SmallVec::new();
        for (part, bytes) in self.extents.drain(..) {
            if !part.overlaps(range) {
                rest.push((part, bytes));
                continue;
            }
            let before = ByteRange::from_to(part.start, range.start.max(part.start));
            let after = ByteRange::from_to(range.end().min(part.end()), part.end());
            for left in [before, after].into_iter().filter(|left| !left.is_empty()) {
                rest.push((left, bytes.cut(left.start - part.start, left.len)));
            }
        }
        self.extents = rest;
        let left = self.extents.iter().map(|(part, _)| part.len.0).sum();
        self.read = self.read.min(left);
        std::mem::replace(&mut self.bytes, left) - left
    }

    /// Copies the data into memory of its own.
    pub(super) fn stand_alone(&mut self) {
        for (_, bytes) in &mut self.extents {
            *bytes = bytes.alone();
        }
    }

    pub(super) fn note_asked(&mut self) {
        self.asked = (self.asked + 1).min(MOST_ASKED);
    }

    /// Whether it was read often enough for the main queue, where its count restarts.
    pub(super) fn is_wanted(&mut self) -> bool {
        let is_wanted = self.asked >= WANTED;
        if is_wanted {
            self.asked = 0;
        }
        is_wanted
    }

    /// Whether it was read since the last look.
    pub(super) fn is_asked_since(&mut self) -> bool {
        let is_asked = self.asked > 0;
        self.asked = self.asked.saturating_sub(1);
        is_asked
    }

    pub(super) fn check(&self, name: PageName) -> Result<(), String> {
        let mut at = ByteOffset(u64::from(name.page) * PAGE.0);
        let end = at + PAGE;
        for (part, _) in &self.extents {
            if part.is_empty() || part.start < at || part.end() > end {
                return Err(format!("{name:?} has {part:?} at {at:?}"));
            }
            at = part.end();
        }
        match self.is_empty() || !self.is_placed() {
            true => Err(format!("{name:?} is empty or in no queue")),
            false => Ok(()),
        }
    }
}
