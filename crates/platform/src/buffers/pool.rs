//! A shard's memory for data. Free blocks are kept for reuse.

use super::{
    ALIGNMENT, Block, BlockRef, Buf, Owner, Returned, allocate_zeroed, free_block, new_block,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use units::ByteCount;

/// The largest size class. Classes are powers of two from 4 KiB; larger blocks have exact sizes.
const LARGEST_CLASS: usize = 1 << 20;
const CLASSES: usize = (LARGEST_CLASS / ALIGNMENT).trailing_zeros() as usize + 1;

thread_local! {
    /// The pools of this thread, so that a view dropped here returns directly.
    static LOCAL: RefCell<Vec<(u32, Weak<PoolInner>)>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct PoolInner {
    shard: u32,
    limit: usize,
    /// Bytes in blocks that have a view.
    used: Cell<usize>,
    /// Bytes in free blocks.
    kept: Cell<usize>,
    free: RefCell<[Vec<NonNull<Block>>; CLASSES]>,
    /// Free blocks above the largest class, by size: hosts with large requests send many of one
    /// size.
    free_large: RefCell<BTreeMap<usize, Vec<NonNull<Block>>>>,
    home: mpsc::Sender<Returned>,
    returned: mpsc::Receiver<Returned>,
}

impl PoolInner {
    /// The pool of a shard, if it belongs to this thread.
    pub(super) fn of_this_thread(shard: u32) -> Option<Rc<PoolInner>> {
        let find = |pools: &RefCell<Vec<(u32, Weak<PoolInner>)>>| {
            pools.borrow().iter().find(|(id, _)| *id == shard).and_then(|(_, pool)| pool.upgrade())
        };
        LOCAL.try_with(find).ok().flatten()
    }

    fn class(size: usize) -> Option<usize> {
        (size <= LARGEST_CLASS).then(|| (size / ALIGNMENT).trailing_zeros() as usize)
    }

    pub(super) fn take_back(&self, block: NonNull<Block>) {
        // SAFETY: no view is left, so this is the only pointer to the block.
        let size = unsafe { block.as_ref() }.size;
        self.used.set(self.used.get() - size);
        if self.kept.get() + size > self.limit {
            return free_block(block);
        }
        self.kept.set(self.kept.get() + size);
        match Self::class(size) {
            Some(class) => self.free.borrow_mut()[class].push(block),
            None => self.free_large.borrow_mut().entry(size).or_default().push(block),
        }
    }

    fn collect_returned(&self) {
        while let Ok(Returned(block)) = self.returned.try_recv() {
            self.take_back(block);
        }
    }

    fn allocate(&self, size: usize) -> NonNull<Block> {
        let kept = self.take_kept(size).or_else(|| {
            // Blocks returned by other threads are warmer than new ones.
            self.collect_returned();
            self.take_kept(size)
        });
        kept.unwrap_or_else(|| {
            self.give_up_kept();
            let owner = Owner::Pool { shard: self.shard, home: self.home.clone() };
            new_block(allocate_zeroed(size), size, owner)
        })
    }

    /// Frees free blocks, the largest first, until all blocks, with one that is about to be used,
    /// are within the limit.
    fn give_up_kept(&self) {
        while self.used.get() + self.kept.get() > self.limit {
            let mut large = self.free_large.borrow_mut();
            let Some(mut largest) = large.last_entry() else { break };
            match largest.get_mut().pop() {
                Some(block) => {
                    self.kept.set(self.kept.get() - *largest.key());
                    free_block(block);
                }
                None => drop(largest.remove()),
            }
        }
        for class in (0..CLASSES).rev() {
            while self.used.get() + self.kept.get() > self.limit {
                let Some(block) = self.free.borrow_mut()[class].pop() else { break };
                // SAFETY: no view is left, so this is the only pointer to the block.
                self.kept.set(self.kept.get() - unsafe { block.as_ref() }.size);
                free_block(block);
            }
        }
    }

    /// A free block of that size, for a first view.
    fn take_kept(&self, size: usize) -> Option<NonNull<Block>> {
        let block = match Self::class(size) {
            Some(class) => self.free.borrow_mut()[class].pop()?,
            None => {
                let mut large = self.free_large.borrow_mut();
                let blocks = large.get_mut(&size)?;
                let block = blocks.pop();
                if blocks.is_empty() {
                    large.remove(&size);
                }
                block?
            }
        };
        self.kept.set(self.kept.get() - size);
        // SAFETY: a free block has no view; the caller makes the first one.
        unsafe { block.as_ref() }.views.store(1, Ordering::Relaxed);
        Some(block)
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        self.collect_returned();
        let large = std::mem::take(self.free_large.get_mut()).into_values();
        for block in self.free.get_mut().iter_mut().map(std::mem::take).chain(large).flatten() {
            free_block(block);
        }
        let shard = self.shard;
        let _ = LOCAL.try_with(|pools| pools.borrow_mut().retain(|(id, _)| *id != shard));
    }
}

/// One shard's memory for data: reusable blocks, never more than the limit.
#[derive(Clone)]
pub struct BufferPool {
    inner: Rc<PoolInner>,
}

impl BufferPool {
    /// A pool for a shard, on the calling thread. `limit`: the maximum memory of its blocks.
    pub fn new(limit: ByteCount) -> BufferPool {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let shard = NEXT.fetch_add(1, Ordering::Relaxed);
        let (home, returned) = mpsc::channel();
        let inner = Rc::new(PoolInner {
            shard,
            limit: limit.as_usize(),
            used: Cell::new(0),
            kept: Cell::new(0),
            free: RefCell::new(std::array::from_fn(|_| Vec::new())),
            free_large: RefCell::default(),
            home,
            returned,
        });
        LOCAL.with(|pools| pools.borrow_mut().push((shard, Rc::downgrade(&inner))));
        BufferPool { inner }
    }

    /// The memory that a buffer of `len` bytes takes, and that a reservation must count.
    pub fn block_size(len: ByteCount) -> ByteCount {
        let size = len.as_usize().max(1).next_multiple_of(ALIGNMENT);
        ByteCount(if size <= LARGEST_CLASS { size.next_power_of_two() } else { size } as u64)
    }

    /// A buffer of `len` bytes with arbitrary content, or `None` if that would exceed the limit.
    pub fn take(&self, len: ByteCount) -> Option<Buf> {
        let size = BufferPool::block_size(len).as_usize();
        if self.inner.used.get() + size > self.inner.limit {
            self.inner.collect_returned();
            if self.inner.used.get() + size > self.inner.limit {
                return None;
            }
        }
        self.inner.used.set(self.inner.used.get() + size);
        let block = BlockRef(self.inner.allocate(size));
        Some(Buf { block: Some(block), start: 0, len: len.as_usize() })
    }

    /// A buffer for reserved memory. A drive that does not respond may keep buffers whose
    /// reservation has ended, so that the pool has less than was reserved. Then the buffer is
    /// allocated outside the pool, up to the memory that such drives hold.
    pub fn take_reserved(&self, len: ByteCount) -> Buf {
        self.take(len).unwrap_or_else(|| Buf::unpooled(len))
    }

    /// Bytes allocated from the system: in use, and free.
    pub fn held(&self) -> ByteCount {
        ByteCount((self.inner.used.get() + self.inner.kept.get()) as u64)
    }

    /// Bytes in use.
    pub fn used(&self) -> ByteCount {
        self.inner.collect_returned();
        ByteCount(self.inner.used.get() as u64)
    }

    /// The maximum of bytes in use.
    pub fn limit(&self) -> ByteCount {
        ByteCount(self.inner.limit as u64)
    }
}
