//! Stripe geometry of a volume, and its division into regions.

use crate::region_set::RegionIndex;
use layout::Geometry;
use std::ops::Range;
use units::{ByteRange, StripeIndex};

/// Stripe geometry of a volume, and its division into regions.
///
/// Regions are counted in bytes of data: two geometries of the same data with different strips have
/// the same regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Regions {
    geometry: Geometry,
    /// Rows per region, as an exponent of 2.
    rows_shift: u32,
    /// Stripes per row: the number of parallel spans.
    stripes_per_row: u32,
    /// Number of regions.
    pub count: u32,
}

/// Data of a region is as near to this size as a power of two of rows allows.
const REGION_BYTES: u64 = 64 << 20;

impl Regions {
    /// The regions of a volume: a power of two of rows each, larger where the volume would exceed
    /// the write-intent map ([`Regions::MAX`]).
    pub fn of(geometry: &Geometry) -> Regions {
        let stripes_per_row = u32::from(geometry.stripes_per_row()).max(1);
        let row = (geometry.stripe_bytes().0 * u64::from(stripes_per_row)).max(1);
        let per_region = (REGION_BYTES / row).max(1);
        let mut rows_shift = per_region.ilog2();
        // Nearest, not below: 64 MiB / 448 KiB = 146 rows; 128 are nearer than 256.
        if per_region - (1 << rows_shift) > (2 << rows_shift) - per_region {
            rows_shift += 1;
        }
        let rows = geometry.stripes().0.div_ceil(u64::from(stripes_per_row));
        while rows.div_ceil(1 << rows_shift) > u64::from(Regions::MAX) {
            rows_shift += 1;
        }
        let count = rows.div_ceil(1 << rows_shift) as u32;
        Regions { geometry: *geometry, rows_shift, stripes_per_row, count }
    }

    /// The most regions of a volume.
    pub const MAX: u32 = 1 << 20;

    /// The volume's geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The region of a stripe.
    pub fn region_of(&self, stripe: StripeIndex) -> RegionIndex {
        let row = match self.stripes_per_row {
            1 => stripe.0,
            stripes => stripe.0 / u64::from(stripes),
        };
        RegionIndex((row >> self.rows_shift) as u32)
    }

    /// The part of each drive's volume data that the stripes of a region cover.
    pub fn place_of(&self, region: RegionIndex) -> ByteRange {
        let Range { start, end } = self.stripes_of(region);
        let ends = [start, end.min(self.geometry.stripes().0).max(start + 1) - 1].map(StripeIndex);
        let maps = ends.map(|stripe| self.geometry.stripe_map(stripe));
        let starts = || maps.iter().flat_map(|map| map.cells()).map(|(cell, _)| cell.offset);
        let first = starts().min().unwrap_or_default();
        let last = starts().max().unwrap_or_default();
        ByteRange::from_to(first, last + self.geometry.strip().bytes())
    }

    /// The stripes of a region, including those past the end of the volume.
    pub fn stripes_of(&self, region: RegionIndex) -> Range<u64> {
        let stripes = u64::from(self.stripes_per_row);
        let first = (u64::from(region.0) << self.rows_shift) * stripes;
        first..first + (stripes << self.rows_shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Level;
    use units::{ByteCount, DriveCount, StripSize};

    fn geometry(drives: u16, member: u64) -> Geometry {
        Geometry::new(Level::Raid5, DriveCount(drives), StripSize::KIB_64, ByteCount(member))
            .unwrap()
    }

    #[test]
    fn regions_are_whole_stripes_nearest_64_mib_and_cover_the_volume() {
        for drives in 3..=32 {
            let geometry = geometry(drives, 1 << 30);
            let regions = Regions::of(&geometry);
            let bytes = (1u64 << regions.rows_shift) * geometry.stripe_bytes().0;
            // The nearer of two powers of two is at most a third away.
            assert!((42 << 20..=86 << 20).contains(&bytes), "{drives} drives: {bytes}");
            let last = regions.region_of(StripeIndex(geometry.stripes().0 - 1));
            assert_eq!(last.0 + 1, regions.count);
            assert!(regions.stripes_of(last).contains(&(geometry.stripes().0 - 1)));
        }
    }

    #[test]
    fn a_volume_of_petabytes_still_fits_the_map() {
        let regions = Regions::of(&geometry(32, 64 << 40));
        assert!(regions.count <= Regions::MAX);
    }
}
