//! The data of a write: its payload, in one or several slices, and cached data of its stripe.
//!
//! Plans address the payload by byte offset ([`plan::Source::Host`]); this module maps offsets to
//! slices. A range across two slices is written as both, in order, and computed in place.

use layout::Role;
use platform::{Slice, Slices};
use smallvec::SmallVec;
use units::{ByteCount, ByteOffset};

/// A slice and its offset in the payload or strip.
#[derive(Clone)]
struct Placed {
    at: u64,
    slice: Slice,
}

impl Placed {
    fn end(&self) -> u64 {
        self.at + self.slice.len().0
    }
}

/// The payload of a write, and cached data of its stripe.
#[derive(Clone)]
pub(crate) struct Payload {
    /// Contiguous, in order.
    slices: SmallVec<[Placed; 1]>,
    /// The strips with cached data; their slices ascend by column.
    cached: Vec<(Role, Vec<Placed>)>,
}

impl From<Slice> for Payload {
    fn from(slice: Slice) -> Payload {
        Payload { slices: SmallVec::from_iter([Placed { at: 0, slice }]), cached: Vec::new() }
    }
}

/// A part of a slice: the slice, the start in it, and the length.
type Part<'a> = (&'a Slice, usize, usize);

/// The parts of slices that cover `len` bytes from `at`, up to the first gap.
fn parts(slices: &[Placed], at: u64, len: u64) -> impl Iterator<Item = Part<'_>> {
    let first = slices.partition_point(|placed| placed.end() <= at);
    let (mut at, end) = (at, at + len);
    slices[first..].iter().map_while(move |placed| {
        let is_next = placed.at <= at && at < end;
        is_next.then(|| {
            let (skip, until) = (at - placed.at, placed.end().min(end));
            let part = (&placed.slice, skip as usize, (until - at) as usize);
            at = until;
            part
        })
    })
}

impl Payload {
    /// A payload of consecutive slices.
    pub(crate) fn of(slices: impl IntoIterator<Item = Slice>) -> Payload {
        let mut at = 0;
        let placed = slices.into_iter().map(|slice| {
            let placed = Placed { at, slice };
            at = placed.end();
            placed
        });
        Payload { slices: placed.collect(), cached: Vec::new() }
    }

    /// Adds cached columns of strips, in the order of [`plan::Cached`].
    pub(crate) fn with_cached(
        mut self,
        cached: impl IntoIterator<Item = (Role, ByteOffset, Slice)>,
    ) -> Payload {
        for (role, column, slice) in cached {
            let placed = Placed { at: column.0, slice };
            match self.cached.last_mut() {
                Some((last, slices)) if *last == role => slices.push(placed),
                _ => self.cached.push((role, vec![placed])),
            }
        }
        self
    }

    /// A part of the payload, of `len` bytes, without the cached data.
    pub(crate) fn cut(&self, at: ByteCount, len: ByteCount) -> Payload {
        let mut slices = Slices::new();
        let is_all = cut_all(self.parts(at.0, len.0), len, &mut slices).is_some();
        assert!(is_all, "a payload of {} bytes does not cover {len} at {at}", self.len());
        Payload::of(slices)
    }

    /// Whether the payload is implicit zeros, without a buffer.
    pub(crate) fn is_zero(&self) -> bool {
        self.slices.iter().all(|placed| placed.slice.is_zero())
    }

    /// The length of the payload.
    pub(crate) fn len(&self) -> ByteCount {
        ByteCount(self.slices.last().map_or(0, Placed::end))
    }

    /// Whether any slice is data-less: then nothing is computed.
    pub(crate) fn is_hollow(&self) -> bool {
        self.slices.iter().any(|placed| placed.slice.is_hollow())
    }

    /// The single slice of the payload; `None` if there are several, or cached data.
    pub(crate) fn only_slice(&self) -> Option<&Slice> {
        self.slices.first().map(|placed| &placed.slice).filter(|_| self.is_one_slice())
    }

    /// Whether the payload is one slice.
    pub(crate) fn is_one_slice(&self) -> bool {
        self.slices.len() == 1 && self.cached.is_empty()
    }

    /// The parts of the payload that cover `len` bytes from `at`.
    pub(crate) fn parts(&self, at: u64, len: u64) -> impl Iterator<Item = Part<'_>> {
        parts(&self.slices, at, len)
    }

    /// The cached parts that cover `len` bytes of a strip from a column.
    pub(crate) fn cached_parts(
        &self,
        role: Role,
        column: u64,
        len: u64,
    ) -> impl Iterator<Item = Part<'_>> {
        let strip = self.cached.iter().find(|(other, _)| *other == role);
        parts(strip.map_or(&[], |(_, slices)| slices), column, len)
    }
}

/// The parts as slices to write. `None` if they cover less than `len` bytes.
pub(crate) fn cut_all<'a>(
    parts: impl Iterator<Item = Part<'a>>,
    len: ByteCount,
    into: &mut Slices,
) -> Option<()> {
    let mut left = len.as_usize();
    for (slice, skip, len) in parts {
        into.push(slice.cut(ByteCount(skip as u64), ByteCount(len as u64)));
        left -= len;
    }
    (left == 0).then_some(())
}
