//! Regions: runs of whole drive rows, the unit of a volume's recorded state.
//!
//! A region has one bit in the durable write-intent map and one owner shard. [`RegionSet`]s list
//! regions that are unsynced, never written, stale on a drive, or moved into the distributed spare.

use std::fmt;

/// A run of whole drive rows with about 64 MiB of the volume's data; index within the volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RegionIndex(pub u32);

/// A set of regions as ascending runs that do not touch. Its memory depends on the number of runs
/// only.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RegionSet {
    /// Half-open, ascending, not empty, not touching.
    runs: Vec<[u32; 2]>,
}

impl RegionSet {
    /// The empty set.
    pub const EMPTY: RegionSet = RegionSet { runs: Vec::new() };

    /// The regions from 0 to `count`, exclusive.
    pub fn first(count: u32) -> RegionSet {
        RegionSet { runs: if count == 0 { Vec::new() } else { vec![[0, count]] } }
    }

    /// The set of these half-open runs, in any order.
    pub fn from_runs(runs: impl IntoIterator<Item = [u32; 2]>) -> RegionSet {
        let mut set = RegionSet::EMPTY;
        for [start, end] in runs {
            set.insert_run(start, end);
        }
        set
    }

    /// Its runs, half-open and ascending, as stored.
    pub fn runs(&self) -> &[[u32; 2]] {
        &self.runs
    }

    /// The first run that ends after `region`.
    fn position(&self, region: u32) -> usize {
        self.runs.partition_point(|[_, end]| *end <= region)
    }

    /// Whether it contains `region`.
    pub fn contains(&self, region: RegionIndex) -> bool {
        self.runs.get(self.position(region.0)).is_some_and(|[start, _]| *start <= region.0)
    }

    /// Adds a region. Returns whether it was absent.
    pub fn insert(&mut self, region: RegionIndex) -> bool {
        let is_new = !self.contains(region);
        self.insert_run(region.0, region.0.saturating_add(1));
        is_new
    }

    fn insert_run(&mut self, start: u32, end: u32) {
        if start >= end {
            return;
        }
        // Joins runs that touch [start, end).
        let first = self.runs.partition_point(|run| run[1] < start);
        let last = self.runs.partition_point(|run| run[0] <= end);
        let start = self.runs[first..last].first().map_or(start, |run| run[0].min(start));
        let end = self.runs[first..last].last().map_or(end, |run| run[1].max(end));
        self.runs.splice(first..last, [[start, end]]);
    }

    /// Removes a region. Returns whether it was present.
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

    /// Adds all regions of `other`.
    pub fn insert_all(&mut self, other: &RegionSet) {
        other.runs.iter().for_each(|[start, end]| self.insert_run(*start, *end));
    }

    /// Removes all regions of `other`.
    pub fn remove_all(&mut self, other: &RegionSet) {
        other.runs.iter().for_each(|[start, end]| self.remove_run(*start, *end));
    }

    /// The union.
    #[must_use]
    pub fn union(mut self, other: &RegionSet) -> RegionSet {
        self.insert_all(other);
        self
    }

    /// The difference.
    #[must_use]
    pub fn minus(mut self, other: &RegionSet) -> RegionSet {
        self.remove_all(other);
        self
    }

    /// The intersection.
    #[must_use]
    pub fn intersection(&self, other: &RegionSet) -> RegionSet {
        let (mut both, mut one, mut two) = (Vec::new(), 0, 0);
        while let (Some(a), Some(b)) = (self.runs.get(one), other.runs.get(two)) {
            let (start, end) = (a[0].max(b[0]), a[1].min(b[1]));
            if start < end {
                both.push([start, end]);
            }
            if a[1] <= b[1] { one += 1 } else { two += 1 }
        }
        RegionSet { runs: both }
    }

    /// The regions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = RegionIndex> + '_ {
        self.runs.iter().flat_map(|[start, end]| *start..*end).map(RegionIndex)
    }

    /// The first region of the set at or after `region`.
    pub fn next_from(&self, region: RegionIndex) -> Option<RegionIndex> {
        self.runs.get(self.position(region.0)).map(|[start, _]| RegionIndex(region.0.max(*start)))
    }

    /// Number of regions.
    pub fn len(&self) -> u32 {
        self.runs.iter().map(|[start, end]| end - start).sum()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

impl FromIterator<RegionIndex> for RegionSet {
    fn from_iter<I: IntoIterator<Item = RegionIndex>>(regions: I) -> RegionSet {
        RegionSet::from_runs(
            regions.into_iter().map(|region| [region.0, region.0.saturating_add(1)]),
        )
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn an_intersection_is_what_is_in_both(
            one in prop::collection::vec((0u32..40, 1u32..9), 0..9),
            two in prop::collection::vec((0u32..40, 1u32..9), 0..9),
        ) {
            let set = |runs: Vec<(u32, u32)>| {
                RegionSet::from_runs(runs.into_iter().map(|(at, len)| [at, at + len]))
            };
            let (one, two) = (set(one), set(two));
            let both: RegionSet = one.iter().filter(|region| two.contains(*region)).collect();
            prop_assert_eq!(one.intersection(&two), both);
        }

        /// Adding and removing runs and single regions equals the same operations on a plain set.
        #[test]
        fn a_set_of_runs_is_a_set(
            steps in prop::collection::vec((any::<bool>(), 0u32..40, 1u32..9), 0..60),
        ) {
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
                let mut pairs = set.runs().windows(2);
                prop_assert!(pairs.all(|pair| pair[0][1] < pair[1][0]), "{:?}", set);
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
