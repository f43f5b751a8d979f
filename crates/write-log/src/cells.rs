//! Cache blocks in persistent memory: writes that are acknowledged from the cache survive a
//! restart.
//!
//! Access to memory costs the same everywhere, so this log is no ring: a write takes free blocks
//! anywhere, and a *descriptor* for each block records its content.
//!
//! # Fault model
//! The process ends between any two instructions. Memory keeps all stores, in their order. A power
//! cut clears it.
//!
//! # The protocol
//! 1. A write is split at multiples of [`CELL`] of its volume. Each part goes to a block; then its
//!    descriptor is stored, with the sequence number last: a part is either complete or absent. The
//!    write is acknowledged when all parts are complete.
//! 2. A part is [done](Cells::done) when a flush of the drives has covered it, or newer data in
//!    blocks supersede it. Its descriptor is cleared when no older descriptor covers the same
//!    bytes. A write to the drives without a flush is not enough: a drive that loses its volatile
//!    cache lacks it, though a data log that is not replayed had a durability token for it.
//! 3. A write around the blocks is acknowledged when no older descriptor of its bytes is valid.
//! 4. After a kill, a restart applies all valid descriptors to the drives' data, by sequence
//!    number.
//!
//! The newest acknowledged data of a sector are on the drives or in a block. They are on the drives
//! alone only if no older descriptor of that sector is left, since older ones are cleared first: a
//! restart never overwrites them with older data. The order of writes to the drives does not
//! matter.
//!
//! # Format
//! ```text
//! descriptor; numbers are little-endian
//!    0  8  sequence, from 1; 0: the block is free         18  2  number of bytes
//!    8  8  block of the volume: its offset / 4096         20  4  volume
//!   16  2  offset of the bytes in the block               24  4  CRC-32C of the fields before
//!                                                         28  4  zero
//! ```

use crate::bytes::{u32_at, u64_at};
use crate::free::FreeCells;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use units::{ByteCount, ByteOffset, ByteRange};

/// The size of a cache block.
pub const CELL: ByteCount = ByteCount(4096);

/// The length of a descriptor.
pub const DESCRIPTOR: usize = 32;

/// Bytes of one cache block of a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CellRange {
    /// The index of the volume in the memory's list.
    pub volume: u32,
    /// The index of the block in the volume.
    pub cell: u64,
    /// The offset of the bytes in the block.
    pub start: u16,
    /// The number of bytes.
    pub len: u16,
}

impl CellRange {
    /// The parts of a range of a volume, one for each cache block.
    ///
    /// ```
    /// use units::{ByteCount, ByteOffset, ByteRange};
    ///
    /// let range = ByteRange::new(ByteOffset(3584), ByteCount(1024));
    /// let parts = write_log::CellRange::parts(7, range);
    /// let parts: Vec<_> = parts.map(|part| (part.cell, part.start, part.len)).collect();
    /// assert_eq!(parts, [(0, 3584, 512), (1, 0, 512)]);
    /// ```
    pub fn parts(volume: u32, range: ByteRange) -> impl Iterator<Item = CellRange> {
        let mut at = range.start.0;
        std::iter::from_fn(move || {
            let (cell, start) = (at / CELL.0, at % CELL.0);
            let len = (CELL.0 - start).min(range.end().0.saturating_sub(at));
            at += len;
            (len > 0).then_some(CellRange { volume, cell, start: start as u16, len: len as u16 })
        })
    }

    /// The range in the volume.
    pub fn range(&self) -> ByteRange {
        let start = ByteOffset(self.cell * CELL.0 + u64::from(self.start));
        ByteRange::new(start, ByteCount(self.len.into()))
    }
}

/// The content of a cache block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// The sequence number of the write, from 1: later writes supersede earlier ones.
    pub sequence: u64,
    /// The bytes in the block.
    pub bytes: CellRange,
}

impl Descriptor {
    /// The bytes in memory. The first eight, the sequence number, are stored last.
    pub fn encode(&self) -> [u8; DESCRIPTOR] {
        let mut bytes = [0; DESCRIPTOR];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.cell.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.bytes.start.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.bytes.len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.bytes.volume.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..24]);
        bytes[24..28].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a descriptor. `None`: its block is free.
    pub fn decode(bytes: &[u8]) -> Option<Descriptor> {
        let sequence = u64_at(bytes, 0);
        let is_valid = bytes.len() >= DESCRIPTOR
            && sequence > 0
            && u32_at(bytes, 24) == crc32c::crc32c(&bytes[..24])
            && u32_at(bytes, 28) == 0;
        let place = u32_at(bytes, 16);
        let (start, len) = (place as u16, (place >> 16) as u16);
        let is_inside = len > 0 && u64::from(start) + u64::from(len) <= CELL.0;
        let cell = u64_at(bytes, 8);
        let exists = cell < u64::MAX / CELL.0;
        (is_valid && is_inside && exists).then(|| {
            let bytes = CellRange { volume: u32_at(bytes, 20), cell, start, len };
            Descriptor { sequence, bytes }
        })
    }
}

/// The descriptors that a restart finds, in the order in which it applies them to the drives' data.
pub fn in_order(found: impl IntoIterator<Item = (u32, Descriptor)>) -> Vec<(u32, Descriptor)> {
    let mut found: Vec<(u32, Descriptor)> = found.into_iter().collect();
    found.sort_unstable_by_key(|(slot, descriptor)| (descriptor.sequence, descriptor.bytes, *slot));
    found
}

/// A valid descriptor.
#[derive(Clone, Copy, Debug)]
struct Live {
    slot: u32,
    sequence: u64,
    is_done: bool,
}

/// The free cache blocks, and the descriptors that may be cleared. A block counts once it is
/// [given](Cells::give) or [found](Cells::found).
#[derive(Default, Debug)]
pub struct Cells {
    free: FreeCells,
    /// The valid descriptors of each block of each volume, oldest first.
    live: BTreeMap<(u32, u64), SmallVec<[Live; 1]>>,
}

impl Cells {
    /// Adds a free block.
    ///
    /// # Panics
    /// When it was added before.
    pub fn give(&mut self, slot: u32) {
        assert!(self.free.insert(slot), "cache block {slot} is given once");
    }

    /// Adds blocks with content, after a restart or after [`forget`](Cells::forget).
    ///
    /// # Panics
    /// When one of them is free.
    pub fn found(&mut self, found: impl IntoIterator<Item = (u32, Descriptor)>) {
        for (slot, Descriptor { sequence, bytes }) in in_order(found) {
            assert!(!self.free.contains(slot), "cache block {slot} has content");
            let live = self.live.entry((bytes.volume, bytes.cell)).or_default();
            let place = live.partition_point(|live| live.sequence <= sequence);
            live.insert(place, Live { slot, sequence, is_done: false });
        }
    }

    /// Drops the content of a volume's blocks, to be [found](Cells::found) again: the blocks are
    /// not free.
    pub fn forget(&mut self, volume: u32) {
        self.live.retain(|(of, _), _| *of != volume);
    }

    /// The number of free blocks.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether a descriptor of any of these blocks is valid.
    pub fn has_any(&self, volume: u32, range: ByteRange) -> bool {
        let cells = range.align_out(CELL);
        let (first, end) = (cells.start.0 / CELL.0, cells.end().0 / CELL.0);
        self.live.range((volume, first)..(volume, end)).next().is_some()
    }

    /// Allocates a block for bytes of a write. `None`: none is free.
    ///
    /// # Panics
    /// When a later write already has some of that block.
    pub fn take(&mut self, descriptor: &Descriptor) -> Option<u32> {
        let Descriptor { sequence, bytes } = *descriptor;
        let slot = self.free.take_first()?;
        let live = self.live.entry((bytes.volume, bytes.cell)).or_default();
        let is_last = live.last().is_none_or(|last| last.sequence < sequence);
        assert!(is_last, "write {sequence} comes after the descriptors of its cache block");
        live.push(Live { slot, sequence, is_done: false });
        Some(slot)
    }

    /// Marks a write's bytes in a block as flushed to the drives, or superseded by newer data in
    /// blocks. Returns the blocks whose descriptors the caller clears now, in order; then they are
    /// free.
    ///
    /// # Panics
    /// When the write has no bytes there, or is done.
    pub fn done(&mut self, volume: u32, cell: u64, sequence: u64) -> SmallVec<[u32; 2]> {
        let Entry::Occupied(mut of_cell) = self.live.entry((volume, cell)) else {
            panic!("that cache block has content");
        };
        let live = of_cell.get_mut();
        let mine = live.iter_mut().find(|live| live.sequence == sequence && !live.is_done);
        mine.expect("a write ends once in a cache block").is_done = true;
        let count = live.iter().take_while(|live| live.is_done).count();
        let cleared = live.drain(..count).map(|live| live.slot).collect();
        if live.is_empty() {
            of_cell.remove();
        }
        cleared
    }

    /// Marks these blocks as cleared.
    ///
    /// # Panics
    /// When one of them was free.
    pub fn cleared(&mut self, slots: &[u32]) {
        for slot in slots {
            assert!(self.free.insert(*slot), "cache block {slot} is cleared once");
        }
    }
}
