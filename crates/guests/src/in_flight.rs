//! The in-flight requests of a queue, in memory that outlives this process: the virtual machine
//! monitor keeps it, and passes it to the next process ("Inflight I/O tracking" in the vhost-user
//! specification; split virtqueue).
//!
//! ```text
//!  0 features  8 version  10 descriptors  12 head of the last answer  14 used index
//! 16 for each descriptor:  0 in flight  6 next (not used here)  8 counter
//! ```
//!
//! A completion has four steps, and the process may die between any two: record the head, write the
//! used ring, clear the head's mark, record the used index. If the ring's index and the recorded
//! one differ, step two was done: the mark of the recorded head does not count.

use crate::GuestMemory;
use crate::ring::Broken;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::ByteCount;
use vm_memory::{Bytes, GuestAddress};

const VERSION: u64 = 8;
const DESCRIPTORS: u64 = 10;
const LAST_HEAD: u64 = 12;
const USED_INDEX: u64 = 14;
const HEADER: u64 = 16;
const ENTRY: u64 = 16;
const COUNTER: u64 = 8;
/// The alignment of a queue's part.
const ALIGNMENT: u64 = 64;

/// The size of the in-flight memory for a queue of `size` descriptors.
pub fn in_flight_bytes(size: u16) -> ByteCount {
    ByteCount((HEADER + ENTRY * u64::from(size)).next_multiple_of(ALIGNMENT))
}

/// A queue's part of the in-flight memory. New memory is zeroed.
pub struct InFlight {
    memory: Arc<GuestMemory>,
    base: u64,
    size: u16,
    counter: Cell<u64>,
}

impl InFlight {
    /// The part at `base`, for a queue of `size` descriptors.
    pub fn new(memory: Arc<GuestMemory>, base: ByteCount, size: u16) -> InFlight {
        InFlight { memory, base: base.0, size, counter: Cell::new(0) }
    }

    fn at(&self, offset: u64) -> GuestAddress {
        GuestAddress(self.base + offset)
    }

    fn entry(&self, head: u16) -> u64 {
        HEADER + u64::from(head) * ENTRY
    }

    fn load(&self, offset: u64) -> Result<u16, Broken> {
        Ok(self.memory.load(self.at(offset), Ordering::Acquire)?)
    }

    fn store(&self, offset: u64, number: u16) -> Result<(), Broken> {
        Ok(self.memory.store(number, self.at(offset), Ordering::Release)?)
    }

    fn mark(&self, head: u16, in_flight: bool) -> Result<(), Broken> {
        Ok(self.memory.store(u8::from(in_flight), self.at(self.entry(head)), Ordering::Release)?)
    }

    /// The requests that an earlier process took and did not complete, in order. `used` is the
    /// index of the used ring.
    pub(crate) fn recover(&self, used: u16) -> Result<Vec<u16>, Broken> {
        if self.load(VERSION)? == 0 {
            self.store(DESCRIPTORS, self.size)?;
            self.store(USED_INDEX, used)?;
            self.store(VERSION, 1)?;
            return Ok(Vec::new());
        }
        if self.load(USED_INDEX)? != used {
            let last = self.load(LAST_HEAD)?;
            if last < self.size {
                self.mark(last, false)?;
            }
            self.store(USED_INDEX, used)?;
        }
        let mut taken = Vec::new();
        for head in 0..self.size {
            let mark: u8 = self.memory.load(self.at(self.entry(head)), Ordering::Acquire)?;
            if mark != 0 {
                let counter: u64 =
                    self.memory.load(self.at(self.entry(head) + COUNTER), Ordering::Acquire)?;
                taken.push((counter, head));
            }
        }
        taken.sort_unstable();
        self.counter.set(taken.last().map_or(0, |(counter, _)| counter.wrapping_add(1)));
        Ok(taken.into_iter().map(|(_, head)| head).collect())
    }

    /// Marks a request as in flight.
    pub(crate) fn begin(&self, head: u16) -> Result<(), Broken> {
        let counter = self.counter.get();
        self.counter.set(counter.wrapping_add(1));
        self.memory.store(counter, self.at(self.entry(head) + COUNTER), Ordering::Release)?;
        self.mark(head, true)
    }

    /// Records the head before the used ring is written.
    pub(crate) fn answering(&self, head: u16) -> Result<(), Broken> {
        self.store(LAST_HEAD, head)
    }

    /// Clears the mark after the completion; the ring's index is now `used`.
    pub(crate) fn answered(&self, head: u16, used: u16) -> Result<(), Broken> {
        self.mark(head, false)?;
        self.store(USED_INDEX, used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u16 = 8;

    fn notes(memory: &Arc<GuestMemory>) -> InFlight {
        InFlight::new(memory.clone(), in_flight_bytes(SIZE), SIZE)
    }

    fn new_memory() -> Arc<GuestMemory> {
        let len = 2 * in_flight_bytes(SIZE).as_usize();
        Arc::new(GuestMemory::from_ranges(&[(GuestAddress(0), len)]).unwrap())
    }

    #[test]
    fn what_was_taken_and_not_answered_is_begun_again_in_its_order() {
        let memory = new_memory();
        let first = notes(&memory);
        // A ring that was used before: tracking starts at its current index.
        assert_eq!(first.recover(65534).unwrap(), [0_u16; 0]);
        for head in [5, 2, 7, 0] {
            first.begin(head).unwrap();
        }
        first.answering(2).unwrap();
        first.answered(2, 65535).unwrap();
        first.begin(2).unwrap();
        let second = notes(&memory);
        assert_eq!(second.recover(65535).unwrap(), [5, 7, 0, 2]);
        second.begin(3).unwrap();
        assert_eq!(notes(&memory).recover(65535).unwrap(), [5, 7, 0, 2, 3], "the order is kept");
    }

    #[test]
    fn an_answer_that_was_cut_off_is_made_once() {
        let memory = new_memory();
        let notes_of = || notes(&memory);
        let first = notes_of();
        first.recover(10).unwrap();
        first.begin(4).unwrap();
        first.begin(6).unwrap();
        first.answering(4).unwrap();
        assert_eq!(
            notes_of().recover(10).unwrap(),
            [4, 6],
            "not in the used ring: the request is repeated"
        );
        // The used ring has the completion: index 11.
        assert_eq!(notes_of().recover(11).unwrap(), [6]);
        assert_eq!(notes_of().recover(11).unwrap(), [6], "the recovery is recorded");
    }
}
