//! Intel's metadata that affect whether data are valid: attributes, copies on demand, caches, bad
//! blocks.
//!
//! ```text
//! bad block log: the last bytes of the metadata, as many as 0x48 says
//! 0 4 0xABADB10C    4 4 entries, 254 at most    8 entries of 8 bytes
//! entry: 0 1 blocks - 1   1 1 disk   2 2 bits 32 to 47 of the first block   4 4 bits 0 to 31
//! ```

use super::{DISKS, Image, Volume};
use crate::bytes::{u16_at, u32_at};
use units::{ByteOffset, ByteRange};

const BAD_BLOCKS: u32 = 0xABAD_B10C;
const MOST_ENTRIES: u32 = 254;
const HEAD: usize = 8;
const ENTRY: usize = 8;

/// Attributes with the usual data layout: levels (except RAID 1E and copies on demand), long
/// strips, RAID 10 on more than four drives, sizes beyond 2 TiB, the bad block log, the checksum;
/// and one without a meaning.
const KNOWN_ATTRIBUTES: u32 = 0x1
    | 0x2
    | 0x4
    | 0x10
    | 0x40
    | 0x80
    | 0x0400_0000
    | 0x0800_0000
    | 0x2000_0000
    | 0x4000_0000
    | 0x8000_0000;
const RAID_1E: u32 = 0x8;
const ON_DEMAND: u32 = 0x20;
const NVM_CACHE: [u32; 2] = [0x0200_0000, 0x1000_0000];

/// Bits of a volume's status: its second drive is a copy that is updated on request.
const CLONE_BITS: u32 = 0x400 | 0x800;

/// The reason why the metadata do not locate a volume's current data: a sentence.
pub(super) fn unknown(image: &Image, volume: &Volume<'_>) -> Option<String> {
    let attributes = u32_at(&image.bytes, 0x34);
    let name = |bit: &u32| match *bit {
        RAID_1E => "RAID 1E (0x8)".to_owned(),
        ON_DEMAND => "copies on demand (0x20)".to_owned(),
        bit if NVM_CACHE.contains(&bit) => format!("a cache on flash memory ({bit:#x})"),
        bit => format!("{bit:#x}"),
    };
    let unknown: Vec<String> = (0..32)
        .map(|bit| 1_u32 << bit)
        .filter(|bit| attributes & !KNOWN_ATTRIBUTES & bit != 0)
        .map(|bit| name(&bit))
        .collect();
    if !unknown.is_empty() {
        return Some(format!(
            "its metadata have unsupported attributes, {}: read it with Intel's driver",
            unknown.join(", ")
        ));
    }
    let status = u32_at(volume.bytes, 24);
    if status & CLONE_BITS != 0 {
        let master = volume.bytes.get(35).copied().unwrap_or(0);
        return Some(format!(
            "its second drive is a copy that is updated only on request (status {status:#x}) and \
            may be older; name only the master drive, which has number {master} in the metadata",
        ));
    }
    let cache = volume.bytes.get(42).copied().unwrap_or(0);
    (cache != 0).then(|| {
        format!(
            "it has a cache on flash memory (mode {cache}), which may hold the newest data: let \
             Intel's driver write them back"
        )
    })
}

/// A run of bad blocks: the index in the table of disks, and the range on that disk.
pub(super) type BadRun = (usize, ByteRange);

/// The bad block log.
///
/// # Errors
/// When it is damaged: a clause.
pub(super) fn bad_blocks(image: &Image) -> Result<Vec<BadRun>, String> {
    let len = u32_at(&image.bytes, 0x48) as usize;
    if len == 0 {
        return Ok(Vec::new());
    }
    let damaged = |why: String| format!("its bad block log {why}; its bad blocks are unknown");
    let log = image.bytes.len().checked_sub(len).filter(|start| *start >= DISKS);
    let Some(log) = log.and_then(|start| image.bytes.get(start..)).filter(|_| len >= HEAD) else {
        return Err(damaged(format!(
            "has an invalid length of {len} bytes, of {} in all",
            image.bytes.len()
        )));
    };
    let count = u32_at(log, 4);
    if u32_at(log, 0) != BAD_BLOCKS
        || count > MOST_ENTRIES
        || log.len() < HEAD + ENTRY * count as usize
    {
        return Err(damaged(format!(
            "of {len} bytes begins with {:#x} and has {count} entries; {BAD_BLOCKS:#x} and at most \
             {MOST_ENTRIES} are valid",
            u32_at(log, 0)
        )));
    }
    let mut runs = Vec::new();
    for (index, entry) in log[HEAD..].chunks_exact(ENTRY).take(count as usize).enumerate() {
        let (blocks, disk) = (u64::from(entry[0]) + 1, usize::from(entry[1]));
        let first = u64::from(u16_at(entry, 2)) << 32 | u64::from(u32_at(entry, 4));
        if disk >= image.disks() {
            let disks = image.disks();
            return Err(damaged(format!(
                "is damaged: entry {index} is of disk {disk}, and there are {disks}"
            )));
        }
        let start = ByteOffset(image.sectors(first).0);
        runs.push((disk, ByteRange::new(start, image.sectors(blocks))));
    }
    runs.sort_by_key(|(disk, run)| (*disk, run.start));
    Ok(runs)
}
