//! The first and last bytes of a drive, addressed by drive offset.

use crate::Place;
use units::{ByteCount, ByteOffset};

/// The length to read at each end: every known format has a magic number within it.
pub const INSPECTED: ByteCount = ByteCount::MIB;

/// A drive's size, its first and its last bytes. The two may overlap on a small drive.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    size: u64,
    first: &'a [u8],
    last: &'a [u8],
}

impl<'a> Ends<'a> {
    /// `first` starts at byte 0, `last` ends at byte `size`. Either may be shorter than
    /// [`INSPECTED`]; formats outside of them are not recognised.
    pub fn new(size: ByteCount, first: &'a [u8], last: &'a [u8]) -> Ends<'a> {
        Ends { size: size.0, first, last }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// `len` bytes at `offset`, if they are within one of the ends.
    pub(crate) fn bytes(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        let within = |bytes: &'a [u8], begin: u64| {
            let from = usize::try_from(offset.checked_sub(begin)?).ok()?;
            bytes.get(from..from.checked_add(len)?)
        };
        let last_begin = self.size.checked_sub(self.last.len() as u64)?;
        within(self.first, 0).or_else(|| within(self.last, last_begin))
    }

    /// The drive offset of a place, if the drive is large enough.
    pub(crate) fn offset(&self, place: Place) -> Option<u64> {
        match place {
            Place::FromStart(offset) => Some(offset),
            Place::FromEnd(distance) => self.size.checked_sub(distance),
        }
    }

    /// The offset of `magic`, if it is at `place`.
    pub(crate) fn has(&self, place: Place, magic: &[u8]) -> Option<ByteOffset> {
        let offset = self.offset(place)?;
        (!magic.is_empty() && self.bytes(offset, magic.len())? == magic)
            .then_some(ByteOffset(offset))
    }

    /// The offset of `last`.
    pub(crate) fn last_begin(&self) -> u64 {
        self.size.saturating_sub(self.last.len() as u64)
    }

    pub(crate) fn u16(&self, offset: u64) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(offset, 2)?.try_into().ok()?))
    }

    pub(crate) fn u32(&self, offset: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(offset, 4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&self, offset: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(offset, 8)?.try_into().ok()?))
    }

    /// A name stored in `len` bytes, as ` named 'root'`; empty without a printable name.
    pub(crate) fn name(&self, offset: u64, len: usize) -> String {
        let Some(bytes) = self.bytes(offset, len) else { return String::new() };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(len);
        match std::str::from_utf8(&bytes[..end]).map(str::trim) {
            Ok(name) if !name.is_empty() && !name.chars().any(char::is_control) => {
                format!(" named '{name}'")
            }
            _ => String::new(),
        }
    }
}

/// Whether all bytes are zero.
pub fn is_blank(bytes: &[u8]) -> bool {
    // Chunks without branches inside: fast on blank data, and stops early on other data.
    bytes.chunks(4096).all(|piece| piece.iter().fold(0, |any, byte| any | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_addressed_as_the_whole_drive() {
        let ends = Ends::new(ByteCount(100), &[1, 2, 3, 4], &[7, 8, 9]);
        assert_eq!(ends.bytes(1, 3), Some(&[2, 3, 4][..]));
        assert_eq!(ends.bytes(98, 2), Some(&[8, 9][..]));
        for (offset, len) in [(2, 3), (96, 2), (98, 3), (u64::MAX, 1), (1, usize::MAX)] {
            assert_eq!(ends.bytes(offset, len), None, "{offset}+{len}");
        }
        assert_eq!(ends.has(Place::FromEnd(2), &[8, 9]), Some(ByteOffset(98)));
        assert_eq!(ends.has(Place::FromEnd(101), &[8]), None);
    }

    #[test]
    fn lengths_that_lie_give_nothing_instead_of_a_panic() {
        let ends = Ends::new(ByteCount(2), &[1, 2, 3, 4], &[1, 2, 3, 4]);
        assert_eq!(ends.bytes(0, 1), None);
        assert_eq!(ends.last_begin(), 0);
    }

    #[test]
    fn blank_means_all_zero() {
        let mut bytes = vec![0; 1000];
        assert!(is_blank(&bytes) && is_blank(&[]));
        for at in [0, 1, 500, 999] {
            bytes[at] = 1;
            assert!(!is_blank(&bytes), "{at}");
            bytes[at] = 0;
        }
    }
}
