//! RAID labels: Linux md, SNIA DDF, Intel Matrix (IMSM).

use crate::{Ends, Finding, Kind};
use units::ByteOffset;

const SECTOR: u64 = 512;

pub(crate) fn find(ends: &Ends<'_>, findings: &mut Vec<Finding>) {
    findings.extend(md_0_90(ends));
    findings.extend(md_1(ends));
    findings.extend(ddf(ends));
    findings.extend(imsm(ends));
}

fn member(what: String, offset: u64) -> Finding {
    Finding { kind: Kind::ArrayMember, what, offset: ByteOffset(offset) }
}

/// Linux md, superblock 0.90: in the last whole 64 KiB of the drive, in the byte order of its
/// writer.
fn md_0_90(ends: &Ends<'_>) -> Option<Finding> {
    let offset = ((ends.size() / SECTOR) & !127).checked_sub(128)? * SECTOR;
    let head = ends.bytes(offset, 12)?;
    let little = head.starts_with(&[0xFC, 0x4E, 0x2B, 0xA9, 0, 0, 0, 0]);
    let big = head.starts_with(&[0xA9, 0x2B, 0x4E, 0xFC, 0, 0, 0, 0]);
    let minor = if little { head[8] } else { head[11] };
    ((little || big) && matches!(minor, 90 | 91))
        .then(|| member("a member of a Linux md array (superblock 0.90)".to_owned(), offset))
}

/// Linux md, superblocks 1.0 (near the end), 1.1 (at the start) and 1.2 (4 KiB after it). Each
/// records its own sector, so that a copied drive start is not mistaken for a superblock.
fn md_1(ends: &Ends<'_>) -> Vec<Finding> {
    let at_end = (ends.size() / SECTOR).checked_sub(16).map(|sector| sector & !7);
    [(Some(0), "1.1"), (Some(8), "1.2"), (at_end, "1.0")]
        .into_iter()
        .filter_map(|(sector, version)| {
            let sector = sector?;
            let offset = sector * SECTOR;
            let known = ends.u32(offset)? == 0xA92B_4EFC
                && ends.u32(offset + 4)? == 1
                && ends.u64(offset + 144)? == sector;
            let name = ends.name(offset + 32, 32);
            known.then(|| {
                member(format!("a member of a Linux md array{name} (superblock {version})"), offset)
            })
        })
        .collect()
}

/// SNIA DDF: an anchor header in the last block. Some controllers write it little-endian, 257
/// sectors from the end, or before reserved sectors. Therefore all sectors of the last bytes are
/// checked, from the end. The revision in ASCII digits verifies the signature.
fn ddf(ends: &Ends<'_>) -> Option<Finding> {
    let sectors = ends.size().checked_sub(ends.last_begin())? / SECTOR;
    (1..=sectors).find_map(|distance| {
        let offset = ends.size() - distance * SECTOR;
        let head = ends.bytes(offset, 40)?;
        let signed = matches!(head[..4], [0xDE, 0x11, 0xDE, 0x11] | [0x11, 0xDE, 0x11, 0xDE]);
        let revision = &head[32..40];
        let revised = revision[0].is_ascii_digit() && revision[2] == b'.' && revision[5] == b'.';
        (signed && revised).then(|| {
            let revision = String::from_utf8_lossy(revision);
            // The group's identifier starts with its vendor, in ASCII.
            let maker = std::str::from_utf8(&head[8..16]).map(str::trim_end);
            let is_name =
                |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
            let array = match maker.ok().filter(is_name) {
                Some(maker) => format!("an array that {maker} made"),
                None => "a hardware or firmware array".to_owned(),
            };
            member(format!("a member of {array} (DDF {revision})"), offset)
        })
    })
}

/// Intel Matrix: an anchor in the last block but one, of 512 or 4096 bytes.
fn imsm(ends: &Ends<'_>) -> Option<Finding> {
    [2 * 512, 2 * 4096].into_iter().find_map(|distance| {
        let offset = ends.size().checked_sub(distance)?;
        let anchor = ends.bytes(offset, 24)?;
        (anchor == b"Intel Raid ISM Cfg Sig. ")
            .then(|| member("a member of an Intel Matrix array (IMSM)".to_owned(), offset))
    })
}
