//! The cache's memory, as the controller hands it over: cells to shards, and to volumes what was found in them.

use crate::volume::VolumeId;
use platform::{Buf, KeptMemory, Slice, Words};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use units::ByteCount;
use write_log::memory::{MemoryHead, VOLUMES, descriptor_at, volume_words, whole};
use write_log::{CELL, Descriptor};

/// Which writes the cache of a volume answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Absorb {
    /// None, and nothing is dirty: what hosts ask for may go past the cache.
    #[default]
    Nothing,
    /// None, but something may be dirty still, or will be soon.
    NoMore,
    /// All, when a data log has them; none while there is no data log.
    Logged,
    /// Those that need not be durable. What a flush covers is on the drives when it is answered.
    Unflushed,
    /// All. Flushes are answered at once.
    All,
}

/// Cells of the cache's memory that are given to a shard: nobody else uses them.
pub struct CellShare {
    /// The numbers of the memory, as [`write_log::memory`] lays them out.
    pub words: Words,
    /// Cells in which nothing is, by their numbers.
    pub free: Vec<(u32, Buf)>,
    /// The latest number that a write had.
    pub sequence: u64,
}

impl CellShare {
    /// Memory that outlives nothing: of a model, whose bytes are hollow, or of whoever needs no more.
    pub fn unkept(cells: u32, is_hollow: bool) -> CellShare {
        let bytes = MemoryHead::bytes(cells);
        let whole = if is_hollow { Buf::hollow(bytes) } else { Buf::unpooled(bytes) };
        let free = (0..cells).zip(whole.carve(CELL)).collect();
        CellShare { words: Words::unkept(MemoryHead::words(cells)), free, sequence: 0 }
    }
}

impl fmt::Debug for CellShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CellShare({} cells)", self.free.len())
    }
}

/// What an earlier process left in a cell.
#[derive(Clone, Debug)]
pub struct FoundCell {
    /// Which cell.
    pub slot: u32,
    /// What its descriptor says.
    pub descriptor: Descriptor,
    /// The whole cell.
    pub bytes: Slice,
}

/// The cache's memory as it was found, or made: what is in it, and what is free.
#[derive(Debug)]
pub struct CacheMemory {
    /// Its identity.
    pub id: [u8; 16],
    /// Its numbers.
    pub words: Words,
    /// The volumes that have something in it, or may soon, by their places.
    pub volumes: BTreeMap<u32, [u8; 16]>,
    /// What is in its cells.
    pub found: Vec<FoundCell>,
    /// Cells in which nothing is.
    pub free: Vec<(u32, Buf)>,
}

impl CacheMemory {
    /// Makes one with that identity of memory in which nothing is.
    ///
    /// # Errors
    /// As [`CacheMemory::read`].
    pub fn make(kept: KeptMemory, id: [u8; 16], cells: u32) -> Result<CacheMemory, String> {
        for (word, value) in (MemoryHead { id, cells }).stores() {
            kept.words.store(word, value);
        }
        CacheMemory::read(kept)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(kept: KeptMemory) -> Result<CacheMemory, String> {
        let words = kept.words;
        let load = |word| words.load(word);
        let MemoryHead { id, cells } = MemoryHead::read(words.len(), load)?;
        if kept.bytes.len() != MemoryHead::bytes(cells) {
            return Err(format!("it has {} for {cells} cells", kept.bytes.len()));
        }
        let volume = |index: u32| {
            let [first, second] = volume_words(index).map(load);
            (first != 0).then(|| (index, whole(first, second)))
        };
        let volumes = (0..VOLUMES as u32).filter_map(volume).collect();
        let (mut found, mut free) = (Vec::new(), Vec::new());
        for (slot, cell) in (0..cells).zip(kept.bytes.carve(CELL)) {
            match Descriptor::load(slot, load) {
                Some(descriptor) => found.push(FoundCell { slot, descriptor, bytes: cell.freeze() }),
                None => {
                    // What was being stored when the process ended was never answered.
                    words.store(descriptor_at(slot), 0);
                    free.push((slot, cell));
                }
            }
        }
        Ok(CacheMemory { id, words, volumes, found, free })
    }

    /// The latest number that a write has.
    pub fn sequence(&self) -> u64 {
        self.found.iter().map(|found| found.descriptor.sequence).max().unwrap_or(0)
    }
}

/// What a volume has of the cache.
#[derive(Clone, Debug)]
pub struct CacheTerms {
    /// Which of the memory's volumes it is. `None`: none of them, and nothing in any cell is its.
    pub index: Option<u32>,
    /// Which of its writes are answered.
    pub absorb: Absorb,
    /// What an earlier process left, on whichever shard it was.
    pub found: Arc<Vec<FoundCell>>,
    /// Where every shard shows what it has: [`CacheCounters::shown`].
    pub gauge: Option<Words>,
    /// Between which marks it is kept while hosts write.
    pub marks: Marks,
}

/// How much of a shard's memory is dirty when destaging for room begins, and when all that the drives can do is done for it, in
/// percent. In between hosts' reads come first: few destages are under way, and more with each percent, so that what comes and
/// what goes find their balance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    low: usize,
    high: usize,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks { low: 40, high: 50 }
    }
}

impl Marks {
    /// These percentages; `None` if they leave nothing in between, or no room above.
    pub fn new(low: usize, high: usize) -> Option<Marks> {
        (low < high && high < 100).then_some(Marks { low, high })
    }

    /// Whether so many percent ask for room.
    pub(crate) fn are_passed(self, fill: usize) -> bool {
        fill > self.low
    }

    /// How many of `most` destages are to be under way when the memory is that full.
    pub(crate) fn depth(self, most: usize, fill: usize) -> usize {
        let between = self.high - self.low;
        let pressure = fill.saturating_sub(self.low).min(between);
        (most * pressure / between).max(1)
    }
}

impl CacheTerms {
    /// Nothing is answered, and nothing was left.
    pub fn none(volume: VolumeId) -> CacheTerms {
        let marks = Marks::default();
        CacheTerms {
            index: Some(volume.0),
            absorb: Absorb::Nothing,
            found: Arc::default(),
            gauge: None,
            marks,
        }
    }
}

/// What a shard has of a volume in its cache, and what it has counted since the volume was attached.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheCounters {
    /// What is not on the drives yet.
    pub dirty: ByteCount,
    /// What of that could not be written when it was tried.
    pub pinned: ByteCount,
    /// Writes to a stripe that were answered from the cache.
    pub absorbed: u64,
    /// Reads of a stripe of which the cache had a part, or all.
    pub hits: u64,
    /// Destages of what had been answered.
    pub destages: u64,
    /// What is kept of what the drives hold too.
    pub clean: ByteCount,
    /// What was read ahead of hosts, and asked for then.
    pub ahead_used: ByteCount,
    /// What was read ahead of hosts, and given up before anybody asked for it.
    pub ahead_wasted: ByteCount,
}

/// Numbers that a shard shows of a volume: as many as one line of a processor's cache.
const GAUGE_WORDS: usize = 8;

impl CacheCounters {
    /// Where so many shards show what they have of a volume.
    pub fn gauge(shards: usize) -> Words {
        Words::unkept(shards * GAUGE_WORDS)
    }

    /// Shows what a shard has.
    pub(crate) fn publish(&self, gauge: &Words, shard: usize) {
        let shown: [u64; GAUGE_WORDS] = [
            self.dirty.0,
            self.pinned.0,
            self.absorbed,
            self.hits,
            self.destages,
            self.clean.0,
            self.ahead_used.0,
            self.ahead_wasted.0,
        ];
        for (word, value) in (shard * GAUGE_WORDS..).zip(shown) {
            gauge.store(word, value);
        }
    }

    /// What all shards show together.
    pub fn shown(gauge: &Words) -> CacheCounters {
        let of = |shard: usize| {
            let [dirty, pinned, absorbed, hits, destages, clean, used, wasted] =
                [0, 1, 2, 3, 4, 5, 6, 7].map(|word| gauge.load(shard * GAUGE_WORDS + word));
            let [dirty, pinned, clean] = [dirty, pinned, clean].map(ByteCount);
            let [ahead_used, ahead_wasted] = [used, wasted].map(ByteCount);
            CacheCounters { dirty, pinned, absorbed, hits, destages, clean, ahead_used, ahead_wasted }
        };
        (0..gauge.len() / GAUGE_WORDS).map(of).fold(CacheCounters::default(), CacheCounters::with)
    }

    /// Those of several shards together.
    #[must_use]
    fn with(self, other: CacheCounters) -> CacheCounters {
        CacheCounters {
            dirty: self.dirty + other.dirty,
            pinned: self.pinned + other.pinned,
            absorbed: self.absorbed + other.absorbed,
            hits: self.hits + other.hits,
            destages: self.destages + other.destages,
            clean: self.clean + other.clean,
            ahead_used: self.ahead_used + other.ahead_used,
            ahead_wasted: self.ahead_wasted + other.ahead_wasted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_it_is_between_its_marks_the_more_is_destaged() {
        let marks = Marks::new(60, 80).expect("marks");
        let depths: Vec<usize> = [0, 60, 65, 70, 80, 100].map(|fill| marks.depth(100, fill)).into();
        assert_eq!(depths, [1, 1, 25, 50, 100, 100]);
        assert!(!marks.are_passed(60) && marks.are_passed(61));
        assert!(Marks::new(50, 50).is_none() && Marks::new(50, 100).is_none());
    }
}
