//! The free cache blocks: a bit for each, and a bit for each word with free blocks.
//!
//! A cache allocates and frees a quarter of a million blocks per second for each GB/s of
//! throughput. So finding the lowest free block, and freeing one, must not depend on their number.

/// The bits of a word.
const BITS: usize = u64::BITS as usize;

/// A set of block numbers with fast access to the lowest.
#[derive(Default, Debug)]
pub(crate) struct FreeCells {
    words: Vec<u64>,
    /// The words with free blocks.
    filled: Vec<u64>,
    /// All words of `filled` before this one are zero.
    first: usize,
    count: usize,
}

impl FreeCells {
    /// Adds a block; false when it is free already.
    pub(crate) fn insert(&mut self, slot: u32) -> bool {
        let (word, bit) = (slot as usize / BITS, 1 << (slot as usize % BITS));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.filled.resize(word / BITS + 1, 0);
        }
        if self.words[word] & bit != 0 {
            return false;
        }
        self.words[word] |= bit;
        self.filled[word / BITS] |= 1 << (word % BITS);
        self.first = self.first.min(word / BITS);
        self.count += 1;
        true
    }

    /// Removes the lowest.
    pub(crate) fn take_first(&mut self) -> Option<u32> {
        let at = self.first
            + self.filled[self.first.min(self.filled.len())..]
                .iter()
                .position(|filled| *filled != 0)?;
        self.first = at;
        let word = at * BITS + self.filled[at].trailing_zeros() as usize;
        let slot = word * BITS + self.words[word].trailing_zeros() as usize;
        self.words[word] &= self.words[word] - 1;
        if self.words[word] == 0 {
            self.filled[at] &= self.filled[at] - 1;
        }
        self.count -= 1;
        Some(slot as u32)
    }

    /// Whether the block is free.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        let word = self.words.get(slot as usize / BITS);
        word.is_some_and(|word| word >> (slot as usize % BITS) & 1 != 0)
    }

    /// The number of free blocks.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// For any sequence of additions and removals, the order is that of a sorted set.
    #[test]
    fn the_lowest_that_is_free_comes_first() {
        let (mut free, mut sorted, mut chance) = (FreeCells::default(), BTreeSet::new(), 1_u64);
        for _ in 0..200_000 {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (slot, kind) = ((chance >> 33) as u32 % 70_000, chance >> 60);
            assert_eq!(free.contains(slot), sorted.contains(&slot));
            match kind {
                0..7 => assert_eq!(free.insert(slot), sorted.insert(slot)),
                _ => assert_eq!(free.take_first(), sorted.pop_first()),
            }
            assert_eq!(free.len(), sorted.len());
        }
        while let Some(slot) = sorted.pop_first() {
            assert_eq!(free.take_first(), Some(slot));
        }
        assert_eq!(free.take_first(), None);
    }
}
