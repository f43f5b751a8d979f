//! Formats with a short magic number, a variable position, or a name to report.

use crate::{Ends, Finding, Kind};
use units::ByteOffset;

pub(crate) fn find(ends: &Ends<'_>, findings: &mut Vec<Finding>) {
    for recogniser in [ext, fat, hfs, nilfs, zfs, swap, lvm] {
        findings.extend(recogniser(ends));
    }
}

fn found(kind: Kind, what: impl Into<String>, offset: u64) -> Option<Finding> {
    Some(Finding { kind, what: what.into(), offset: ByteOffset(offset) })
}

/// ext2, ext3, ext4: the superblock at byte 1024, its magic 0xEF53 at +56. Feature flags
/// distinguish them.
fn ext(ends: &Ends<'_>) -> Option<Finding> {
    const SUPER: u64 = 1024;
    let plausible = ends.u16(SUPER + 56)? == 0xEF53
        && (ends.u32(SUPER)? != 0 || ends.u32(SUPER + 96)? & 0x8 != 0) // inodes; a journal has none
        && ends.u32(SUPER + 24)? <= 6 // block size 1 KiB << n
        && ends.u32(SUPER + 76)? <= 1; // revision
    if !plausible {
        return None;
    }
    let (compatible, incompatible) = (ends.u32(SUPER + 92)?, ends.u32(SUPER + 96)?);
    let what = match (compatible & 0x4 != 0, incompatible) {
        // A device with only the journal of another file system.
        (_, features) if features & 0x8 != 0 => "an ext journal device",
        // Extents, 64-bit, flex_bg and all later features exist only in ext4.
        (_, features) if features & !0x1F != 0 => "an ext4 file system",
        (true, _) => "an ext3 file system",
        (false, _) => "an ext2 file system",
    };
    found(Kind::FileSystem, format!("{what}{}", ends.name(SUPER + 120, 16)), SUPER + 56)
}

/// FAT12, FAT16, FAT32: a boot sector with a plausible geometry.
fn fat(ends: &Ends<'_>) -> Option<Finding> {
    let boot = ends.bytes(0, 512)?;
    let sector_bytes = ends.u16(11)?;
    let plausible = matches!(boot[0], 0xEB | 0xE9)
        && boot[510..] == [0x55, 0xAA]
        && matches!(sector_bytes, 512 | 1024 | 2048 | 4096)
        && boot[13].is_power_of_two() // sectors per cluster
        && ends.u16(14)? != 0 // reserved sectors
        && matches!(boot[16], 1..=4) // tables
        && (boot[21] == 0xF0 || boot[21] >= 0xF8); // medium
    if !plausible {
        return None;
    }
    let (what, name) = if boot[82..87] == *b"FAT32" {
        ("a FAT32 file system", ends.name(71, 11))
    } else {
        ("a FAT file system", ends.name(43, 11))
    };
    // mkfs writes this when no name is given.
    let name = if name.contains("NO NAME") { String::new() } else { name };
    found(Kind::FileSystem, format!("{what}{name}"), 0)
}

/// HFS and HFS+: two letters at byte 1024, verified by the version and the block size.
fn hfs(ends: &Ends<'_>) -> Option<Finding> {
    let header = ends.bytes(1024, 44)?;
    let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
    let what = match &header[..2] {
        b"H+" if u16_at(2) == 4 && u32_at(40).is_power_of_two() => "an HFS+ file system",
        b"HX" if u16_at(2) == 5 && u32_at(40).is_power_of_two() => "an HFSX file system",
        b"BD" if u16_at(18) != 0 && u32_at(20) != 0 && u32_at(20).is_multiple_of(512) => {
            "an HFS file system"
        }
        _ => return None,
    };
    found(Kind::FileSystem, what, 1024)
}

/// NILFS2: superblock at byte 1024, revision 2, magic 0x3434 at +6.
fn nilfs(ends: &Ends<'_>) -> Option<Finding> {
    const SUPER: u64 = 1024;
    let plausible = ends.u16(SUPER + 6)? == 0x3434
        && ends.u32(SUPER)? == 2
        && (96..=1024).contains(&ends.u16(SUPER + 8)?) // length of the superblock
        && ends.u32(SUPER + 20)? <= 6; // block size 1 KiB << n
    if plausible { found(Kind::FileSystem, "a NILFS2 file system", SUPER + 6) } else { None }
}

/// ZFS: four labels of 256 KiB, two at each end of the drive, aligned to 256 KiB. Each has a ring
/// of uberblocks from 128 KiB on, which start with 0x00BAB10C in either byte order.
fn zfs(ends: &Ends<'_>) -> Option<Finding> {
    const LABEL: u64 = 256 << 10;
    const RING: u64 = 128 << 10;
    let end = ends.size() / LABEL * LABEL;
    let starts = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    for start in starts.into_iter().flatten() {
        for slot in (0..RING).step_by(1024) {
            let offset = start + RING + slot;
            if matches!(
                ends.bytes(offset, 8),
                Some([0x0C, 0xB1, 0xBA, 0, 0, 0, 0, 0] | [0, 0, 0, 0, 0, 0xBA, 0xB1, 0x0C])
            ) {
                return found(Kind::ArrayMember, "a member of a ZFS pool", offset);
            }
        }
    }
    None
}

/// Swap: ten letters at the end of the first page, for each page size; other letters for a
/// hibernated system.
fn swap(ends: &Ends<'_>) -> Option<Finding> {
    for page in [4096, 8192, 16384, 32768, 65536] {
        let offset = page - 10;
        let what = match ends.bytes(offset, 10) {
            Some(b"SWAPSPACE2" | b"SWAP-SPACE") => "Linux swap space",
            Some(b"S1SUSPEND\0" | b"S2SUSPEND\0" | b"ULSUSPEND\0" | b"LINHIB0001") => {
                "the memory of a hibernated Linux system"
            }
            _ => continue,
        };
        return found(Kind::Swap, format!("{what}{}", ends.name(1024 + 28, 16)), offset);
    }
    None
}

/// LVM: a label of the physical-volume type in one of the first four sectors.
fn lvm(ends: &Ends<'_>) -> Option<Finding> {
    (0..4).map(|sector| sector * 512).find_map(|offset| {
        let label = ends.bytes(offset, 32)?;
        let lvm = label.starts_with(b"LABELONE") && label.ends_with(b"LVM2 001");
        if lvm { found(Kind::VolumeManager, "an LVM physical volume", offset) } else { None }
    })
}
