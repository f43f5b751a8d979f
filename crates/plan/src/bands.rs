//! The columns of a stripe, cut where a request starts and ends.
//!
//! A request covers a run of the stripe's data: the end of its first strip, whole strips, the start of its
//! last one. Columns are the byte positions within a strip; parity covers a column across all drives. So
//! the columns fall into at most three bands, in each of which the same strips are concerned:
//!
//! ```text
//!                 D0   D1   D2   D3                        D0   D1   D2   D3
//!   0..first       .    #    #    #           0..last       .    #    #    #
//!   first..last    #    #    #    #           last..first   .    #    #    .
//!   last..strip    #    #    #    .           first..strip  #    #    #    .
//!
//!   it starts before the column it ends in    it ends before the column it starts in
//! ```

use crate::survey::{Strips, strips};
use units::{ByteCount, ByteRange, StripSize};

/// The most bands of a request.
pub(crate) const MAX_BANDS: usize = 3;

/// A set of bands: bit `b` is band `b`.
pub(crate) type Mask = u8;

/// A run of columns in which the same strips are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Band {
    /// The first column.
    pub(crate) start: u64,
    /// How many columns; not zero.
    pub(crate) len: u64,
    /// The first strip concerned.
    pub(crate) first: u16,
    /// The first strip after it that is not; no strip is concerned where this is not larger.
    pub(crate) end: u16,
}

/// The bands of a request, in the order of their columns; each touches the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bands {
    band: [Band; MAX_BANDS],
    count: u8,
    /// The first strip concerned in any band.
    pub(crate) first: u16,
    /// The last strip concerned in any band.
    pub(crate) last: u16,
    range_start: u64,
    range_len: u64,
    strip_shift: u32,
}

impl Bands {
    /// The bands of a range of the stripe's data, which is not empty.
    pub(crate) fn of(range: ByteRange, strip: StripSize) -> Bands {
        let (length, shift) = (strip.bytes().0, strip.shift());
        let final_byte = range.end().0 - 1;
        let (first, last) = ((range.start.0 >> shift) as u16, (final_byte >> shift) as u16);
        let (start, end) = (range.start.0 & (length - 1), (final_byte & (length - 1)) + 1);
        let mut bands = Bands {
            first,
            last,
            range_start: range.start.0,
            range_len: range.len.0,
            strip_shift: shift,
            ..Bands::default()
        };
        if first == last {
            bands.push(start, end, first, last + 1);
            return bands;
        }
        bands.push(0, start.min(end), first + 1, last + 1);
        if start < end {
            bands.push(start, end, first, last + 1);
        } else {
            bands.push(end, start, first + 1, last);
        }
        bands.push(start.max(end), length, first, last);
        bands
    }

    /// One band of columns, in which no strip is concerned more than another.
    pub(crate) fn of_columns(columns: ByteRange, strip: StripSize) -> Bands {
        let mut bands = Bands { strip_shift: strip.shift(), ..Bands::default() };
        bands.push(columns.start.0, columns.end().0, 0, 0);
        bands
    }

    fn push(&mut self, start: u64, end: u64, first: u16, end_strip: u16) {
        if start < end {
            self.band[usize::from(self.count)] = Band { start, len: end - start, first, end: end_strip };
            self.count += 1;
        }
    }

    /// The bands.
    pub(crate) fn all(&self) -> &[Band] {
        &self.band[..usize::from(self.count)]
    }

    /// The bands in which a strip is concerned.
    pub(crate) fn of_strip(&self, strip: u16) -> Mask {
        let mut mask = 0;
        for (b, band) in self.all().iter().enumerate() {
            mask |= u8::from(band.first <= strip && strip < band.end) << b;
        }
        mask
    }

    /// The strips concerned in band `b`.
    pub(crate) fn concerned(&self, b: usize) -> Strips {
        let band = self.all()[b];
        if band.first < band.end { strips(band.first, band.end) } else { 0 }
    }

    /// How many bytes the request has.
    pub(crate) fn range_len(&self) -> u64 {
        self.range_len
    }

    /// The columns in a set of bands.
    pub(crate) fn columns(&self, mask: Mask) -> u64 {
        self.all().iter().enumerate().map(|(b, band)| band.len * u64::from(mask >> b & 1)).sum()
    }

    /// Where a column of a strip is in the host's buffer.
    pub(crate) fn host_at(&self, strip: u16, column: u64) -> u64 {
        (u64::from(strip) << self.strip_shift) + column - self.range_start
    }

    /// A set and all bands between those in it.
    pub(crate) fn hull(mask: Mask) -> Mask {
        const HULL: [Mask; 1 << MAX_BANDS] = [0, 1, 2, 3, 4, 7, 6, 7];
        HULL[usize::from(mask) % HULL.len()]
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
            rest &= (0xff_u16 << end) as u8;
            Some(start as usize..end as usize)
        })
    }

    /// How many I/Os a set of bands takes on one drive: its runs.
    pub(crate) fn ios(mask: Mask) -> u32 {
        const RUNS: [u8; 1 << MAX_BANDS] = [0, 1, 1, 1, 1, 2, 1, 1];
        u32::from(RUNS[usize::from(mask) % RUNS.len()])
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
        let points = || (0..=strips * length).step_by(unit);
        for (start, end) in points().flat_map(|s| points().filter(move |e| *e > s).map(move |e| (s, e))) {
            let range = ByteRange::from_to(ByteOffset(start), ByteOffset(end));
            let bands = Bands::of(range, strip);
            for byte in (0..strips * length).step_by(unit) {
                let (i, column) = ((byte / length) as u16, byte % length);
                let hit = bands.all().iter().enumerate().any(|(b, band)| {
                    bands.of_strip(i) >> b & 1 == 1 && band.start <= column && column < band.start + band.len
                });
                assert_eq!(hit, start <= byte && byte < end, "byte {byte} of {range:?}: {bands:?}");
                if hit {
                    assert_eq!(bands.host_at(i, column), byte - start);
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
        for mask in 0..8 {
            let runs: Vec<_> = Bands::runs(mask).collect();
            assert_eq!(runs.len() as u32, Bands::ios(mask), "{mask:03b}");
            let again = runs.iter().flat_map(|run| run.clone()).fold(0, |mask, b| mask | 1 << b);
            assert_eq!(again, mask);
        }
    }
}
