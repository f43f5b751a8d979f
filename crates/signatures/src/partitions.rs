//! Partition tables: MBR, GPT, and those of other systems that need more than a magic number.

use crate::{Ends, Finding, Kind};
use units::ByteOffset;

pub(crate) fn find(ends: &Ends<'_>, findings: &mut Vec<Finding>) {
    let table = |what: String, offset: u64| Finding {
        kind: Kind::PartitionTable,
        what,
        offset: ByteOffset(offset),
    };
    let gpt = gpt(ends);
    let protective = gpt.is_some();
    findings.extend(gpt.map(|(what, offset)| table(what, offset)));
    // A boot sector belongs to a file system or a partition table; both end in 55 AA.
    let boot_sector_is_known = findings.iter().any(|finding| {
        finding.offset.0 < 446 && matches!(finding.kind, Kind::FileSystem | Kind::Encrypted)
    });
    if !boot_sector_is_known {
        findings.extend(mbr(ends, protective).map(|what| table(what, 510)));
    }
    findings.extend(sun(ends).map(|what| table(what, 508)));
    findings.extend(apple(ends).map(|what| table(what, 512)));
}

/// GPT: a header in the second block and its copy in the last one, of 512 or 4096 bytes.
fn gpt(ends: &Ends<'_>) -> Option<(String, u64)> {
    let is_header = |offset: u64| ends.bytes(offset, 8) == Some(b"EFI PART");
    for block in [512, 4096] {
        if is_header(block) {
            let used = used_gpt_entries(ends, block)
                .map_or_else(String::new, |used| format!(" with {}", partitions(used)));
            return Some((format!("a GPT partition table{used}"), block));
        }
    }
    [512, 4096].into_iter().find_map(|block| {
        let offset = ends.size().checked_sub(block)?;
        is_header(offset).then(|| ("the backup of a GPT partition table".to_owned(), offset))
    })
}

/// The number of table entries in use, as far as the ends include them.
fn used_gpt_entries(ends: &Ends<'_>, block: u64) -> Option<usize> {
    let start = ends.u64(block + 72)?.checked_mul(block)?;
    let (count, len) = (u64::from(ends.u32(block + 80)?), u64::from(ends.u32(block + 84)?));
    if !(128..=4096).contains(&len) || count > 1024 {
        return None;
    }
    let used = (0..count)
        .filter_map(|entry| ends.bytes(start.checked_add(entry * len)?, 16))
        .filter(|kind| kind.iter().any(|byte| *byte != 0));
    Some(used.count())
}

/// MBR: 55 AA at the end of the first sector, and four plausible entries.
fn mbr(ends: &Ends<'_>, protective: bool) -> Option<String> {
    let sector = ends.bytes(0, 512)?;
    let entries = || sector[446..510].chunks_exact(16);
    if sector[510..] != [0x55, 0xAA] || !entries().all(|entry| matches!(entry[0], 0 | 0x80)) {
        return None;
    }
    let used = || entries().filter(|entry| entry[4] != 0 && entry[12..16] != [0; 4]);
    if used().any(|entry| entry[4] == 0xEE) && protective {
        // The protective MBR of a GPT drive adds no information.
        return None;
    }
    Some(format!("an MBR partition table with {}", partitions(used().count())))
}

fn partitions(count: usize) -> String {
    match count {
        0 => "no partition".to_owned(),
        1 => "1 partition".to_owned(),
        count => format!("{count} partitions"),
    }
}

/// Sun: 0xDABE at byte 508, and the XOR of the sector's 16-bit words is zero.
fn sun(ends: &Ends<'_>) -> Option<String> {
    let sector = ends.bytes(0, 512)?;
    let sum =
        sector.chunks_exact(2).fold(0, |sum, word| sum ^ u16::from_be_bytes([word[0], word[1]]));
    (sector[508..510] == [0xDA, 0xBE] && sum == 0).then(|| "a Sun partition table".to_owned())
}

/// Apple: `ER` at the start and `PM` in the second sector.
fn apple(ends: &Ends<'_>) -> Option<String> {
    (ends.bytes(0, 2)? == b"ER" && ends.bytes(512, 2)? == b"PM")
        .then(|| "an Apple partition map".to_owned())
}
