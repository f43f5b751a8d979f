//! Sets of regions, as labels write them: `[[3, 5], [9, 10]]` is regions 3, 4 and 9.

use crate::error::{Error, ErrorKind, Result};
use crate::intent::MAX_REGIONS;
use serde::{Deserialize, Serialize};

/// A set of an array's regions: half-open runs, ascending, neither overlapping nor touching.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Runs(pub Vec<[u32; 2]>);

impl Runs {
    /// Regions `first` to `end` - 1.
    pub fn one(first: u32, end: u32) -> Runs {
        Runs(if first < end { vec![[first, end]] } else { Vec::new() })
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of its regions.
    pub fn regions(&self) -> u64 {
        self.0.iter().map(|[first, end]| u64::from(end.saturating_sub(*first))).sum()
    }

    /// Whether it has a region of `first` to `end` - 1 that `other` does not have.
    pub fn touches_beyond(&self, other: &Runs, first: u32, end: u32) -> bool {
        self.0.iter().any(|run| {
            let (mut from, end) = (run[0].max(first), run[1].min(end));
            for covered in &other.0 {
                if (covered[0]..covered[1]).contains(&from) {
                    from = covered[1];
                }
            }
            from < end
        })
    }

    /// Checks the order and limits of the runs.
    ///
    /// # Errors
    /// Names the first invalid run.
    pub(crate) fn check(&self, what: &str) -> Result<()> {
        let mut from = 0;
        for (number, &[first, end]) in self.0.iter().enumerate() {
            if first >= end || end > MAX_REGIONS || (number > 0 && first <= from) {
                return Err(Error::new(
                    ErrorKind::Contradiction,
                    format!(
                        "the label names regions {first} to {end} as {what}; runs must ascend, \
                         not be empty, and end by {MAX_REGIONS}"
                    ),
                ));
            }
            from = end;
        }
        Ok(())
    }

    /// At least the same regions, in at most `most` runs (at least one): the smallest gaps are
    /// closed.
    #[must_use]
    pub fn widened(&self, most: usize) -> Runs {
        let runs = &self.0;
        if runs.len() <= most.max(1) {
            return self.clone();
        }
        let mut gaps: Vec<(u32, usize)> =
            (1..runs.len()).map(|at| (runs[at][0].saturating_sub(runs[at - 1][1]), at)).collect();
        gaps.sort_unstable_by(|a, b| b.cmp(a));
        gaps.truncate(most.max(1) - 1);
        let mut kept: Vec<usize> = gaps.into_iter().map(|(_, at)| at).collect();
        kept.sort_unstable();
        let mut wide = Vec::new();
        let mut from = 0;
        for at in kept.into_iter().chain([runs.len()]) {
            wide.push([runs[from][0], runs[at - 1][1]]);
            from = at;
        }
        Runs(wide)
    }

    /// Some of the same regions, in at most `most` runs: the shortest runs are dropped.
    #[must_use]
    pub fn narrowed(&self, most: usize) -> Runs {
        let mut order: Vec<usize> = (0..self.0.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(self.0[at][1].saturating_sub(self.0[at][0])));
        order.truncate(most);
        order.sort_unstable();
        Runs(order.into_iter().map(|at| self.0[at]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_ascend_and_hold_something() {
        for wrong in [
            vec![[3, 3]],
            vec![[4, 3]],
            vec![[0, 2], [2, 3]],
            vec![[5, 6], [1, 2]],
            vec![[0, MAX_REGIONS + 1]],
        ] {
            assert!(Runs(wrong.clone()).check("stale").is_err(), "{wrong:?}");
        }
        assert!(Runs(vec![[0, 2], [3, MAX_REGIONS]]).check("stale").is_ok());
    }

    #[test]
    fn wider_runs_hold_all_regions_and_narrower_ones_no_other() {
        let runs = Runs(vec![[0, 1], [2, 3], [10, 20], [21, 30], [100, 101]]);
        assert_eq!(runs.widened(5), runs);
        assert_eq!(runs.widened(3), Runs(vec![[0, 3], [10, 30], [100, 101]]));
        assert_eq!(runs.widened(1), Runs(vec![[0, 101]]));
        assert_eq!(runs.narrowed(2), Runs(vec![[10, 20], [21, 30]]));
        assert_eq!((runs.regions(), runs.narrowed(0).regions()), (22, 0));
        let none = Runs::default();
        assert!(runs.touches_beyond(&none, 1, 3) && !runs.touches_beyond(&none, 3, 10));
        assert!(!Runs::one(4, 4).touches_beyond(&none, 0, 9));
        assert!(runs.touches_beyond(&Runs(vec![[10, 12], [13, 20]]), 3, 20));
        assert!(!runs.touches_beyond(&Runs(vec![[9, 12], [12, 40]]), 3, 40));
    }
}
