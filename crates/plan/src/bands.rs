//! The columns of a stripe, cut where a request starts and ends.
//!
//! A request for one range covers the end of its first strip, whole strips, and the start of its
//! last strip. Columns are byte positions within a strip; parity covers a column across all drives.
//! So the columns fall into at most three bands, each with the same requested strips:
//!
//! ```text
//!                 D0   D1   D2   D3                        D0   D1   D2   D3
//!   0..first       .    #    #    #           0..last       .    #    #    #
//!   first..last    #    #    #    #           last..first   .    #    #    .
//!   last..strip    #    #    #    .           first..strip  #    #    #    .
//!
//!   it starts before the column it ends in    it ends before the column it starts in
//! ```
//!
//! A request for several extents is also cut where extents and cached ranges start or end: see
//! `extents.rs`. The same columns of several strips are one band.

use crate::survey::{Parities, Strips, strips};
use units::{ByteCount, ByteRange, StripSize};

/// The most bands of a request for one range.
pub(crate) const RANGE_BANDS: usize = 3;

/// The most bands of any request: a [`Mask`] has as many bits.
pub(crate) const MAX_BANDS: usize = 64;

/// A set of bands: bit `b` is band `b`.
pub(crate) type Mask = u64;

/// A run of columns with the same requested and the same cached strips.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Band {
    /// The first column.
    pub(crate) start: u64,
    /// How many columns; not zero.
    pub(crate) len: u64,
    /// The requested strips; may be empty.
    pub(crate) concerned: Strips,
    /// The data strips that the caller has in memory.
    pub(crate) cached: Strips,
    /// The parity strips that the caller has in memory.
    pub(crate) cached_parity: Parities,
}

/// The bands of a request, ascending and adjacent. Refilling allocates nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bands {
    pub(crate) band: Vec<Band>,
    /// The first requested strip of any band.
    pub(crate) first: u16,
    /// The last requested strip of any band.
    pub(crate) last: u16,
    /// Whether there are several ranges, or cached data.
    pub(crate) is_scattered: bool,
    /// Start of a single range.
    range_start: u64,
    /// Bytes of the request.
    pub(crate) payload: u64,
    strip_shift: u32,
    /// The requested extents, and the start of each in the payload. Empty for a single range.
    pub(crate) extents: Vec<ByteRange>,
    pub(crate) payload_at: Vec<u64>,
}

impl Bands {
    /// No bands, with capacity for those of one range.
    pub(crate) fn new() -> Bands {
        Bands { band: Vec::with_capacity(RANGE_BANDS), ..Bands::default() }
    }

    /// Clears everything; `strip` is that of the layout.
    pub(crate) fn clear(&mut self, strip: StripSize) {
        self.band.clear();
        self.extents.clear();
        self.payload_at.clear();
        self.is_scattered = false;
        (self.first, self.last, self.range_start, self.payload) = (0, 0, 0, 0);
        self.strip_shift = strip.shift();
    }

    /// Fills in the bands of a range of the stripe's data; the range is not empty.
    pub(crate) fn fill(&mut self, range: ByteRange) {
        let (shift, length) = (self.strip_shift, 1 << self.strip_shift);
        let final_byte = range.end().0 - 1;
        let (first, last) = ((range.start.0 >> shift) as u16, (final_byte >> shift) as u16);
        let (start, end) = (range.start.0 & (length - 1), (final_byte & (length - 1)) + 1);
        (self.first, self.last, self.range_start, self.payload) =
            (first, last, range.start.0, range.len.0);
        if first == last {
            let band = Band {
                start,
                len: range.len.0,
                concerned: 1 << first,
                cached: 0,
                cached_parity: 0,
            };
            self.band.push(band);
            return;
        }
        self.push(0, start.min(end), first + 1, last + 1);
        if start < end {
            self.push(start, end, first, last + 1);
        } else {
            self.push(end, start, first + 1, last);
        }
        self.push(start.max(end), length, first, last);
    }

    /// Fills in one band of columns without requested strips.
    pub(crate) fn fill_columns(&mut self, columns: ByteRange) {
        self.push(columns.start.0, columns.end().0, 0, 0);
    }

    fn push(&mut self, start: u64, end: u64, first: u16, end_strip: u16) {
        if start < end {
            let concerned = if first < end_strip { strips(first, end_strip) } else { 0 };
            self.band.push(Band {
                start,
                len: end - start,
                concerned,
                cached: 0,
                cached_parity: 0,
            });
        }
    }

    /// The bands.
    pub(crate) fn all(&self) -> &[Band] {
        &self.band
    }

    /// The bands in which a strip is requested.
    pub(crate) fn of_strip(&self, strip: u16) -> Mask {
        self.where_set(|band| band.concerned >> strip & 1 == 1)
    }

    /// The bands in which a data strip is cached.
    pub(crate) fn cached_of(&self, strip: u16) -> Mask {
        if self.is_scattered { self.where_set(|band| band.cached >> strip & 1 == 1) } else { 0 }
    }

    /// The bands in which P (`bit` 0) or Q (1) is cached.
    pub(crate) fn cached_parity_of(&self, bit: u16) -> Mask {
        if self.is_scattered {
            self.where_set(|band| band.cached_parity >> bit & 1 == 1)
        } else {
            0
        }
    }

    fn where_set(&self, is_set: impl Fn(&Band) -> bool) -> Mask {
        let mut mask = 0;
        for (b, band) in self.band.iter().enumerate() {
            mask |= Mask::from(is_set(band)) << b;
        }
        mask
    }

    /// The requested strips of band `b`.
    pub(crate) fn concerned(&self, b: usize) -> Strips {
        self.band[b].concerned
    }

    /// The columns in a set of bands.
    pub(crate) fn columns(&self, mask: Mask) -> u64 {
        self.all().iter().enumerate().map(|(b, band)| band.len * (mask >> b & 1)).sum()
    }

    /// Offset of a strip's column in the host's buffer, where several extents follow each other.
    pub(crate) fn host_at(&self, strip: u16, column: u64) -> u64 {
        let at = (u64::from(strip) << self.strip_shift) + column;
        if !self.is_scattered {
            return at - self.range_start;
        }
        let n = self.extents.partition_point(|extent| extent.start.0 <= at) - 1;
        self.payload_at[n] + at - self.extents[n].start.0
    }

    /// Offset in the stripe's data of a byte of the host's buffer.
    pub(crate) fn data_at(&self, host_at: u64) -> u64 {
        if !self.is_scattered {
            return self.range_start + host_at;
        }
        let n = self.payload_at.partition_point(|start| *start <= host_at) - 1;
        self.extents[n].start.0 + host_at - self.payload_at[n]
    }

    /// A set and all bands between its members.
    #[inline]
    pub(crate) fn hull(mask: Mask) -> Mask {
        const OF_RANGE: [u8; 1 << RANGE_BANDS] = [0, 1, 2, 3, 4, 7, 6, 7];
        if let Some(hull) = OF_RANGE.get(mask as usize) {
            return (*hull).into();
        }
        let up_to_last = Mask::MAX >> mask.leading_zeros();
        up_to_last & Mask::MAX << mask.trailing_zeros()
    }

    /// The runs of touching bands in a set.
    pub(crate) fn runs(mask: Mask) -> impl Iterator<Item = std::ops::Range<usize>> {
        let mut rest = mask;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let start = rest.trailing_zeros();
            let end = start + (rest >> start).trailing_ones();
            rest &= Mask::MAX.checked_shl(end).unwrap_or(0);
            Some(start as usize..end as usize)
        })
    }

    /// Number of I/Os for a set of bands on one drive: one per run.
    #[inline]
    pub(crate) fn ios(mask: Mask) -> u32 {
        const OF_RANGE: [u8; 1 << RANGE_BANDS] = [0, 1, 1, 1, 1, 2, 1, 1];
        if let Some(runs) = OF_RANGE.get(mask as usize) {
            return (*runs).into();
        }
        (mask & !(mask << 1)).count_ones()
    }

    /// The bytes of the stripe's data in one band of a strip.
    pub(crate) fn piece(&self, strip: u16, band: &Band) -> ByteRange {
        let start = (u64::from(strip) << self.strip_shift) + band.start;
        ByteRange::new(units::ByteOffset(start), ByteCount(band.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::ByteOffset;

    #[test]
    fn bands_cover_exactly_the_range_for_every_range() {
        let (strip, strips) = (StripSize::MIN, 5u64);
        let (unit, length) = (1024, strip.bytes().0);
        let mut bands = Bands::new();
        let points = || (0..=strips * length).step_by(unit);
        for (start, end) in
            points().flat_map(|s| points().filter(move |e| *e > s).map(move |e| (s, e)))
        {
            let range = ByteRange::from_to(ByteOffset(start), ByteOffset(end));
            bands.clear(strip);
            bands.fill(range);
            for byte in (0..strips * length).step_by(unit) {
                let (i, column) = ((byte / length) as u16, byte % length);
                let hit = bands.all().iter().enumerate().any(|(b, band)| {
                    bands.of_strip(i) >> b & 1 == 1
                        && band.start <= column
                        && column < band.start + band.len
                });
                assert_eq!(hit, start <= byte && byte < end, "byte {byte} of {range:?}: {bands:?}");
                if hit {
                    assert_eq!(bands.host_at(i, column), byte - start);
                    assert_eq!(bands.data_at(byte - start), byte);
                }
            }
            for pair in bands.all().windows(2) {
                assert_eq!(pair[0].start + pair[0].len, pair[1].start, "bands touch: {bands:?}");
            }
            assert!(bands.all().iter().all(|band| band.len > 0));
        }
    }

    #[test]
    fn a_run_is_an_io() {
        let wide = [1 << 63, u64::MAX, u64::MAX - 1, 0xF0F0_0000_0000_000F];
        for mask in (0..8).chain(wide) {
            let runs: Vec<_> = Bands::runs(mask).collect();
            assert_eq!(runs.len() as u32, Bands::ios(mask), "{mask:03b}");
            let again =
                runs.iter().flat_map(|run| run.clone()).fold(0, |mask: Mask, b| mask | 1 << b);
            assert_eq!(again, mask);
            let hull: Vec<_> = Bands::runs(Bands::hull(mask)).collect();
            let ends = runs.first().zip(runs.last()).map(|(first, last)| first.start..last.end);
            assert_eq!(hull, Vec::from_iter(ends), "{mask:b}");
        }
    }
}
