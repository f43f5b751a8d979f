//! The undo log of an import: the metadata of the foreign system that SoftROC's structure
//! overwrites.
//!
//! ```text
//! tail + 24 MiB
//! ┌──────┬────────┬────────┬───┐
//! │ head │ part 0 │ part 1 │ … │
//! └──────┴────────┴────────┴───┘
//! head, 4096 bytes; numbers are little-endian
//!  0  8  "SRoCundo"                        32  4  how many parts
//!  8  4  version, 1                        36  4  CRC-32C of the parts' bytes
//! 12  4  CRC-32C of the head, this as zero 40 24  zero
//! 16 16  UUID of the array                 64     16 for each part: where its bytes belong on
//!                                                 the drive, how many
//! ```
//! # Invariants
//! - The head is written when the parts are durable, and removed when they are no longer needed.
//! - All drives of an import have their logs before any of them is overwritten. So a drive with a
//!   log and without the label of the new array shows that no label of that array was completed.

use crate::bytes::{crc_without, u32_at, u64_at};
use crate::ddf;
use crate::error::{Error, ErrorKind, Result};
use crate::foreign::{Glimpse, metadata};
use crate::tail::{BLOCK, Tail};
use crate::uuid::Uuid;
use units::{ByteCount, ByteOffset, ByteRange};

const MAGIC: [u8; 8] = *b"SRoCundo";
const VERSION: u32 = 1;
const AT_VERSION: usize = 8;
const AT_CRC: usize = 12;
const AT_ARRAY: usize = 16;
const AT_COUNT: usize = 32;
const AT_PARTS_CRC: usize = 36;
const AT_PARTS: usize = 64;

/// The most parts of a log, and the most bytes in them.
const MOST_PARTS: usize = 64;

/// An overwritten part: its offset and bytes.
pub type Part = (ByteOffset, Vec<u8>);

/// The overwritten metadata of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undo {
    /// The array that the import was creating.
    pub array: Uuid,
    /// The parts to restore.
    pub parts: Vec<Part>,
}

/// The head of a log, which describes its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UndoHead {
    /// The array that the import was creating.
    pub array: Uuid,
    ranges: Vec<ByteRange>,
    parts_crc: u32,
}

impl Undo {
    /// The head of the log.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where the log has no space for the parts or bytes.
    pub fn head(&self) -> Result<Vec<u8>> {
        let ranges: Vec<ByteRange> = self.parts.iter().map(range_of).collect();
        check(&ranges)?;
        let mut head = vec![0; BLOCK.as_usize()];
        head[..8].copy_from_slice(&MAGIC);
        head[AT_VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
        head[AT_ARRAY..][..16].copy_from_slice(&self.array.0);
        head[AT_COUNT..][..4].copy_from_slice(&(ranges.len() as u32).to_le_bytes());
        head[AT_PARTS_CRC..][..4].copy_from_slice(&crc32c::crc32c(&self.body()).to_le_bytes());
        for (index, range) in ranges.iter().enumerate() {
            let at = AT_PARTS + 16 * index;
            head[at..][..8].copy_from_slice(&range.start.0.to_le_bytes());
            head[at + 8..][..8].copy_from_slice(&range.len.0.to_le_bytes());
        }
        let crc = crc_without(&head, AT_CRC);
        head[AT_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
        Ok(head)
    }

    /// The bytes behind the head: all parts, padded to whole blocks.
    pub fn body(&self) -> Vec<u8> {
        let mut body: Vec<u8> =
            self.parts.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        body.resize(body.len().next_multiple_of(BLOCK.as_usize()), 0);
        body
    }
}

impl UndoHead {
    /// Decodes the head; `None` where it is absent or damaged.
    pub fn decode(bytes: &[u8]) -> Option<UndoHead> {
        let is_whole = bytes.len() == BLOCK.as_usize() && bytes.starts_with(&MAGIC);
        if !is_whole
            || u32_at(bytes, AT_CRC) != crc_without(bytes, AT_CRC)
            || u32_at(bytes, AT_VERSION) != VERSION
        {
            return None;
        }
        let count = u32_at(bytes, AT_COUNT) as usize;
        let range = |index: usize| {
            let at = AT_PARTS + 16 * index;
            ByteRange::new(ByteOffset(u64_at(bytes, at)), ByteCount(u64_at(bytes, at + 8)))
        };
        let ranges: Vec<ByteRange> = (0..count.min(MOST_PARTS)).map(range).collect();
        check(&ranges).ok()?;
        let array = Uuid(std::array::from_fn(|index| bytes[AT_ARRAY + index]));
        let parts_crc = u32_at(bytes, AT_PARTS_CRC);
        (count <= MOST_PARTS).then_some(UndoHead { array, ranges, parts_crc })
    }

    /// The number of bytes behind it.
    pub fn body_bytes(&self) -> ByteCount {
        ByteCount(self.ranges.iter().map(|range| range.len.0).sum::<u64>()).align_up(BLOCK)
    }

    /// The log with the bytes behind its head; `None` where they are damaged.
    pub fn with(&self, body: &[u8]) -> Option<Undo> {
        if body.len() as u64 != self.body_bytes().0 || crc32c::crc32c(body) != self.parts_crc {
            return None;
        }
        let mut rest = body;
        let mut parts = Vec::new();
        for range in &self.ranges {
            let (bytes, after) = rest.split_at_checked(range.len.as_usize())?;
            parts.push((range.start, bytes.to_vec()));
            rest = after;
        }
        Some(Undo { array: self.array, parts })
    }
}

fn range_of((at, bytes): &Part) -> ByteRange {
    ByteRange::new(*at, ByteCount::of(bytes))
}

fn check(ranges: &[ByteRange]) -> Result<()> {
    let room = Tail::UNDO - BLOCK;
    let all = ranges.iter().try_fold(0_u64, |sum, range| sum.checked_add(range.len.0));
    let ends = ranges.iter().all(|range| range.start.0.checked_add(range.len.0).is_some());
    match all {
        Some(all) if all <= room.0 && ends && ranges.len() <= MOST_PARTS => Ok(()),
        _ => Err(Error::new(
            ErrorKind::TooLarge,
            format!("its metadata are in {} pieces, more than an import can save", ranges.len()),
        )),
    }
}

/// The ranges that an import must save: the drive's [`metadata`], and all copies of a DDF
/// structure, which SoftROC's may overwrite. Sorted, without overlaps. Call this until the probe
/// buffer wants nothing more.
pub fn to_keep(glimpse: &Glimpse) -> Vec<ByteRange> {
    let mut ranges = metadata(glimpse);
    if let ddf::Look::Found(drive) = ddf::look(glimpse, ddf::Effort::Own) {
        ranges.extend(drive.extents());
    }
    ranges.sort();
    let mut apart: Vec<ByteRange> = Vec::new();
    for range in ranges {
        match apart.last_mut().filter(|last| last.end() >= range.start) {
            Some(last) => *last = ByteRange::from_to(last.start, last.end().max(range.end())),
            None => apart.push(range),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_comes_back_and_no_changed_byte_goes_unnoticed() {
        let parts = vec![(ByteOffset(512), vec![7; 512]), (ByteOffset(1 << 30), vec![9; 5000])];
        let undo = Undo { array: Uuid([3; 16]), parts };
        let (head, body) = (undo.head().unwrap(), undo.body());
        let decoded = UndoHead::decode(&head).unwrap();
        assert_eq!(decoded.body_bytes(), ByteCount::of(&body));
        assert_eq!(decoded.with(&body), Some(undo));
        for at in (0..head.len()).step_by(7) {
            let mut head = head.clone();
            head[at] ^= 1;
            assert_eq!(UndoHead::decode(&head), None, "byte {at}");
        }
        let mut other = body.clone();
        other[600] ^= 1;
        assert_eq!(decoded.with(&other), None);
        assert_eq!(decoded.with(&body[..4096]), None);
    }

    #[test]
    fn more_than_there_is_room_for_is_refused() {
        let part = |len: u64| (ByteOffset(0), vec![0; len as usize]);
        let undo = |parts| Undo { array: Uuid([3; 16]), parts };
        assert!(undo(vec![part(Tail::UNDO.0)]).head().is_err());
        assert!(undo(vec![part(1); MOST_PARTS + 1]).head().is_err());
        assert!(undo(vec![part(1); MOST_PARTS]).head().is_ok());
    }
}
