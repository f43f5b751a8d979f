//! Derives probes from the beginning of a file system: volume offsets with the content that a
//! correct layout must have there.
//!
//! Sources: the on-disk headers of the Linux kernel for ext4, XFS, Btrfs; the UEFI specification
//! for GPT; the LUKS2 specification; the NTFS boot sector as `file` and util-linux describe it.

use super::sample::BLOCK;

/// The content that must be at a volume offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Probe {
    /// The offset in the volume.
    pub(super) at: u64,
    /// The expected bytes. Bytes with a zero mask do not count; an empty mask compares all.
    pub(super) bytes: Vec<u8>,
    pub(super) mask: Vec<u8>,
    /// A description in a few words.
    pub(super) what: &'static str,
}

impl Probe {
    fn new(at: u64, bytes: impl Into<Vec<u8>>, what: &'static str) -> Probe {
        Probe { at, bytes: bytes.into(), mask: Vec::new(), what }
    }

    /// Whether a block that contains the offset has the expected content.
    pub(super) fn is_met(&self, block: &[u8]) -> bool {
        let from = (self.at % BLOCK) as usize;
        let Some(found) = block.get(from..from + self.bytes.len()) else { return false };
        match self.mask.is_empty() {
            true => found == self.bytes,
            false => found
                .iter()
                .zip(&self.bytes)
                .zip(&self.mask)
                .all(|((a, b), mask)| (a ^ b) & mask == 0),
        }
    }
}

/// The beginning of a volume, or of a partition in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Anchor {
    /// The kind of structure that begins here.
    pub(super) what: &'static str,
    /// The distance from the first byte to the block that identified it.
    pub(super) back: u64,
    pub(super) probes: Vec<Probe>,
}

fn le16(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 2)
        .and_then(|b| b.try_into().ok())
        .map_or(0, |b| u64::from(u16::from_le_bytes(b)))
}

fn le32(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, |b| u64::from(u32::from_le_bytes(b)))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn be32(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, |b| u64::from(u32::from_be_bytes(b)))
}

/// The maximum number of probes: the first ones are sufficient.
const MOST: usize = 24;

/// The structure that begins in this block, if any.
pub(super) fn anchor(block: &[u8]) -> Option<Anchor> {
    let mut anchor = ext(block)
        .or_else(|| xfs(block))
        .or_else(|| ntfs(block))
        .or_else(|| gpt(block))
        .or_else(|| luks(block))
        .or_else(|| lvm(block))
        .or_else(|| btrfs(block))?;
    anchor.probes.retain(|probe| probe.at % BLOCK + probe.bytes.len() as u64 <= BLOCK);
    anchor.probes.sort_by_key(|probe| probe.at);
    anchor.probes.truncate(MOST);
    Some(anchor)
}

/// ext2, 3, 4: superblock at 1024; copies in groups 0, 1 and the powers of 3, 5, 7; descriptors
/// after each.
fn ext(block: &[u8]) -> Option<Anchor> {
    let sb = block.get(1024..2048)?;
    let shift = le32(sb, 0x18);
    if le16(sb, 0x38) != 0xEF53 || shift > 6 || le16(sb, 0x5A) != 0 {
        return None;
    }
    let size = 1024_u64 << shift;
    let (first, per_group) = (le32(sb, 0x14), le32(sb, 0x20));
    let blocks = le32(sb, 0x4) | if le32(sb, 0x60) & 0x80 != 0 { le32(sb, 0x150) << 32 } else { 0 };
    if per_group == 0 || blocks <= first {
        return None;
    }
    let groups = (blocks - first).div_ceil(per_group);
    let is_sparse = le32(sb, 0x64) & 1 != 0;
    let is_power = |group: u64, base: u64| {
        std::iter::successors(Some(base), |power| power.checked_mul(base))
            .take_while(|power| *power <= group)
            .any(|power| power == group)
    };
    let has_copy = |group: &u64| {
        !is_sparse || *group == 1 || [3, 5, 7].into_iter().any(|base| is_power(*group, base))
    };
    let mut probes = Vec::new();
    for group in (1..groups.min(1 << 16)).filter(has_copy).take(16) {
        let at = (first + group * per_group) * size;
        // The magic number and, further on, the group's number and the file system's identity.
        let mut bytes = vec![0; 0x78 - 0x38];
        let mut mask = bytes.clone();
        let mut want = |at: usize, value: &[u8]| {
            bytes[at - 0x38..at - 0x38 + value.len()].copy_from_slice(value);
            mask[at - 0x38..at - 0x38 + value.len()].fill(0xFF);
        };
        want(0x38, &[0x53, 0xEF]);
        want(0x5A, &(group as u16).to_le_bytes());
        want(0x68, &sb[0x68..0x78]);
        probes.push(Probe { at: at + 0x38, bytes, mask, what: "copies of the ext superblock" });
    }
    // The copy of the journal's inode: the journal begins at its first extent.
    let inode = &sb[0x10C..0x10C + 60];
    if le16(inode, 0) == 0xF30A && le16(inode, 2) > 0 && le16(inode, 6) == 0 {
        let start = le32(inode, 12 + 8) | le16(inode, 12 + 6) << 32;
        probes.push(Probe::new(
            start.saturating_mul(size),
            [0xC0, 0x3B, 0x39, 0x98],
            "the ext journal",
        ));
    }
    probes.extend(ext_groups(block, sb, size, first, groups));
    Some(Anchor { what: "an ext file system", back: 0, probes })
}

/// Probes from the first descriptors, if they are in the same block: inode tables, with the root's
/// inode.
fn ext_groups(block: &[u8], sb: &[u8], size: u64, first: u64, groups: u64) -> Vec<Probe> {
    let at = (first + 1) * size;
    let len = if le32(sb, 0x60) & 0x80 != 0 { le16(sb, 0xFE).max(32) } else { 32 };
    let table = |group: u64| {
        let at = usize::try_from(at + group * len).ok()?;
        block.get(at..at + 32).map(|entry| le32(entry, 8))
    };
    let mut probes = Vec::new();
    let inode = le16(sb, 0x58).max(128);
    if let Some(start) = table(0).filter(|start| *start > 0) {
        // The root's mode: a directory.
        let at = start.saturating_mul(size).saturating_add(inode);
        probes.push(Probe {
            at,
            bytes: vec![0, 0x40],
            mask: vec![0, 0xF0],
            what: "the root's inode",
        });
    }
    // Bitmaps of inodes end in ones, as there are fewer inodes in a group than bits in a block.
    let per_group = le32(sb, 0x28);
    for group in 0..groups.min(16) {
        let Some(entry) =
            usize::try_from(at + group * len).ok().and_then(|at| block.get(at..at + 32))
        else {
            break;
        };
        let (bitmap, flags) = (le32(entry, 4), le16(entry, 0x12));
        if bitmap > 0 && flags & 1 == 0 && per_group < 8 * size - 128 {
            let end = bitmap.saturating_mul(size).saturating_add(size - 16);
            probes.push(Probe::new(end, [0xFF; 16], "bitmaps of ext inodes"));
        }
    }
    probes
}

/// XFS: allocation groups of equal size, each with a superblock, followed by headers.
fn xfs(block: &[u8]) -> Option<Anchor> {
    if !block.starts_with(b"XFSB") {
        return None;
    }
    let (size, groups, blocks) = (be32(block, 4), be32(block, 88), be32(block, 84));
    if !size.is_power_of_two() || blocks == 0 || groups == 0 || be32(block, 80) > groups * 2 {
        return None;
    }
    let sector = u64::from(u16::from_be_bytes([block[102], block[103]]));
    let mut probes = Vec::new();
    for group in 1..groups.min(17) {
        let at = group * blocks * size;
        probes.push(Probe::new(at, &block[..8], "superblocks of XFS groups"));
        let mut header = b"XAGF\0\0\0\x01".to_vec();
        header.extend((group as u32).to_be_bytes());
        probes.push(Probe::new(at + sector, header, "headers of XFS groups"));
    }
    Some(Anchor { what: "an XFS file system", back: 0, probes })
}

/// NTFS: the boot sector locates the file table and its mirror; its own copy is after the end.
fn ntfs(block: &[u8]) -> Option<Anchor> {
    if block.get(3..11)? != b"NTFS    " {
        return None;
    }
    let (sector, per_cluster) = (le16(block, 11), u64::from(block[13]));
    if ![512, 1024, 2048, 4096].contains(&sector) || !per_cluster.is_power_of_two() {
        return None;
    }
    let cluster = sector * per_cluster;
    let mut probes = vec![Probe::new(
        le64(block, 40).saturating_mul(sector),
        &block[..11],
        "the copy of the NTFS boot sector",
    )];
    for entry in 0..8 {
        let at = le64(block, 48).saturating_mul(cluster).saturating_add(1024 * entry);
        probes.push(Probe::new(at, *b"FILE", "entries of the NTFS file table"));
    }
    probes.push(Probe::new(
        le64(block, 56).saturating_mul(cluster),
        *b"FILE",
        "the mirror of the NTFS file table",
    ));
    Some(Anchor { what: "an NTFS file system", back: 0, probes })
}

/// A GUID partition table: the header locates its copy.
fn gpt(block: &[u8]) -> Option<Anchor> {
    let header = block.get(512..1024)?;
    if !header.starts_with(b"EFI PART") || le64(header, 24) != 1 {
        return None;
    }
    let copy = Probe::new(
        le64(header, 32).saturating_mul(512),
        *b"EFI PART",
        "the copy of the partition table",
    );
    Some(Anchor { what: "a partition table (GPT)", back: 0, probes: vec![copy] })
}

/// LUKS 2: a second header follows the first. LUKS 1 has none.
fn luks(block: &[u8]) -> Option<Anchor> {
    if !block.starts_with(b"LUKS\xBA\xBE\0") {
        return None;
    }
    let len = be32(block, 8) << 32 | be32(block, 12);
    let second = (block[7] == 2)
        .then(|| Probe::new(len, *b"SKUL\xBA\xBE\0\x02", "the second header of LUKS"));
    Some(Anchor {
        what: "an encrypted volume (LUKS)",
        back: 0,
        probes: second.into_iter().collect(),
    })
}

/// LVM: the label in the second sector locates the metadata header.
fn lvm(block: &[u8]) -> Option<Anchor> {
    let label = block.get(512..1024)?;
    if !label.starts_with(b"LABELONE") || label.get(24..32)? != b"LVM2 001" {
        return None;
    }
    // The physical volume's header lists data areas, then metadata areas; zeros end each list.
    let mut at = le32(label, 20) as usize + 40;
    while le64(label, at) != 0 && at < 480 {
        at += 16;
    }
    let area = le64(label, at + 16);
    let magic = (area > 0)
        .then(|| Probe::new(area.saturating_add(4), *b" LVM2 x[5A%r0N*>", "the metadata of LVM"));
    Some(Anchor { what: "a physical volume (LVM)", back: 0, probes: magic.into_iter().collect() })
}

/// Btrfs: superblocks at 64 KiB, 64 MiB and 256 GiB; each contains its own offset.
fn btrfs(block: &[u8]) -> Option<Anchor> {
    if block.get(0x40..0x48)? != b"_BHRfS_M" || le64(block, 0x30) != 64 << 10 {
        return None;
    }
    let copy = |at: u64| {
        let bytes = [&at.to_le_bytes()[..], &block[0x38..0x48]].concat();
        Probe::new(at + 0x30, bytes, "copies of the Btrfs superblock")
    };
    Some(Anchor {
        what: "a Btrfs file system",
        back: 64 << 10,
        probes: vec![copy(64 << 20), copy(256 << 30)],
    })
}
