//! The cache's memory that the controller distributes: cache blocks to shards, and recovered data
//! to volumes.

use crate::volume::VolumeId;
use platform::{Buf, KeptMemory, KeptSpace, Slice, Words, mailbox};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use units::ByteCount;
use write_log::memory::{MemoryHead, VOLUMES, descriptor_at, volume_words, whole};
use write_log::{CELL, Descriptor};

/// Which writes the cache of a volume acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Absorb {
    /// None, and nothing is dirty: host requests may bypass the cache.
    #[default]
    Nothing,
    /// None, but the cache may be dirty still, or soon.
    NoMore,
    /// All, once they are in a data log; none without a data log.
    Logged,
    /// Those without FUA. Flushed data is on the drives when the flush is acknowledged.
    Unflushed,
    /// All. Flushes are acknowledged at once.
    All,
}

/// Cache blocks for a shard's exclusive use.
pub struct CellShare {
    /// The control words of the memory, in the order of [`write_log::memory`].
    pub words: Words,
    /// Free cache blocks, by number.
    pub free: Vec<(u32, Buf)>,
    /// The highest sequence number of a write.
    pub sequence: u64,
    /// What the shard may get later. `None`: as before.
    pub more: Option<MoreCells>,
}

/// Cache blocks that a shard may get later, when half of its blocks are in use.
#[derive(Clone)]
pub struct MoreCells {
    /// Their number.
    pub cells: u64,
    /// Where the shard requests them, by its index. The answer is a [`CellShare`] with `more`;
    /// until then it does not request again.
    pub requests: mailbox::Sender<usize>,
    /// The shard's index in requests.
    pub shard: usize,
}

impl CellShare {
    /// Volatile memory: data-less for a model, or for users that need no persistence.
    pub fn unkept(cells: u32, is_hollow: bool) -> CellShare {
        let bytes = MemoryHead::bytes(cells);
        let whole = if is_hollow { Buf::hollow(bytes) } else { Buf::unpooled(bytes) };
        let free = (0..cells).zip(whole.carve(CELL)).collect();
        CellShare { words: Words::unkept(MemoryHead::words(cells)), free, sequence: 0, more: None }
    }
}

impl fmt::Debug for CellShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CellShare({} cells)", self.free.len())
    }
}

/// Data that an earlier process left in a cache block.
#[derive(Clone, Debug)]
pub struct FoundCell {
    /// The number of the block.
    pub slot: u32,
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// The whole block.
    pub bytes: Slice,
}

/// The cache's memory, recovered or new: its content and its free blocks.
#[derive(Debug)]
pub struct CacheMemory {
    /// Its identity.
    pub id: [u8; 16],
    /// Its control words.
    pub words: Words,
    /// The volumes with data in it, now or soon, by index.
    pub volumes: BTreeMap<u32, [u8; 16]>,
    /// The content of its blocks.
    pub found: Vec<FoundCell>,
    /// Free blocks.
    pub free: Vec<(u32, Buf)>,
    /// Blocks without memory.
    pub unreserved: Unreserved,
}

/// Cache blocks for which no memory is reserved yet: the last ones.
pub struct Unreserved {
    /// The number of the first one.
    first: u32,
    bytes: Buf,
    space: Rc<dyn KeptSpace>,
}

impl fmt::Debug for Unreserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unreserved({} cells from {})", self.cells(), self.first)
    }
}

impl Unreserved {
    /// Their number.
    pub fn cells(&self) -> u64 {
        self.bytes.len().0 / CELL.0
    }

    /// Reserves memory for the first `count` of them, which are free blocks from then on.
    ///
    /// # Errors
    /// If memory is missing: they stay unreserved.
    pub async fn reserve(&mut self, count: u64) -> platform::Result<Vec<(u32, Buf)>> {
        let count = count.min(self.cells());
        let len = ByteCount(count * CELL.0);
        self.space.reserve(MemoryHead::bytes(self.first) + len).await?;
        let rest = self.bytes.split_off(len);
        let reserved = std::mem::replace(&mut self.bytes, rest);
        let first = self.first;
        self.first += count as u32;
        Ok((first..).zip(reserved.carve(CELL)).collect())
    }
}

impl CacheMemory {
    /// Creates empty cache memory with that identity.
    ///
    /// # Errors
    /// As [`CacheMemory::read`].
    pub async fn make(kept: KeptMemory, id: [u8; 16], cells: u32) -> Result<CacheMemory, String> {
        for (word, value) in (MemoryHead { id, cells }).stores() {
            kept.words.store(word, value);
        }
        CacheMemory::read(kept).await
    }

    /// Reads existing cache memory.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub async fn read(kept: KeptMemory) -> Result<CacheMemory, String> {
        let KeptMemory { words, mut bytes, reserved, space, .. } = kept;
        let load = |word| words.load(word);
        let MemoryHead { id, cells } = MemoryHead::read(words.len(), load)?;
        if bytes.len() != MemoryHead::bytes(cells) {
            return Err(format!("it has {} for {cells} cells", bytes.len()));
        }
        let volume = |index: u32| {
            let [first, second] = volume_words(index).map(load);
            (first != 0).then(|| (index, whole(first, second)))
        };
        let volumes = (0..VOLUMES as u32).filter_map(volume).collect();
        let last = (0..cells).rev().find(|slot| Descriptor::load(*slot, load).is_some());
        // An earlier version does not record the bytes that it reserves: it may have used blocks
        // behind the recorded ones.
        let first = (reserved.0 / CELL.0).max(last.map_or(0, |last| u64::from(last) + 1)) as u32;
        if MemoryHead::bytes(first) > reserved {
            space.reserve(MemoryHead::bytes(first)).await.map_err(|error| error.to_string())?;
        }
        // Behind them, a damaged descriptor names no block.
        for word in (first..cells).map(descriptor_at).filter(|word| words.load(*word) != 0) {
            words.store(word, 0);
        }
        let unreserved = bytes.split_off(MemoryHead::bytes(first));
        let (mut found, mut free) = (Vec::new(), Vec::new());
        for (slot, cell) in (0..first).zip(bytes.carve(CELL)) {
            match Descriptor::load(slot, load) {
                Some(descriptor) => {
                    found.push(FoundCell { slot, descriptor, bytes: cell.freeze() })
                }
                None => {
                    // A store interrupted by the end of the process was never acknowledged.
                    words.store(descriptor_at(slot), 0);
                    free.push((slot, cell));
                }
            }
        }
        let unreserved = Unreserved { first, bytes: unreserved, space };
        Ok(CacheMemory { id, words, volumes, found, free, unreserved })
    }

    /// The highest sequence number of a write.
    pub fn sequence(&self) -> u64 {
        self.found.iter().map(|found| found.descriptor.sequence).max().unwrap_or(0)
    }
}

/// A volume's part of the cache.
#[derive(Clone, Debug)]
pub struct CacheTerms {
    /// Its index in the memory. `None`: it has none, and no block holds its data.
    pub index: Option<u32>,
    /// Which of its writes are acknowledged.
    pub absorb: Absorb,
    /// Data that an earlier process left, on any shard.
    pub found: Arc<Vec<FoundCell>>,
    /// The published counters of every shard: [`CacheCounters::shown`].
    pub gauge: Option<Words>,
    /// The marks between which its fill stays while hosts write.
    pub marks: Marks,
}

/// The dirty share of a shard's memory, in percent, at which destaging for free memory begins, and
/// at which it uses all drive capacity. In between host reads have priority: the number of destages
/// rises with each percent, until writes and destages are balanced.
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
    /// These percentages; `None` if the range between or above them is empty.
    pub fn new(low: usize, high: usize) -> Option<Marks> {
        (low < high && high < 100).then_some(Marks { low, high })
    }

    /// Whether this fill requires destaging.
    pub(crate) fn are_passed(self, fill: usize) -> bool {
        fill > self.low
    }

    /// How many of `most` destages should be in progress at that fill.
    pub(crate) fn depth(self, most: usize, fill: usize) -> usize {
        let between = self.high - self.low;
        let pressure = fill.saturating_sub(self.low).min(between);
        (most * pressure / between).max(1)
    }
}

impl CacheTerms {
    /// No cache, and no recovered data.
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

/// A shard's cache counters for a volume, since it was attached.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheCounters {
    /// Data that is not on the drives yet.
    pub dirty: ByteCount,
    /// The part of it that could not be destaged.
    pub pinned: ByteCount,
    /// Stripe writes acknowledged from the cache.
    pub absorbed: u64,
    /// Stripe reads that the cache served at least in part.
    pub hits: u64,
    /// Destages of acknowledged writes.
    pub destages: u64,
    /// Cached data that is on the drives too.
    pub clean: ByteCount,
    /// Bytes read ahead, and requested later.
    pub ahead_used: ByteCount,
    /// Bytes read ahead, and dropped before a request.
    pub ahead_wasted: ByteCount,
}

/// The words that a shard publishes for a volume: one cache line of the processor.
const GAUGE_WORDS: usize = 8;

impl CacheCounters {
    /// The published counters of a volume, for this many shards.
    pub fn gauge(shards: usize) -> Words {
        Words::unkept(shards * GAUGE_WORDS)
    }

    /// Publishes a shard's counters.
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

    /// The sum over all shards.
    pub fn shown(gauge: &Words) -> CacheCounters {
        let of = |shard: usize| {
            let [dirty, pinned, absorbed, hits, destages, clean, used, wasted] =
                [0, 1, 2, 3, 4, 5, 6, 7].map(|word| gauge.load(shard * GAUGE_WORDS + word));
            let [dirty, pinned, clean] = [dirty, pinned, clean].map(ByteCount);
            let [ahead_used, ahead_wasted] = [used, wasted].map(ByteCount);
            CacheCounters {
                dirty,
                pinned,
                absorbed,
                hits,
                destages,
                clean,
                ahead_used,
                ahead_wasted,
            }
        };
        (0..gauge.len() / GAUGE_WORDS).map(of).fold(CacheCounters::default(), CacheCounters::with)
    }

    /// The sum of two counters.
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
