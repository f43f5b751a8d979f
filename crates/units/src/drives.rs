//! Drive indexes, drive counts and drive sets.

use std::fmt;

/// The most drives one array may have (eight spans of 32).
pub const MAX_DRIVES: usize = 256;

/// A drive's position (slot) in its array, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DriveIndex(pub u16);

/// A number of drives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DriveCount(pub u16);

impl DriveIndex {
    /// The index as a `usize`, for slices with an element per drive.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl DriveCount {
    /// The count as a `usize`.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// Every index below this count, ascending.
    pub fn indexes(self) -> impl DoubleEndedIterator<Item = DriveIndex> + ExactSizeIterator {
        (0..self.0).map(DriveIndex)
    }
}

impl fmt::Display for DriveIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for DriveIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drive {}", self.0)
    }
}

impl fmt::Display for DriveCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for DriveCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} drives", self.0)
    }
}

/// A set of drives of an array, by value and without allocation: 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DriveSet([u64; MAX_DRIVES / 64]);

impl DriveSet {
    /// No drive.
    pub const EMPTY: DriveSet = DriveSet([0; MAX_DRIVES / 64]);

    /// The drives 0 to `count` - 1.
    pub fn first(count: DriveCount) -> DriveSet {
        count.indexes().collect()
    }

    /// The set with `drive` added.
    #[must_use]
    pub fn with(mut self, drive: DriveIndex) -> DriveSet {
        self.insert(drive);
        self
    }

    /// The set with `drive` removed.
    #[must_use]
    pub fn without(mut self, drive: DriveIndex) -> DriveSet {
        self.remove(drive);
        self
    }

    /// Adds `drive`. Panics if its index is not below [`MAX_DRIVES`].
    pub fn insert(&mut self, drive: DriveIndex) {
        self.0[drive.as_usize() / 64] |= 1 << (drive.0 % 64);
    }

    /// Removes `drive`.
    pub fn remove(&mut self, drive: DriveIndex) {
        self.0[drive.as_usize() / 64] &= !(1 << (drive.0 % 64));
    }

    /// Whether the set includes `drive`.
    pub fn contains(&self, drive: DriveIndex) -> bool {
        self.0[drive.as_usize() / 64] >> (drive.0 % 64) & 1 == 1
    }

    /// Whether the set includes the drives 0 to `count` - 1.
    pub fn contains_first(&self, count: DriveCount) -> bool {
        self.0.iter().zip((0_u32..).step_by(64)).all(|(word, first)| {
            let wanted = u32::from(count.0).saturating_sub(first);
            let missing = !word;
            wanted == 0 || missing == 0 || missing.trailing_zeros() >= wanted
        })
    }

    /// The number of drives.
    pub fn count(&self) -> DriveCount {
        DriveCount(self.0.iter().map(|word| word.count_ones() as u16).sum())
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; MAX_DRIVES / 64]
    }

    /// The drives in this set, but not in `other`.
    #[must_use]
    pub fn minus(&self, other: &DriveSet) -> DriveSet {
        DriveSet(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The drives in either set.
    #[must_use]
    pub fn union(&self, other: &DriveSet) -> DriveSet {
        DriveSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// The drives in both sets.
    #[must_use]
    pub fn intersection(&self, other: &DriveSet) -> DriveSet {
        DriveSet(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The drives, ascending.
    pub fn iter(&self) -> impl Iterator<Item = DriveIndex> + '_ {
        self.0.iter().enumerate().flat_map(|(word_index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(DriveIndex((word_index * 64) as u16 + bit as u16))
            })
        })
    }
}

impl FromIterator<DriveIndex> for DriveSet {
    fn from_iter<T: IntoIterator<Item = DriveIndex>>(drives: T) -> DriveSet {
        drives.into_iter().fold(DriveSet::EMPTY, DriveSet::with)
    }
}

impl fmt::Debug for DriveSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|drive| drive.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set: DriveSet = [0, 63, 64, 255].map(DriveIndex).into_iter().collect();
        assert_eq!(set.iter().map(|d| d.0).collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert_eq!(set.count(), DriveCount(4));
        assert!(set.contains(DriveIndex(64)) && !set.contains(DriveIndex(65)));
        assert_eq!(
            set.without(DriveIndex(63)).minus(&DriveSet::first(DriveCount(1))).count(),
            DriveCount(2)
        );
        assert!(DriveSet::EMPTY.is_empty() && !set.is_empty());
    }

    #[test]
    fn a_set_of_the_first_drives_contains_them_until_one_is_taken_out() {
        for count in 0..=MAX_DRIVES as u16 {
            let set = DriveSet::first(DriveCount(count));
            assert!(set.contains_first(DriveCount(count)), "{count}");
            assert!(
                !set.contains_first(DriveCount(count + 1)) || count as usize == MAX_DRIVES,
                "{count}"
            );
            for drive in DriveCount(count).indexes() {
                assert!(
                    !set.without(drive).contains_first(DriveCount(count)),
                    "{count} without {drive}"
                );
            }
        }
    }
}
