//! Initialisation by stripe: which stripes hold host data, on drives with unknown content.
//!
//! # Invariants
//! - An uninitialised stripe reads as zeros without drive I/O. The drives' content there is
//!   ignored: redundancy is neither used, checked nor rebuilt.
//! - A write of the whole stripe with redundancy, followed by a flush, initialises it for good.
//! - A region is *uninitialised* (no stripe is initialised, and no write is running), *partly
//!   initialised* (one bit per stripe), or initialised.

use crate::region_set::{RegionIndex, RegionSet};
use std::collections::BTreeMap;

/// Stripes of a region, by index in the region.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StripeSet {
    /// Bits, least significant first; the last word is not zero.
    words: Vec<u64>,
}

impl StripeSet {
    /// No stripe.
    pub const EMPTY: StripeSet = StripeSet { words: Vec::new() };

    /// The set of these bits, least significant first.
    pub fn from_bytes(bytes: &[u8]) -> StripeSet {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let mut set = StripeSet { words: bytes.chunks(8).map(word).collect() };
        set.trim();
        set
    }

    /// The first `count` stripes.
    pub fn first(count: u64) -> StripeSet {
        let mut set = StripeSet { words: vec![u64::MAX; (count / 64) as usize] };
        if !count.is_multiple_of(64) {
            set.words.push((1 << (count % 64)) - 1);
        }
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    /// The bits as bytes, least significant first, in at least `len` bytes.
    pub fn to_bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        while bytes.len() > len && bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.resize(bytes.len().max(len), 0);
        bytes
    }

    /// Whether it contains a stripe.
    pub fn contains(&self, nth: u64) -> bool {
        self.words.get((nth / 64) as usize).is_some_and(|word| word >> (nth % 64) & 1 == 1)
    }

    /// Adds a stripe.
    pub fn insert(&mut self, nth: u64) {
        let at = (nth / 64) as usize;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (nth % 64);
    }

    /// Adds all stripes of `other`.
    pub fn insert_all(&mut self, other: &StripeSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Number of stripes.
    pub fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

impl FromIterator<u64> for StripeSet {
    fn from_iter<I: IntoIterator<Item = u64>>(stripes: I) -> StripeSet {
        let mut set = StripeSet::EMPTY;
        stripes.into_iter().for_each(|nth| set.insert(nth));
        set
    }
}

/// The partly initialised regions of a volume. Uninitialised ones are
/// [`VolumeState::unwritten`](crate::VolumeState::unwritten).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Initialisation {
    partial: BTreeMap<RegionIndex, StripeSet>,
}

impl Initialisation {
    /// The partly initialised regions, each with its initialised stripes. Includes regions whose
    /// first write is about to begin.
    pub fn partial(&self) -> impl Iterator<Item = (RegionIndex, &StripeSet)> {
        self.partial.iter().map(|(region, stripes)| (*region, stripes))
    }

    /// Whether no region is partly initialised.
    pub fn has_no_partial(&self) -> bool {
        self.partial.is_empty()
    }

    /// The initialised stripes of a partly initialised region.
    pub fn stripes_in(&self, region: RegionIndex) -> Option<&StripeSet> {
        self.partial.get(&region)
    }

    /// Writes to these uninitialised regions are about to begin.
    pub(crate) fn begin(&mut self, regions: &RegionSet) {
        for region in regions.iter() {
            self.partial.entry(region).or_default();
        }
    }

    pub(crate) fn insert(&mut self, region: RegionIndex, stripes: &StripeSet) {
        if let Some(known) = self.partial.get_mut(&region) {
            known.insert_all(stripes);
        }
    }

    pub(crate) fn complete(&mut self, regions: &RegionSet) {
        self.partial.retain(|region, _| !regions.contains(*region));
    }

    pub(crate) fn end(&self) -> u32 {
        self.partial.last_key_value().map_or(0, |(region, _)| region.0.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_of_bits_is_a_set(
            one in prop::collection::btree_set(0u64..300, 0..40),
            two in prop::collection::btree_set(0u64..300, 0..40),
        ) {
            let mut set: StripeSet = one.iter().copied().collect();
            set.insert_all(&two.iter().copied().collect());
            let both: BTreeSet<u64> = one.union(&two).copied().collect();
            prop_assert!((0..400).all(|nth| set.contains(nth) == both.contains(&nth)));
            prop_assert_eq!(set.len(), both.len() as u64);
            prop_assert_eq!(set.is_empty(), both.is_empty());
            let bytes = set.to_bytes(40);
            prop_assert!(bytes.len() >= 40);
            prop_assert_eq!(StripeSet::from_bytes(&bytes), set);
        }

        #[test]
        fn the_first_stripes_are_those_below(count in 0u64..200) {
            prop_assert_eq!(StripeSet::first(count), (0..count).collect::<StripeSet>());
        }
    }
}
