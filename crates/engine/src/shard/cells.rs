//! What a shard has of the cache's memory: cells, and what is in them.
//!
//! # Fault model and invariants
//! That of [`log::Cells`]: the process ends between any two stores, and what was stored stays. A write is in its cells before anybody
//! is told that it is anywhere. A cell is free when nothing is in it, *and* nobody looks at it any more: a drive that does not
//! return what it was given keeps a cell for as long.
//!
//! Nothing is forgotten by being dropped: a cell is cleared where somebody says that it is [settled](Stored::settle), and
//! nowhere else. A volume that goes away, or a process that ends, leaves what it has.

use crate::memory::{CellShare, FoundCell};
use crate::shard::contents::Contents;
use env::sync::{Credits, Signal};
use env::{Buf, Env, Slice, Words};
use log::memory::descriptor_at;
use log::{CELL, CellRange, Cells, Descriptor};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// The cache's memory on a shard. Whoever waits for it waits for destages, which need none of it.
pub(crate) struct CellRoom {
    env: Env,
    words: RefCell<Option<Words>>,
    cells: RefCell<Cells>,
    /// The cells by their numbers.
    contents: RefCell<Contents<Content>>,
    /// Cells that were cleared, and that somebody may look at still.
    viewed: RefCell<Vec<(u32, Slice)>>,
    reserved: Cell<usize>,
    total: Cell<usize>,
    sequence: Cell<u64>,
    /// To be the next who gets some: large writes are not starved by small ones.
    pub(crate) turn: Credits,
    /// There may be more.
    pub(crate) changed: Signal,
}

/// What a cell is.
enum Content {
    /// Free: the way to its bytes.
    Free(Buf),
    /// Bytes of a volume, and which.
    Kept(Descriptor, Slice),
    /// Cleared.
    Viewed,
}

/// Cells that are set aside for a write.
pub(crate) struct Room {
    of: Rc<CellRoom>,
    cells: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.reserved.set(self.of.reserved.get() - self.cells);
    }
}

/// A part of a write that is in a cell.
pub(crate) struct Stored {
    /// Its bytes.
    pub(crate) slice: Slice,
    of: Rc<CellRoom>,
    descriptor: Descriptor,
    /// How much of it is not settled.
    left: Cell<u16>,
}

impl CellRoom {
    /// No memory.
    pub(crate) fn new(env: &Env) -> Rc<CellRoom> {
        Rc::new(CellRoom {
            words: RefCell::default(),
            cells: RefCell::default(),
            contents: RefCell::default(),
            viewed: RefCell::default(),
            reserved: Cell::new(0),
            total: Cell::new(0),
            sequence: Cell::new(0),
            turn: Credits::new(env, 1),
            changed: Signal::default(),
            env: env.clone(),
        })
    }

    /// Takes over cells in which nothing is.
    pub(crate) fn take_over(&self, share: CellShare) {
        let CellShare { words, free, sequence } = share;
        self.sequence.set(self.sequence.get().max(sequence));
        self.total.set(self.total.get() + free.len());
        let mut cells = self.cells.borrow_mut();
        for (slot, _) in &free {
            assert_eq!(words.load(descriptor_at(*slot)), 0, "nothing is in cell {slot}");
            cells.give(*slot);
        }
        drop(cells);
        let mut contents = self.contents.borrow_mut();
        for (slot, bytes) in free {
            contents.insert(slot, Content::Free(bytes));
        }
        drop(contents);
        *self.words.borrow_mut() = Some(words);
        self.changed.notify(&self.env);
    }

    /// Takes over what an earlier process left of a volume.
    pub(crate) fn adopt<'a>(&self, found: impl Iterator<Item = &'a FoundCell>) {
        let words = self.words.borrow();
        let Some(words) = &*words else { return };
        let mut contents = self.contents.borrow_mut();
        let mut adopted = Vec::new();
        for FoundCell { slot, descriptor, bytes } in found {
            // A volume that is attached once more has let go of some.
            let is_there = Descriptor::load(*slot, |word| words.load(word)) == Some(*descriptor);
            if is_there && contents.get_mut(*slot).is_none() {
                contents.insert(*slot, Content::Kept(*descriptor, bytes.clone()));
                self.total.set(self.total.get() + 1);
                self.sequence.set(self.sequence.get().max(descriptor.sequence));
                adopted.push((*slot, *descriptor));
            }
        }
        self.cells.borrow_mut().found(adopted);
    }

    /// Everything that is in cells of a volume, oldest first: what laid over its drives gives what its hosts were promised. Whatever
    /// was stored before is to be settled by these, and not by those that [`CellRoom::store`] gave.
    pub(crate) fn all_of(self: &Rc<Self>, volume: u32) -> Vec<Stored> {
        let contents = self.contents.borrow();
        let kept = contents.iter().filter_map(|(slot, content)| match content {
            Content::Kept(descriptor, bytes) => Some((slot, *descriptor, bytes.clone())),
            Content::Free(_) | Content::Viewed => None,
        });
        let mut mine: Vec<(u32, Descriptor, Slice)> =
            kept.filter(|(_, descriptor, _)| descriptor.bytes.volume == volume).collect();
        mine.sort_unstable_by_key(|(slot, descriptor, _)| (descriptor.sequence, descriptor.bytes, *slot));
        let mut cells = self.cells.borrow_mut();
        cells.forget(volume);
        cells.found(mine.iter().map(|(slot, descriptor, _)| (*slot, *descriptor)));
        let stored = |(_, descriptor, bytes): (u32, Descriptor, Slice)| self.stored(descriptor, &bytes);
        mine.into_iter().map(stored).collect()
    }

    fn stored(self: &Rc<Self>, descriptor: Descriptor, cell: &Slice) -> Stored {
        let CellRange { start, len, .. } = descriptor.bytes;
        let slice = cell.cut(ByteCount(start.into()), ByteCount(len.into()));
        Stored { slice, of: self.clone(), descriptor, left: Cell::new(len) }
    }

    /// How many cells a write needs.
    pub(crate) fn cells_for(range: ByteRange) -> usize {
        match range.is_empty() {
            true => 0,
            false => ((range.end().0 - 1) / CELL.0 - range.start.0 / CELL.0 + 1) as usize,
        }
    }

    /// Sets cells aside, if there are so many.
    pub(crate) fn try_reserve(self: &Rc<Self>, cells: usize) -> Option<Room> {
        self.reclaim();
        let free = self.cells.borrow().free() - self.reserved.get();
        (free >= cells).then(|| {
            self.reserved.set(self.reserved.get() + cells);
            Room { of: self.clone(), cells }
        })
    }

    /// Stores a write of whole sectors of a volume in cells. From then on it outlives the process.
    ///
    /// # Panics
    /// When less was set aside for it.
    pub(crate) fn store(
        self: &Rc<Self>,
        volume: u32,
        start: ByteOffset,
        data: &Slice,
        room: Room,
    ) -> Rc<[Stored]> {
        let range = ByteRange::new(start, data.len());
        assert!(room.cells >= CellRoom::cells_for(range), "cells are set aside for {range:?}");
        drop(room);
        self.sequence.set(self.sequence.get() + 1);
        let sequence = self.sequence.get();
        let parts = CellRange::parts(volume, range);
        parts.map(|bytes| self.store_part(Descriptor { sequence, bytes }, start, data)).collect()
    }

    fn store_part(self: &Rc<Self>, descriptor: Descriptor, start: ByteOffset, data: &Slice) -> Stored {
        let slot = self.cells.borrow_mut().take(&descriptor).expect("a cell was set aside");
        let mut contents = self.contents.borrow_mut();
        let content = contents.get_mut(slot).expect("a cell is known");
        let Content::Free(mut cell) = std::mem::replace(content, Content::Viewed) else {
            panic!("cell {slot} is free");
        };
        let (bytes, range) = (descriptor.bytes, descriptor.bytes.range());
        if !cell.is_hollow() {
            let (at, len) = (usize::from(bytes.start), usize::from(bytes.len));
            data.cut(range.start - start, range.len).copy_to(&mut cell.bytes_mut()[at..at + len]);
        }
        let cell = cell.freeze();
        let words = self.words.borrow();
        let words = words.as_ref().expect("cells come with their words");
        for (word, value) in descriptor.stores(slot) {
            words.store(word, value);
        }
        let stored = self.stored(descriptor, &cell);
        *content = Content::Kept(descriptor, cell);
        stored
    }

    /// Forgets what is in cells of a volume, and would be laid over its drives. Nobody may have it in a line.
    pub(crate) fn discard(self: &Rc<Self>, volume: u32) {
        for stored in self.all_of(volume) {
            stored.settle(stored.slice.len());
        }
        self.changed.notify(&self.env);
    }

    fn done(&self, descriptor: &Descriptor) {
        let CellRange { volume, cell, .. } = descriptor.bytes;
        let cleared = self.cells.borrow_mut().done(volume, cell, descriptor.sequence);
        let words = self.words.borrow();
        for slot in cleared {
            words.as_ref().expect("cells come with their words").store(descriptor_at(slot), 0);
            let was = self.contents.borrow_mut().insert(slot, Content::Viewed);
            let Some(Content::Kept(_, bytes)) = was else { panic!("something was in cell {slot}") };
            self.viewed.borrow_mut().push((slot, bytes));
        }
    }

    /// Makes cells free that nobody looks at any more.
    fn reclaim(&self) {
        let viewed = self.viewed.take();
        for (slot, bytes) in viewed {
            // Of a model there is nothing to look at.
            let unviewed = match bytes.is_hollow() {
                true => Ok(Buf::hollow(bytes.len())),
                false => bytes.try_unfreeze(),
            };
            match unviewed {
                Ok(cell) => {
                    self.contents.borrow_mut().insert(slot, Content::Free(cell));
                    self.cells.borrow_mut().cleared(&[slot]);
                }
                Err(bytes) => self.viewed.borrow_mut().push((slot, bytes)),
            }
        }
    }

    /// How many cells there are.
    pub(crate) fn total(&self) -> usize {
        self.total.get()
    }

    /// How many of them are taken, or set aside, in percent.
    pub(crate) fn fill(&self) -> usize {
        let taken = self.total() - self.cells.borrow().free() - self.viewed.borrow().len();
        (taken + self.reserved.get()) * 100 / self.total().max(1)
    }
}

impl Stored {
    /// Which bytes of its volume it is.
    pub(crate) fn range(&self) -> ByteRange {
        self.descriptor.bytes.range()
    }

    /// Bytes of it need not be kept: they are on the drives, or lie under newer data that is there, or in cells. Said once of each.
    pub(crate) fn settle(&self, len: ByteCount) {
        let left = u64::from(self.left.get()).checked_sub(len.0).expect("a byte is settled once");
        self.left.set(left as u16);
        if left == 0 {
            self.of.done(&self.descriptor);
        }
    }
}

const _: () = assert!(CELL.0 <= u16::MAX as u64);
