//! The bytes of a drive that were read so far, and those that somebody asked for.

use std::cell::RefCell;
use units::{ByteCount, ByteOffset, ByteRange};

/// The most that may be asked for at once: larger structures do not exist in any format that is known here.
const MOST_BYTES: u64 = 8 << 20;

/// What is known of some bytes of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got<'a> {
    /// These are they.
    Here(&'a [u8]),
    /// The drive could not read them, or has none there.
    Unreadable,
    /// Nobody has read them yet: they are noted as wanted.
    NotYet,
}

/// A few parts of a drive, as far as they were read. Decoders take what they need from it, and are called again
/// when what they [wanted](Glimpse::wanted) has been [put](Glimpse::put) there.
#[derive(Debug)]
pub struct Glimpse {
    size: ByteCount,
    serial: Option<String>,
    parts: Vec<(ByteRange, Option<Vec<u8>>)>,
    wanted: RefCell<Vec<ByteRange>>,
}

impl Glimpse {
    /// Nothing yet of a drive of that size.
    pub fn new(size: ByteCount) -> Glimpse {
        Glimpse { size, serial: None, parts: Vec::new(), wanted: RefCell::default() }
    }

    /// A drive that is wholly in memory, as in tests.
    pub fn of(bytes: Vec<u8>) -> Glimpse {
        let size = ByteCount::of(&bytes);
        let whole = ByteRange::new(ByteOffset(0), size);
        Glimpse { size, serial: None, parts: vec![(whole, Some(bytes))], wanted: RefCell::default() }
    }

    /// The same of a drive with that serial number, by which some formats know their drives.
    pub fn with_serial(self, serial: Option<String>) -> Glimpse {
        Glimpse { serial, ..self }
    }

    /// The drive's serial number, where it is known.
    pub fn serial(&self) -> Option<&str> {
        self.serial.as_deref()
    }

    /// The drive's size.
    pub fn size(&self) -> ByteCount {
        self.size
    }

    /// The bytes of a range. One that is not wholly on the drive, or longer than 8 MiB, is not readable.
    pub fn get(&self, range: ByteRange) -> Got<'_> {
        let end = range.start.0.checked_add(range.len.0);
        if range.len.0 > MOST_BYTES || end.is_none_or(|end| end > self.size.0) {
            return Got::Unreadable;
        }
        for (at, bytes) in &self.parts {
            if at.contains(range) {
                let from = (range.start.0 - at.start.0) as usize;
                let part = bytes.as_ref().and_then(|bytes| bytes.get(from..from + range.len.as_usize()));
                return part.map_or(Got::Unreadable, Got::Here);
            }
        }
        self.wanted.borrow_mut().push(range);
        Got::NotYet
    }

    /// The bytes of a range where they are known and readable: for decoders that do not care why not.
    pub fn bytes(&self, start: u64, len: u64) -> Option<&[u8]> {
        match self.get(ByteRange::new(ByteOffset(start), ByteCount(len))) {
            Got::Here(bytes) => Some(bytes),
            Got::Unreadable | Got::NotYet => None,
        }
    }

    /// What was asked for since the last call and is not there, without repetitions.
    pub fn wanted(&self) -> Vec<ByteRange> {
        let mut wanted = std::mem::take(&mut *self.wanted.borrow_mut());
        wanted.sort();
        wanted.dedup();
        wanted
    }

    /// Adds what was read of a range; `None` where it could not be. A range may be larger than what was wanted.
    pub fn put(&mut self, range: ByteRange, bytes: Option<Vec<u8>>) {
        let bytes = bytes.filter(|bytes| bytes.len() as u64 == range.len.0);
        self.parts.push((range, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_wanted_once_and_then_known() {
        let mut glimpse = Glimpse::new(ByteCount(4096));
        assert_eq!(glimpse.bytes(512, 512), None);
        assert_eq!(glimpse.bytes(512, 512), None);
        assert_eq!(glimpse.bytes(4096, 512), None, "past the end");
        assert_eq!(glimpse.bytes(u64::MAX, 512), None, "past everything");
        let range = ByteRange::new(ByteOffset(512), ByteCount(512));
        assert_eq!(glimpse.wanted(), vec![range]);
        glimpse.put(ByteRange::new(ByteOffset(0), ByteCount(1024)), Some(vec![7; 1024]));
        assert_eq!(glimpse.get(range), Got::Here(&[7; 512]));
        glimpse.put(ByteRange::new(ByteOffset(2048), ByteCount(512)), None);
        assert_eq!(glimpse.get(ByteRange::new(ByteOffset(2048), ByteCount(512))), Got::Unreadable);
        assert!(glimpse.wanted().is_empty());
    }
}
