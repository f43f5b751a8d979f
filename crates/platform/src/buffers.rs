//! Buffers: pooled, aligned memory that moves into an operation and comes back with it.
//!
//! A [`Buf`] is the only way to some bytes and may write them; [`Buf::freeze`] turns it into a [`Slice`],
//! which may be cloned and cut but only read, so that one payload goes to two mirrors and into parity from
//! where it lies. Both are views of a *block*: memory from a shard's [`BufferPool`], 4 KiB aligned, which goes
//! home when its last view is dropped, on whichever thread that happens. A block may also be an allocation of its
//! own, a part of another block ([`Buf::carve`]), or memory that somebody else provides ([`Buf::over`]).
//!
//! A slice is one of three kinds: *solid* (bytes), *hollow* (a length and no bytes: models run on these, so
//! that a simulated terabyte costs no memory) or *zero* (a length of zeroes that nobody stores).
//!
//! # Invariants
//! - A byte of a block belongs to at most one `Buf`, or to any number of `Slice`s: `Buf` is not `Clone`,
//!   [`Buf::split_off`] cuts without overlap, and `freeze` consumes.
//! - The memory of a block outlives its views (each holds a count of the block). A block that is a part of another
//!   is a view of that one.
//! - A pool never gives out more than its limit; what does not fit waits at intake (`engine`), never half.

mod pool;

pub use pool::BufferPool;
use pool::PoolInner;
use smallvec::SmallVec;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use units::ByteCount;

/// Every block begins on such a boundary, and is a multiple of it: the strictest sector.
pub const ALIGNMENT: usize = 4096;

/// A few slices in order, what one write gathers: inline up to two, because requests are moved more often than
/// they gather from many places.
pub type Slices = SmallVec<[Slice; 2]>;

/// A few buffers in order: what one read scatters into.
pub type Bufs = SmallVec<[Buf; 2]>;

/// Some memory and how many views it has.
struct Block {
    memory: NonNull<u8>,
    size: usize,
    views: AtomicU32,
    owner: Owner,
}

/// Whose the memory of a block is: where it goes after the last view.
enum Owner {
    /// A pool's.
    Pool { shard: u32, home: mpsc::Sender<Returned> },
    /// The block's: an allocation.
    Block,
    /// Another block's, which this one views.
    Whole { view: BlockRef },
    /// Somebody else's, who keeps it until this is dropped.
    Keeper { _keeper: Arc<dyn Send + Sync> },
}

/// There may be one for every few KiB of a cache.
const _: () = assert!(size_of::<Block>() <= 48);

/// A block on its way home from another thread.
struct Returned(NonNull<Block>);
// SAFETY: a `Returned` is the only pointer left to its block (its view count reached zero), and whoever
// receives it becomes its owner; a block has no thread-bound content (senders, views and keepers may travel).
unsafe impl Send for Returned {}

/// A counted pointer to a block. The count is atomic because views travel between shards.
struct BlockRef(NonNull<Block>);
// SAFETY: the block behind it is only read through it, but for the atomic count; the bytes are governed by
// the module's invariant (one `Buf` or many `Slice`s).
unsafe impl Send for BlockRef {}
// SAFETY: as above; `&BlockRef` gives no way to write.
unsafe impl Sync for BlockRef {}

impl BlockRef {
    fn block(&self) -> &Block {
        // SAFETY: this view is counted, so the block is alive.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for BlockRef {
    fn clone(&self) -> BlockRef {
        self.block().views.fetch_add(1, Ordering::Relaxed);
        BlockRef(self.0)
    }
}

impl Drop for BlockRef {
    fn drop(&mut self) {
        let block = self.block();
        if block.views.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        std::sync::atomic::fence(Ordering::Acquire);
        let Owner::Pool { shard, home } = &block.owner else {
            free_block(self.0);
            return;
        };
        match PoolInner::of_this_thread(*shard) {
            Some(pool) => pool.take_back(self.0),
            None => {
                if let Err(mpsc::SendError(returned)) = home.send(Returned(self.0)) {
                    // The pool is gone: its memory ends here.
                    free_block(returned.0);
                }
            }
        }
    }
}

fn layout_of(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGNMENT).expect("block sizes are far below isize::MAX")
}

fn allocate_zeroed(size: usize) -> NonNull<u8> {
    // SAFETY: the size is not zero (see `BufferPool::block_size`).
    let memory = NonNull::new(unsafe { alloc_zeroed(layout_of(size)) });
    memory.unwrap_or_else(|| std::alloc::handle_alloc_error(layout_of(size)))
}

/// A block with its first view to come.
fn new_block(memory: NonNull<u8>, size: usize, owner: Owner) -> NonNull<Block> {
    NonNull::from(Box::leak(Box::new(Block { memory, size, views: AtomicU32::new(1), owner })))
}

fn free_block(block: NonNull<Block>) {
    // SAFETY: the caller owns the block (no view is left), which was made by `Box::new` in `new_block`.
    let block = unsafe { Box::from_raw(block.as_ptr()) };
    match block.owner {
        // SAFETY: the memory came from `allocate_zeroed` with this very size, and nobody views it.
        Owner::Pool { .. } | Owner::Block => unsafe { dealloc(block.memory.as_ptr(), layout_of(block.size)) },
        // Dropping the block tells them.
        Owner::Whole { .. } | Owner::Keeper { .. } => {}
    }
}

/// The only way to some bytes, which it may write; or a hollow length.
pub struct Buf {
    /// `None` is hollow.
    block: Option<BlockRef>,
    start: usize,
    len: usize,
}

impl Buf {
    /// A length without bytes, for models.
    pub fn hollow(len: ByteCount) -> Buf {
        Buf { block: None, start: 0, len: len.as_usize() }
    }

    /// A buffer outside any pool, for the odd place without one (labels, tests): its memory is its own.
    pub fn unpooled(len: ByteCount) -> Buf {
        let size = BufferPool::block_size(len).as_usize();
        let block = new_block(allocate_zeroed(size), size, Owner::Block);
        Buf { block: Some(BlockRef(block)), start: 0, len: len.as_usize() }
    }

    /// A buffer over memory that somebody else provides, until `keeper` is dropped: with the last view, on whichever
    /// thread that happens.
    ///
    /// # Safety
    /// Until then `len` bytes from `memory` on must be there, hold values, and be read and written by nobody but
    /// through this buffer and what becomes of it.
    pub unsafe fn over(memory: NonNull<u8>, len: ByteCount, keeper: Arc<dyn Send + Sync>) -> Buf {
        let len = len.as_usize();
        let block = new_block(memory, len, Owner::Keeper { _keeper: keeper });
        Buf { block: Some(BlockRef(block)), start: 0, len }
    }

    /// An unpooled buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        let mut buf = Buf::unpooled(ByteCount::of(bytes));
        buf.bytes_mut().copy_from_slice(bytes);
        buf
    }

    /// Its length.
    pub fn len(&self) -> ByteCount {
        ByteCount(self.len as u64)
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is a length without bytes.
    pub fn is_hollow(&self) -> bool {
        self.block.is_none()
    }

    fn pointer(&self) -> *mut u8 {
        match &self.block {
            // SAFETY: start is within the block.
            Some(block) => unsafe { block.block().memory.as_ptr().add(self.start) },
            None => NonNull::dangling().as_ptr(),
        }
    }

    /// The bytes. A hollow buffer has none.
    pub fn bytes(&self) -> &[u8] {
        let len = if self.is_hollow() { 0 } else { self.len };
        // SAFETY: `start + len` is within the block, which lives as long as this view, and no other view
        // of these bytes exists (module invariant); blocks are initialised when allocated.
        unsafe { std::slice::from_raw_parts(self.pointer(), len) }
    }

    /// The bytes, to write. A hollow buffer has none.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = if self.is_hollow() { 0 } else { self.len };
        // SAFETY: as in `bytes`, and `&mut self` is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), len) }
    }

    /// Cuts in two: this keeps the first `at` bytes, the rest is returned. Panics if `at` is past the end.
    pub fn split_off(&mut self, at: ByteCount) -> Buf {
        let at = at.as_usize();
        assert!(at <= self.len, "cut at {at} in a buffer of {}", self.len);
        let rest = Buf { block: self.block.clone(), start: self.start + at, len: self.len - at };
        self.len = at;
        rest
    }

    /// Undoes [`Buf::split_off`]: both parts as one buffer again.
    ///
    /// # Errors
    /// Gives both back if `rest` is not what follows this in the same block.
    pub fn join(mut self, rest: Buf) -> Result<Buf, (Buf, Buf)> {
        let adjacent = match (&self.block, &rest.block) {
            (Some(a), Some(b)) => a.0 == b.0 && self.start + self.len == rest.start,
            (None, None) => true,
            _ => false,
        };
        if !adjacent {
            return Err((self, rest));
        }
        self.len += rest.len;
        Ok(self)
    }

    /// This and `rest` as one buffer, or this alone where they do not belong together.
    #[must_use]
    pub fn join_or_keep(self, rest: Buf) -> Buf {
        self.join(rest).unwrap_or_else(|(this, _)| this)
    }

    /// Cuts into pieces of that size (the last may be shorter), each a block of its own: its views are counted by
    /// themselves, so that [`Slice::try_unfreeze`] of one does not depend on others. The whole lives as long as any
    /// of them. Hollow ones give hollow ones. Panics if `size` is zero.
    pub fn carve(self, size: ByteCount) -> impl Iterator<Item = Buf> {
        assert!(!size.is_zero(), "pieces of no bytes");
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let mut piece = rest.take().filter(|left| !left.is_empty())?;
            if piece.len() > size {
                rest = Some(piece.split_off(size));
            }
            Some(piece.apart())
        })
    }

    /// The same bytes as a block of their own.
    #[must_use]
    pub fn apart(self) -> Buf {
        let (memory, len) = (self.pointer(), self.len);
        let block = self.block.map(|view| {
            let memory = NonNull::new(memory).expect("a place in a block");
            BlockRef(new_block(memory, len, Owner::Whole { view }))
        });
        Buf { block, start: 0, len }
    }

    /// Undoes [`Buf::apart`]: the same bytes as a view of the block that they are a part of.
    #[must_use]
    pub fn together(self) -> Buf {
        let Some(Owner::Whole { view }) = self.block.as_ref().map(|view| &view.block().owner) else {
            return self;
        };
        let start = self.pointer() as usize - view.block().memory.as_ptr() as usize;
        Buf { block: Some(view.clone()), start, len: self.len }
    }

    /// Gives up writing: the same bytes as a slice that may be cloned and cut.
    pub fn freeze(self) -> Slice {
        match self.block {
            Some(block) => Slice { kind: Kind::Solid(block), start: self.start, len: self.len },
            None => Slice { kind: Kind::Hollow, start: 0, len: self.len },
        }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes{})", self.len, if self.is_hollow() { ", hollow" } else { "" })
    }
}

#[derive(Clone)]
enum Kind {
    Solid(BlockRef),
    Hollow,
    Zero,
}

/// Bytes that nobody writes any more: cheap to clone and to cut.
#[derive(Clone)]
pub struct Slice {
    kind: Kind,
    start: usize,
    len: usize,
}

impl Slice {
    /// `len` zeroes that nobody stores.
    pub fn zero(len: ByteCount) -> Slice {
        Slice { kind: Kind::Zero, start: 0, len: len.as_usize() }
    }

    /// A length without bytes, for models.
    pub fn hollow(len: ByteCount) -> Slice {
        Slice { kind: Kind::Hollow, start: 0, len: len.as_usize() }
    }

    /// Its length.
    pub fn len(&self) -> ByteCount {
        ByteCount(self.len as u64)
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is zeroes that nobody stores.
    pub fn is_zero(&self) -> bool {
        matches!(self.kind, Kind::Zero)
    }

    /// Whether it is a length without bytes.
    pub fn is_hollow(&self) -> bool {
        matches!(self.kind, Kind::Hollow)
    }

    /// The bytes of a solid slice; `None` of a hollow or zero one.
    pub fn solid(&self) -> Option<&[u8]> {
        match &self.kind {
            // SAFETY: `start + len` is within the block, which lives as long as this view; frozen bytes are
            // written by nobody (module invariant).
            Kind::Solid(block) => unsafe {
                Some(std::slice::from_raw_parts(block.block().memory.as_ptr().add(self.start), self.len))
            },
            Kind::Hollow | Kind::Zero => None,
        }
    }

    /// The `len` bytes from `at` on. Panics if they are not in this slice.
    #[must_use]
    pub fn cut(&self, at: ByteCount, len: ByteCount) -> Slice {
        let (at, len) = (at.as_usize(), len.as_usize());
        assert!(at + len <= self.len, "cut {at}+{len} in a slice of {}", self.len);
        Slice { kind: self.kind.clone(), start: self.start + at, len }
    }

    /// Copies the bytes to `target`, which must be as long; zeroes for a zero slice, nothing for a hollow one.
    pub fn copy_to(&self, target: &mut [u8]) {
        match self.solid() {
            Some(bytes) => target.copy_from_slice(bytes),
            None if self.is_zero() => target.fill(0),
            None => {}
        }
    }

    /// Turns back into a writable buffer if this is the only view of its block and it is solid.
    ///
    /// # Errors
    /// Gives the slice back if another view exists.
    pub fn try_unfreeze(self) -> Result<Buf, Slice> {
        match &self.kind {
            Kind::Solid(block) if block.block().views.load(Ordering::Acquire) == 1 => {
                Ok(Buf { block: Some(block.clone()), start: self.start, len: self.len })
            }
            _ => Err(self),
        }
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Solid(_) => "solid",
            Kind::Hollow => "hollow",
            Kind::Zero => "zero",
        };
        write!(f, "Slice({} bytes, {kind})", self.len)
    }
}

impl From<Buf> for Slice {
    fn from(buf: Buf) -> Slice {
        buf.freeze()
    }
}

/// The length of several slices together.
pub fn total_len(slices: &[Slice]) -> ByteCount {
    ByteCount(slices.iter().map(|slice| slice.len as u64).sum())
}

/// A block of zeroes that any write may gather from, for drives that must be given bytes: 1 MiB, shared,
/// aligned like every block.
pub fn zero_bytes() -> &'static [u8] {
    /// In a cell, which nobody opens: what can't change is a megabyte of the program's file, what could is memory that the system
    /// gives when it is touched.
    #[repr(align(4096))]
    struct Zeroes(UnsafeCell<[u8; 1 << 20]>);
    // SAFETY: nobody writes to it.
    unsafe impl Sync for Zeroes {}
    const _: () = assert!(align_of::<Zeroes>() == ALIGNMENT);
    static ZEROES: Zeroes = Zeroes(UnsafeCell::new([0; 1 << 20]));
    // SAFETY: nobody writes to it, so that any number may read it for as long as the program runs.
    unsafe { &*ZEROES.0.get() }
}

/// Frees nothing and owns nothing, but is `Send`: asserted here because shards exchange both.
const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<Buf>();
    assert_send::<Slice>();
    assert_send::<Arc<()>>();
};
