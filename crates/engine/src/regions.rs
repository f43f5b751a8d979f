//! Regions: runs of whole drive rows, the unit in which stripes are dealt out to shards and state is remembered.
//!
//! A region has one owner among the shards, one bit in the durable write-intent map, and is in or out of the sets
//! that say what of a volume is not as it should be: regions that are unsynced, never written, stale on a drive,
//! or moved into distributed spares. Such a set is a [`RegionSet`].

use crate::messages::ShardIndex;
use layout::Geometry;
use std::fmt;
use units::StripeIndex;

/// A run of whole drive rows nearest 64 MiB of the volume's data, counted from zero within its volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RegionIndex(pub u32);

/// A set of regions of one volume, as ascending runs that do not touch: what is true of most regions, or of few,
/// takes no more memory than it has runs.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RegionSet {
    /// Half-open, ascending, none empty, no two touching.
    runs: Vec<[u32; 2]>,
}

impl RegionSet {
    /// No region.
    pub const EMPTY: RegionSet = RegionSet { runs: Vec::new() };

    /// The regions from 0 up to but not including `count`.
    pub fn first(count: u32) -> RegionSet {
        RegionSet { runs: if count == 0 { Vec::new() } else { vec![[0, count]] } }
    }

    /// The set with these runs, half-open, in any order.
    pub fn from_runs(runs: impl IntoIterator<Item = [u32; 2]>) -> RegionSet {
        let mut set = RegionSet::EMPTY;
        for [start, end] in runs {
            set.insert_run(start, end);
        }
        set
    }

    /// Its runs, half-open, ascending, as they are stored.
    pub fn runs(&self) -> &[[u32; 2]] {
        &self.runs
    }

    /// The first run that ends after `region`.
    fn position(&self, region: u32) -> usize {
        self.runs.partition_point(|[_, end]| *end <= region)
    }

    /// Whether `region` is in it.
    pub fn contains(&self, region: RegionIndex) -> bool {
        self.runs.get(self.position(region.0)).is_some_and(|[start, _]| *start <= region.0)
    }

    /// Puts a region in. Whether it was not in before.
    pub fn insert(&mut self, region: RegionIndex) -> bool {
        let is_new = !self.contains(region);
        self.insert_run(region.0, region.0.saturating_add(1));
        is_new
    }

    fn insert_run(&mut self, start: u32, end: u32) {
        if start >= end {
            return;
        }
        // Runs that touch [start, end) become one with it.
        let first = self.runs.partition_point(|run| run[1] < start);
        let last = self.runs.partition_point(|run| run[0] <= end);
        let start = self.runs[first..last].first().map_or(start, |run| run[0].min(start));
        let end = self.runs[first..last].last().map_or(end, |run| run[1].max(end));
        self.runs.splice(first..last, [[start, end]]);
    }

    /// Takes a region out. Whether it was in before.
    pub fn remove(&mut self, region: RegionIndex) -> bool {
        let was_in = self.contains(region);
        self.remove_run(region.0, region.0.saturating_add(1));
        was_in
    }

    fn remove_run(&mut self, start: u32, end: u32) {
        if start >= end {
            return;
        }
        let first = self.position(start);
        let last = self.runs.partition_point(|run| run[0] < end);
        if first >= last {
            return;
        }
        let (low, high) = (self.runs[first][0], self.runs[last - 1][1]);
        let below = (low < start).then_some([low, start]);
        let above = (end < high).then_some([end, high]);
        self.runs.splice(first..last, below.into_iter().chain(above));
    }

    /// Puts all regions of `other` in.
    pub fn insert_all(&mut self, other: &RegionSet) {
        other.runs.iter().for_each(|[start, end]| self.insert_run(*start, *end));
    }

    /// Takes all regions of `other` out.
    pub fn remove_all(&mut self, other: &RegionSet) {
        other.runs.iter().for_each(|[start, end]| self.remove_run(*start, *end));
    }

    /// The regions that are in one of the two or in both.
    #[must_use]
    pub fn union(mut self, other: &RegionSet) -> RegionSet {
        self.insert_all(other);
        self
    }

    /// The regions that are in this one and not in `other`.
    #[must_use]
    pub fn minus(mut self, other: &RegionSet) -> RegionSet {
        self.remove_all(other);
        self
    }

    /// The regions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = RegionIndex> + '_ {
        self.runs.iter().flat_map(|[start, end]| *start..*end).map(RegionIndex)
    }

    /// The first region in it at or after `region`.
    pub fn next_from(&self, region: RegionIndex) -> Option<RegionIndex> {
        self.runs.get(self.position(region.0)).map(|[start, _]| RegionIndex(region.0.max(*start)))
    }

    /// How many regions.
    pub fn len(&self) -> u32 {
        self.runs.iter().map(|[start, end]| end - start).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

impl FromIterator<RegionIndex> for RegionSet {
    fn from_iter<I: IntoIterator<Item = RegionIndex>>(regions: I) -> RegionSet {
        RegionSet::from_runs(regions.into_iter().map(|region| [region.0, region.0.saturating_add(1)]))
    }
}

impl From<RegionIndex> for RegionSet {
    fn from(region: RegionIndex) -> RegionSet {
        RegionSet::from_iter([region])
    }
}

impl fmt::Debug for RegionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.runs.iter().map(|[start, end]| *start..*end)).finish()
    }
}

/// How a volume's stripes are dealt out: regions, and shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Regions {
    /// Rows per region, as a power of two's exponent.
    rows_shift: u32,
    /// Stripes per row: the spans of a level that has some, side by side.
    stripes_per_row: u32,
    /// How many regions.
    pub count: u32,
}

/// A region's data is nearest this size.
const REGION_BYTES: u64 = 64 << 20;

impl Regions {
    /// The regions of a volume. Regions are a power of two of rows; where the volume would have more regions than
    /// the write-intent map holds ([`Regions::MAX`]), they are larger.
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
        Regions { rows_shift, stripes_per_row, count: rows.div_ceil(1 << rows_shift) as u32 }
    }

    /// The most regions a volume may have.
    pub const MAX: u32 = 1 << 20;

    /// The region of a stripe.
    pub fn region_of(&self, stripe: StripeIndex) -> RegionIndex {
        let row = match self.stripes_per_row {
            1 => stripe.0,
            stripes => stripe.0 / u64::from(stripes),
        };
        RegionIndex((row >> self.rows_shift) as u32)
    }

    /// The stripes of a region, those past the end of the volume included.
    pub fn stripes_of(&self, region: RegionIndex) -> std::ops::Range<u64> {
        let stripes = u64::from(self.stripes_per_row);
        let first = (u64::from(region.0) << self.rows_shift) * stripes;
        first..first + (stripes << self.rows_shift)
    }

    /// The shard that owns a region: a hash, recorded nowhere.
    pub fn owner(&self, region: RegionIndex, shards: u16) -> ShardIndex {
        let hash = env::sync::split_mix(u64::from(region.0)).1;
        ShardIndex((hash % u64::from(shards.max(1))) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Level;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use units::{ByteCount, DriveCount, StripSize};

    fn geometry(drives: u16, member: u64) -> Geometry {
        Geometry::new(Level::Raid5, DriveCount(drives), StripSize::KIB_64, ByteCount(member)).unwrap()
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

    #[test]
    fn regions_are_dealt_to_every_shard() {
        let regions = Regions::of(&geometry(8, 64 << 30));
        let mut counts = [0; 4];
        for region in 0..regions.count {
            counts[regions.owner(RegionIndex(region), 4).0 as usize] += 1;
        }
        assert!(counts.iter().all(|&count| count > regions.count / 8), "{counts:?}");
    }

    proptest! {
        /// Whatever is put in and taken out, in runs and alone: the same as a set of single regions.
        #[test]
        fn a_set_of_runs_is_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..40, 1u32..9), 0..60)) {
            let (mut set, mut model) = (RegionSet::EMPTY, BTreeSet::new());
            for (put_in, start, len) in steps {
                let run = RegionSet::from_runs([[start, start + len]]);
                if put_in {
                    set.insert_all(&run);
                    model.extend(start..start + len);
                } else {
                    set.remove_all(&run);
                    model.retain(|region| !(start..start + len).contains(region));
                }
                prop_assert!(set.iter().map(|region| region.0).eq(model.iter().copied()));
                prop_assert!(set.runs().iter().all(|run| run[0] < run[1]));
                prop_assert!(set.runs().windows(2).all(|pair| pair[0][1] < pair[1][0]), "{:?}", set);
                prop_assert_eq!(set.len() as usize, model.len());
                for region in 0..50 {
                    prop_assert_eq!(set.contains(RegionIndex(region)), model.contains(&region));
                    let next = model.range(region..).next().copied();
                    prop_assert_eq!(set.next_from(RegionIndex(region)).map(|region| region.0), next);
                }
            }
        }
    }
}
