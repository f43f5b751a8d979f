//! Cells: what a cache answered, in memory that outlives the process.
//!
//! Memory has no places that cost more than others, and forgets nothing while the machine runs. So a log that lies there is no
//! ring: each write takes as many *cells* as it needs, wherever they are free, and a *descriptor* for each says what is in it.
//!
//! # Fault model
//! The process ends between any two instructions. Memory keeps what was stored, in the order in which it was stored. When
//! the power goes all of it is gone.
//!
//! # The protocol
//! 1. A write is cut at multiples of [`CELL`] of its volume. Each part goes to a cell, then its descriptor is written, its
//!    sequence number last: a part is there or not. The host is answered when all are.
//! 2. What the drives have been flushed for, or lies under newer data that is in cells, is [done](Cells::done). Its descriptor is
//!    cleared when none that is older says anything of the same bytes. What the drives merely took is not done: a drive that loses
//!    its volatile cache lacks it, though a data log that is not replayed had promised it.
//! 3. A write past the cells is acknowledged when no older descriptor of its bytes is valid any more.
//! 4. After a kill all descriptors that are valid are laid over what the drives hold, in the order of their sequence numbers.
//!
//! # Why that is right
//! The newest data of a sector that was answered is on the drives, or in a cell. It is on the drives and not in a cell only if
//! no older descriptor of that sector is left, because older ones are cleared first: so nothing older is laid over it. In
//! what order writes get to the drives does not matter.
//!
//! # The bytes
//! ```text
//! descriptor; numbers are little-endian
//!    0  8  sequence, from 1; 0: nothing is in the cell        18  2  how many bytes
//!    8  8  which cell of the volume: its offset / 4096        20  4  which volume
//!   16  2  where in it the bytes begin                        24  4  CRC-32C of the fields before
//!                                                             28  4  zero
//! ```

use crate::bytes::{u32_at, u64_at};
use crate::free::FreeCells;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use units::{ByteCount, ByteOffset, ByteRange};

/// What a cell has room for.
pub const CELL: ByteCount = ByteCount(4096);

/// How long a descriptor is.
pub const DESCRIPTOR: usize = 32;

/// Bytes of one cell of a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CellRange {
    /// Which of the volumes that the memory knows.
    pub volume: u32,
    /// Which cell of it.
    pub cell: u64,
    /// Where in the cell the bytes begin.
    pub start: u16,
    /// How many they are.
    pub len: u16,
}

impl CellRange {
    /// The parts of a volume's bytes, cell by cell.
    ///
    /// ```
    /// use units::{ByteCount, ByteOffset, ByteRange};
    ///
    /// let range = ByteRange::new(ByteOffset(3584), ByteCount(1024));
    /// let parts: Vec<_> = log::CellRange::parts(7, range).map(|part| (part.cell, part.start, part.len)).collect();
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

    /// Which bytes of the volume they are.
    pub fn range(&self) -> ByteRange {
        let start = ByteOffset(self.cell * CELL.0 + u64::from(self.start));
        ByteRange::new(start, ByteCount(self.len.into()))
    }
}

/// What a descriptor says of its cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// The number of the write, from 1: later ones lie over earlier ones.
    pub sequence: u64,
    /// Which bytes are in the cell.
    pub bytes: CellRange,
}

impl Descriptor {
    /// As it lies in memory. The first eight bytes, its sequence number, are stored after the others.
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

    /// Reads one. `None`: nothing is in its cell.
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

/// What was found after a kill, in the order in which it is laid over what the drives hold.
pub fn in_order(found: impl IntoIterator<Item = (u32, Descriptor)>) -> Vec<(u32, Descriptor)> {
    let mut found: Vec<(u32, Descriptor)> = found.into_iter().collect();
    found.sort_unstable_by_key(|(slot, descriptor)| (descriptor.sequence, descriptor.bytes, *slot));
    found
}

/// A descriptor that is valid.
#[derive(Clone, Copy, Debug)]
struct Live {
    slot: u32,
    sequence: u64,
    is_done: bool,
}

/// Which cells are free, and which descriptors may be cleared. None is there before it is [given](Cells::give), or
/// [found](Cells::found).
#[derive(Default, Debug)]
pub struct Cells {
    free: FreeCells,
    /// The valid descriptors of each cell of each volume, from the oldest on.
    live: BTreeMap<(u32, u64), SmallVec<[Live; 1]>>,
}

impl Cells {
    /// A cell that is free.
    ///
    /// # Panics
    /// When it is here already.
    pub fn give(&mut self, slot: u32) {
        assert!(self.free.insert(slot), "cell {slot} is given once");
    }

    /// What was found after a kill, or [forgotten](Cells::forget).
    ///
    /// # Panics
    /// When one of them is free.
    pub fn found(&mut self, found: impl IntoIterator<Item = (u32, Descriptor)>) {
        for (slot, Descriptor { sequence, bytes }) in in_order(found) {
            assert!(!self.free.contains(slot), "something was found in cell {slot}");
            let live = self.live.entry((bytes.volume, bytes.cell)).or_default();
            let place = live.partition_point(|live| live.sequence <= sequence);
            live.insert(place, Live { slot, sequence, is_done: false });
        }
    }

    /// Forgets what is in cells of a volume, so that it may be [found](Cells::found) there: they are not free.
    pub fn forget(&mut self, volume: u32) {
        self.live.retain(|(of, _), _| *of != volume);
    }

    /// How many cells are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether a descriptor of any of these bytes' cells is valid.
    pub fn has_any(&self, volume: u32, range: ByteRange) -> bool {
        let cells = range.align_out(CELL);
        let (first, end) = (cells.start.0 / CELL.0, cells.end().0 / CELL.0);
        self.live.range((volume, first)..(volume, end)).next().is_some()
    }

    /// A cell for bytes of a write. `None`: none is free.
    ///
    /// # Panics
    /// When a later write has some of that cell already.
    pub fn take(&mut self, descriptor: &Descriptor) -> Option<u32> {
        let Descriptor { sequence, bytes } = *descriptor;
        let slot = self.free.take_first()?;
        let live = self.live.entry((bytes.volume, bytes.cell)).or_default();
        let is_last = live.last().is_none_or(|last| last.sequence < sequence);
        assert!(is_last, "write {sequence} comes after what is in its cell");
        live.push(Live { slot, sequence, is_done: false });
        Some(slot)
    }

    /// What a write has in a cell is on the drives, or lies under newer data that is in cells. The cells whose descriptors are to
    /// be cleared now, one after the other: then they are free.
    ///
    /// # Panics
    /// When the write has nothing there, or is done.
    pub fn done(&mut self, volume: u32, cell: u64, sequence: u64) -> SmallVec<[u32; 2]> {
        let Entry::Occupied(mut of_cell) = self.live.entry((volume, cell)) else {
            panic!("something is in that cell");
        };
        let live = of_cell.get_mut();
        let mine = live.iter_mut().find(|live| live.sequence == sequence && !live.is_done);
        mine.expect("a write is done with a cell once").is_done = true;
        let count = live.iter().take_while(|live| live.is_done).count();
        let cleared = live.drain(..count).map(|live| live.slot).collect();
        if live.is_empty() {
            of_cell.remove();
        }
        cleared
    }

    /// These cells have been cleared.
    ///
    /// # Panics
    /// When one was free.
    pub fn cleared(&mut self, slots: &[u32]) {
        for slot in slots {
            assert!(self.free.insert(*slot), "cell {slot} is cleared once");
        }
    }
}
