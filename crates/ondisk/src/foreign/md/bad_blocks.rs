//! The list of bad blocks of a member: sectors without valid data, which Linux md does not read.
//!
//! ```text
//! superblock   8 4 feature map: bit 3: the list is in force
//!            185 1 shift: addresses and lengths count units of 2^shift sectors
//!            186 2 length of the list, in sectors
//!            188 4 its offset, in sectors from the superblock, signed
//! list         8 bytes each: bits 63 to 10 first sector, bits 9 to 0 count; all ones: end
//! ```
//!
//! Linux writes entries in ascending order. A list that breaks these rules is damaged: the bad
//! blocks of the member are unknown, so the member is excluded.

use super::SECTOR;
use super::version1::BAD_BLOCKS;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::foreign::glimpse::{Glimpse, RangeState};
use crate::foreign::record::MemberRecord;
use units::{ByteCount, ByteOffset, ByteRange};

/// The most sectors of a list: Linux reads one page, and the largest pages have 64 KiB.
const MOST_SECTORS: u16 = 128;
/// The length of a superblock with its table of roles.
const SUPERBLOCK: u64 = 4096;
const COUNT_BITS: u32 = 10;

/// Adds the bad blocks of its list to a member; excludes the member where the list is unusable.
pub(super) fn note(glimpse: &Glimpse, superblock: &[u8], sector: u64, member: &mut MemberRecord) {
    if u32_at(superblock, 8) & BAD_BLOCKS == 0 {
        return;
    }
    match read(glimpse, superblock, sector, member) {
        Ok(bad) => member.bad = bad,
        Err(why) => {
            member.excluded.get_or_insert_with(|| {
                format!(
                    "{why}; its bad blocks are unknown: clear the list with mdadm on a copy of \
                    the drive"
                )
            });
        }
    }
}

fn read(
    glimpse: &Glimpse,
    superblock: &[u8],
    sector: u64,
    member: &MemberRecord,
) -> Result<Vec<ByteRange>, String> {
    let place = place(glimpse, superblock, sector, member)?;
    let RangeState::Read(list) = glimpse.get(place) else {
        let at = place.start.0 / SECTOR;
        return Err(format!("its list of bad blocks at sector {at} cannot be read"));
    };
    let shift = superblock.get(185).copied().unwrap_or(0);
    // The list of a truncated drive may name blocks beyond its end.
    entries(list, shift, glimpse.size().0.max(member.data.end().0))
}

/// The range of the list.
fn place(
    glimpse: &Glimpse,
    superblock: &[u8],
    sector: u64,
    member: &MemberRecord,
) -> Result<ByteRange, String> {
    let (sectors, offset) = (u16_at(superblock, 186), u32_at(superblock, 188) as i32);
    let says = || {
        format!("its list of bad blocks has {sectors} sectors at {offset:+} from its superblock")
    };
    if !(1..=MOST_SECTORS).contains(&sectors) {
        return Err(format!("{}, and it must have 1 to {MOST_SECTORS}", says()));
    }
    let start =
        sector.checked_add_signed(offset.into()).and_then(|sector| sector.checked_mul(SECTOR));
    let len = u64::from(sectors) * SECTOR;
    let end = start.and_then(|start| start.checked_add(len)).filter(|end| *end <= glimpse.size().0);
    let (Some(start), Some(_)) = (start, end) else {
        return Err(format!("{}, and must lie on the drive", says()));
    };
    let place = ByteRange::new(ByteOffset(start), ByteCount(len));
    let own = ByteRange::new(ByteOffset(sector * SECTOR), ByteCount(SUPERBLOCK));
    match place.overlaps(own) || place.overlaps(member.data) {
        true => Err(format!("{}, and must not overlap its superblock or its data", says())),
        false => Ok(place),
    }
}

/// The ranges of a list, in bytes of the drive, up to `limit`.
fn entries(list: &[u8], shift: u8, limit: u64) -> Result<Vec<ByteRange>, String> {
    let mut bad: Vec<ByteRange> = Vec::new();
    let unit = 1_u64.checked_shl(shift.into()).and_then(|unit| unit.checked_mul(SECTOR));
    for (index, entry) in list.chunks_exact(8).map(|entry| u64_at(entry, 0)).enumerate() {
        if entry == u64::MAX {
            break;
        }
        let (first, count) = (entry >> COUNT_BITS, entry & ((1 << COUNT_BITS) - 1));
        let bytes = |number: u64| unit.and_then(|unit| number.checked_mul(unit));
        let before = bad.last().map_or(0, |last| last.end().0);
        let end = first.checked_add(count).and_then(bytes).filter(|end| count > 0 && *end <= limit);
        match (bytes(first).filter(|start| *start >= before), end) {
            (Some(start), Some(end)) if start == before && !bad.is_empty() => {
                let run = bad.len() - 1;
                bad[run] = ByteRange::from_to(bad[run].start, ByteOffset(end));
            }
            (Some(start), Some(end)) => {
                bad.push(ByteRange::from_to(ByteOffset(start), ByteOffset(end)))
            }
            _ => {
                return Err(format!(
                    "its list of bad blocks is damaged: entry {index} names {count} units of \
                     2^{shift} sectors from unit {first} on, and must follow the entry before it \
                     and lie on the drive"
                ));
            }
        }
    }
    Ok(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u64, u64)]) -> Vec<u8> {
        let mut list: Vec<u8> =
            entries.iter().flat_map(|(first, count)| (first << 10 | count).to_le_bytes()).collect();
        list.resize(512, 0xFF);
        list
    }

    fn named(entries_of: &[(u64, u64)], shift: u8) -> Result<Vec<(u64, u64)>, String> {
        let bad = entries(&list(entries_of), shift, 1 << 20)?;
        Ok(bad.iter().map(|range| (range.start.0, range.len.0)).collect())
    }

    #[test]
    fn entries_name_sectors_of_the_drive_in_units_of_the_shift() {
        assert_eq!(named(&[], 0), Ok(vec![]));
        assert_eq!(named(&[(8, 1), (100, 8)], 0), Ok(vec![(4096, 512), (51_200, 4096)]));
        assert_eq!(named(&[(8, 1)], 3), Ok(vec![(8 * 4096, 4096)]));
        assert_eq!(named(&[(8, 8), (16, 8)], 0), Ok(vec![(4096, 8192)]), "runs that touch are one");
        let full: Vec<(u64, u64)> = (0..64).map(|index| (index * 2, 1)).collect();
        assert_eq!(named(&full, 0).unwrap().len(), 64, "a list that is full has no end mark");
    }

    #[test]
    fn a_list_that_linux_does_not_write_is_damaged() {
        for (entries, shift) in [
            (vec![(0, 0)], 0),
            (vec![(8, 8), (15, 1)], 0),
            (vec![(8, 8), (4, 1)], 0),
            (vec![(2047, 2)], 0),
            (vec![(1 << 53, 1)], 12),
            (vec![(1, 1)], 64),
            (vec![(1, 1)], 255),
        ] {
            let why = named(&entries, shift).unwrap_err();
            assert!(why.contains("is damaged: entry"), "{entries:?}: {why}");
        }
    }
}
