//! What a shard keeps of what drives hold too: the memory of its read cache.
//!
//! It is memory of the process: what is lost with that is on the drives. What is dirty lies elsewhere ([`cells`](super::cells)).

use ::block_cache::{Bytes, Clean, CleanCounters, FillName, LineName, Piece, StreamName, WriteName};
use platform::sync::Signal;
use platform::{Buf, BufferPool, Env, Slice};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use units::{ByteCount, ByteRange};

/// Bytes that are kept.
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

/// Memory for so much. Blocks are longer than what lies in them, by a half at most of what is read ahead; beyond that it is the system's.
fn pool(room: ByteCount) -> BufferPool {
    BufferPool::new(ByteCount(room.0 + room.0 / 2))
}

/// The read cache's memory on a shard.
pub(crate) struct CleanRoom {
    env: Env,
    /// Where what is kept lies: what gives way leaves its memory to what comes, without asking the system for pages.
    memory: RefCell<BufferPool>,
    clean: RefCell<Clean<Kept>>,
    /// Something that was on its way is there, or will not come.
    changed: Signal,
}

/// Bytes that are being read to be kept. Dropped without them, nothing is.
pub(crate) struct Fill {
    room: Rc<CleanRoom>,
    name: Option<FillName>,
}

/// Bytes that are being changed on the drives: nothing of them is kept meanwhile.
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

    /// How much of it there is from now on.
    pub(crate) fn set_room(&self, room: ByteCount) {
        if room != self.room() {
            *self.memory.borrow_mut() = pool(room);
        }
        self.clean.borrow_mut().set_room(room);
    }

    /// Memory for bytes that are to be kept.
    pub(crate) fn buffer(&self, len: ByteCount) -> Buf {
        self.memory.borrow().take_reserved(len)
    }

    /// How much of it there is.
    pub(crate) fn room(&self) -> ByteCount {
        self.clean.borrow().room()
    }

    /// What is kept of bytes of a stripe, in order. `keeps`: what was read ahead stays after that.
    pub(crate) fn ask(
        &self,
        line: LineName,
        range: ByteRange,
        keeps: bool,
    ) -> SmallVec<[(ByteRange, Slice); 4]> {
        let found = self.clean.borrow_mut().ask(line, range, keeps);
        found.into_iter().map(|(part, Kept(slice)): Piece<Kept>| (part, slice)).collect()
    }

    /// Whether anything of these bytes is kept, or will be soon.
    pub(crate) fn has_any(&self, line: LineName, range: ByteRange) -> bool {
        let clean = self.clean.borrow();
        clean.has_any(line, range) || clean.is_coming(line, range)
    }

    /// Waits until nothing of these bytes is on its way that was not asked for.
    pub(crate) async fn wait_for(&self, line: LineName, range: ByteRange) {
        let has_come = || !self.clean.borrow().is_coming(line, range);
        if !has_come() {
            self.changed.wait_until(&self.env, has_come).await;
        }
    }

    /// Bytes are about to be read, to be kept. `None`: they must not be.
    pub(crate) fn begin_fill(self: &Rc<Self>, line: LineName, range: ByteRange) -> Option<Fill> {
        let name = self.clean.borrow_mut().begin_fill(line, range, None)?;
        Some(Fill { room: self.clone(), name: Some(name) })
    }

    /// Whole pages that bytes of a stripe touch are about to be read for a stream, as far as they are neither kept nor on their way.
    /// `limit`: the whole stripe.
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

    /// Bytes of a stripe are about to be changed on the drives.
    pub(crate) fn begin_change(self: &Rc<Self>, line: LineName, range: ByteRange) -> Change {
        let name = self.clean.borrow_mut().begin_write(line, range);
        // What was waited for has lost.
        self.changed.notify(&self.env);
        Change { room: self.clone(), name }
    }

    /// Forgets what is kept of a volume, and of what is on its way.
    pub(crate) fn forget(&self, volume: u32) {
        self.clean.borrow_mut().forget(volume);
        if self.clean.borrow().bytes().is_zero() {
            // Nobody may keep anything any more: the system has it back.
            *self.memory.borrow_mut() = pool(self.room());
        }
        self.changed.notify(&self.env);
    }

    /// How many bytes that were read ahead for a stream have been forgotten unread since somebody asked.
    pub(crate) fn take_wasted(&self, volume: u32, stream: StreamName) -> ByteCount {
        self.clean.borrow_mut().take_wasted(volume, stream)
    }

    /// What is kept of a volume, and what came of that.
    pub(crate) fn counters(&self, volume: u32) -> CleanCounters {
        self.clean.borrow().counters(volume)
    }

    /// Checks what must hold of it between any two steps.
    ///
    /// # Errors
    /// A sentence about somebody's mistake.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.clean.borrow().check()
    }
}

impl Fill {
    /// They were read: these are the bytes, and nobody changes them.
    pub(crate) fn give(self, slice: Slice) {
        self.end(&slice);
    }

    /// They were read, into a part of a buffer that is a host's.
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
