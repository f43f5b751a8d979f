//! Buffers: pooled, aligned memory that moves into an operation and returns with its result.
//!
//! A [`Buf`] has exclusive write access. [`Buf::freeze`] turns it into a read-only, cloneable
//! [`Slice`], so that mirrors and parity read one payload in place. Both are views of a *block*:
//! memory from a shard's [`BufferPool`] (it returns when its last view is dropped, on any thread),
//! an allocation of its own, a part of another block ([`Buf::carve`]), or external memory
//! ([`Buf::over`]). A slice is *solid* (bytes), *data-less* (`hollow`: a length only, for models of
//! terabytes) or *zero* (zeros without memory).
//!
//! # Invariants
//! - A byte belongs to at most one `Buf`, or to any number of `Slice`s: `Buf` is not `Clone`,
//!   [`Buf::split_off`] cuts without overlap, and `freeze` consumes.
//! - A block outlives its views, which are counted. A part of a block is a view of that block.
//! - A pool never exceeds its limit: requests reserve all their memory at intake (`engine`).

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

/// The alignment and granularity of blocks: the largest sector size.
pub const ALIGNMENT: usize = 4096;

/// The slices that one write gathers, in order. Inline up to two: requests are moved more often
/// than they gather from more.
pub type Slices = SmallVec<[Slice; 2]>;

/// The buffers that one read scatters into, in order.
pub type Bufs = SmallVec<[Buf; 2]>;

/// Memory and the number of its views.
struct Block {
    memory: NonNull<u8>,
    size: usize,
    views: AtomicU32,
    owner: Owner,
}

/// The owner of a block's memory: determines what happens after the last view is dropped.
enum Owner {
    /// The memory returns to a pool.
    Pool { shard: u32, home: mpsc::Sender<Returned> },
    /// The block owns its allocation.
    Block,
    /// The memory is a part of another block, which this one views.
    Whole { view: BlockRef },
    /// External memory, valid until the keeper is dropped.
    Keeper { _keeper: Arc<dyn Send + Sync> },
}

/// A cache may have a block for every few KiB.
const _: () = assert!(size_of::<Block>() <= 48);

/// A block that another thread returns to its pool.
struct Returned(NonNull<Block>);
// SAFETY: a `Returned` is the only pointer left to its block (its view count reached zero), and the
// receiver becomes its owner; a block has no thread-bound content (senders, views and keepers are
// `Send`).
unsafe impl Send for Returned {}

/// A counted pointer to a block. The count is atomic because shards exchange views.
struct BlockRef(NonNull<Block>);
// SAFETY: the block is only read through it, except for the atomic count; access to the bytes
// follows the module's invariant (one `Buf` or many `Slice`s).
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
                    // The pool no longer exists: free the memory.
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

/// Creates a block for a first view, which the caller makes.
fn new_block(memory: NonNull<u8>, size: usize, owner: Owner) -> NonNull<Block> {
    NonNull::from(Box::leak(Box::new(Block { memory, size, views: AtomicU32::new(1), owner })))
}

fn free_block(block: NonNull<Block>) {
    // SAFETY: the caller owns the block (it has no view), which `new_block` made with `Box::new`.
    let block = unsafe { Box::from_raw(block.as_ptr()) };
    match block.owner {
        // SAFETY: `allocate_zeroed` returned this memory for this size, and the block has no view.
        Owner::Pool { .. } | Owner::Block => unsafe {
            dealloc(block.memory.as_ptr(), layout_of(block.size))
        },
        // Dropping the block drops the view or the keeper.
        Owner::Whole { .. } | Owner::Keeper { .. } => {}
    }
}

/// Exclusive, writable access to bytes; or a length without bytes (data-less).
pub struct Buf {
    /// `None`: data-less.
    block: Option<BlockRef>,
    start: usize,
    len: usize,
}

impl Buf {
    /// A data-less buffer, for models.
    pub fn hollow(len: ByteCount) -> Buf {
        Buf { block: None, start: 0, len: len.as_usize() }
    }

    /// A buffer with an allocation of its own, for code without a pool (labels, tests).
    pub fn unpooled(len: ByteCount) -> Buf {
        let size = BufferPool::block_size(len).as_usize();
        let block = new_block(allocate_zeroed(size), size, Owner::Block);
        Buf { block: Some(BlockRef(block)), start: 0, len: len.as_usize() }
    }

    /// A buffer over external memory, which is valid until `keeper` is dropped: with the last view,
    /// on any thread.
    ///
    /// # Safety
    /// Until then the `len` bytes from `memory` are valid and initialised. Only this buffer and the
    /// views derived from it access them.
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

    /// Whether its length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is data-less.
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

    /// The bytes. Empty for a data-less buffer.
    pub fn bytes(&self) -> &[u8] {
        let len = if self.is_hollow() { 0 } else { self.len };
        // SAFETY: `start + len` is within the block, which lives as long as this view, and no other
        // view of these bytes exists (module invariant); blocks are initialised when allocated.
        unsafe { std::slice::from_raw_parts(self.pointer(), len) }
    }

    /// The bytes, writable. Empty for a data-less buffer.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = if self.is_hollow() { 0 } else { self.len };
        // SAFETY: as in `bytes`, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), len) }
    }

    /// Keeps the first `at` bytes and returns the rest. Panics if `at` is past the end.
    pub fn split_off(&mut self, at: ByteCount) -> Buf {
        let at = at.as_usize();
        assert!(at <= self.len, "cut at {at} in a buffer of {}", self.len);
        let rest = Buf { block: self.block.clone(), start: self.start + at, len: self.len - at };
        self.len = at;
        rest
    }

    /// Undoes [`Buf::split_off`]: joins both parts into one buffer.
    ///
    /// # Errors
    /// Returns both if `rest` does not directly follow this one in the same block.
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

    /// Joins `rest` to this buffer, or returns this one alone if they are not adjacent.
    #[must_use]
    pub fn join_or_keep(self, rest: Buf) -> Buf {
        self.join(rest).unwrap_or_else(|(this, _)| this)
    }

    /// Cuts the buffer into pieces of `size` (the last may be shorter), each a block with a view
    /// count of its own: [`Slice::try_unfreeze`] of one does not depend on the others. The original
    /// block lives as long as any piece. A data-less buffer gives data-less pieces. Panics if
    /// `size` is zero.
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

    /// Makes the same bytes a block of their own.
    #[must_use]
    pub fn apart(self) -> Buf {
        let (memory, len) = (self.pointer(), self.len);
        let block = self.block.map(|view| {
            let memory = NonNull::new(memory).expect("a place in a block");
            BlockRef(new_block(memory, len, Owner::Whole { view }))
        });
        Buf { block, start: 0, len }
    }

    /// Undoes [`Buf::apart`]: makes the bytes a view of the original block again.
    #[must_use]
    pub fn together(self) -> Buf {
        let Some(Owner::Whole { view }) = self.block.as_ref().map(|view| &view.block().owner)
        else {
            return self;
        };
        let start = self.pointer() as usize - view.block().memory.as_ptr() as usize;
        Buf { block: Some(view.clone()), start, len: self.len }
    }

    /// Gives up write access: returns a slice that can be cloned and cut.
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

/// Immutable bytes: cheap to clone and to cut.
#[derive(Clone)]
pub struct Slice {
    kind: Kind,
    start: usize,
    len: usize,
}

impl Slice {
    /// `len` zeros without memory.
    pub fn zero(len: ByteCount) -> Slice {
        Slice { kind: Kind::Zero, start: 0, len: len.as_usize() }
    }

    /// A data-less slice, for models.
    pub fn hollow(len: ByteCount) -> Slice {
        Slice { kind: Kind::Hollow, start: 0, len: len.as_usize() }
    }

    /// Its length.
    pub fn len(&self) -> ByteCount {
        ByteCount(self.len as u64)
    }

    /// Whether its length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is zeros without memory.
    pub fn is_zero(&self) -> bool {
        matches!(self.kind, Kind::Zero)
    }

    /// Whether it is data-less.
    pub fn is_hollow(&self) -> bool {
        matches!(self.kind, Kind::Hollow)
    }

    /// The bytes of a solid slice; `None` for a data-less or zero slice.
    pub fn solid(&self) -> Option<&[u8]> {
        match &self.kind {
            // SAFETY: `start + len` is within the block, which lives as long as this view; frozen
            // bytes are not written (module invariant).
            Kind::Solid(block) => unsafe {
                Some(std::slice::from_raw_parts(
                    block.block().memory.as_ptr().add(self.start),
                    self.len,
                ))
            },
            Kind::Hollow | Kind::Zero => None,
        }
    }

    /// The `len` bytes from `at`. Panics if they exceed this slice.
    #[must_use]
    pub fn cut(&self, at: ByteCount, len: ByteCount) -> Slice {
        let (at, len) = (at.as_usize(), len.as_usize());
        assert!(at + len <= self.len, "cut {at}+{len} in a slice of {}", self.len);
        Slice { kind: self.kind.clone(), start: self.start + at, len }
    }

    /// Copies the bytes to `target`, which has the same length. A zero slice writes zeros, a
    /// data-less slice nothing.
    pub fn copy_to(&self, target: &mut [u8]) {
        match self.solid() {
            Some(bytes) => target.copy_from_slice(bytes),
            None if self.is_zero() => target.fill(0),
            None => {}
        }
    }

    /// Returns a writable buffer if the slice is solid and the only view of its block.
    ///
    /// # Errors
    /// Returns the slice if another view exists.
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

/// The total length of several slices.
pub fn total_len(slices: &[Slice]) -> ByteCount {
    ByteCount(slices.iter().map(|slice| slice.len as u64).sum())
}

/// A shared 1 MiB block of zeros, aligned like every block: the source of zero writes to drives
/// that need bytes.
pub fn zero_bytes() -> &'static [u8] {
    /// In an `UnsafeCell` that is never written: the linker then puts it into `.bss`, and not as 1
    /// MiB into the program file.
    #[repr(align(4096))]
    struct Zeroes(UnsafeCell<[u8; 1 << 20]>);
    // SAFETY: it is never written.
    unsafe impl Sync for Zeroes {}
    const _: () = assert!(align_of::<Zeroes>() == ALIGNMENT);
    static ZEROES: Zeroes = Zeroes(UnsafeCell::new([0; 1 << 20]));
    // SAFETY: it is never written, so that shared references are valid for the program's lifetime.
    unsafe { &*ZEROES.0.get() }
}

/// Shards exchange both types.
const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<Buf>();
    assert_send::<Slice>();
    assert_send::<Arc<()>>();
};
