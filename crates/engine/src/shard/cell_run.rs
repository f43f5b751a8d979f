//! A write in cache blocks: the blocks, their unsettled bytes, and their content.
//!
//! Blocks are taken and cleared one by one. Blocks that are contiguous in memory form one *piece*:
//! it is filled by one copy, and goes to a drive as one slice with one reference count.
//!
//! # Invariants
//! - A piece consists of whole blocks that are consecutive both in the volume and in memory.
//! - Only the cache memory and views of it own a piece. So when some of its blocks are cleared, it
//!   is split as soon as there is no view of any of them.

use platform::{Buf, Slice};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::{CELL, CellRange, Descriptor};

/// Blocks of a run, by index in the run.
pub(super) type Places = SmallVec<[u32; 2]>;

/// A write in cache blocks, or a block that an earlier process left.
pub(super) struct CellRun {
    pub(super) volume: u32,
    pub(super) sequence: u64,
    /// The bytes of the volume.
    range: ByteRange,
    /// In ascending order: the lowest free ones are taken.
    cells: SmallVec<[RunCell; 2]>,
    pieces: RefCell<SmallVec<[Piece; 1]>>,
}

struct RunCell {
    slot: u32,
    /// Its number of unsettled bytes.
    left: Cell<u16>,
}

struct Piece {
    /// The index of its first block.
    first: u32,
    bytes: Slice,
}

impl Piece {
    fn places(&self) -> std::ops::Range<u32> {
        self.first..self.first + (self.bytes.len().0 / CELL.0) as u32
    }
}

impl CellRun {
    /// A write in blocks with these numbers, in ascending order.
    pub(super) fn new(volume: u32, sequence: u64, range: ByteRange, slots: &[u32]) -> CellRun {
        let lens = CellRange::parts(volume, range).map(|part| part.len);
        let cells =
            slots.iter().zip(lens).map(|(slot, len)| RunCell { slot: *slot, left: Cell::new(len) });
        CellRun { volume, sequence, range, cells: cells.collect(), pieces: RefCell::default() }
    }

    /// A recovered block, with all its bytes.
    pub(super) fn found(slot: u32, descriptor: Descriptor, bytes: Slice) -> CellRun {
        let Descriptor { sequence, bytes: part } = descriptor;
        let run = CellRun::new(part.volume, sequence, part.range(), &[slot]);
        run.pieces.borrow_mut().push(Piece { first: 0, bytes });
        run
    }

    /// Takes the memory of its blocks in order, and copies the data to it.
    pub(super) fn fill(&self, cells: impl Iterator<Item = Buf>, data: &Slice) {
        let mut pieces: SmallVec<[(u32, Buf); 1]> = SmallVec::new();
        for (place, cell) in (0..).zip(cells) {
            match pieces.pop() {
                None => pieces.push((place, cell)),
                Some((first, piece)) => match piece.join(cell) {
                    Ok(piece) => pieces.push((first, piece)),
                    Err((piece, cell)) => pieces.extend([(first, piece), (place, cell)]),
                },
            }
        }
        let filled = pieces.into_iter().map(|(first, mut piece)| {
            self.copy_into(first, &mut piece, data);
            Piece { first, bytes: piece.apart().freeze() }
        });
        *self.pieces.borrow_mut() = filled.collect();
    }

    fn copy_into(&self, first: u32, piece: &mut Buf, data: &Slice) {
        if !piece.is_hollow() {
            let at = self.start_of(first);
            let part = ByteRange::from_to(
                at.max(self.range.start),
                (at + piece.len()).min(self.range.end()),
            );
            let within = (part.start - at).as_usize();
            let target = &mut piece.bytes_mut()[within..within + part.len.as_usize()];
            data.cut(part.start - self.range.start, part.len).copy_to(target);
        }
    }

    /// The offset in the volume of the block with this index.
    fn start_of(&self, place: u32) -> ByteOffset {
        ByteOffset((self.range.start.0 / CELL.0 + u64::from(place)) * CELL.0)
    }

    /// Its blocks and their descriptors.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (u32, Descriptor)> {
        let parts = CellRange::parts(self.volume, self.range);
        let sequence = self.sequence;
        self.cells
            .iter()
            .zip(parts)
            .map(move |(cell, bytes)| (cell.slot, Descriptor { sequence, bytes }))
    }

    /// The index of a block in the run.
    ///
    /// # Panics
    /// When the block is not in it.
    pub(super) fn place_of(&self, slot: u32) -> u32 {
        let place = self.cells.binary_search_by_key(&slot, |cell| cell.slot);
        place.expect("the block is in the run") as u32
    }

    /// Returns the descriptor of one of its blocks, which becomes unsettled.
    pub(super) fn take_up(&self, slot: u32) -> Descriptor {
        let place = self.place_of(slot) as usize;
        let (_, descriptor) = self.descriptors().nth(place).expect("every block has a descriptor");
        self.cells[place].left.set(descriptor.bytes.len);
        descriptor
    }

    /// Settles bytes of it. Returns the blocks without unsettled bytes left.
    pub(super) fn settle(&self, range: ByteRange) -> SmallVec<[u64; 16]> {
        let first = self.range.start.0 / CELL.0;
        let mut done = SmallVec::new();
        for CellRange { cell, len, .. } in CellRange::parts(self.volume, range) {
            let left = &self.cells[(cell - first) as usize].left;
            left.set(left.get().checked_sub(len).expect("each byte is settled once"));
            if left.get() == 0 {
                done.push(cell);
            }
        }
        done
    }

    /// A part of its content, in slices.
    pub(super) fn slices(&self, range: ByteRange) -> SmallVec<[Slice; 2]> {
        let pieces = self.pieces.borrow();
        // A model has no bytes: one length replaces the lengths of all pieces.
        if pieces.iter().any(|piece| piece.bytes.is_hollow()) {
            return SmallVec::from_iter([Slice::hollow(range.len)]);
        }
        let parts = pieces.iter().filter_map(|piece| {
            let at = self.start_of(piece.first);
            let (start, end) = (range.start.max(at), range.end().min(at + piece.bytes.len()));
            (start < end).then(|| piece.bytes.cut(start - at, end - start))
        });
        let slices: SmallVec<[Slice; 2]> = parts.collect();
        let len = slices.iter().map(|slice| slice.len().0).sum();
        assert_eq!(ByteCount(len), range.len, "unsettled bytes are in memory: {range:?}");
        slices
    }

    /// Returns the memory of cleared blocks without a view, with their numbers. The result: blocks
    /// that still have views.
    pub(super) fn release(&self, mut gone: Places, mut free: impl FnMut(u32, Buf)) -> Places {
        gone.sort_unstable();
        let mut viewed = Places::new();
        let pieces = self.pieces.take();
        let mut left = SmallVec::new();
        for piece in pieces {
            let places = piece.places();
            let is_mine = |place: &&u32| places.contains(place);
            if !gone.iter().any(|place| is_mine(&place)) {
                left.push(piece);
                continue;
            }
            match unviewed(piece.bytes) {
                Ok(memory) => self.take_apart(piece.first, memory, &gone, &mut free, &mut left),
                Err(bytes) => {
                    viewed.extend(gone.iter().filter(is_mine).copied());
                    left.push(Piece { first: piece.first, bytes });
                }
            }
        }
        *self.pieces.borrow_mut() = left;
        viewed
    }

    /// Releases the cleared blocks of a piece; the blocks between them become separate pieces.
    fn take_apart(
        &self,
        first: u32,
        memory: Buf,
        gone: &[u32],
        free: &mut impl FnMut(u32, Buf),
        left: &mut SmallVec<[Piece; 1]>,
    ) {
        let is_gone = |place: u32| gone.binary_search(&place).is_ok();
        let end = first + (memory.len().0 / CELL.0) as u32;
        let (mut place, mut memory) = (first, memory.together());
        while place < end {
            let until = match is_gone(place) {
                true => place + 1,
                false => (place..end).find(|other| is_gone(*other)).unwrap_or(end),
            };
            let rest = memory.split_off(CELL * u64::from(until - place));
            match is_gone(place) {
                true => free(self.cells[place as usize].slot, memory),
                false => left.push(Piece { first: place, bytes: memory.apart().freeze() }),
            }
            (place, memory) = (until, rest);
        }
    }
}

/// Bytes without other views, for reuse.
fn unviewed(bytes: Slice) -> Result<Buf, Slice> {
    // A model has no bytes to check.
    match bytes.is_hollow() {
        true => Ok(Buf::hollow(bytes.len())),
        false => bytes.try_unfreeze(),
    }
}

const _: () = assert!(CELL.0 <= u16::MAX as u64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Five blocks of a volume, from the middle of the first one on; those with indices in `apart`
    /// are not contiguous in memory with their predecessors.
    fn run(slots: [u32; 5], apart: &[usize]) -> CellRun {
        let data: Vec<u8> = (0..16_384_u32 + 2048).map(|at| (at / 512) as u8).collect();
        let data = Buf::copy_of(&data).freeze();
        let run = CellRun::new(7, 9, ByteRange::new(ByteOffset(4096 + 2048), data.len()), &slots);
        let mut rest = Buf::unpooled(ByteCount(5 * 4096)).apart();
        let cells = (0..5).map(|place| {
            let behind = rest.split_off(CELL);
            let cell = std::mem::replace(&mut rest, behind);
            if apart.contains(&place) { cell.apart() } else { cell }
        });
        run.fill(cells, &data);
        run
    }

    fn bytes(run: &CellRun, start: u64, len: u64) -> Vec<u8> {
        let slices = run.slices(ByteRange::new(ByteOffset(start), ByteCount(len)));
        slices.iter().flat_map(|slice| slice.solid().expect("bytes").to_vec()).collect()
    }

    #[test]
    fn a_write_is_as_few_slices_as_its_cells_lie_in() {
        for (apart, pieces) in [(&[][..], 1), (&[2], 3), (&[0, 1, 2, 3, 4], 5)] {
            let run = run([3, 4, 5, 6, 7], apart);
            assert_eq!(run.slices(run.range).len(), pieces, "{apart:?}");
            let all = bytes(&run, 6144, 18_432);
            assert!(
                all.iter().enumerate().all(|(at, byte)| *byte == (at / 512) as u8),
                "{apart:?}"
            );
            assert_eq!(bytes(&run, 8192 + 512, 4096)[..], all[2560..2560 + 4096]);
        }
    }

    #[test]
    fn its_descriptors_say_where_its_bytes_are() {
        let run = run([4, 5, 6, 9, 70], &[]);
        let said: Vec<_> =
            run.descriptors().map(|(slot, told)| (slot, told.bytes.cell, told.bytes.len)).collect();
        assert_eq!(said, [(4, 1, 2048), (5, 2, 4096), (6, 3, 4096), (9, 4, 4096), (70, 5, 4096)]);
        for (place, (slot, descriptor)) in (0..).zip(run.descriptors()) {
            assert_eq!(run.place_of(slot), place);
            assert_eq!((descriptor.sequence, descriptor.bytes.volume), (9, 7));
        }
        assert_eq!(run.settle(ByteRange::new(ByteOffset(6144), ByteCount(3072)))[..], [1]);
        assert_eq!(run.take_up(4).bytes.len, 2048, "every byte is unsettled");
        assert_eq!(run.settle(ByteRange::new(ByteOffset(9216), ByteCount(3072)))[..], [2]);
        assert_eq!(run.settle(ByteRange::new(ByteOffset(6144), ByteCount(2048)))[..], [1]);
    }

    /// Contiguous blocks are cleared while others have a view: they become free when the view ends,
    /// and the blocks between them keep their content.
    #[test]
    fn cells_go_one_by_one_when_nobody_views_what_lies_beside_them() {
        let run = run([3, 4, 5, 6, 7], &[]);
        let all = bytes(&run, 6144, 18_432);
        let viewed = run.slices(ByteRange::new(ByteOffset(20_480), ByteCount(512)));
        let mut free: Vec<(u32, Buf)> = Vec::new();
        let gone = run.release(Places::from_iter([3, 1]), |slot, memory| free.push((slot, memory)));
        assert_eq!((&gone[..], free.len()), (&[1, 3][..], 0), "the last one has a view");
        drop(viewed);
        assert!(run.release(gone, |slot, memory| free.push((slot, memory))).is_empty());
        assert_eq!(free.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [4, 6]);
        for (_, memory) in &mut free {
            assert_eq!(memory.len(), CELL);
            memory.bytes_mut().fill(0xFF);
        }
        for (start, len) in [(6144, 2048), (12_288, 4096), (20_480, 4096)] {
            let from = (start - 6144) as usize;
            assert_eq!(bytes(&run, start, len)[..], all[from..from + len as usize], "{start}");
        }
        assert!(
            run.release(Places::from_iter([0, 4, 2]), |slot, memory| free.push((slot, memory)))
                .is_empty()
        );
        free.sort_unstable_by_key(|(slot, _)| *slot);
        let whole = free
            .into_iter()
            .map(|(_, memory)| memory)
            .reduce(|whole, next| whole.join(next).expect("beside it"));
        assert_eq!(whole.map(|whole| whole.len()), Some(CELL * 5), "the whole memory is back");
    }
}
