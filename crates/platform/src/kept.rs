//! Memory that outlives the process that stored into it.
//!
//! A world offers it by a name ([`crate::World::kept_memory`]): numbers ([`Words`]) and bytes. Whoever takes it finds what the
//! last process left there, or zeroes if there was none.
//!
//! # Fault model
//! - A process may be killed between any two of its stores. What was stored before is there afterwards: of each word the
//!   old or the new number, of bytes any part of what was being copied. A word that is stored after bytes is found only with
//!   those bytes: stores of one thread become visible in their order, and [`Words::store`] releases.
//! - When the power goes, all of it is gone, and the next start of the machine has another number ([`crate::World::boot_id`]).
//! - It may be gone although the machine did not start anew: somebody deleted it. Then it is new memory ([`KeptMemory::was_there`]).
//! - What a dead process had asked of a drive may still be under way, from these bytes and into them. It is over when the drive
//!   can be opened again. So the drives are opened first.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::ByteCount;

use crate::buffers::Buf;

/// Memory that outlives the process that stored it, and not the machine's power. It is held until nobody views any of it.
#[derive(Debug)]
pub struct KeptMemory {
    /// Numbers, each of which is stored at once: whoever finds them after a kill finds the old or the new one.
    pub words: Words,
    /// Bytes.
    pub bytes: Buf,
    /// Whether it was there already. Otherwise all words and bytes are zero.
    pub was_there: bool,
}

/// How much of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptSize {
    /// How many numbers.
    pub words: usize,
    /// How many bytes.
    pub bytes: ByteCount,
}

/// Memory of that kind which another process of this machine has, or had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherMemory {
    /// What its world calls it.
    pub name: String,
    /// How much room it takes.
    pub len: ByteCount,
    /// A process has it.
    pub in_use: bool,
    /// Its numbers, as they are while nobody has it; or why they cannot be read: a sentence's end.
    pub words: std::result::Result<Vec<u64>, String>,
}

/// Numbers in a row, each of which is stored at once. Clones are the same numbers.
#[derive(Clone)]
pub struct Words {
    first: NonNull<AtomicU64>,
    len: usize,
    /// Keeps the memory.
    _keeper: Arc<dyn Send + Sync>,
}

// SAFETY: the numbers are reached as atomics alone, and who keeps them may travel.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Numbers that outlive nothing, all zero: for models and tests.
    pub fn unkept(len: usize) -> Words {
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..len).map(|_| AtomicU64::new(0)).collect());
        let first = NonNull::from(words.as_slice()).cast();
        Words { first, len, _keeper: words }
    }

    /// Numbers in memory that somebody else provides, until `keeper` is dropped: with the last clone, on whichever thread that
    /// happens.
    ///
    /// # Safety
    /// Until then `len` numbers from `first` on must be there, and nobody may reach them but as atomics.
    pub unsafe fn over(first: NonNull<AtomicU64>, len: usize, keeper: Arc<dyn Send + Sync>) -> Words {
        Words { first, len, _keeper: keeper }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len, "word {index} of {}", self.len);
        // SAFETY: the index is inside, and the keeper keeps what is there.
        unsafe { self.first.add(index).as_ref() }
    }

    /// The number there, and with it all that its thread stored before it. Panics outside.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    /// Stores a number at once, after all that this thread stored before. Panics outside.
    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Words({})", self.len)
    }
}
