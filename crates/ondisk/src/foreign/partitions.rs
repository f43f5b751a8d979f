//! The partitions of a drive: members are often partitions, and images often of whole drives.

use super::glimpse::Glimpse;
use crate::bytes::{u32_at, u64_at};
use units::{ByteCount, ByteOffset, ByteRange};

/// The most partitions.
const MOST: usize = 128;
/// GPT entries have 128 bytes, or a larger power of two.
const GPT_ENTRIES: std::ops::RangeInclusive<u64> = 128..=4096;
const MBR_ENTRY: usize = 16;
const SECTOR: u64 = 512;
/// Types of MBR entries that lead to more partitions, and the type of the protective entry of a
/// GPT.
const EXTENDED: [u8; 3] = [0x05, 0x0F, 0x85];
const PROTECTIVE: u8 = 0xEE;

/// The partitions in the drive's table that lie on the drive; empty without a table. Call it again
/// when the ranges that the probe buffer [wanted](Glimpse::wanted) are there.
pub fn partitions(glimpse: &Glimpse) -> Vec<ByteRange> {
    let mut found = gpt(glimpse).unwrap_or_else(|| mbr(glimpse));
    found.retain(|range| {
        let end = range.start.0.checked_add(range.len.0);
        !range.is_empty() && range.start.0 > 0 && end.is_some_and(|end| end <= glimpse.size().0)
    });
    found.sort();
    found.dedup();
    found.truncate(MOST);
    found
}

/// A GUID partition table: its header is in the second block, a copy in the last.
fn gpt(glimpse: &Glimpse) -> Option<Vec<ByteRange>> {
    let size = glimpse.size().0;
    let places = [512, 4096]
        .into_iter()
        .flat_map(|block| [(block, block), (block, size.saturating_sub(block))]);
    let is_header = |(block, at): &(u64, u64)| {
        glimpse.bytes(*at, *block).is_some_and(|header| header.starts_with(b"EFI PART"))
    };
    let (block, at) = places.filter(|(block, _)| size > *block).find(is_header)?;
    let header = glimpse.bytes(at, block)?;
    let start = u64_at(header, 72).checked_mul(block)?;
    let (count, length) = (u64::from(u32_at(header, 80)), u64::from(u32_at(header, 84)));
    if !(1..=1024).contains(&count) || !GPT_ENTRIES.contains(&length) {
        return None;
    }
    let table = glimpse.bytes(start, (count * length).next_multiple_of(block))?;
    let entries = table
        .chunks_exact(length as usize)
        .filter(|entry| entry[..16].iter().any(|byte| *byte != 0));
    let range = |entry: &[u8]| {
        let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
        let length = last.checked_sub(first)?.checked_add(1)?.checked_mul(block)?;
        Some(ByteRange::new(ByteOffset(first.checked_mul(block)?), ByteCount(length)))
    };
    Some(entries.filter_map(range).collect())
}

/// The partitions of a master boot record, and those in its extended partition.
fn mbr(glimpse: &Glimpse) -> Vec<ByteRange> {
    let mut found = Vec::new();
    for (kind, start, length) in table(glimpse, 0) {
        match kind {
            PROTECTIVE => {}
            kind if EXTENDED.contains(&kind) => logical(glimpse, start, &mut found),
            _ => found.push(sectors(start, length)),
        }
    }
    found
}

/// A chain of tables, each with one partition and the offset of the next table from the first.
fn logical(glimpse: &Glimpse, first: u64, found: &mut Vec<ByteRange>) {
    let mut at = first;
    for _ in 0..MOST {
        let mut next = None;
        for (kind, start, length) in table(glimpse, at * SECTOR) {
            if EXTENDED.contains(&kind) {
                next = Some(first + start);
            } else {
                found.push(sectors(at + start, length));
            }
        }
        match next {
            Some(next) if next > at => at = next,
            _ => return,
        }
    }
}

/// The used entries of the table in a sector: kind, first sector, sectors.
fn table(glimpse: &Glimpse, at: u64) -> Vec<(u8, u64, u64)> {
    let Some(sector) = glimpse.bytes(at, SECTOR) else { return Vec::new() };
    let entries = || sector[446..510].chunks_exact(MBR_ENTRY);
    if sector[510..] != [0x55, 0xAA] || !entries().all(|entry| matches!(entry[0], 0 | 0x80)) {
        return Vec::new();
    }
    let used = entries().filter(|entry| entry[4] != 0);
    used.map(|entry| (entry[4], u32_at(entry, 8).into(), u32_at(entry, 12).into())).collect()
}

/// Sums of a few 32-bit numbers: they do not overflow.
fn sectors(start: u64, length: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start * SECTOR), ByteCount(length * SECTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(drive: &mut [u8], at: usize, bytes: &[u8]) {
        drive[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn entry(drive: &mut [u8], sector: usize, index: usize, kind: u8, start: u32, length: u32) {
        let at = sector * 512 + 446 + 16 * index;
        put(drive, at + 4, &[kind]);
        put(drive, at + 8, &start.to_le_bytes());
        put(drive, at + 12, &length.to_le_bytes());
        put(drive, sector * 512 + 510, &[0x55, 0xAA]);
    }

    fn starts(drive: Vec<u8>) -> Vec<(u64, u64)> {
        let found = partitions(&Glimpse::of(drive));
        found.into_iter().map(|range| (range.start.0 / 512, range.len.0 / 512)).collect()
    }

    #[test]
    fn primary_and_logical_partitions_of_an_mbr_are_found() {
        let mut drive = vec![0; 1 << 20];
        entry(&mut drive, 0, 0, 0x83, 64, 100);
        entry(&mut drive, 0, 1, 0x05, 400, 1000);
        entry(&mut drive, 0, 2, 0x83, 1 << 30, 5);
        entry(&mut drive, 400, 0, 0xFD, 2, 50);
        entry(&mut drive, 400, 1, 0x05, 100, 60);
        entry(&mut drive, 500, 0, 0xFD, 2, 40);
        // A chain with a loop ends.
        entry(&mut drive, 500, 1, 0x05, 0, 60);
        assert_eq!(starts(drive), [(64, 100), (402, 50), (502, 40)]);
        assert!(starts(vec![0; 1 << 20]).is_empty());
    }

    #[test]
    fn a_guid_partition_table_is_found_at_either_end() {
        let mut drive = vec![0; 1 << 20];
        entry(&mut drive, 0, 0, PROTECTIVE, 1, 2047);
        for (at, table) in [(1, 2), (2047, 2015)] {
            put(&mut drive, at * 512, b"EFI PART");
            put(&mut drive, at * 512 + 72, &(table as u64).to_le_bytes());
            put(&mut drive, at * 512 + 80, &128u32.to_le_bytes());
            put(&mut drive, at * 512 + 84, &128u32.to_le_bytes());
            put(&mut drive, table * 512 + 128, &[7; 16]);
            put(&mut drive, table * 512 + 128 + 32, &34u64.to_le_bytes());
            put(&mut drive, table * 512 + 128 + 40, &99u64.to_le_bytes());
        }
        assert_eq!(starts(drive.clone()), [(34, 66)]);
        drive[512] = 0;
        assert_eq!(starts(drive), [(34, 66)]);
    }
}
