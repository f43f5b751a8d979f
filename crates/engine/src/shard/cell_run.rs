//! A write in cells of the cache's memory: which cells they are, how much of each is not settled, and its bytes.
//!
//! Cells are taken and cleared one by one, and what lies side by side of them in memory is one *piece*: it is copied into at once, and
//! goes to a drive as one slice, with one count of its views.
//!
//! # Invariants
//! - A piece is of whole cells that follow one another, in the volume as in memory.
//! - The room and its views aside, nobody has a piece. So it is taken apart where some of its cells go and others stay, as
//!   soon as nobody views any of it.

use platform::{Buf, Slice};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::{CELL, CellRange, Descriptor};

/// Cells of a run, by their places in it.
pub(super) type Places = SmallVec<[u32; 2]>;

/// A write in cells, or what an earlier process left in one.
pub(super) struct CellRun {
    pub(super) volume: u32,
    pub(super) sequence: u64,
    /// Which bytes of the volume.
    range: ByteRange,
    /// By their numbers: the lowest that are free are taken.
    cells: SmallVec<[RunCell; 2]>,
    pieces: RefCell<SmallVec<[Piece; 1]>>,
}

struct RunCell {
    slot: u32,
    /// How many bytes of it are not settled.
    left: Cell<u16>,
}

struct Piece {
    /// The place of its first cell.
    first: u32,
    bytes: Slice,
}

impl Piece {
    fn places(&self) -> std::ops::Range<u32> {
        self.first..self.first + (self.bytes.len().0 / CELL.0) as u32
    }
}

impl CellRun {
    /// A write in cells that have these numbers, which ascend.
    pub(super) fn new(volume: u32, sequence: u64, range: ByteRange, slots: &[u32]) -> CellRun {
        let lens = CellRange::parts(volume, range).map(|part| part.len);
        let cells = slots.iter().zip(lens).map(|(slot, len)| RunCell { slot: *slot, left: Cell::new(len) });
        CellRun { volume, sequence, range, cells: cells.collect(), pieces: RefCell::default() }
    }

    /// What was found in one, with all its bytes.
    pub(super) fn found(slot: u32, descriptor: Descriptor, bytes: Slice) -> CellRun {
        let Descriptor { sequence, bytes: part } = descriptor;
        let run = CellRun::new(part.volume, sequence, part.range(), &[slot]);
        run.pieces.borrow_mut().push(Piece { first: 0, bytes });
        run
    }

    /// Has the memory of its cells, one after the other, and puts the bytes there.
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
            let part = ByteRange::from_to(at.max(self.range.start), (at + piece.len()).min(self.range.end()));
            let within = (part.start - at).as_usize();
            let target = &mut piece.bytes_mut()[within..within + part.len.as_usize()];
            data.cut(part.start - self.range.start, part.len).copy_to(target);
        }
    }

    /// Where the cell of a place begins in the volume.
    fn start_of(&self, place: u32) -> ByteOffset {
        ByteOffset((self.range.start.0 / CELL.0 + u64::from(place)) * CELL.0)
    }

    /// The cells that it has been given, and what their descriptors say.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (u32, Descriptor)> {
        let parts = CellRange::parts(self.volume, self.range);
        let sequence = self.sequence;
        self.cells.iter().zip(parts).map(move |(cell, bytes)| (cell.slot, Descriptor { sequence, bytes }))
    }

    /// The place of a cell among them.
    ///
    /// # Panics
    /// When it is none of them.
    pub(super) fn place_of(&self, slot: u32) -> u32 {
        let place = self.cells.binary_search_by_key(&slot, |cell| cell.slot);
        place.expect("a cell is of its run") as u32
    }

    /// What is in a cell of it. None of that is settled from now on.
    pub(super) fn take_up(&self, slot: u32) -> Descriptor {
        let place = self.place_of(slot) as usize;
        let (_, descriptor) = self.descriptors().nth(place).expect("a cell has a descriptor");
        self.cells[place].left.set(descriptor.bytes.len);
        descriptor
    }

    /// Bytes of it are settled. The cells of the volume of which that were the last ones.
    pub(super) fn settle(&self, range: ByteRange) -> SmallVec<[u64; 16]> {
        let first = self.range.start.0 / CELL.0;
        let mut done = SmallVec::new();
        for CellRange { cell, len, .. } in CellRange::parts(self.volume, range) {
            let left = &self.cells[(cell - first) as usize].left;
            left.set(left.get().checked_sub(len).expect("a byte is settled once"));
            if left.get() == 0 {
                done.push(cell);
            }
        }
        done
    }

    /// Some of its bytes, one slice after the other.
    pub(super) fn slices(&self, range: ByteRange) -> SmallVec<[Slice; 2]> {
        let pieces = self.pieces.borrow();
        // Of a model there are no bytes, and one length says as much as one for each piece.
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
        assert_eq!(ByteCount(len), range.len, "what is not settled is there: {range:?}");
        slices
    }

    /// Gives back the memory of cells that were cleared, each with its number, if nobody views it. Those that somebody views.
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

    /// Gives back those cells of a piece that are gone, and leaves what is between them as pieces of their own.
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

/// Bytes that nobody else views, to be written again.
fn unviewed(bytes: Slice) -> Result<Buf, Slice> {
    // Of a model there is nothing to look at.
    match bytes.is_hollow() {
        true => Ok(Buf::hollow(bytes.len())),
        false => bytes.try_unfreeze(),
    }
}

const _: () = assert!(CELL.0 <= u16::MAX as u64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Five cells of a volume, from the middle of the first one on, in memory where those with odd places do not follow those before them.
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
            assert!(all.iter().enumerate().all(|(at, byte)| *byte == (at / 512) as u8), "{apart:?}");
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
        assert_eq!(run.take_up(4).bytes.len, 2048, "none of it is settled");
        assert_eq!(run.settle(ByteRange::new(ByteOffset(9216), ByteCount(3072)))[..], [2]);
        assert_eq!(run.settle(ByteRange::new(ByteOffset(6144), ByteCount(2048)))[..], [1]);
    }

    /// Some cells of what lies side by side are cleared while somebody views others of it: they are free when nobody does, and what is
    /// between them stays what it is.
    #[test]
    fn cells_go_one_by_one_when_nobody_views_what_lies_beside_them() {
        let run = run([3, 4, 5, 6, 7], &[]);
        let all = bytes(&run, 6144, 18_432);
        let viewed = run.slices(ByteRange::new(ByteOffset(20_480), ByteCount(512)));
        let mut free: Vec<(u32, Buf)> = Vec::new();
        let gone = run.release(Places::from_iter([3, 1]), |slot, memory| free.push((slot, memory)));
        assert_eq!((&gone[..], free.len()), (&[1, 3][..], 0), "somebody views the last one");
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
            run.release(Places::from_iter([0, 4, 2]), |slot, memory| free.push((slot, memory))).is_empty()
        );
        free.sort_unstable_by_key(|(slot, _)| *slot);
        let whole = free
            .into_iter()
            .map(|(_, memory)| memory)
            .reduce(|whole, next| whole.join(next).expect("beside it"));
        assert_eq!(whole.map(|whole| whole.len()), Some(CELL * 5), "all of it is as it was");
    }
}
