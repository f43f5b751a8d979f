//! The format of persistent memory with cache blocks.
//!
//! It consists of 8-byte numbers, each stored atomically, and of cache blocks. The numbers:
//!
//! ```text
//!    0        magic number ("SoftROCc"); stored last when the memory is initialised
//!    1        version
//!    2        number of cache blocks
//!    3, 4     UUID of the memory
//!   16 ...    its volumes, two numbers each: the UUID of a volume, or zero
//! 2064 ...    descriptors, four numbers each, as `Descriptor::encode` has them
//! ```
//!
//! # Fault model
//! The fault model of [`Cells`](crate::Cells): a kill between any two stores. The magic number is
//! stored last; the first half of a volume's UUID is stored after the second. So a memory, and a
//! volume, is either complete or absent.

use crate::cells::{CELL, DESCRIPTOR, Descriptor};
use units::ByteCount;

const MAGIC: u64 = u64::from_le_bytes(*b"SoftROCc");
const VERSION: u64 = 1;
const VOLUMES_AT: usize = 16;
const TABLE_AT: usize = VOLUMES_AT + 2 * VOLUMES;
const WORDS: usize = DESCRIPTOR / 8;

/// The most volumes with data in it.
pub const VOLUMES: usize = 1024;

/// The head of a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryHead {
    /// Its UUID.
    pub id: [u8; 16],
    /// The number of cache blocks.
    pub cells: u32,
}

impl MemoryHead {
    /// The number of numbers in a memory with `cells` cache blocks.
    pub fn words(cells: u32) -> usize {
        TABLE_AT + WORDS * cells as usize
    }

    /// The bytes of its cache blocks.
    pub fn bytes(cells: u32) -> ByteCount {
        ByteCount(CELL.0 * u64::from(cells))
    }

    /// The stores that initialise a zeroed memory, in this order: index and value.
    pub fn stores(&self) -> [(usize, u64); 5] {
        let [low, high] = halves(&self.id);
        [(1, VERSION), (2, self.cells.into()), (3, low), (4, high), (0, MAGIC)]
    }

    /// Decodes the head of a memory of `words` numbers.
    ///
    /// # Errors
    /// The reason why it is no valid memory.
    pub fn read(words: usize, load: impl Fn(usize) -> u64) -> Result<MemoryHead, String> {
        if words < TABLE_AT || load(0) != MAGIC {
            return Err("it is not persistent memory of a cache".to_owned());
        }
        if load(1) != VERSION {
            return Err(format!(
                "its version is {}, and this software supports {VERSION}",
                load(1)
            ));
        }
        let cells = u32::try_from(load(2)).ok().filter(|cells| MemoryHead::words(*cells) == words);
        let cells =
            cells.ok_or_else(|| format!("its length does not fit {} cache blocks", load(2)))?;
        Ok(MemoryHead { id: whole(load(3), load(4)), cells })
    }
}

/// The indexes of a volume's UUID: its first half and its second.
///
/// # Panics
/// When the index is out of range.
pub fn volume_words(volume: u32) -> [usize; 2] {
    assert!((volume as usize) < VOLUMES, "a memory has {VOLUMES} volumes, and no volume {volume}");
    let at = VOLUMES_AT + 2 * volume as usize;
    [at, at + 1]
}

/// A UUID as two numbers.
pub fn halves(id: &[u8; 16]) -> [u64; 2] {
    let half = |at: usize| crate::bytes::u64_at(id, at);
    [half(0), half(8)]
}

/// Two numbers as a UUID.
pub fn whole(first: u64, second: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&first.to_le_bytes());
    id[8..].copy_from_slice(&second.to_le_bytes());
    id
}

/// The index of a block's descriptor: its sequence number.
pub fn descriptor_at(slot: u32) -> usize {
    TABLE_AT + WORDS * slot as usize
}

/// The volumes in a memory, and the bytes of each in cache blocks.
///
/// # Errors
/// The reason why it is no valid memory.
pub fn contents(words: &[u64]) -> Result<Vec<([u8; 16], ByteCount)>, String> {
    let load = |word: usize| words.get(word).copied().unwrap_or(0);
    let head = MemoryHead::read(words.len(), load)?;
    let mut bytes = [0; VOLUMES];
    for descriptor in (0..head.cells).filter_map(|slot| Descriptor::load(slot, load)) {
        if let Some(bytes) = bytes.get_mut(descriptor.bytes.volume as usize) {
            *bytes += u64::from(descriptor.bytes.len);
        }
    }
    let volume = |(index, bytes)| {
        let [first, second] = volume_words(index).map(load);
        (first != 0).then(|| (whole(first, second), ByteCount(bytes)))
    };
    Ok((0..).zip(bytes).filter_map(volume).collect())
}

impl Descriptor {
    /// The stores of a descriptor, in this order: index and value.
    pub fn stores(&self, slot: u32) -> [(usize, u64); WORDS] {
        let (at, bytes) = (descriptor_at(slot), self.encode());
        // Its sequence number comes last.
        [1, 2, 3, 0].map(|word| (at + word, crate::bytes::u64_at(&bytes, 8 * word)))
    }

    /// Decodes the descriptor of a block. `None`: the block is free.
    pub fn load(slot: u32, load: impl Fn(usize) -> u64) -> Option<Descriptor> {
        let (at, mut bytes) = (descriptor_at(slot), [0; DESCRIPTOR]);
        for word in 0..WORDS {
            bytes[8 * word..][..8].copy_from_slice(&load(at + word).to_le_bytes());
        }
        Descriptor::decode(&bytes)
    }
}
