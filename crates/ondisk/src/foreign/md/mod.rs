//! Superblocks of Linux md, versions 0.90, 1.0, 1.1 and 1.2.
//!
//! ```text
//! version  superblock at sector (of N)   numbers               data begin
//! 0.90     (N & !127) - 128              the writer's endian   at 0
//! 1.0      (N - 16) & !7                 little-endian         at an offset in the superblock
//! 1.1      0                             little-endian         at an offset in the superblock
//! 1.2      8                             little-endian         at an offset in the superblock
//! ```
//!
//! Names and meanings follow Linux's `md_p.h`. A superblock describes the whole array and
//! identifies its own device, so one member is enough to know the slots of all.

mod backup;
mod bad_blocks;
mod levels;
mod reshape;
mod version0;
mod version1;

use super::glimpse::Glimpse;
use super::record::Told;
use super::search::Displaced;
use units::{ByteCount, ByteOffset, ByteRange};

const SECTOR: u64 = 512;
const MAGIC: u32 = 0xA92B_4EFC;

/// Decodes the superblocks on a drive.
pub(super) fn read(glimpse: &Glimpse) -> Told {
    let mut told = version1::read(glimpse);
    told.extend(version0::read(glimpse));
    told
}

/// A superblock that a search found, if its drive may have ended behind it.
pub(super) fn displaced(glimpse: &Glimpse, at: ByteOffset, head: &[u8]) -> Option<Displaced> {
    let magic = head.first_chunk::<4>()?;
    if ![u32::from_le_bytes(*magic), u32::from_be_bytes(*magic)].contains(&MAGIC) {
        return None;
    }
    version1::displaced(glimpse, at).or_else(|| version0::displaced(glimpse, at))
}

pub use backup::Backup;
pub(super) use version1::unused_in_front;

/// The bytes of a superblock that are cleared: more than its fixed fields.
const CLEARED: u64 = 4096;

/// The ranges of superblocks on a drive, valid or not.
pub(super) fn places(glimpse: &Glimpse) -> Vec<ByteRange> {
    let sectors = glimpse.size().0 / SECTOR;
    let old = (sectors & !127).checked_sub(128);
    let at_end = (sectors > 24).then_some((sectors - 16) & !7);
    let places = [Some(8), Some(0), at_end, old].into_iter().flatten();
    let superblock = |sector: u64| {
        let at = sector * SECTOR;
        let head = glimpse.bytes(at, CLEARED)?.first_chunk::<4>()?;
        let is_one = [u32::from_le_bytes(*head), u32::from_be_bytes(*head)].contains(&MAGIC);
        is_one.then_some(ByteRange::new(ByteOffset(at), ByteCount(CLEARED)))
    };
    places.filter_map(superblock).collect()
}

/// The checksum of both versions: the sum of all 32-bit words, with its upper half added to the
/// lower.
fn folded(sum: u64) -> u32 {
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
