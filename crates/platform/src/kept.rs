//! Persistent memory: memory that survives a restart of the process, but no power cut.
//!
//! A platform provides it by name ([`crate::World::kept_memory`]): numbers ([`Words`]) and bytes. A
//! process finds the content that the previous one stored, or zeros in new memory.
//!
//! # Fault model
//! - A process may be killed between any two stores. Earlier stores survive: each word has its old
//!   or new number, bytes may be copied in part. A word that is stored after bytes implies these
//!   bytes: stores of one thread become visible in order, and [`Words::store`] releases.
//! - A power cut clears it, and the next boot has another number ([`crate::World::boot_id`]).
//! - It may also vanish without a reboot, when a user deletes it. Then it is new
//!   ([`KeptMemory::was_there`]).
//! - Requests of a killed process may still transfer to and from these bytes. They are over once
//!   the drives can be opened again. So a process opens the drives first.
//! - Only a first part of the bytes has memory, and [`KeptSpace::reserve`] extends it. A store
//!   behind it may lack memory, which ends the process.

use crate::Result;
use crate::executor::LocalFuture;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::ByteCount;

use crate::buffers::Buf;

/// Persistent memory: survives the process, but no power cut. Held until its last view is dropped.
pub struct KeptMemory {
    /// Numbers with atomic stores: after a kill each is the old or the new one.
    pub words: Words,
    /// Bytes. Only the first [`reserved`](KeptMemory::reserved) ones may be used.
    pub bytes: Buf,
    /// The bytes that have memory.
    pub reserved: ByteCount,
    /// Reserves memory for more bytes.
    pub space: Rc<dyn KeptSpace>,
    /// Whether it existed before. Otherwise all words and bytes are zero.
    pub was_there: bool,
}

/// The space of persistent memory.
pub trait KeptSpace {
    /// Reserves memory for the first `len` bytes. The next process finds at least these reserved.
    /// Does nothing for bytes that have memory.
    ///
    /// # Errors
    /// If memory is missing; the bytes that had memory before keep it.
    fn reserve(&self, len: ByteCount) -> LocalFuture<'_, Result<()>>;
}

impl fmt::Debug for KeptMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "KeptMemory({} words, {} of {})",
            self.words.len(),
            self.reserved,
            self.bytes.len()
        )
    }
}

/// A size of persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptSize {
    /// The number of words.
    pub words: usize,
    /// The number of bytes.
    pub bytes: ByteCount,
    /// How many of the bytes have memory at first.
    pub reserved: ByteCount,
}

impl KeptSize {
    /// A size whose bytes all have memory at once.
    pub const fn whole(words: usize, bytes: ByteCount) -> KeptSize {
        KeptSize { words, bytes, reserved: bytes }
    }
}

/// Persistent memory that another process of this computer has, or had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherMemory {
    /// The platform's name for it.
    pub name: String,
    /// Its size.
    pub len: ByteCount,
    /// Whether a process has it.
    pub in_use: bool,
    /// Its words, if no process has it; or the end of a sentence that says why they cannot be read.
    pub words: std::result::Result<Vec<u64>, String>,
}

/// A row of numbers with atomic stores. Clones share the numbers.
#[derive(Clone)]
pub struct Words {
    first: NonNull<AtomicU64>,
    len: usize,
    /// Keeps the memory valid.
    _keeper: Arc<dyn Send + Sync>,
}

// SAFETY: the numbers are only accessed as atomics, and the keeper is `Send`.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Volatile numbers, all zero: for models and tests.
    pub fn unkept(len: usize) -> Words {
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..len).map(|_| AtomicU64::new(0)).collect());
        let first = NonNull::from(words.as_slice()).cast();
        Words { first, len, _keeper: words }
    }

    /// Numbers in external memory, which is valid until `keeper` is dropped: with the last clone,
    /// on any thread.
    ///
    /// # Safety
    /// Until then the `len` numbers from `first` are valid, and are only accessed as atomics.
    pub unsafe fn over(
        first: NonNull<AtomicU64>,
        len: usize,
        keeper: Arc<dyn Send + Sync>,
    ) -> Words {
        Words { first, len, _keeper: keeper }
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len, "word {index} of {}", self.len);
        // SAFETY: the index is in range, and the keeper keeps the memory valid.
        unsafe { self.first.add(index).as_ref() }
    }

    /// Loads a number with acquire ordering: all earlier stores of its writer are visible. Panics
    /// out of range.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    /// Stores a number with release ordering: after all earlier stores of this thread. Panics out
    /// of range.
    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Words({})", self.len)
    }
}
