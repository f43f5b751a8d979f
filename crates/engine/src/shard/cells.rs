//! A shard's part of the cache's persistent memory: its blocks and their content.
//!
//! # Fault model and invariants
//! As for [`write_log::Cells`]: the process may end between any two stores, and stored data
//! remains. A write is in its blocks before it is acknowledged. A block is free when it is cleared
//! *and* has no view, nor its contiguous neighbours in the same write: a drive that does not return
//! a buffer keeps these blocks.
//!
//! A destaged write stays in its blocks until its drives [have been
//! flushed](CellRoom::begin_flush). The data log may have acknowledged its flush, and is not
//! replayed while this memory exists; a drive that loses its volatile cache lacks the data.
//!
//! Volumes have [parts](Parts) of the memory: a volume whose drives do not respond returns no
//! blocks, but others keep their parts.
//!
//! Dropping clears nothing: only [settling](Stored::settle) clears a block. A detach or the end of
//! the process leaves all content.

use crate::memory::{CellShare, FoundCell, MoreCells};
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

/// Drives are flushed for free memory when this fraction of the memory has been destaged: seldom
/// enough not to disturb other operations, and often enough that hosts do not wait for memory.
const DESTAGED_SHARE: usize = 8;

/// The cache's memory on a shard. A wait for it is a wait for destages, which need none of it.
pub(crate) struct CellRoom {
    env: Env,
    words: RefCell<Option<Words>>,
    cells: RefCell<Cells>,
    /// The blocks by number.
    contents: RefCell<Contents<Content>>,
    /// The destaged, unflushed writes of each volume.
    destaged: RefCell<BTreeMap<u32, Destaged>>,
    /// The number of flushes begun that may clear blocks.
    flushes: Cell<u64>,
    /// The number of failed ones among them.
    failed_flushes: Cell<u64>,
    /// Cleared blocks that may have views.
    viewed: RefCell<Vec<Viewed>>,
    /// The blocks of each volume: with a write, reserved for one, or cleared with a view.
    parts: RefCell<Parts>,
    /// The blocks of each volume that are not simply dirty.
    kinds: RefCell<BTreeMap<u32, Kinds>>,
    sequence: Cell<u64>,
    /// What the shard may get later.
    more: RefCell<Option<MoreCells>>,
    /// Whether it was requested, and no answer arrived yet.
    is_more_requested: Cell<bool>,
    /// Notified when there may be free blocks.
    pub(crate) changed: Signal,
}

/// The state of a block.
enum Content {
    /// Free: its memory.
    Free(Buf),
    /// It holds bytes of that write.
    Kept(Rc<CellRun>),
    /// Cleared.
    Viewed,
}

/// Counts of a volume's blocks that are not simply dirty.
#[derive(Clone, Copy, Default)]
struct Kinds {
    /// Reserved for writes.
    reserved: usize,
    /// Cleared, with a view.
    viewed: usize,
    /// Destaged, and not flushed: counted once for each part of a block.
    destaged: usize,
}

/// Cleared blocks of a write.
struct Viewed {
    run: Rc<CellRun>,
    cells: Places,
}

/// Destaged writes of a volume, which stay until its drives have been flushed.
#[derive(Default)]
struct Destaged {
    parts: Vec<(Rc<CellRun>, ByteRange)>,
    /// Flushes in progress that have not cleared their writes, by number.
    open: Vec<u64>,
    /// The last flush that failed to clear its writes, as counted in `CellRoom::failed_flushes`.
    last_failed: u64,
}

/// A flush of a volume's drives that is about to begin, and the writes destaged before it. If it
/// fails, these stay.
pub(crate) struct FlushBegun {
    of: Rc<CellRoom>,
    volume: u32,
    number: u64,
    parts: Vec<(Rc<CellRun>, ByteRange)>,
}

/// The flushes begun until a certain time.
#[derive(Clone, Copy)]
pub(crate) struct BegunUntil {
    latest: u64,
    failed: u64,
}

/// Blocks reserved for a write.
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

/// A write in cache blocks, or a part of one. Clones share the bytes, which stay until they are
/// [settled](Stored::settle).
#[derive(Clone)]
pub(crate) struct Stored {
    of: Rc<CellRoom>,
    run: Rc<CellRun>,
    /// The bytes of its volume.
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
            more: RefCell::default(),
            is_more_requested: Cell::new(false),
            changed: Signal::default(),
            env: env.clone(),
        })
    }

    /// Adds free blocks.
    pub(crate) fn take_over(&self, share: CellShare) {
        let CellShare { words, free, sequence, more } = share;
        if more.is_some() {
            *self.more.borrow_mut() = more;
            self.is_more_requested.set(false);
        }
        self.sequence.set(self.sequence.get().max(sequence));
        self.parts.borrow_mut().grow(free.len() as u64);
        let mut cells = self.cells.borrow_mut();
        for (slot, _) in &free {
            assert_eq!(words.load(descriptor_at(*slot)), 0, "cell {slot} is free");
            cells.give(*slot);
        }
        drop(cells);
        let mut contents = self.contents.borrow_mut();
        // Each part becomes a buffer whose references only this shard counts; blocks that an
        // earlier process left have a shared count.
        for (first, whole) in side_by_side(free) {
            for (slot, cell) in (first..).zip(cells_of(whole.apart())) {
                contents.insert(slot, Content::Free(cell));
            }
        }
        drop(contents);
        *self.words.borrow_mut() = Some(words);
        self.request_more(false);
        self.changed.notify(&self.env);
    }

    /// The blocks that the shard may get later.
    fn promised(&self) -> usize {
        self.more.borrow().as_ref().map_or(0, |more| more.cells as usize)
    }

    /// Requests more blocks when half of the blocks are in use, so that they arrive before a write
    /// waits for one, and when a write waits because its volume's part is used up.
    fn request_more(&self, waits: bool) {
        let more = self.more.borrow();
        let Some(more) = more.as_ref().filter(|more| more.cells > 0) else { return };
        let parts = self.parts.borrow();
        let is_short = waits || parts.free() * 2 <= parts.total();
        if is_short && !self.is_more_requested.get() {
            // Full only with the requests of other shards: the next write requests again.
            self.is_more_requested.set(more.requests.send(more.shard).is_ok());
        }
    }

    /// Takes over a volume's blocks that an earlier process left.
    pub(crate) fn adopt<'a>(&self, found: impl Iterator<Item = &'a FoundCell>) {
        let words = self.words.borrow();
        let Some(words) = &*words else { return };
        let mut contents = self.contents.borrow_mut();
        let mut adopted = Vec::new();
        for FoundCell { slot, descriptor, bytes } in found {
            // A volume attached before may have cleared some of them.
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

    /// All writes in blocks of a volume, oldest first: applied over its drives, they give all
    /// acknowledged data. Earlier writes must be settled through these, not through the results of
    /// [`CellRoom::store`].
    pub(crate) fn all_of(self: &Rc<Self>, volume: u32) -> Vec<Stored> {
        // Destaged writes are dirty again: their flush will not come.
        let before = self.destaged.borrow_mut().remove(&volume).unwrap_or_default();
        self.count_destaged_out(volume, &before.parts);
        let contents = self.contents.borrow();
        let kept = contents.iter().filter_map(|(slot, content)| match content {
            Content::Kept(run) if run.volume == volume => {
                Some((slot, run.take_up(slot), run.clone()))
            }
            Content::Free(_) | Content::Kept(_) | Content::Viewed => None,
        });
        let mut mine: Vec<(u32, Descriptor, Rc<CellRun>)> = kept.collect();
        mine.sort_unstable_by_key(|(slot, descriptor, _)| {
            (descriptor.sequence, descriptor.bytes, *slot)
        });
        let mut cells = self.cells.borrow_mut();
        cells.forget(volume);
        cells.found(mine.iter().map(|(slot, descriptor, _)| (*slot, *descriptor)));
        let stored = |(_, descriptor, run): (u32, Descriptor, Rc<CellRun>)| {
            let range = descriptor.bytes.range();
            Stored { of: self.clone(), run, range }
        };
        mine.into_iter().map(stored).collect()
    }

    /// The number of blocks for a write.
    pub(crate) fn cells_for(range: ByteRange) -> usize {
        match range.is_empty() {
            true => 0,
            false => ((range.end().0 - 1) / CELL.0 - range.start.0 / CELL.0 + 1) as usize,
        }
    }

    /// Gives a volume its part of the memory.
    pub(crate) fn join(&self, volume: u32) {
        self.parts.borrow_mut().join(volume);
    }

    /// Ends a volume's part of the memory.
    pub(crate) fn part_from(&self, volume: u32) {
        self.parts.borrow_mut().leave(volume);
        self.changed.notify(&self.env);
    }

    /// Reserves blocks for a write of a volume, if its part allows.
    pub(crate) fn try_reserve(self: &Rc<Self>, volume: u32, cells: usize) -> Option<Room> {
        self.reclaim();
        let may_take = self.parts.borrow().may_take(volume, cells as u64);
        if may_take {
            self.parts.borrow_mut().take(volume, cells as u64);
        }
        self.request_more(!may_take);
        may_take.then(|| {
            self.count(volume, |kinds| kinds.reserved += cells);
            Room { of: self.clone(), volume, cells }
        })
    }

    fn count(&self, volume: u32, change: impl FnOnce(&mut Kinds)) {
        change(self.kinds.borrow_mut().entry(volume).or_default());
    }

    /// Stores a write of whole sectors of a volume in blocks. From then on it survives a restart.
    ///
    /// # Panics
    /// When too few blocks are reserved for it.
    pub(crate) fn store(
        self: &Rc<Self>,
        volume: u32,
        start: ByteOffset,
        data: &Slice,
        room: Room,
    ) -> Stored {
        let range = ByteRange::new(start, data.len());
        assert!(
            room.cells >= CellRoom::cells_for(range),
            "enough cells are reserved for {range:?}"
        );
        drop(room);
        self.sequence.set(self.sequence.get() + 1);
        let sequence = self.sequence.get();
        let mut cells = self.cells.borrow_mut();
        let mut take =
            |bytes| cells.take(&Descriptor { sequence, bytes }).expect("a cell is reserved");
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

    /// Releases the memory, in which no volume has data. Memory with views is released when drives
    /// return it.
    ///
    /// # Errors
    /// When a block is not free.
    pub(crate) fn leave(&self) -> Result<(), String> {
        self.reclaim();
        let mut contents = self.contents.borrow_mut();
        let is_reserved = self.kinds.borrow().values().any(|kinds| kinds.reserved > 0);
        if is_reserved || contents.iter().any(|(_, content)| matches!(content, Content::Kept(_))) {
            return Err("the cache's memory is not empty".to_owned());
        }
        *contents = Contents::default();
        self.words.take();
        self.cells.take();
        self.destaged.take();
        self.viewed.take();
        self.parts.take();
        self.more.take();
        self.is_more_requested.set(false);
        // A flush in progress subtracts its own destaged writes.
        self.kinds.borrow_mut().values_mut().for_each(|kinds| kinds.viewed = 0);
        Ok(())
    }

    /// Discards a volume's blocks, which would otherwise be applied over its drives. No cache line
    /// may use them.
    pub(crate) fn discard(self: &Rc<Self>, volume: u32) {
        for stored in self.all_of(volume) {
            stored.settle();
        }
        self.changed.notify(&self.env);
    }

    /// Whether a volume has destaged, unflushed writes.
    pub(crate) fn has_destaged(&self, volume: u32) -> bool {
        self.destaged.borrow().get(&volume).is_some_and(|destaged| !destaged.parts.is_empty())
    }

    /// Whether a flush of its drives is in progress that may clear some of them.
    pub(crate) fn is_flushing(&self, volume: u32) -> bool {
        self.destaged.borrow().get(&volume).is_some_and(|destaged| !destaged.open.is_empty())
    }

    /// The flushes begun so far.
    pub(crate) fn begun_by_now(&self) -> BegunUntil {
        BegunUntil { latest: self.flushes.get(), failed: self.failed_flushes.get() }
    }

    /// Whether one of these flushes of a volume's drives has not cleared its writes yet.
    pub(crate) fn is_any_open(&self, volume: u32, until: BegunUntil) -> bool {
        let all = self.destaged.borrow();
        all.get(&volume)
            .is_some_and(|destaged| destaged.open.iter().any(|number| *number <= until.latest))
    }

    /// Whether a flush of a volume's drives has failed since, so that its writes remain.
    pub(crate) fn has_failed_since(&self, volume: u32, until: BegunUntil) -> bool {
        self.destaged
            .borrow()
            .get(&volume)
            .is_some_and(|destaged| destaged.last_failed > until.failed)
    }

    /// Whether destaged writes use so much memory that the volume's drives should be flushed.
    pub(crate) fn is_flush_due(&self, volume: u32) -> bool {
        let destaged = self.kinds.borrow().get(&volume).map_or(0, |kinds| kinds.destaged);
        destaged * DESTAGED_SHARE >= self.within_reach(volume)
    }

    /// Whether blocks hold data of these bytes of a volume, dirty or destaged.
    pub(crate) fn has_any(&self, volume: u32, range: ByteRange) -> bool {
        self.cells.borrow().has_any(volume, range)
    }

    /// Begins a flush of a volume's drives. After its success, [`FlushBegun::flushed`] clears the
    /// writes destaged before it. `None`: there were none.
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

    /// Clears blocks of a volume in which a write has no unsettled bytes left.
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

    /// A block was cleared.
    fn note_viewed(&self, slot: u32) {
        let was = self.contents.borrow_mut().insert(slot, Content::Viewed);
        let Some(Content::Kept(run)) = was else { panic!("cell {slot} held a write") };
        let place = run.place_of(slot);
        self.count(run.volume, |kinds| kinds.viewed += 1);
        let mut viewed = self.viewed.borrow_mut();
        match viewed.last_mut() {
            Some(last) if Rc::ptr_eq(&last.run, &run) => last.cells.push(place),
            _ => viewed.push(Viewed { run, cells: Places::from_iter([place]) }),
        }
    }

    /// Frees cleared blocks without views.
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

    /// The number of blocks, including those that the shard may get later.
    pub(crate) fn total(&self) -> usize {
        self.parts.borrow().total() as usize + self.promised()
    }

    /// The most blocks that a volume may have.
    fn within_reach(&self, volume: u32) -> usize {
        (self.parts.borrow().within_reach(volume) as usize + self.promised()).max(1)
    }

    /// The share of a volume's possible blocks that is dirty or reserved, in percent.
    pub(crate) fn fill(&self, volume: u32) -> usize {
        let held = self.parts.borrow().held(volume) as usize;
        let kinds = self.kinds.borrow().get(&volume).copied().unwrap_or_default();
        let Kinds { reserved, viewed, destaged } = kinds;
        let dirty = (held - reserved - viewed).saturating_sub(destaged);
        (dirty + reserved) * 100 / self.within_reach(volume)
    }
}

impl Stored {
    /// Its bytes of the volume.
    pub(crate) fn range(&self) -> ByteRange {
        self.range
    }

    /// A part of it, of `len` bytes from `at` on.
    pub(crate) fn cut(&self, at: ByteCount, len: ByteCount) -> Stored {
        let range = ByteRange::new(self.range.start + at, len);
        assert!(self.range.contains(range), "{range:?} is not of {:?}", self.range);
        Stored { range, ..self.clone() }
    }

    /// Its bytes, in slices.
    pub(crate) fn slices(&self) -> SmallVec<[Slice; 2]> {
        self.run.slices(self.range)
    }

    /// Settles it: newer data in blocks replaces it, or it is given up. Either this or
    /// [`Stored::keep_until_flushed`] is called once for each byte.
    pub(crate) fn settle(&self) {
        self.of.done(&self.run, &self.run.settle(self.range));
    }

    /// It was destaged: it stays until the drives have been flushed.
    pub(crate) fn keep_until_flushed(&self) {
        self.of.count(self.run.volume, |kinds| kinds.destaged += CellRoom::cells_for(self.range));
        let mut destaged = self.of.destaged.borrow_mut();
        destaged.entry(self.run.volume).or_default().parts.push((self.run.clone(), self.range));
    }
}

impl FlushBegun {
    /// The flush succeeded: clears the writes destaged before it.
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

    /// Ends it. False: the volume has been [taken up](CellRoom::all_of) anew since.
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

/// Joins blocks that are contiguous in memory and in number.
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

/// Splits a buffer into blocks that share its memory.
fn cells_of(cells: Buf) -> impl Iterator<Item = Buf> {
    let mut rest = Some(cells).filter(|cells| !cells.is_empty());
    std::iter::from_fn(move || {
        let mut cell = rest.take()?;
        rest = Some(cell.split_off(CELL)).filter(|rest| !rest.is_empty());
        Some(cell)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::mailbox;
    use platform_sim::{Sim, SimOptions};

    /// A volume's write waited for its own destages beside memory that could have been reserved:
    /// more was requested only when half of all blocks were in use.
    #[test]
    fn a_write_that_its_volume_has_no_blocks_for_requests_more_memory() {
        let mut sim = Sim::new(SimOptions::default());
        let env = sim.env();
        let ran = sim.run(async move {
            let room = CellRoom::new(&env);
            let (requests, mut requested) = mailbox::mailbox(&env, 4);
            let more = Some(MoreCells { cells: 8, requests, shard: 3 });
            room.take_over(CellShare { more, ..CellShare::unkept(8, true) });
            (1..=2).for_each(|volume| room.join(volume));
            let _held = room.try_reserve(1, 1).expect("there is room");
            assert_eq!(requested.try_receive(), None, "most of the blocks are free");
            assert!(room.try_reserve(1, 8).is_none(), "they are not all for one volume");
            assert_eq!(requested.try_receive(), Some(3));
            assert!(room.try_reserve(1, 8).is_none());
            assert_eq!(requested.try_receive(), None, "it is requested once");
        });
        ran.expect("no stall");
    }
}
