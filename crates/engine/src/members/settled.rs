//! Stripes of stale-parity regions whose redundancy agrees with their data again, before the whole
//! region does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use volume_state::{RegionIndex, RegionSet};

/// Settled stripes of stale-parity regions: one bit per stripe of each region.
#[derive(Default)]
pub(crate) struct Settled {
    stripes: RefCell<BTreeMap<RegionIndex, Vec<u64>>>,
}

impl Settled {
    pub(crate) fn contains(&self, region: RegionIndex, nth: u64) -> bool {
        let stripes = self.stripes.borrow();
        let word = stripes.get(&region).and_then(|words| words.get((nth / 64) as usize));
        word.is_some_and(|word| word >> (nth % 64) & 1 == 1)
    }

    pub(crate) fn insert(&self, region: RegionIndex, nth: u64) {
        let mut stripes = self.stripes.borrow_mut();
        let (words, at) = (stripes.entry(region).or_default(), (nth / 64) as usize);
        if words.len() <= at {
            words.resize(at + 1, 0);
        }
        words[at] |= 1 << (nth % 64);
    }

    /// These regions are synced, distrusted, or have stale parity accepted again.
    pub(crate) fn forget(&self, regions: &RegionSet) {
        self.stripes.borrow_mut().retain(|region, _| !regions.contains(*region));
    }
}
