//! What a write is handed: its payload, which may lie in several slices, and what of its stripe is in memory.
//!
//! A plan counts the bytes of the payload from its first, whatever they lie in ([`plan::Source::Host`]); here is where
//! they are. What straddles two slices is written as both, one after the other, and is computed from where it lies.

use layout::Role;
use platform::{Slice, Slices};
use smallvec::SmallVec;
use units::{ByteCount, ByteOffset};

/// A slice, and where it begins among its neighbours.
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

/// The payload of a write, and what is cached of its stripe.
#[derive(Clone)]
pub(crate) struct Payload {
    /// One after the other, without a gap.
    slices: SmallVec<[Placed; 1]>,
    /// The strips of which something is cached; their slices ascend by column.
    cached: Vec<(Role, Vec<Placed>)>,
}

impl From<Slice> for Payload {
    fn from(slice: Slice) -> Payload {
        Payload { slices: SmallVec::from_iter([Placed { at: 0, slice }]), cached: Vec::new() }
    }
}

/// A part of a slice: the slice, where the part begins in it, and how long it is.
type Part<'a> = (&'a Slice, usize, usize);

/// The parts of slices that `len` bytes from `at` on lie in, up to the first gap.
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
    /// Several slices, one after the other.
    pub(crate) fn of(slices: impl IntoIterator<Item = Slice>) -> Payload {
        let mut at = 0;
        let placed = slices.into_iter().map(|slice| {
            let placed = Placed { at, slice };
            at = placed.end();
            placed
        });
        Payload { slices: placed.collect(), cached: Vec::new() }
    }

    /// The same, with columns of strips that are in memory, in the order of [`plan::Cached`].
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

    /// A part of it, of `len` bytes. Nothing is cached of what is cut out.
    pub(crate) fn cut(&self, at: ByteCount, len: ByteCount) -> Payload {
        let mut slices = Slices::new();
        let is_all = cut_all(self.parts(at.0, len.0), len, &mut slices).is_some();
        assert!(is_all, "a payload of {} bytes has none of {len} at {at}", self.len());
        Payload::of(slices)
    }

    /// Whether it is zeroes, and nobody has them in memory.
    pub(crate) fn is_zero(&self) -> bool {
        self.slices.iter().all(|placed| placed.slice.is_zero())
    }

    /// How many bytes are to be written.
    pub(crate) fn len(&self) -> ByteCount {
        ByteCount(self.slices.last().map_or(0, Placed::end))
    }

    /// Whether there are only lengths: where one slice is hollow nothing is computed.
    pub(crate) fn is_hollow(&self) -> bool {
        self.slices.iter().any(|placed| placed.slice.is_hollow())
    }

    /// The slice that all of it is, if it is one and nothing is cached beside it.
    pub(crate) fn only_slice(&self) -> Option<&Slice> {
        self.slices.first().map(|placed| &placed.slice).filter(|_| self.is_one_slice())
    }

    /// Whether everything lies in one piece.
    pub(crate) fn is_one_slice(&self) -> bool {
        self.slices.len() == 1 && self.cached.is_empty()
    }

    /// The parts that `len` bytes from `at` on lie in.
    pub(crate) fn parts(&self, at: u64, len: u64) -> impl Iterator<Item = Part<'_>> {
        parts(&self.slices, at, len)
    }

    /// The parts that `len` bytes of a strip from a column on lie in.
    pub(crate) fn cached_parts(&self, role: Role, column: u64, len: u64) -> impl Iterator<Item = Part<'_>> {
        let strip = self.cached.iter().find(|(other, _)| *other == role);
        parts(strip.map_or(&[], |(_, slices)| slices), column, len)
    }
}

/// Parts as something to write. `None` where they are not all of `len` bytes.
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
