//! Verify mode: self-describing blocks, and the check of reads.
//!
//! Written data consist of *units*; all offsets and lengths of the profile are multiples of a unit.
//! A unit begins with a header, little-endian:
//!
//! | bytes | |
//! | --- | --- |
//! | 0–7 | `StorVrfy` |
//! | 8–15 | its byte address on the target |
//! | 16–23 | its generation: the number of the write in this run |
//! | 24–31 | the run |
//! | 32–35 | its length |
//! | 36–39 | CRC-32C of the whole unit with these four bytes zero |
//!
//! The rest is a function of address, generation and run.
//!
//! # Fault model and invariants
//! - A unit that this run has not written may contain anything, except a unit of this run with
//!   another address.
//! - While writes to a unit overlap, any of them may be the last, and a read may return the old or
//!   the new content. A read is right with any generation between the oldest that may have been
//!   current at its start and the newest that was started before its end.
//! - A failed write may have changed its range arbitrarily: the content is unknown until a later
//!   write succeeds with no other write in progress.

use crate::generator::pattern::Request;
use crate::generator::random::Random;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use units::{ByteCount, ByteOffset, ByteRange};

/// The first bytes of a unit. [`crate::measurement::guard`] recognises test files by them, too.
pub(crate) const MARK: [u8; 8] = *b"StorVrfy";
const HEADER: usize = 40;
const CHECKSUM: std::ops::Range<usize> = 36..40;

/// The tracked state of a unit.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    /// The oldest generation that may be current; 0: any content.
    oldest: u64,
    /// The newest started generation.
    newest: u64,
    /// The value of `oldest` after the overlapping writes in progress.
    overlap_oldest: u64,
    writing: u32,
    /// A write in progress has failed.
    spoilt: bool,
}

/// The expected content of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    /// One of these generations.
    Generations(u64, u64),
    /// Any content except a unit of this run.
    NothingOfOurs,
}

/// The actual content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// Not a unit of this run; its first eight bytes.
    Foreign([u8; 8]),
    /// A unit of this run with this address and generation.
    Unit(u64, u64),
    /// The expected header with a wrong checksum: computed, stored.
    Damaged(u32, u32),
}

/// A read that returned unexpected content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mismatch {
    address: ByteOffset,
    unit: ByteCount,
    expected: Expected,
    found: Found,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} at byte {} ", self.unit, self.address.0)?;
        match self.expected {
            Expected::Generations(from, to) if from == to => {
                write!(f, "should hold write {from} of it")?
            }
            Expected::Generations(from, to) => {
                write!(f, "should hold one of the writes {from} to {to} of it")?
            }
            Expected::NothingOfOurs => write!(f, "was not written in this run")?,
        }
        match self.found {
            Found::Foreign(bytes) => {
                write!(f, ", but holds something that this run did not write; it begins with")?;
                bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
            Found::Unit(address, generation) if address == self.address.0 => {
                let what = match self.expected {
                    Expected::Generations(from, _) if generation < from => {
                        "an older one: a write was lost"
                    }
                    _ => "one that was never made",
                };
                write!(f, ", but holds write {generation}, {what}")
            }
            Found::Unit(address, generation) => write!(
                f,
                ", but holds write {generation} of the block at byte {address}: a read or a write \
                    went to the wrong place"
            ),
            Found::Damaged(computed, stored) => {
                write!(
                    f,
                    ", but its content is damaged: its checksum is {computed:08x} instead of \
                        {stored:08x}"
                )
            }
        }
    }
}

/// A write in progress, to be passed back when it completes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing {
    range: ByteRange,
}

/// The valid content of a read, determined at its start.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The oldest valid generation of each unit.
    oldest: Vec<u64>,
}

/// The record of all writes, over all profiles of a run.
pub(crate) struct Verifier {
    unit: ByteCount,
    run: u64,
    compressible_percent: Cell<f64>,
    units: RefCell<BTreeMap<u64, Unit>>,
    checked_bytes: Cell<u64>,
}

impl Verifier {
    /// The record of a run. All offsets and lengths are multiples of `unit`.
    pub(crate) fn new(unit: ByteCount, run: u64) -> Verifier {
        Verifier {
            unit,
            run,
            compressible_percent: Cell::new(0.0),
            units: RefCell::default(),
            checked_bytes: Cell::new(0),
        }
    }

    /// Sets the compressible share of later writes.
    pub(crate) fn compress(&self, percent: f64) {
        self.compressible_percent.set(percent);
    }

    /// The number of bytes that were read and are right.
    pub(crate) fn checked_bytes(&self) -> u64 {
        self.checked_bytes.get()
    }

    fn addresses(&self, range: ByteRange) -> impl Iterator<Item = u64> + use<> {
        (range.start.0..range.end().0).step_by(self.unit.as_usize())
    }

    /// Fills `bytes` with the content to write, and records it.
    pub(crate) fn write(&self, request: &Request, bytes: &mut [u8]) -> Writing {
        let range = ByteRange::new(request.offset, request.block);
        let mut units = self.units.borrow_mut();
        for (address, bytes) in self.addresses(range).zip(bytes.chunks_mut(self.unit.as_usize())) {
            let unit = units.entry(address).or_default();
            unit.newest += 1;
            if unit.writing == 0 {
                unit.overlap_oldest = unit.newest;
                unit.spoilt = false;
            }
            unit.writing += 1;
            self.fill(bytes, address, unit.newest);
        }
        Writing { range }
    }

    fn fill(&self, bytes: &mut [u8], address: u64, generation: u64) {
        let random =
            (bytes.len() as f64 * (1.0 - self.compressible_percent.get() / 100.0)) as usize;
        let seed = self.run ^ address.rotate_left(17) ^ generation.rotate_left(41);
        let (noise, zeroes) = bytes.split_at_mut(random.max(HEADER));
        Random::new(seed).fill(noise);
        zeroes.fill(0);
        bytes[..8].copy_from_slice(&MARK);
        bytes[8..16].copy_from_slice(&address.to_le_bytes());
        bytes[16..24].copy_from_slice(&generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.run.to_le_bytes());
        let len = bytes.len() as u32;
        bytes[32..36].copy_from_slice(&len.to_le_bytes());
        let sum = checksum(bytes);
        bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }

    /// Records the end of a write.
    pub(crate) fn written(&self, writing: &Writing, succeeded: bool) {
        let mut units = self.units.borrow_mut();
        for address in self.addresses(writing.range) {
            let Some(unit) = units.get_mut(&address) else { continue };
            unit.writing -= 1;
            unit.spoilt |= !succeeded;
            if unit.spoilt {
                unit.oldest = 0;
            } else if unit.writing == 0 {
                unit.oldest = unit.overlap_oldest;
            }
        }
    }

    /// Records the start of a read.
    pub(crate) fn read(&self, range: ByteRange, reading: &mut Reading) {
        let units = self.units.borrow();
        let oldest = |address| units.get(&address).map_or(0, |unit| unit.oldest);
        reading.oldest.clear();
        reading.oldest.extend(self.addresses(range).map(oldest));
    }

    /// Checks the content of a read.
    pub(crate) fn check(
        &self,
        range: ByteRange,
        reading: &Reading,
        bytes: &[u8],
    ) -> Result<(), Mismatch> {
        let units = self.units.borrow();
        let pieces = bytes.chunks(self.unit.as_usize());
        for ((address, bytes), oldest) in self.addresses(range).zip(pieces).zip(&reading.oldest) {
            let newest = units.get(&address).map_or(0, |unit| unit.newest);
            self.judge(address, bytes, *oldest, newest).map_err(|(expected, found)| Mismatch {
                address: ByteOffset(address),
                unit: self.unit,
                expected,
                found,
            })?;
        }
        self.checked_bytes.set(self.checked_bytes.get() + range.len.0);
        Ok(())
    }

    fn judge(
        &self,
        address: u64,
        bytes: &[u8],
        oldest: u64,
        newest: u64,
    ) -> Result<(), (Expected, Found)> {
        let expected = match newest {
            0 => Expected::NothingOfOurs,
            _ => Expected::Generations(oldest.max(1), newest),
        };
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            word.map_or(0, u64::from_le_bytes)
        };
        if bytes.get(..8) != Some(&MARK[..]) || word(24) != self.run {
            let first = bytes.get(..8).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
            return if oldest == 0 { Ok(()) } else { Err((expected, Found::Foreign(first))) };
        }
        let (is, generation) = (word(8), word(16));
        let right = is == address && newest > 0 && (oldest..=newest).contains(&generation);
        if !right {
            return Err((expected, Found::Unit(is, generation)));
        }
        let stored = bytes
            .get(CHECKSUM)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_le_bytes);
        let computed = checksum(bytes);
        // A partially written unit is valid after a failed write, or during its first write.
        if computed == stored || oldest == 0 {
            Ok(())
        } else {
            Err((expected, Found::Damaged(computed, stored)))
        }
    }

    /// All ranges that this run has written and that have no write in progress, in parts of at most
    /// `most`.
    pub(crate) fn written_ranges(&self, most: ByteCount) -> Vec<ByteRange> {
        let mut ranges: Vec<ByteRange> = Vec::new();
        for (address, _) in self.units.borrow().iter().filter(|(_, unit)| unit.oldest > 0) {
            match ranges.last_mut() {
                Some(last) if last.end().0 == *address && last.len + self.unit <= most => {
                    last.len += self.unit
                }
                _ => ranges.push(ByteRange::new(ByteOffset(*address), self.unit)),
            }
        }
        ranges
    }
}

/// CRC-32C of a unit with its checksum field as zero.
fn checksum(bytes: &[u8]) -> u32 {
    let (before, rest) = bytes.split_at(CHECKSUM.start.min(bytes.len()));
    let sum = crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]);
    crc32c::crc32c_append(sum, rest.get(4..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::profile::Operation;

    fn request(offset: u64, block: u64) -> Request {
        Request { operation: Operation::Write, offset: ByteOffset(offset), block: ByteCount(block) }
    }

    fn range(offset: u64, len: u64) -> ByteRange {
        ByteRange::new(ByteOffset(offset), ByteCount(len))
    }

    fn write(verifier: &Verifier, offset: u64, len: u64) -> (Writing, Vec<u8>) {
        let mut bytes = vec![0; len as usize];
        (verifier.write(&request(offset, len), &mut bytes), bytes)
    }

    fn check(verifier: &Verifier, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let (range, mut reading) = (range(offset, bytes.len() as u64), Reading::default());
        verifier.read(range, &mut reading);
        verifier.check(range, &reading, bytes).map_err(|mismatch| mismatch.to_string())
    }

    #[test]
    fn what_was_written_is_right_and_everything_else_is_named() {
        let verifier = Verifier::new(ByteCount(4096), 77);
        let (first, old) = write(&verifier, 8192, 8192);
        verifier.written(&first, true);
        assert_eq!(check(&verifier, 8192, &old), Ok(()));
        let (second, new) = write(&verifier, 12_288, 4096);
        verifier.written(&second, true);
        assert_eq!(check(&verifier, 12_288, &new), Ok(()));
        assert_eq!(verifier.checked_bytes(), 8192 + 4096);
        let lost = check(&verifier, 8192, &old).unwrap_err();
        assert_eq!(
            lost,
            "the 4 KiB at byte 12288 should hold write 2 of it, but holds write 1, an older one: a \
                write was lost"
        );
        let stray = check(&verifier, 8192, &new).unwrap_err();
        assert!(
            stray.contains("holds write 2 of the block at byte 12288: a read or a write went to"),
            "{stray}"
        );
        let mut rotten = new.clone();
        rotten[4000] ^= 1;
        let damaged = check(&verifier, 12_288, &rotten).unwrap_err();
        assert!(damaged.contains("its content is damaged: its checksum is"), "{damaged}");
        let gone = check(&verifier, 12_288, &[0; 4096]).unwrap_err();
        assert!(gone.contains("begins with 00 00 00 00 00 00 00 00"), "{gone}");
    }

    #[test]
    fn what_this_run_did_not_write_may_be_anything_but_a_block_of_this_run() {
        let verifier = Verifier::new(ByteCount(512), 1);
        assert_eq!(check(&verifier, 0, &[7; 1024]), Ok(()));
        let (done, bytes) = write(&verifier, 512, 512);
        verifier.written(&done, true);
        let stray = check(&verifier, 0, &bytes).unwrap_err();
        assert!(
            stray.starts_with("the 512 B at byte 0 was not written in this run, but holds write 1"),
            "{stray}"
        );
        let other = Verifier::new(ByteCount(512), 2);
        assert_eq!(check(&other, 0, &bytes), Ok(()), "blocks of an earlier run are foreign");
    }

    #[test]
    fn while_writes_overlap_each_of_them_is_right() {
        let verifier = Verifier::new(ByteCount(512), 1);
        let (zeroth, oldest) = write(&verifier, 0, 512);
        verifier.written(&zeroth, true);
        let (one, first) = write(&verifier, 0, 512);
        let (two, second) = write(&verifier, 0, 512);
        for bytes in [&oldest, &first, &second] {
            assert_eq!(check(&verifier, 0, bytes), Ok(()));
        }
        verifier.written(&two, true);
        verifier.written(&one, true);
        assert!(check(&verifier, 0, &oldest).is_err());
        assert_eq!(check(&verifier, 0, &first), Ok(()));
        assert_eq!(check(&verifier, 0, &second), Ok(()));
        let (three, third) = write(&verifier, 0, 512);
        verifier.written(&three, true);
        assert!(check(&verifier, 0, &second).is_err());
        assert_eq!(check(&verifier, 0, &third), Ok(()));
    }

    #[test]
    fn after_a_failed_write_anything_is_right_until_the_next() {
        let verifier = Verifier::new(ByteCount(512), 1);
        let (failed, _) = write(&verifier, 0, 512);
        verifier.written(&failed, false);
        assert_eq!(check(&verifier, 0, &[9; 512]), Ok(()));
        assert!(verifier.written_ranges(ByteCount::MIB).is_empty());
        let (done, bytes) = write(&verifier, 0, 512);
        verifier.written(&done, true);
        assert!(check(&verifier, 0, &[9; 512]).is_err());
        assert_eq!(check(&verifier, 0, &bytes), Ok(()));
    }

    #[test]
    fn what_was_written_is_listed_in_runs() {
        let verifier = Verifier::new(ByteCount(512), 1);
        for offset in [4096, 0, 512, 1024] {
            let (done, _) = write(&verifier, offset, 512);
            verifier.written(&done, true);
        }
        let ranges = verifier.written_ranges(ByteCount(1024));
        assert_eq!(ranges, [range(0, 1024), range(1024, 512), range(4096, 512)]);
    }

    #[test]
    fn a_unit_compresses_as_it_was_asked_to() {
        let verifier = Verifier::new(ByteCount(4096), 1);
        verifier.compress(75.0);
        let (done, bytes) = write(&verifier, 0, 4096);
        verifier.written(&done, true);
        assert_eq!(check(&verifier, 0, &bytes), Ok(()));
        assert!(bytes[1024..].iter().all(|byte| *byte == 0));
        assert!(bytes[..1024].iter().filter(|byte| **byte == 0).count() < 64);
    }
}
