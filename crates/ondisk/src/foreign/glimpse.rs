//! The probe buffer: the bytes of a drive that were read so far, and the ranges that decoders
//! requested.

use std::cell::RefCell;
use units::{ByteCount, ByteOffset, ByteRange};

/// The largest request: no supported format has larger structures.
const MOST_BYTES: u64 = 8 << 20;

/// The state of a range of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeState<'a> {
    /// The bytes.
    Read(&'a [u8]),
    /// The drive could not read them, or does not have them.
    Unreadable,
    /// Not read yet: the range is noted as wanted.
    NotYet,
}

/// The parts of a drive that were read so far. A decoder takes bytes from it, and runs again when
/// the ranges that it [wanted](Glimpse::wanted) have been [put](Glimpse::put) there.
#[derive(Debug)]
pub struct Glimpse {
    size: ByteCount,
    serial: Option<String>,
    parts: Vec<(ByteRange, Option<Vec<u8>>)>,
    wanted: RefCell<Vec<ByteRange>>,
}

impl Glimpse {
    /// An empty buffer for a drive of that size.
    pub fn new(size: ByteCount) -> Glimpse {
        Glimpse { size, serial: None, parts: Vec::new(), wanted: RefCell::default() }
    }

    /// A drive that is completely in memory, as in tests.
    pub fn of(bytes: Vec<u8>) -> Glimpse {
        let size = ByteCount::of(&bytes);
        let whole = ByteRange::new(ByteOffset(0), size);
        Glimpse {
            size,
            serial: None,
            parts: vec![(whole, Some(bytes))],
            wanted: RefCell::default(),
        }
    }

    /// The same with the drive's serial number, by which some formats identify their drives.
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

    /// The bytes of a range. A range that is partly outside the drive, or longer than 8 MiB, is
    /// unreadable.
    pub fn get(&self, range: ByteRange) -> RangeState<'_> {
        let end = range.start.0.checked_add(range.len.0);
        if range.len.0 > MOST_BYTES || end.is_none_or(|end| end > self.size.0) {
            return RangeState::Unreadable;
        }
        for (at, bytes) in &self.parts {
            if at.contains(range) {
                let from = (range.start.0 - at.start.0) as usize;
                let part =
                    bytes.as_ref().and_then(|bytes| bytes.get(from..from + range.len.as_usize()));
                return part.map_or(RangeState::Unreadable, RangeState::Read);
            }
        }
        self.wanted.borrow_mut().push(range);
        RangeState::NotYet
    }

    /// The bytes of a range where they are read and readable: for decoders that ignore the
    /// difference.
    pub fn bytes(&self, start: u64, len: u64) -> Option<&[u8]> {
        match self.get(ByteRange::new(ByteOffset(start), ByteCount(len))) {
            RangeState::Read(bytes) => Some(bytes),
            RangeState::Unreadable | RangeState::NotYet => None,
        }
    }

    /// The ranges that were requested since the last call and are not read yet, without
    /// repetitions.
    pub fn wanted(&self) -> Vec<ByteRange> {
        let mut wanted = std::mem::take(&mut *self.wanted.borrow_mut());
        wanted.sort();
        wanted.dedup();
        wanted
    }

    /// Adds the bytes of a range; `None` where it is unreadable. The range may be larger than the
    /// wanted one.
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
        assert_eq!(glimpse.get(range), RangeState::Read(&[7; 512]));
        glimpse.put(ByteRange::new(ByteOffset(2048), ByteCount(512)), None);
        assert_eq!(
            glimpse.get(ByteRange::new(ByteOffset(2048), ByteCount(512))),
            RangeState::Unreadable
        );
        assert!(glimpse.wanted().is_empty());
    }
}
