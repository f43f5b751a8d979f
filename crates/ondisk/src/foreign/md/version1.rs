//! Versions 1.0, 1.1 and 1.2: 256 bytes and a table of roles.

use super::bad_blocks;
use super::levels::describe;
use super::reshape::{self, MdLayout, MdReshape};
use super::{MAGIC, SECTOR, folded};
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::foreign::glimpse::Glimpse;
use crate::foreign::record::{
    Consistency, Entry, Feature, Format, Identity, MemberRecord, Record, Role, Told, VolumeRecord,
};
use crate::foreign::search::Displaced;
use units::{ByteCount, ByteOffset, ByteRange};

/// The superblock with its table of roles fits 4 KiB.
const LENGTH: u64 = 4096;
/// A superblock of version 1.0 has at least this many bytes behind its beginning, and up to 4 KiB
/// more.
const BEHIND: u64 = 16 * SECTOR;
const FIXED: usize = 256;
/// The roles that fit.
const MOST_ROLES: u32 = ((LENGTH as usize - FIXED) / 2) as u32;

const BITMAP: u32 = 0x1;
const RECOVERY_OFFSET: u32 = 0x2;
const RESHAPE: u32 = 0x4;
pub(super) const BAD_BLOCKS: u32 = 0x8;
const REPLACEMENT: u32 = 0x10;
const BACKWARDS: u32 = 0x20;
/// A reshape moves the data.
const NEW_OFFSET: u32 = 0x40;
/// A bitmap lists the parts that a rebuild may skip; it requires the progress of the rebuild.
const RECOVERY_BITMAP: u32 = 0x80;
const CLUSTERED: u32 = 0x100;
const JOURNAL: u32 = 0x200;
const PPL: u32 = 0x400;
const MULTIPLE_PPLS: u32 = 0x800;
const RAID0_LAYOUT: u32 = 0x1000;
/// All bits that Linux defines: those above.
const KNOWN: u32 = 0x1FFF;

const ROLE_SPARE: u16 = 0xFFFF;
const ROLE_FAULTY: u16 = 0xFFFE;
const ROLE_JOURNAL: u16 = 0xFFFD;
/// Higher roles are not slots.
const LAST_SLOT: u16 = 0xFEFF;

/// The magic number of a write-intent bitmap.
const BITMAP_MAGIC: u32 = 0x6D74_6962;
const BITMAP_HEAD: u64 = 256;

const LEVEL_LINEAR: i32 = -1;

/// Decodes the superblocks of these versions on a drive.
pub(super) fn read(glimpse: &Glimpse) -> Told {
    let sectors = glimpse.size().0 / SECTOR;
    let mut places = vec![("1.2", 8), ("1.1", 0)];
    if sectors > 24 {
        places.push(("1.0", (sectors - 16) & !7));
    }
    let mut told = Told::default();
    for (version, sector) in places {
        let at = sector * SECTOR;
        // A drive may end before the table of roles does.
        let there = glimpse.size().0.saturating_sub(at).min(LENGTH);
        let Some(bytes) = glimpse.bytes(at, there) else { continue };
        if u32_at(bytes, 0) != MAGIC || u32_at(bytes, 4) != 1 {
            continue;
        }
        match decode(bytes, version, sector) {
            Ok(mut record) => {
                bad_blocks::note(glimpse, bytes, sector, &mut record.member);
                told.records.push(record);
            }
            Err(why) => {
                told.notes.push(format!("holds a Linux md {version} superblock, and {why}"))
            }
        }
    }
    told
}

/// The superblock of version 1.0 where a search found it, if it records this place as its own.
pub(super) fn displaced(glimpse: &Glimpse, at: ByteOffset) -> Option<Displaced> {
    let there = glimpse.size().0.saturating_sub(at.0).min(LENGTH);
    let bytes = glimpse.bytes(at.0, there)?;
    let sector = at.0 / SECTOR;
    if u32_at(bytes, 0) != MAGIC || u32_at(bytes, 4) != 1 || !sector.is_multiple_of(8) {
        return None;
    }
    let mut record = decode(bytes, "1.0", sector).ok()?;
    // Version 1.1 or 1.2 before its data belongs to a partition, or to an image within this drive.
    if record.member.data.end() > at {
        return None;
    }
    bad_blocks::note(glimpse, bytes, sector, &mut record.member);
    Some(Displaced {
        what: "a Linux md 1.0 superblock".into(),
        at,
        was: ByteCount(at.0 + BEHIND),
        told: Told { records: vec![record], notes: Vec::new() },
    })
}

/// The ranges before the data of a drive that its array leaves unused, including the superblock,
/// which an import removes. `None` where the superblock is not before the data, and for features
/// that may use this space.
pub(in super::super) fn unused_in_front(glimpse: &Glimpse) -> Option<[ByteRange; 2]> {
    let (sector, bytes) = [8, 0].into_iter().find_map(|sector| {
        let bytes = glimpse.bytes(sector * SECTOR, LENGTH)?;
        let is_one = u32_at(bytes, 0) == MAGIC && u32_at(bytes, 4) == 1;
        (is_one && decode(bytes, "", sector).is_ok()).then_some((sector, bytes))
    })?;
    let features = u32_at(bytes, 8);
    // A reshape that moves the data may already use the space before them; any other uses the space
    // of its data only.
    let known =
        BITMAP | RECOVERY_OFFSET | RAID0_LAYOUT | BAD_BLOCKS | REPLACEMENT | RESHAPE | BACKWARDS;
    if features & !known != 0 {
        return None;
    }
    let superblock = ByteRange::new(ByteOffset(sector * SECTOR), ByteCount(LENGTH));
    let behind =
        |offset: u32| sector.checked_add_signed(i64::from(offset as i32)).map(|at| at * SECTOR);
    let mut end = superblock.end().0;
    if features & BITMAP != 0 {
        end = end.max(bitmap_end(glimpse, behind(u32_at(bytes, 96))?)?);
    }
    // The space of the bad block log is reserved from the creation of the array.
    let bad_blocks = u64::from(u16_at(bytes, 186)) * SECTOR;
    if bad_blocks > 0 {
        end = end.max(behind(u32_at(bytes, 188))? + bad_blocks);
    }
    let data = u64_at(bytes, 128).checked_mul(SECTOR)?;
    Some([superblock, ByteRange::new(ByteOffset(end), ByteCount(data.saturating_sub(end)))])
}

/// The end of the bitmap that begins at a byte.
fn bitmap_end(glimpse: &Glimpse, at: u64) -> Option<u64> {
    let head = glimpse.bytes(at, BITMAP_HEAD)?;
    let chunk = u64::from(u32_at(head, 52));
    if u32_at(head, 0) != BITMAP_MAGIC || chunk == 0 {
        return None;
    }
    let bits = u64_at(head, 40).checked_mul(SECTOR)?.div_ceil(chunk);
    let reserved = u64::from(u32_at(head, 64)) * SECTOR;
    at.checked_add(reserved.max(BITMAP_HEAD + bits.div_ceil(8)))
}

fn decode(bytes: &[u8], version: &str, sector: u64) -> Result<Record, String> {
    let roles = u32_at(bytes, 220);
    if roles > MOST_ROLES || bytes.len() < FIXED + 2 * roles as usize {
        return Err(format!("its table of {roles} roles is too long"));
    }
    let used = &bytes[..FIXED + 2 * roles as usize];
    if checksum(used) != u32_at(bytes, 216) {
        return Err("its checksum is wrong".into());
    }
    let own_place = u64_at(bytes, 144);
    if own_place != sector {
        return Err(format!(
            "by its own record it lies in sector {own_place}, not {sector}: the drive is a copy, \
             or a partition has it"
        ));
    }
    let slots =
        u16::try_from(u32_at(bytes, 92)).ok().filter(|slots| (1..=LAST_SLOT).contains(slots));
    let slots =
        slots.ok_or_else(|| format!("it lists {} members, which is invalid", u32_at(bytes, 92)))?;
    Ok(Record { volume: volume(used, version, slots), member: member(used)? })
}

/// The sum of the superblock's words without its checksum; a last half word is added unchanged.
fn checksum(bytes: &[u8]) -> u32 {
    let sum: u64 = bytes
        .chunks(4)
        .map(|word| match word {
            [a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
            _ => u64::from(u16_at(word, 0)),
        })
        .sum();
    folded(sum - u64::from(u32_at(bytes, 216)))
}

fn known_features(features: u32) -> Vec<Feature> {
    let known = [
        (BITMAP, Feature::Bitmap),
        (BAD_BLOCKS, Feature::BadBlocks),
        (REPLACEMENT, Feature::Replacement),
        (CLUSTERED, Feature::Clustered),
        (JOURNAL, Feature::Journal),
        (PPL | MULTIPLE_PPLS, Feature::Ppl),
        (!KNOWN, Feature::Unknown(format!("feature bits {:#x}", features & !KNOWN))),
    ];
    known.into_iter().filter(|(bits, _)| features & bits != 0).map(|(_, feature)| feature).collect()
}

/// The reshape that the superblock records. `now` is the layout in the superblock: that from which
/// the reshape starts, with the number of members at its end.
fn reshape_of(bytes: &[u8], now: MdLayout) -> MdReshape {
    let delta = u32_at(bytes, 112) as i32;
    let after = MdLayout {
        level: u32_at(bytes, 100) as i32,
        layout: u32_at(bytes, 116),
        chunk: sectors(u64::from(u32_at(bytes, 120))),
        members: now.members,
    };
    MdReshape {
        before: MdLayout { members: now.members - i64::from(delta), ..now },
        after,
        position: u64_at(bytes, 104),
        backwards: u32_at(bytes, 8) & BACKWARDS != 0 || delta < 0,
        shift: shift(bytes),
    }
}

fn volume(bytes: &[u8], version: &str, slots: u16) -> VolumeRecord {
    let features = u32_at(bytes, 8);
    let has = |bit: u32| features & bit != 0;
    let level = u32_at(bytes, 72) as i32;
    let is_raid0_recorded = has(RAID0_LAYOUT);
    let layout = (level != 0 || is_raid0_recorded).then(|| u32_at(bytes, 76));
    let described = describe(level, layout, slots);
    let chunk = sectors(u64::from(u32_at(bytes, 88)));
    let mut volume = VolumeRecord {
        format: Format::LinuxMd,
        version: version.into(),
        identity: uuid(&bytes[16..32]),
        container: None,
        name: text(&bytes[32..64]),
        level: described.level.clone(),
        layout: described.layout.clone(),
        arrangement: described.arrangement.clone(),
        strip: (!chunk.is_zero() && level != 1).then_some(chunk),
        capacity: None,
        // Each member contributes its own size.
        member_size: (level != 0 && level != LEVEL_LINEAR).then(|| sectors(u64_at(bytes, 80))),
        slots,
        entries: entries(bytes),
        sequence: u64_at(bytes, 200),
        may_lag: 1,
        created_unix_s: seconds(u64_at(bytes, 64)),
        updated_unix_s: seconds(u64_at(bytes, 192)),
        consistency: match u64_at(bytes, 208) {
            _ if !described.is_redundant => Consistency::Clean,
            u64::MAX => Consistency::Clean,
            0 => Consistency::Dirty,
            from => Consistency::DirtyFrom(sectors(from)),
        },
        features: known_features(features),
    };
    if has(RESHAPE) {
        let members = i64::from(slots);
        let now = MdLayout { level, layout: layout.unwrap_or(0), chunk, members };
        reshape::note(&mut volume, &reshape_of(bytes, now));
    }
    if has(!KNOWN) {
        let why = format!("it uses unsupported feature bits {:#x}", features & !KNOWN);
        volume.arrangement = crate::foreign::Arrangement::Other(why);
    }
    volume
}

/// The distance in sectors that a reshape moves the data on this member.
fn shift(bytes: &[u8]) -> i64 {
    let moves = u32_at(bytes, 8) & (RESHAPE | NEW_OFFSET) == RESHAPE | NEW_OFFSET;
    if moves { i64::from(u32_at(bytes, 124) as i32) } else { 0 }
}

fn member(bytes: &[u8]) -> Result<MemberRecord, String> {
    let (start, length) = (u64_at(bytes, 128), u64_at(bytes, 136));
    // In a reshape, all space that either layout uses.
    let forward = u64::try_from(-shift(bytes)).unwrap_or(0);
    let range = start.checked_sub(forward).zip(start.checked_add(length));
    let fits = range.filter(|(_, end)| end.checked_mul(SECTOR).is_some());
    let Some((start, end)) = fits else {
        return Err(format!("its data would begin in sector {start} and be {length} sectors long"));
    };
    let features = u32_at(bytes, 8);
    let device = u32_at(bytes, 160);
    let role = role(bytes, device).unwrap_or(ROLE_SPARE);
    let is_rebuilding = features & RECOVERY_OFFSET != 0 && features & JOURNAL == 0;
    Ok(MemberRecord {
        key: device.to_string(),
        device: Some(uuid(&bytes[168..184])),
        role: match role {
            ROLE_SPARE => Role::Spare,
            ROLE_JOURNAL => Role::Journal,
            slot if slot <= LAST_SLOT => Role::Active(slot),
            _ => Role::Failed,
        },
        data: ByteRange::from_to(ByteOffset(start * SECTOR), ByteOffset(end * SECTOR)),
        rebuilt: is_rebuilding.then(|| sectors(u64_at(bytes, 152))),
        bad: Vec::new(),
        excluded: excluded(features),
    })
}

/// The reason why the data of a member with these feature bits are unusable.
fn excluded(features: u32) -> Option<String> {
    if features & !KNOWN != 0 {
        return Some(format!("it uses unsupported feature bits {:#x}", features & !KNOWN));
    }
    let is_odd = features & (RECOVERY_BITMAP | RECOVERY_OFFSET) == RECOVERY_BITMAP;
    is_odd.then(|| {
        format!(
            "it has feature bit {RECOVERY_BITMAP:#x}, a rebuild by a bitmap, without \
             {RECOVERY_OFFSET:#x}, its progress"
        )
    })
}

fn role(bytes: &[u8], device: u32) -> Option<u16> {
    let is_there = device < u32_at(bytes, 220);
    is_there.then(|| u16_at(bytes, FIXED + 2 * device as usize))
}

/// The devices with a role; a device without one may be a spare or removed, as its own superblock
/// tells.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    let roles = (0..u32_at(bytes, 220)).filter_map(|device| {
        let role = match role(bytes, device)? {
            ROLE_SPARE => return None,
            ROLE_FAULTY => Role::Failed,
            ROLE_JOURNAL => Role::Journal,
            slot if slot <= LAST_SLOT => Role::Active(slot),
            _ => Role::Failed,
        };
        Some(Entry { key: device.to_string(), role })
    });
    // A removed device leaves its number as faulty, and so are all numbers beyond the last.
    roles.collect()
}

fn sectors(count: u64) -> ByteCount {
    ByteCount(count.saturating_mul(SECTOR))
}

/// Times have seconds in their lower 40 bits, microseconds above.
fn seconds(time: u64) -> Option<u64> {
    Some(time & ((1 << 40) - 1)).filter(|seconds| *seconds != 0)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).chars().filter(|letter| !letter.is_control()).collect()
}

/// In mdadm's form: four groups of eight digits.
pub(super) fn uuid(bytes: &[u8]) -> Identity {
    let groups: Vec<String> = bytes
        .chunks(4)
        .map(|group| group.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    Identity { text: groups.join(":"), bytes: bytes.to_vec() }
}
