//! What a shard has of the cache's memory: cells, and what is in them.
//!
//! # Fault model and invariants
//! That of [`write_log::Cells`]: the process ends between any two stores, and what was stored stays. A write is in its cells before anybody
//! is told that it is anywhere. A cell is free when nothing is in it, *and* nobody looks at it any more, nor at what a write has beside it: a
//! drive that does not return what it was given keeps these cells for as long.
//!
//! A write that was destaged stays in its cells until its drives [have been flushed](CellRoom::begin_flush): the data log may
//! have promised it, and is not replayed while this memory is there. A drive that loses its volatile cache lacks it.
//!
//! Volumes share the memory by [parts](Parts): one whose drives do not answer gives nothing back, and others go on with theirs.
//!
//! Nothing is forgotten by being dropped: a cell is cleared where somebody says that it is [settled](Stored::settle), and
//! nowhere else. A volume that goes away, or a process that ends, leaves what it has.

use crate::memory::{CellShare, FoundCell};
use crate::shard::cell_run::{CellRun, Places};
use crate::shard::contents::Contents;
use platform::sync::Signal;
use platform::{Buf, Env, Parts, Slice, Words};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::memory::descriptor_at;
use write_log::{CELL, CellRange, Cells, Descriptor};

/// Drives are flushed for room when as large a part of the memory has been destaged since: seldom enough that they are not kept
/// from anything else, and often enough that hosts do not wait for room.
const DESTAGED_SHARE: usize = 8;

/// The cache's memory on a shard. Whoever waits for it waits for destages, which need none of it.
pub(crate) struct CellRoom {
    env: Env,
    words: RefCell<Option<Words>>,
    cells: RefCell<Cells>,
    /// The cells by their numbers.
    contents: RefCell<Contents<Content>>,
    /// What was destaged of each volume, and not flushed.
    destaged: RefCell<BTreeMap<u32, Destaged>>,
    /// How many flushes have begun that may clear something.
    flushes: Cell<u64>,
    /// How many of them did not.
    failed_flushes: Cell<u64>,
    /// Cells that were cleared, and that somebody may look at still.
    viewed: RefCell<Vec<Viewed>>,
    /// How many cells each volume has: with a write in them, set aside for one, or cleared and still looked at.
    parts: RefCell<Parts>,
    /// How many of a volume's cells are not simply dirty.
    kinds: RefCell<BTreeMap<u32, Kinds>>,
    sequence: Cell<u64>,
    /// There may be more.
    pub(crate) changed: Signal,
}

/// What a cell is.
enum Content {
    /// Free: the way to its bytes.
    Free(Buf),
    /// Bytes of that write.
    Kept(Rc<CellRun>),
    /// Cleared.
    Viewed,
}

/// Cells of a volume that are not simply dirty.
#[derive(Clone, Copy, Default)]
struct Kinds {
    /// Set aside for writes.
    reserved: usize,
    /// Cleared, and looked at.
    viewed: usize,
    /// Destaged, and not flushed: a cell of which several parts were counts for each.
    destaged: usize,
}

/// Cells of a write that were cleared.
struct Viewed {
    run: Rc<CellRun>,
    cells: Places,
}

/// Writes of a volume that were destaged, and are kept until its drives have been flushed.
#[derive(Default)]
struct Destaged {
    parts: Vec<(Rc<CellRun>, ByteRange)>,
    /// Flushes that have begun and have not cleared what they took of it, by their numbers.
    open: Vec<u64>,
    /// The last flush that did not clear what it took, as counted in `CellRoom::failed_flushes`.
    last_failed: u64,
}

/// A flush of a volume's drives that is about to begin, and what was destaged before it. Where it does not succeed, that stays.
pub(crate) struct FlushBegun {
    of: Rc<CellRoom>,
    volume: u32,
    number: u64,
    parts: Vec<(Rc<CellRun>, ByteRange)>,
}

/// The flushes that have begun until some time.
#[derive(Clone, Copy)]
pub(crate) struct BegunUntil {
    latest: u64,
    failed: u64,
}

/// Cells that are set aside for a write.
pub(crate) struct Room {
    of: Rc<CellRoom>,
    volume: u32,
    cells: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.parts.borrow_mut().give(self.volume, self.cells as u64);
        self.of.count(self.volume, |kinds| kinds.reserved -= self.cells);
    }
}

/// A write that is in cells, or a part of one. Clones are the same bytes, which are there until they are [settled](Stored::settle).
#[derive(Clone)]
pub(crate) struct Stored {
    of: Rc<CellRoom>,
    run: Rc<CellRun>,
    /// Which bytes of its volume.
    range: ByteRange,
}

impl CellRoom {
    /// No memory.
    pub(crate) fn new(env: &Env) -> Rc<CellRoom> {
        Rc::new(CellRoom {
            words: RefCell::default(),
            cells: RefCell::default(),
            contents: RefCell::default(),
            destaged: RefCell::default(),
            flushes: Cell::new(0),
            failed_flushes: Cell::new(0),
            viewed: RefCell::default(),
            parts: RefCell::default(),
            kinds: RefCell::default(),
            sequence: Cell::new(0),
            changed: Signal::default(),
            env: env.clone(),
        })
    }

    /// Takes over cells in which nothing is.
    pub(crate) fn take_over(&self, share: CellShare) {
        let CellShare { words, free, sequence } = share;
        self.sequence.set(self.sequence.get().max(sequence));
        self.parts.borrow_mut().grow(free.len() as u64);
        let mut cells = self.cells.borrow_mut();
        for (slot, _) in &free {
            assert_eq!(words.load(descriptor_at(*slot)), 0, "nothing is in cell {slot}");
            cells.give(*slot);
        }
        drop(cells);
        let mut contents = self.contents.borrow_mut();
        // Each part is a block of this shard's, whose views no other shard counts; those of cells that an earlier process left are counted by all.
        for (first, whole) in side_by_side(free) {
            for (slot, cell) in (first..).zip(cells_of(whole.apart())) {
                contents.insert(slot, Content::Free(cell));
            }
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
                let run = CellRun::found(*slot, *descriptor, bytes.clone());
                contents.insert(*slot, Content::Kept(Rc::new(run)));
                let mut parts = self.parts.borrow_mut();
                parts.grow(1);
                parts.take(descriptor.bytes.volume, 1);
                drop(parts);
                self.sequence.set(self.sequence.get().max(descriptor.sequence));
                adopted.push((*slot, *descriptor));
            }
        }
        self.cells.borrow_mut().found(adopted);
    }

    /// Everything that is in cells of a volume, oldest first: what laid over its drives gives what its hosts were promised. Whatever
    /// was stored before is to be settled by these, and not by those that [`CellRoom::store`] gave.
    pub(crate) fn all_of(self: &Rc<Self>, volume: u32) -> Vec<Stored> {
        // What was destaged before is dirty again: nobody flushes for that any more.
        let before = self.destaged.borrow_mut().remove(&volume).unwrap_or_default();
        self.count_destaged_out(volume, &before.parts);
        let contents = self.contents.borrow();
        let kept = contents.iter().filter_map(|(slot, content)| match content {
            Content::Kept(run) if run.volume == volume => Some((slot, run.take_up(slot), run.clone())),
            Content::Free(_) | Content::Kept(_) | Content::Viewed => None,
        });
        let mut mine: Vec<(u32, Descriptor, Rc<CellRun>)> = kept.collect();
        mine.sort_unstable_by_key(|(slot, descriptor, _)| (descriptor.sequence, descriptor.bytes, *slot));
        let mut cells = self.cells.borrow_mut();
        cells.forget(volume);
        cells.found(mine.iter().map(|(slot, descriptor, _)| (*slot, *descriptor)));
        let stored = |(_, descriptor, run): (u32, Descriptor, Rc<CellRun>)| {
            let range = descriptor.bytes.range();
            Stored { of: self.clone(), run, range }
        };
        mine.into_iter().map(stored).collect()
    }

    /// How many cells a write needs.
    pub(crate) fn cells_for(range: ByteRange) -> usize {
        match range.is_empty() {
            true => 0,
            false => ((range.end().0 - 1) / CELL.0 - range.start.0 / CELL.0 + 1) as usize,
        }
    }

    /// From now on a part of the memory is a volume's own.
    pub(crate) fn join(&self, volume: u32) {
        self.parts.borrow_mut().join(volume);
    }

    /// No part is kept for a volume any more.
    pub(crate) fn part_from(&self, volume: u32) {
        self.parts.borrow_mut().leave(volume);
        self.changed.notify(&self.env);
    }

    /// Sets cells aside for a write of a volume, if it may have so many.
    pub(crate) fn try_reserve(self: &Rc<Self>, volume: u32, cells: usize) -> Option<Room> {
        self.reclaim();
        let mut parts = self.parts.borrow_mut();
        parts.may_take(volume, cells as u64).then(|| {
            parts.take(volume, cells as u64);
            drop(parts);
            self.count(volume, |kinds| kinds.reserved += cells);
            Room { of: self.clone(), volume, cells }
        })
    }

    fn count(&self, volume: u32, change: impl FnOnce(&mut Kinds)) {
        change(self.kinds.borrow_mut().entry(volume).or_default());
    }

    /// Stores a write of whole sectors of a volume in cells. From then on it outlives the process.
    ///
    /// # Panics
    /// When less was set aside for it.
    pub(crate) fn store(self: &Rc<Self>, volume: u32, start: ByteOffset, data: &Slice, room: Room) -> Stored {
        let range = ByteRange::new(start, data.len());
        assert!(room.cells >= CellRoom::cells_for(range), "cells are set aside for {range:?}");
        drop(room);
        self.sequence.set(self.sequence.get() + 1);
        let sequence = self.sequence.get();
        let mut cells = self.cells.borrow_mut();
        let mut take = |bytes| cells.take(&Descriptor { sequence, bytes }).expect("a cell was set aside");
        let slots: SmallVec<[u32; 16]> = CellRange::parts(volume, range).map(&mut take).collect();
        drop(cells);
        self.parts.borrow_mut().take(volume, slots.len() as u64);
        let run = Rc::new(CellRun::new(volume, sequence, range, &slots));
        let mut contents = self.contents.borrow_mut();
        let memory = slots.iter().map(|slot| {
            let content = contents.get_mut(*slot).expect("a cell is known");
            match std::mem::replace(content, Content::Kept(run.clone())) {
                Content::Free(cell) => cell,
                Content::Kept(_) | Content::Viewed => panic!("cell {slot} is free"),
            }
        });
        run.fill(memory, data);
        drop(contents);
        let words = self.words.borrow();
        let words = words.as_ref().expect("cells come with their words");
        for (slot, descriptor) in run.descriptors() {
            for (word, value) in descriptor.stores(slot) {
                words.store(word, value);
            }
        }
        Stored { of: self.clone(), run, range }
    }

    /// Lets go of the memory, in which no volume has anything. What drives still view of it goes when they return it.
    ///
    /// # Errors
    /// When something is in some cell.
    pub(crate) fn leave(&self) -> Result<(), String> {
        self.reclaim();
        let mut contents = self.contents.borrow_mut();
        let is_reserved = self.kinds.borrow().values().any(|kinds| kinds.reserved > 0);
        if is_reserved || contents.iter().any(|(_, content)| matches!(content, Content::Kept(_))) {
            return Err("something is in the cache's memory".to_owned());
        }
        *contents = Contents::default();
        self.words.take();
        self.cells.take();
        self.destaged.take();
        self.viewed.take();
        self.parts.take();
        // What a flush has taken of what was destaged it counts out itself.
        self.kinds.borrow_mut().values_mut().for_each(|kinds| kinds.viewed = 0);
        Ok(())
    }

    /// Forgets what is in cells of a volume, and would be laid over its drives. Nobody may have it in a line.
    pub(crate) fn discard(self: &Rc<Self>, volume: u32) {
        for stored in self.all_of(volume) {
            stored.settle();
        }
        self.changed.notify(&self.env);
    }

    /// Whether something of a volume was destaged that its drives have not been flushed for.
    pub(crate) fn has_destaged(&self, volume: u32) -> bool {
        self.destaged.borrow().get(&volume).is_some_and(|destaged| !destaged.parts.is_empty())
    }

    /// Whether a flush of its drives has begun that may clear some of it.
    pub(crate) fn is_flushing(&self, volume: u32) -> bool {
        self.destaged.borrow().get(&volume).is_some_and(|destaged| !destaged.open.is_empty())
    }

    /// The flushes that have begun by now.
    pub(crate) fn begun_by_now(&self) -> BegunUntil {
        BegunUntil { latest: self.flushes.get(), failed: self.failed_flushes.get() }
    }

    /// Whether one of these flushes of a volume's drives has not cleared yet what it took.
    pub(crate) fn is_any_open(&self, volume: u32, until: BegunUntil) -> bool {
        let all = self.destaged.borrow();
        all.get(&volume).is_some_and(|destaged| destaged.open.iter().any(|number| *number <= until.latest))
    }

    /// Whether a flush of a volume's drives has failed since, so that what it took is still there.
    pub(crate) fn has_failed_since(&self, volume: u32, until: BegunUntil) -> bool {
        self.destaged.borrow().get(&volume).is_some_and(|destaged| destaged.last_failed > until.failed)
    }

    /// Whether that is so much that a volume's drives are to be flushed for the room it takes.
    pub(crate) fn is_flush_due(&self, volume: u32) -> bool {
        let destaged = self.kinds.borrow().get(&volume).map_or(0, |kinds| kinds.destaged);
        destaged * DESTAGED_SHARE >= self.within_reach(volume)
    }

    /// Whether something is in cells of a volume's bytes, dirty or destaged.
    pub(crate) fn has_any(&self, volume: u32, range: ByteRange) -> bool {
        self.cells.borrow().has_any(volume, range)
    }

    /// The drives of a volume are about to be flushed. When that has succeeded, [`FlushBegun::flushed`] clears what was destaged
    /// before. `None`: nothing was.
    pub(crate) fn begin_flush(self: &Rc<Self>, volume: u32) -> Option<FlushBegun> {
        let mut all = self.destaged.borrow_mut();
        let destaged = all.get_mut(&volume).filter(|destaged| !destaged.parts.is_empty())?;
        let number = self.flushes.get() + 1;
        self.flushes.set(number);
        destaged.open.push(number);
        let parts = std::mem::take(&mut destaged.parts);
        Some(FlushBegun { of: self.clone(), volume, number, parts })
    }

    fn count_destaged_out(&self, volume: u32, parts: &[(Rc<CellRun>, ByteRange)]) {
        let cells: usize = parts.iter().map(|(_, range)| CellRoom::cells_for(*range)).sum();
        self.count(volume, |kinds| kinds.destaged -= cells);
    }

    /// Cells of the volume of which a write has nothing any more that is to be kept.
    fn done(&self, run: &CellRun, done: &[u64]) {
        let words = self.words.borrow();
        let words = words.as_ref().expect("cells come with their words");
        for cell in done {
            let cleared = self.cells.borrow_mut().done(run.volume, *cell, run.sequence);
            for slot in cleared {
                words.store(descriptor_at(slot), 0);
                self.note_viewed(slot);
            }
        }
    }

    /// A cell was cleared.
    fn note_viewed(&self, slot: u32) {
        let was = self.contents.borrow_mut().insert(slot, Content::Viewed);
        let Some(Content::Kept(run)) = was else { panic!("something was in cell {slot}") };
        let place = run.place_of(slot);
        self.count(run.volume, |kinds| kinds.viewed += 1);
        let mut viewed = self.viewed.borrow_mut();
        match viewed.last_mut() {
            Some(last) if Rc::ptr_eq(&last.run, &run) => last.cells.push(place),
            _ => viewed.push(Viewed { run, cells: Places::from_iter([place]) }),
        }
    }

    /// Makes cells free that nobody looks at any more.
    fn reclaim(&self) {
        let (mut contents, mut cells) = (self.contents.borrow_mut(), self.cells.borrow_mut());
        self.viewed.borrow_mut().retain_mut(|viewed| {
            let volume = viewed.run.volume;
            let mut free = |slot, memory| {
                contents.insert(slot, Content::Free(memory));
                cells.cleared(&[slot]);
                self.parts.borrow_mut().give(volume, 1);
                self.count(volume, |kinds| kinds.viewed -= 1);
            };
            viewed.cells = viewed.run.release(std::mem::take(&mut viewed.cells), &mut free);
            !viewed.cells.is_empty()
        });
    }

    /// How many cells there are.
    pub(crate) fn total(&self) -> usize {
        self.parts.borrow().total() as usize
    }

    /// How many of them a volume may have.
    fn within_reach(&self, volume: u32) -> usize {
        (self.parts.borrow().within_reach(volume) as usize).max(1)
    }

    /// How many of the cells that a volume may have are dirty, or set aside, in percent.
    pub(crate) fn fill(&self, volume: u32) -> usize {
        let held = self.parts.borrow().held(volume) as usize;
        let kinds = self.kinds.borrow().get(&volume).copied().unwrap_or_default();
        let Kinds { reserved, viewed, destaged } = kinds;
        let dirty = (held - reserved - viewed).saturating_sub(destaged);
        (dirty + reserved) * 100 / self.within_reach(volume)
    }
}

impl Stored {
    /// Which bytes of its volume it is.
    pub(crate) fn range(&self) -> ByteRange {
        self.range
    }

    /// A part of it, of `len` bytes from `at` on.
    pub(crate) fn cut(&self, at: ByteCount, len: ByteCount) -> Stored {
        let range = ByteRange::new(self.range.start + at, len);
        assert!(self.range.contains(range), "{range:?} is not of {:?}", self.range);
        Stored { range, ..self.clone() }
    }

    /// Its bytes, one slice after the other.
    pub(crate) fn slices(&self) -> SmallVec<[Slice; 2]> {
        self.run.slices(self.range)
    }

    /// It need not be kept: it lies under newer data that is in cells, or is given up. This or [`Stored::keep_until_flushed`] is
    /// called once for each byte.
    pub(crate) fn settle(&self) {
        self.of.done(&self.run, &self.run.settle(self.range));
    }

    /// It was destaged: it need not be kept when the drives have been flushed.
    pub(crate) fn keep_until_flushed(&self) {
        self.of.count(self.run.volume, |kinds| kinds.destaged += CellRoom::cells_for(self.range));
        let mut destaged = self.of.destaged.borrow_mut();
        destaged.entry(self.run.volume).or_default().parts.push((self.run.clone(), self.range));
    }
}

impl FlushBegun {
    /// The flush has succeeded: what was destaged before it is cleared.
    pub(crate) fn flushed(mut self) {
        let parts = std::mem::take(&mut self.parts);
        self.of.count_destaged_out(self.volume, &parts);
        if !self.close() {
            return;
        }
        for (run, range) in parts {
            self.of.done(&run, &run.settle(range));
        }
    }

    /// It is over. False: the volume has been [taken up](CellRoom::all_of) anew since.
    fn close(&self) -> bool {
        let mut all = self.of.destaged.borrow_mut();
        let open = all.get_mut(&self.volume).map(|now| &mut now.open);
        let place = |open: &mut Vec<u64>| open.iter().position(|number| *number == self.number);
        open.and_then(|open| place(open).map(|place| open.remove(place))).is_some()
    }
}

impl Drop for FlushBegun {
    fn drop(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        if parts.is_empty() {
            return;
        }
        let failed = self.of.failed_flushes.get() + 1;
        self.of.failed_flushes.set(failed);
        if !self.close() {
            return self.of.count_destaged_out(self.volume, &parts);
        }
        if let Some(now) = self.of.destaged.borrow_mut().get_mut(&self.volume) {
            now.parts.append(&mut parts);
            now.last_failed = failed;
        }
    }
}

/// Cells that lie side by side, in memory as by their numbers, as one.
fn side_by_side(cells: impl IntoIterator<Item = (u32, Buf)>) -> Vec<(u32, Buf)> {
    let mut runs: Vec<(u32, Buf)> = Vec::new();
    for (slot, cell) in cells {
        let cell = cell.together();
        match runs.pop() {
            Some((first, run)) if u64::from(first) + run.len().0 / CELL.0 == u64::from(slot) => {
                match run.join(cell) {
                    Ok(run) => runs.push((first, run)),
                    Err((run, cell)) => runs.extend([(first, run), (slot, cell)]),
                }
            }
            before => runs.extend(before.into_iter().chain([(slot, cell)])),
        }
    }
    runs
}

/// Each of these cells, as parts of the same block.
fn cells_of(cells: Buf) -> impl Iterator<Item = Buf> {
    let mut rest = Some(cells).filter(|cells| !cells.is_empty());
    std::iter::from_fn(move || {
        let mut cell = rest.take()?;
        rest = Some(cell.split_off(CELL)).filter(|rest| !rest.is_empty());
        Some(cell)
    })
}
