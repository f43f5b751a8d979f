//! How memory is laid out that outlives the process, in which cells are.
//!
//! It is made of numbers of eight bytes, each stored at once, and of cells. The numbers:
//!
//! ```text
//!    0        what it is ("SoftROCc"); stored after all others when the memory is made
//!    1        its version
//!    2        how many cells there are
//!    3, 4     its identity
//!   16 ...    its volumes, two numbers each: the identity of a volume, or zero
//! 2064 ...    descriptors, four numbers each, as `Descriptor::encode` has them
//! ```
//!
//! # Fault model
//! That of [`Cells`](crate::Cells): a kill between any two stores. Who makes one stores what it is last; the first half of a volume's
//! identity is stored after the second. So a memory, and a volume, is there or not.

use crate::cells::{CELL, DESCRIPTOR, Descriptor};
use units::ByteCount;

const MAGIC: u64 = u64::from_le_bytes(*b"SoftROCc");
const VERSION: u64 = 1;
const VOLUMES_AT: usize = 16;
const TABLE_AT: usize = VOLUMES_AT + 2 * VOLUMES;
const WORDS: usize = DESCRIPTOR / 8;

/// How many volumes may have something in it at a time.
pub const VOLUMES: usize = 1024;

/// What a memory says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryHead {
    /// Its identity.
    pub id: [u8; 16],
    /// How many cells there are.
    pub cells: u32,
}

impl MemoryHead {
    /// How many numbers a memory of so many cells has.
    pub fn words(cells: u32) -> usize {
        TABLE_AT + WORDS * cells as usize
    }

    /// How many bytes its cells have.
    pub fn bytes(cells: u32) -> ByteCount {
        ByteCount(CELL.0 * u64::from(cells))
    }

    /// What is stored to make one of nothing but zeroes, in this order: which number, and what.
    pub fn stores(&self) -> [(usize, u64); 5] {
        let [low, high] = halves(&self.id);
        [(1, VERSION), (2, self.cells.into()), (3, low), (4, high), (0, MAGIC)]
    }

    /// Reads one, of so many numbers in all.
    ///
    /// # Errors
    /// What it is not.
    pub fn read(words: usize, load: impl Fn(usize) -> u64) -> Result<MemoryHead, String> {
        if words < TABLE_AT || load(0) != MAGIC {
            return Err("it is none of a cache's".to_owned());
        }
        if load(1) != VERSION {
            return Err(format!("its version is {}, and this program knows {VERSION}", load(1)));
        }
        let cells = u32::try_from(load(2)).ok().filter(|cells| MemoryHead::words(*cells) == words);
        let cells = cells.ok_or_else(|| format!("it is too long or too short for {} cells", load(2)))?;
        Ok(MemoryHead { id: whole(load(3), load(4)), cells })
    }
}

/// Where the identity of a volume is, its first half and its second.
///
/// # Panics
/// When there is no such volume.
pub fn volume_words(volume: u32) -> [usize; 2] {
    assert!((volume as usize) < VOLUMES, "a memory has {VOLUMES} volumes, and no volume {volume}");
    let at = VOLUMES_AT + 2 * volume as usize;
    [at, at + 1]
}

/// An identity as two numbers.
pub fn halves(id: &[u8; 16]) -> [u64; 2] {
    let half = |at: usize| crate::bytes::u64_at(id, at);
    [half(0), half(8)]
}

/// Two numbers as an identity.
pub fn whole(first: u64, second: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&first.to_le_bytes());
    id[8..].copy_from_slice(&second.to_le_bytes());
    id
}

/// Where the descriptor of a cell begins: its sequence number.
pub fn descriptor_at(slot: u32) -> usize {
    TABLE_AT + WORDS * slot as usize
}

/// The volumes that have a place in a memory, by its numbers, and how many bytes of each are in cells.
///
/// # Errors
/// What it is not.
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
    /// What is stored for it, in this order: which number, and what.
    pub fn stores(&self, slot: u32) -> [(usize, u64); WORDS] {
        let (at, bytes) = (descriptor_at(slot), self.encode());
        // Its number comes last.
        [1, 2, 3, 0].map(|word| (at + word, crate::bytes::u64_at(&bytes, 8 * word)))
    }

    /// Reads the descriptor of a cell. `None`: nothing is in it.
    pub fn load(slot: u32, load: impl Fn(usize) -> u64) -> Option<Descriptor> {
        let (at, mut bytes) = (descriptor_at(slot), [0; DESCRIPTOR]);
        for word in 0..WORDS {
            bytes[8 * word..][..8].copy_from_slice(&load(at + word).to_le_bytes());
        }
        Descriptor::decode(&bytes)
    }
}
