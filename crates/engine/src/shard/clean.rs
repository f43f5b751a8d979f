//! A shard's clean cached data: the memory of its read cache.
//!
//! It is process memory: the drives have the same data. Dirty data is elsewhere
//! ([`cells`](super::cells)).

use ::block_cache::{
    Bytes, Clean, CleanCounters, FillName, LineName, Piece, StreamName, WriteName,
};
use platform::sync::Signal;
use platform::{Buf, BufferPool, Env, Slice};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use units::{ByteCount, ByteRange};

/// Cached bytes.
#[derive(Clone, Debug)]
pub(crate) struct Kept(Slice);

impl Bytes for Kept {
    fn cut(&self, at: ByteCount, len: ByteCount) -> Kept {
        Kept(self.0.cut(at, len))
    }

    fn alone(&self) -> Kept {
        match self.0.is_hollow() {
            true => self.clone(),
            false => Kept(copy(&self.0, ByteCount::ZERO, self.0.len()).freeze()),
        }
    }
}

fn copy(slice: &Slice, at: ByteCount, len: ByteCount) -> Buf {
    let mut alone = Buf::unpooled(len);
    slice.cut(at, len).copy_to(alone.bytes_mut());
    alone
}

/// A pool for this much data. Buffers may exceed their content by up to half for read-ahead; memory
/// above the pool's size comes from the system.
fn pool(room: ByteCount) -> BufferPool {
    BufferPool::new(ByteCount(room.0 + room.0 / 2))
}

/// The read cache's memory on a shard.
pub(crate) struct CleanRoom {
    env: Env,
    /// A buffer pool: evicted data leaves its memory to new data, without new pages from the
    /// system.
    memory: RefCell<BufferPool>,
    clean: RefCell<Clean<Kept>>,
    /// Notified when a fill has ended.
    changed: Signal,
}

/// Bytes being read for the cache. Dropped without data, nothing is cached.
pub(crate) struct Fill {
    room: Rc<CleanRoom>,
    name: Option<FillName>,
}

/// Bytes being changed on the drives: they are not cached meanwhile.
pub(crate) struct Change {
    room: Rc<CleanRoom>,
    name: WriteName,
}

impl CleanRoom {
    /// No memory.
    pub(crate) fn new(env: &Env) -> Rc<CleanRoom> {
        let clean = RefCell::new(Clean::new(ByteCount::ZERO));
        let memory = RefCell::new(BufferPool::new(ByteCount::ZERO));
        Rc::new(CleanRoom { env: env.clone(), memory, clean, changed: Signal::default() })
    }

    /// Sets its size.
    pub(crate) fn set_room(&self, room: ByteCount) {
        if room != self.room() {
            *self.memory.borrow_mut() = pool(room);
        }
        self.clean.borrow_mut().set_room(room);
    }

    /// A buffer for data to cache.
    pub(crate) fn buffer(&self, len: ByteCount) -> Buf {
        self.memory.borrow().take_reserved(len)
    }

    /// Its size.
    pub(crate) fn room(&self) -> ByteCount {
        self.clean.borrow().room()
    }

    /// The cached parts of a range of a stripe, in order. `keeps`: data read ahead stays cached
    /// afterwards.
    pub(crate) fn ask(
        &self,
        line: LineName,
        range: ByteRange,
        keeps: bool,
    ) -> SmallVec<[(ByteRange, Slice); 4]> {
        let found = self.clean.borrow_mut().ask(line, range, keeps);
        found.into_iter().map(|(part, Kept(slice)): Piece<Kept>| (part, slice)).collect()
    }

    /// Whether any of these bytes is cached, or being read for the cache.
    pub(crate) fn has_any(&self, line: LineName, range: ByteRange) -> bool {
        let clean = self.clean.borrow();
        clean.has_any(line, range) || clean.is_coming(line, range)
    }

    /// Waits until no read-ahead of these bytes is in progress.
    pub(crate) async fn wait_for(&self, line: LineName, range: ByteRange) {
        let has_come = || !self.clean.borrow().is_coming(line, range);
        if !has_come() {
            self.changed.wait_until(&self.env, has_come).await;
        }
    }

    /// Begins to read bytes for the cache. `None`: they must not be cached.
    pub(crate) fn begin_fill(self: &Rc<Self>, line: LineName, range: ByteRange) -> Option<Fill> {
        let name = self.clean.borrow_mut().begin_fill(line, range, None)?;
        Some(Fill { room: self.clone(), name: Some(name) })
    }

    /// Begins to read whole pages around bytes of a stripe for a stream, except those cached or
    /// being read. `limit`: the whole stripe.
    pub(crate) fn begin_ahead(
        self: &Rc<Self>,
        line: LineName,
        range: ByteRange,
        limit: ByteRange,
        stream: StreamName,
    ) -> SmallVec<[(ByteRange, Fill); 2]> {
        let mut clean = self.clean.borrow_mut();
        let missing = clean.missing(line, range, limit);
        let begun = missing.into_iter().filter_map(|part| {
            let name = clean.begin_fill(line, part, Some(stream))?;
            Some((part, Fill { room: self.clone(), name: Some(name) }))
        });
        begun.collect()
    }

    /// Begins a change of a stripe's bytes on the drives.
    pub(crate) fn begin_change(self: &Rc<Self>, line: LineName, range: ByteRange) -> Change {
        let name = self.clean.borrow_mut().begin_write(line, range);
        // Reads in progress of these bytes are no longer cached: their waiters continue.
        self.changed.notify(&self.env);
        Change { room: self.clone(), name }
    }

    /// Drops a volume's cached data and its fills.
    pub(crate) fn forget(&self, volume: u32) {
        self.clean.borrow_mut().forget(volume);
        if self.clean.borrow().bytes().is_zero() {
            // No volume caches data any more: return the memory to the system.
            *self.memory.borrow_mut() = pool(self.room());
        }
        self.changed.notify(&self.env);
    }

    /// The bytes read ahead for a stream that were dropped unread since the last call.
    pub(crate) fn take_wasted(&self, volume: u32, stream: StreamName) -> ByteCount {
        self.clean.borrow_mut().take_wasted(volume, stream)
    }

    /// The cache counters of a volume.
    pub(crate) fn counters(&self, volume: u32) -> CleanCounters {
        self.clean.borrow().counters(volume)
    }

    /// Checks its invariants, which hold between any two steps.
    ///
    /// # Errors
    /// A message about a defect of the engine.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.clean.borrow().check()
    }
}

impl Fill {
    /// Caches the bytes read, which do not change afterwards.
    pub(crate) fn give(self, slice: Slice) {
        self.end(&slice);
    }

    /// Caches a copy of the bytes, which were read into a part of a host's buffer.
    pub(crate) fn give_copy(self, buf: &Buf, at: ByteCount, len: ByteCount) {
        let slice = match buf.is_hollow() {
            true => Slice::hollow(len),
            false => {
                let (at, mut kept) = (at.as_usize(), self.room.buffer(len));
                kept.bytes_mut().copy_from_slice(&buf.bytes()[at..at + len.as_usize()]);
                kept.freeze()
            }
        };
        self.end(&slice);
    }

    fn end(mut self, slice: &Slice) {
        if let Some(name) = self.name.take() {
            self.room.clean.borrow_mut().end_fill(name, Some(&Kept(slice.clone())));
            self.room.changed.notify(&self.room.env);
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.room.clean.borrow_mut().end_fill(name, None);
            self.room.changed.notify(&self.room.env);
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.room.clean.borrow_mut().end_write(self.name);
    }
}
