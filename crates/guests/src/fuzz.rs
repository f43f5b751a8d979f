//! Entry point for fuzzers, and seeds for their corpus: a virtqueue with guest-controlled bytes,
//! parsed and processed as a shard does.
//!
//! An input's first two bytes are flags and the queue size; the rest is the guest's memory from its
//! first byte. The queue lies there, packed: descriptors, available ring, used ring ([`places`]).

use crate::GuestMemory;
use crate::config::Negotiated;
use crate::in_flight::{InFlight, in_flight_bytes};
use crate::request::{Operation, Request, give, parse, take};
use crate::ring::{Broken, Ring, RingPlace, Segment};
use platform::{HostSectors, TargetGeometry};
use std::sync::Arc;
use units::{ByteCount, ByteRange, SectorSize};
use vm_memory::{Bytes, GuestAddress};

/// Both sides use event indexes.
const EVENT_IDX: u8 = 1;
/// The in-flight records of an earlier process also come from the input.
const NOTES: u8 = 2;
/// The queue's addresses come from the input's last bytes: a vhost-user front-end may name any
/// address.
const PLACES: u8 = 4;
/// The first entry of the available ring comes from the input.
const BEGINS: u8 = 8;

/// The guest's memory, in two parts with a gap between.
const MEMORY: usize = 64 << 10;
const SECOND: u64 = 1 << 32;
const SECOND_BYTES: usize = 4096;
/// The disk's size.
const CAPACITY: u64 = 1 << 20;
/// The copy unit of long payloads, as in a shard.
const PIECE: u64 = 256 << 10;
/// The maximum number of requests per input. A real guest may make requests at any time, so a shard
/// has no such limit.
const MOST_REQUESTS: u32 = 256;

fn geometry() -> TargetGeometry {
    TargetGeometry {
        capacity: ByteCount(CAPACITY),
        sector: SectorSize::B512,
        host_sectors: HostSectors { logical: SectorSize::B512, physical: SectorSize::B512 },
        smallest_request: ByteCount(1),
        minimum_io: ByteCount(512),
        strip: ByteCount(4096),
        optimal_io: ByteCount(8192),
        rotational: false,
    }
}

/// The addresses of a packed queue's descriptors, available ring and used ring.
fn places(size: u16) -> [u64; 3] {
    let size = u64::from(size);
    let available = size * 16;
    [0, available, (available + 6 + size * 2).next_multiple_of(4)]
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Processes a hostile queue, and panics on a violated invariant. Returns the number of completed
/// requests.
pub fn fuzz_queue(data: &[u8]) -> u32 {
    let Some(([flags, size], image)) = data.split_first_chunk() else { return 0 };
    // Some sizes are no power of two, and some are too large.
    let size = if size & 0x80 == 0 { 1 << (size & 15) } else { u16::from(*size) };
    let parts = [(GuestAddress(0), MEMORY), (GuestAddress(SECOND), SECOND_BYTES)];
    let (Ok(memory), Some(image)) =
        (GuestMemory::from_ranges(&parts), image.get(..image.len().min(MEMORY)))
    else {
        return 0;
    };
    if memory.write_slice(image, GuestAddress(0)).is_err() {
        return 0;
    }
    let mut places = places(size);
    if flags & PLACES != 0 && image.len() >= 24 {
        let (last, _) = image[image.len() - 24..].as_chunks::<8>();
        places = [number(&last[0]), number(&last[1]), number(&last[2])];
    }
    let [descriptors, available, used] = places;
    let next_available =
        if flags & BEGINS != 0 { number(&image[..image.len().min(2)]) as u16 } else { 0 };
    let place = RingPlace { size, descriptors, available, used, next_available };
    let negotiated = Negotiated { flushes: true, event_idx: flags & EVENT_IDX != 0 };
    let noted = if flags & NOTES != 0 { image } else { &[] };
    // An invalid queue is rejected, or stopped.
    let Ok(ring) = Ring::new(&memory, place, negotiated) else { return 0 };
    let mut device =
        Device { memory, ring, in_flight: notes(size, noted), left: MOST_REQUESTS, answered: 0 };
    match device.serve() {
        Ok(()) | Err(Broken(_)) => device.answered,
    }
}

fn notes(size: u16, noted: &[u8]) -> Option<InFlight> {
    let len = in_flight_bytes(size).as_usize();
    let memory = GuestMemory::from_ranges(&[(GuestAddress(0), len)]).ok()?;
    memory.write_slice(&noted[..noted.len().min(len)], GuestAddress(0)).ok()?;
    Some(InFlight::new(Arc::new(memory), ByteCount::ZERO, size))
}

/// A shard's queue processing, without its tasks and drives.
struct Device {
    memory: GuestMemory,
    ring: Ring,
    in_flight: Option<InFlight>,
    left: u32,
    answered: u32,
}

impl Device {
    fn serve(&mut self) -> Result<(), Broken> {
        self.resume()?;
        loop {
            self.ring.want_no_kick(&self.memory)?;
            while self.left > 0
                && let Some(head) = self.ring.next(&self.memory)?
            {
                self.in_flight.as_ref().map_or(Ok(()), |notes| notes.begin(head))?;
                self.carry_out(head)?;
            }
            if self.left == 0 || !self.ring.want_kick(&self.memory)? {
                return Ok(());
            }
        }
    }

    fn resume(&mut self) -> Result<(), Broken> {
        let Some(notes) = &self.in_flight else { return Ok(()) };
        let used = self.ring.next_used();
        let heads = notes.recover(used)?;
        let mut once = heads.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), heads.len(), "a request is resumed once");
        assert!(once.last().is_none_or(|head| *head < self.ring.size()));
        self.ring.set_next_available(used.wrapping_add(heads.len() as u16));
        heads.into_iter().try_for_each(|head| self.carry_out(head))
    }

    fn carry_out(&mut self, head: u16) -> Result<(), Broken> {
        self.left = self.left.saturating_sub(1);
        let chain = self.ring.chain(&self.memory, head)?;
        let Some(Request { status, what }) = parse(&self.memory, chain, &geometry()) else {
            return Err(Broken("no status byte".to_owned()));
        };
        let written = self.copy(&what);
        self.memory.write_slice(&[0], GuestAddress(status))?;
        self.in_flight.as_ref().map_or(Ok(()), |notes| notes.answering(head))?;
        let before = self.ring.next_used();
        self.ring.put_used(&self.memory, head, written)?;
        assert_eq!(self.ring.next_used(), before.wrapping_add(1), "a completion is one entry");
        self.answered += 1;
        let used = self.ring.next_used();
        self.in_flight.as_ref().map_or(Ok(()), |notes| notes.answered(head, used))?;
        self.ring.wants_call(&self.memory).map(|_| ())
    }

    /// Copies the first piece and the last bytes of a request's data. Returns the number of bytes
    /// written.
    fn copy(&self, what: &Operation) -> u32 {
        match what {
            Operation::Read(range, to) => {
                for (at, len) in ends(*range, to) {
                    give(&self.memory, to, at, &vec![0xA5; len]);
                }
                range.len.0 as u32
            }
            Operation::Write(range, from) => {
                for (at, len) in ends(*range, from) {
                    take(&self.memory, from, at, &mut vec![0; len]);
                }
                0
            }
            Operation::Discard(ranges) | Operation::Zeroes(ranges) => {
                ranges.iter().copied().for_each(is_on_the_disk);
                0
            }
            Operation::Id(to) => u32::from(give(&self.memory, to, 0, b"a name of 20 bytes..")),
            Operation::Flush | Operation::Refused(_) => 0,
        }
    }
}

fn is_on_the_disk(range: ByteRange) {
    let end = range.start.0.checked_add(range.len.0);
    assert!(end.is_some_and(|end| end <= CAPACITY), "{range:?} is not on the disk");
}

/// The start and length of the first and the last piece.
fn ends(range: ByteRange, segments: &[Segment]) -> [(u64, usize); 2] {
    is_on_the_disk(range);
    let there: u64 = segments.iter().map(|segment| u64::from(segment.len)).sum();
    assert_eq!(there, range.len.0, "the segments have the range's length");
    let piece = range.len.0.min(PIECE);
    [(0, piece as usize), (range.len.0 - piece, piece as usize)]
}

/// Initial inputs: a request of each kind in a queue of eight, with and without an indirect table.
pub fn seeds() -> Vec<Vec<u8>> {
    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const INDIRECT: u16 = 4;
    let descriptor = |address: u64, len: u32, flags: u16, next: u16| {
        let parts = [
            &address.to_le_bytes()[..],
            &len.to_le_bytes(),
            &flags.to_le_bytes(),
            &next.to_le_bytes(),
        ];
        parts.concat()
    };
    let mut seeds = Vec::new();
    for (flags, kind) in
        [(0, 0_u32), (EVENT_IDX, 1), (NOTES, 4), (0, 8), (0, 11), (EVENT_IDX | NOTES, 13)]
    {
        for is_indirect in [false, true] {
            let [_, available, used] = places(8);
            let mut image = vec![0; used as usize + 70];
            let (header, table) = (image.len() as u64, image.len() as u64 + 32);
            // A header, then data or a range, and a status.
            image.extend(kind.to_le_bytes());
            image.extend([0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
            image.extend([2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
            let (data, len) = if kind > 8 { (header + 16, 16) } else { (SECOND, 512) };
            let is_read = matches!(kind, 0 | 8);
            let chain = [
                descriptor(header, 16, NEXT, 1),
                descriptor(data, len, NEXT | if is_read { WRITE } else { 0 }, 2),
                descriptor(SECOND + 4000, 1, WRITE, 0),
            ];
            let mut put = |at: u64, bytes: &[u8]| {
                let at = at as usize;
                image.resize(image.len().max(at + bytes.len()), 0);
                image[at..at + bytes.len()].copy_from_slice(bytes);
            };
            if is_indirect {
                put(0, &descriptor(table, 48, INDIRECT, 0));
                put(table, &chain.concat());
            } else {
                put(0, &chain.concat());
            }
            // One available request; calls are not suppressed.
            put(available, &[1, 0, 1, 0, 0, 0]);
            seeds.push([&[flags, 3][..], &image].concat());
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed that is rejected immediately is useless to a fuzzer.
    #[test]
    fn every_seed_is_a_queue_with_a_request_that_is_answered() {
        for (number, seed) in seeds().iter().enumerate() {
            let answered = fuzz_queue(seed);
            // Where in-flight records come from the input, they may name other requests.
            assert!(answered == 1 || seed[0] & NOTES != 0, "seed {number}: {answered}");
        }
    }
}
