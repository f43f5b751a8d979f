//! The device side of a split virtqueue (VIRTIO 1.2, section 2.7): a descriptor table, an available
//! ring, and a used ring. The guest may change this memory at any time: each number is read once,
//! then validated.
//!
//! The crate `virtio-queue` cannot start from a given head, which the requests of an earlier
//! process need: these are no longer in the available ring.

use crate::GuestMemory;
use crate::config::{LARGEST_QUEUE, Negotiated};
use std::sync::atomic::{Ordering, fence};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryError};

const DESCRIPTOR: u64 = 16;
const USED_ELEMENT: u64 = 8;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Flag in the used ring: kicks are not needed; in the available ring: calls are not needed.
const NOT_NEEDED: u16 = 1;

/// The guest addresses of a queue, and its current position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingPlace {
    /// The number of descriptors.
    pub size: u16,
    /// The descriptor table.
    pub descriptors: u64,
    /// The available ring.
    pub available: u64,
    /// The used ring.
    pub used: u64,
    /// The next entry of the available ring.
    pub next_available: u16,
}

/// The guest violated the virtqueue protocol; the text names the violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken(pub String);

impl From<GuestMemoryError> for Broken {
    fn from(error: GuestMemoryError) -> Broken {
        Broken(error.to_string())
    }
}

/// A contiguous range of the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub address: u64,
    pub len: u32,
}

/// A chain's device-readable and device-writable segments.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Chain {
    pub readable: Vec<Segment>,
    pub writable: Vec<Segment>,
}

/// See the [module](self).
pub(crate) struct Ring {
    place: RingPlace,
    event_idx: bool,
    next_used: u16,
    /// The used ring's index at the last decision on a call.
    decided: u16,
}

fn load(memory: &GuestMemory, address: u64) -> Result<u16, Broken> {
    Ok(u16::from_le(memory.load(GuestAddress(address), Ordering::Acquire)?))
}

fn store(memory: &GuestMemory, address: u64, number: u16) -> Result<(), Broken> {
    Ok(memory.store(number.to_le(), GuestAddress(address), Ordering::Release)?)
}

impl Ring {
    /// The queue at `place`.
    pub fn new(
        memory: &GuestMemory,
        place: RingPlace,
        negotiated: Negotiated,
    ) -> Result<Ring, Broken> {
        let size = u64::from(place.size);
        if !place.size.is_power_of_two() || place.size > LARGEST_QUEUE {
            return Err(Broken(format!("invalid queue size {size}")));
        }
        for (address, len, alignment) in [
            (place.descriptors, size * DESCRIPTOR, 16),
            (place.available, 6 + size * 2, 2),
            (place.used, 6 + size * USED_ELEMENT, 4),
        ] {
            let is_there = memory.check_range(GuestAddress(address), len as usize);
            if address % alignment != 0 || !is_there {
                return Err(Broken(format!("unmapped ring at {address:#x} ({len} bytes)")));
            }
        }
        let next_used = load(memory, place.used + 2)?;
        Ok(Ring { place, event_idx: negotiated.event_idx, next_used, decided: next_used })
    }

    pub fn size(&self) -> u16 {
        self.place.size
    }

    /// The index of the used ring.
    pub fn next_used(&self) -> u16 {
        self.next_used
    }

    /// The next entry of the available ring.
    pub fn next_available(&self) -> u16 {
        self.place.next_available
    }

    /// Continues at that entry of the available ring.
    pub fn set_next_available(&mut self, next: u16) {
        self.place.next_available = next;
    }

    /// Takes the next head off the available ring.
    pub fn next(&mut self, memory: &GuestMemory) -> Result<Option<u16>, Broken> {
        let RingPlace { size, available, next_available, .. } = self.place;
        match load(memory, available + 2)?.wrapping_sub(next_available) {
            0 => return Ok(None),
            waiting if waiting > size => {
                return Err(Broken(format!("{waiting} requests in a queue of size {size}")));
            }
            _ => {}
        }
        let head = load(memory, available + 4 + u64::from(next_available % size) * 2)?;
        if head >= size {
            return Err(Broken(format!("descriptor {head} in a queue of size {size}")));
        }
        self.place.next_available = next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// Notifies the guest that kicks are not needed.
    pub fn want_no_kick(&self, memory: &GuestMemory) -> Result<(), Broken> {
        // With event indexes, the awaited index has already passed.
        if self.event_idx { Ok(()) } else { store(memory, self.place.used, NOT_NEEDED) }
    }

    /// Notifies the guest that kicks are needed. True: new requests arrived meanwhile.
    pub fn want_kick(&self, memory: &GuestMemory) -> Result<bool, Broken> {
        let RingPlace { size, available, used, next_available, .. } = self.place;
        match self.event_idx {
            true => store(memory, used + 4 + u64::from(size) * USED_ELEMENT, next_available)?,
            false => store(memory, used, 0)?,
        }
        // The guest writes its index, then reads the flag; the device does the reverse. The fence
        // guarantees that one side sees the other.
        fence(Ordering::SeqCst);
        Ok(load(memory, available + 2)? != next_available)
    }

    /// Puts a head on the used ring, with the number of bytes written.
    pub fn put_used(
        &mut self,
        memory: &GuestMemory,
        head: u16,
        written: u32,
    ) -> Result<(), Broken> {
        let at = self.place.used + 4 + u64::from(self.next_used % self.place.size) * USED_ELEMENT;
        let mut element = [0; USED_ELEMENT as usize];
        element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        element[4..].copy_from_slice(&written.to_le_bytes());
        memory.write_slice(&element, GuestAddress(at))?;
        self.next_used = self.next_used.wrapping_add(1);
        store(memory, self.place.used + 2, self.next_used)
    }

    /// Whether the guest wants a call for the completions since the last check.
    pub fn wants_call(&mut self, memory: &GuestMemory) -> Result<bool, Broken> {
        fence(Ordering::SeqCst);
        let RingPlace { size, available, .. } = self.place;
        let before = std::mem::replace(&mut self.decided, self.next_used);
        if !self.event_idx {
            return Ok(load(memory, available)? & NOT_NEEDED == 0);
        }
        let waits_for = load(memory, available + 4 + u64::from(size) * 2)?;
        let passed = self.next_used.wrapping_sub(waits_for).wrapping_sub(1);
        Ok(passed < self.next_used.wrapping_sub(before))
    }

    /// The chain that begins at `head`.
    pub fn chain(&self, memory: &GuestMemory, head: u16) -> Result<Chain, Broken> {
        let mut chain = Chain::default();
        let (mut table, mut count, mut at) = (self.place.descriptors, self.place.size, head);
        let mut is_indirect = false;
        for _ in 0..=LARGEST_QUEUE {
            if at >= count {
                return Err(Broken(format!("descriptor {at} in a table of size {count}")));
            }
            let address = GuestAddress(table)
                .checked_add(u64::from(at) * DESCRIPTOR)
                .ok_or_else(|| Broken("an indirect table beyond the address space".to_owned()))?;
            let mut bytes = [0_u8; DESCRIPTOR as usize];
            memory.read_slice(&mut bytes, address)?;
            let (segment, flags, next) = descriptor(&bytes);
            if flags & INDIRECT != 0 {
                let entries = u64::from(segment.len) / DESCRIPTOR;
                if is_indirect
                    || !chain.is_empty()
                    || entries == 0
                    || entries > LARGEST_QUEUE.into()
                {
                    return Err(Broken("an indirect table where none is allowed".to_owned()));
                }
                (table, count, at, is_indirect) = (segment.address, entries as u16, 0, true);
                continue;
            }
            match flags & WRITE {
                0 => chain.readable.push(segment),
                _ => chain.writable.push(segment),
            }
            if flags & NEXT == 0 {
                return Ok(chain);
            }
            at = next;
        }
        Err(Broken("an endless descriptor chain".to_owned()))
    }
}

impl Chain {
    fn is_empty(&self) -> bool {
        self.readable.is_empty() && self.writable.is_empty()
    }
}

fn descriptor(bytes: &[u8; DESCRIPTOR as usize]) -> (Segment, u16, u16) {
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    (
        Segment { address: number(0, 8), len: number(8, 12) as u32 },
        number(12, 14) as u16,
        number(14, 16) as u16,
    )
}
