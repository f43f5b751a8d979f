//! Version 0.90: 1024 words of 32 bits in the byte order of the machine that wrote them.

use super::levels::describe;
use super::reshape::{self, MdLayout, MdReshape};
use super::version1::uuid;
use super::{MAGIC, SECTOR, folded};
use crate::foreign::glimpse::Glimpse;
use crate::foreign::record::{
    Consistency, Entry, Feature, Format, Identity, MemberRecord, Record, Role, Told, VolumeRecord,
};
use crate::foreign::search::Displaced;
use units::{ByteCount, ByteOffset, ByteRange};

const LENGTH: u64 = 4096;
/// The superblock lies in the last whole 64 KiB of the drive.
const RESERVED_SECTORS: u64 = 128;
const MOST_MEMBERS: u16 = 27;

const MINOR_RESHAPE: u32 = 91;
const STATE_CLEAN: u32 = 1;
const STATE_CLUSTERED: u32 = 1 << 5;
const STATE_BITMAP: u32 = 1 << 8;
/// All state bits of Linux: those above, and "there were errors" (2).
const STATE_KNOWN: u32 = STATE_CLEAN | 2 | STATE_CLUSTERED | STATE_BITMAP;

/// The offsets of the descriptors of all devices and of this device, and their length, in words.
const DEVICES: usize = 128;
const THIS_DEVICE: usize = 992;
const DEVICE_WORDS: usize = 32;
const FAULTY: u32 = 1;
const ACTIVE: u32 = 2;
const SYNC: u32 = 4;
const REMOVED: u32 = 8;

/// Decodes the superblock of this version on a drive.
pub(super) fn read(glimpse: &Glimpse) -> Told {
    let mut told = Told::default();
    let sectors = (glimpse.size().0 / SECTOR) & !(RESERVED_SECTORS - 1);
    let Some(at) = sectors.checked_sub(RESERVED_SECTORS).map(|sector| sector * SECTOR) else {
        return told;
    };
    let Some(words) = glimpse.bytes(at, LENGTH).and_then(Words::new) else { return told };
    if words.at(1) != 0 {
        return told;
    }
    let minor = words.at(2);
    match decode(&words, minor, at) {
        Ok(record) => told.records.push(record),
        Err(why) => told.notes.push(format!("holds a Linux md 0.{minor} superblock, and {why}")),
    }
    told
}

/// The superblock where a search found it, if its data end before it.
pub(super) fn displaced(glimpse: &Glimpse, at: ByteOffset) -> Option<Displaced> {
    let reserved = RESERVED_SECTORS * SECTOR;
    if !at.0.is_multiple_of(reserved) {
        return None;
    }
    let words =
        glimpse.bytes(at.0, LENGTH).and_then(Words::new).filter(|words| words.at(1) == 0)?;
    let record = decode(&words, words.at(2), at.0).ok()?;
    (u64::from(words.at(8)) << 10 <= at.0).then(|| Displaced {
        what: format!("a Linux md {} superblock", record.volume.version),
        at,
        was: ByteCount(at.0 + reserved),
        told: Told { records: vec![record], notes: Vec::new() },
    })
}

/// The superblock as numbers.
struct Words {
    words: Vec<u32>,
    is_big_endian: bool,
}

impl Words {
    fn new(bytes: &[u8]) -> Option<Words> {
        let words = |read: fn([u8; 4]) -> u32| -> Vec<u32> {
            bytes.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(read).collect()
        };
        let (little, big) = (words(u32::from_le_bytes), words(u32::from_be_bytes));
        match (little.first(), big.first()) {
            (Some(&MAGIC), _) => Some(Words { words: little, is_big_endian: false }),
            (_, Some(&MAGIC)) => Some(Words { words: big, is_big_endian: true }),
            _ => None,
        }
    }

    fn at(&self, index: usize) -> u32 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// A number of 64 bits, also in the byte order of the machine.
    fn pair(&self, index: usize) -> u64 {
        let (first, second) = (u64::from(self.at(index)), u64::from(self.at(index + 1)));
        if self.is_big_endian { first << 32 | second } else { second << 32 | first }
    }
}

fn decode(words: &Words, minor: u32, at: u64) -> Result<Record, String> {
    let sum: u64 = words.words.iter().map(|word| u64::from(*word)).sum();
    if folded(sum - u64::from(words.at(38))) != words.at(38) {
        return Err("its checksum is wrong".into());
    }
    if minor != 90 && minor != MINOR_RESHAPE {
        return Err("its version is not supported".into());
    }
    let slots = u16::try_from(words.at(10)).ok().filter(|slots| (1..=MOST_MEMBERS).contains(slots));
    let slots =
        slots.ok_or_else(|| format!("it lists {} members, which is invalid", words.at(10)))?;
    let volume = volume(words, slots, minor);
    let number = words.at(THIS_DEVICE);
    let mut device = volume.identity.clone();
    device.text.push_str(&format!(" device {number}"));
    device.bytes.extend(number.to_be_bytes());
    let member = MemberRecord {
        key: number.to_string(),
        device: Some(device),
        role: role(words, THIS_DEVICE, slots).unwrap_or(Role::Spare),
        data: ByteRange::new(ByteOffset(0), ByteCount(at)),
        rebuilt: None,
        bad: Vec::new(),
        excluded: None,
    };
    Ok(Record { volume, member })
}

fn volume(words: &Words, slots: u16, minor: u32) -> VolumeRecord {
    let level = words.at(7) as i32;
    let chunk = ByteCount(words.at(65).into());
    // This version does not record Linux's layouts of RAID 0.
    let layout = (level != 0).then(|| words.at(64));
    let described = describe(level, layout, slots);
    let state = words.at(33);
    let is_striped_or_linear = level == 0 || level == -1;
    let mut volume = VolumeRecord {
        format: Format::LinuxMd,
        version: format!("0.{minor}"),
        identity: identity(words),
        container: None,
        name: String::new(),
        level: described.level.clone(),
        layout: described.layout.clone(),
        arrangement: described.arrangement.clone(),
        strip: (!chunk.is_zero() && level != 1).then_some(chunk),
        capacity: None,
        member_size: (!is_striped_or_linear).then(|| ByteCount(u64::from(words.at(8)) << 10)),
        slots,
        entries: entries(words, slots),
        sequence: words.pair(39),
        may_lag: 1,
        created_unix_s: Some(words.at(6).into()),
        updated_unix_s: Some(words.at(32).into()),
        consistency: match words.at(43) {
            _ if !described.is_redundant || state & STATE_CLEAN != 0 => Consistency::Clean,
            0 | u32::MAX => Consistency::Dirty,
            from => Consistency::DirtyFrom(ByteCount(u64::from(from) * SECTOR)),
        },
        features: features(state),
    };
    if minor == MINOR_RESHAPE {
        let delta = words.at(47) as i32;
        let members = i64::from(slots);
        let before =
            MdLayout { level, layout: words.at(64), chunk, members: members - i64::from(delta) };
        let after = MdLayout {
            level: words.at(46) as i32,
            layout: words.at(48),
            chunk: ByteCount(words.at(49).into()),
            members,
        };
        // This version has no field for a data offset that moves.
        let change =
            MdReshape { before, after, position: words.pair(44), backwards: delta < 0, shift: 0 };
        reshape::note(&mut volume, &change);
    }
    if state & !STATE_KNOWN != 0 {
        let why = format!("it has unsupported state bits {:#x}", state & !STATE_KNOWN);
        volume.arrangement = crate::foreign::Arrangement::Other(why);
    }
    volume
}

fn features(state: u32) -> Vec<Feature> {
    let unknown = state & !STATE_KNOWN;
    let known = [
        (STATE_BITMAP, Feature::Bitmap),
        (STATE_CLUSTERED, Feature::Clustered),
        (!STATE_KNOWN, Feature::Unknown(format!("state bits {unknown:#x}"))),
    ];
    known.into_iter().filter(|(bits, _)| state & bits != 0).map(|(_, feature)| feature).collect()
}

fn identity(words: &Words) -> Identity {
    let bytes: Vec<u8> =
        [5, 13, 14, 15].iter().flat_map(|&index| words.at(index).to_be_bytes()).collect();
    uuid(&bytes)
}

/// The role of the device with the descriptor at `at`; `None` where it has none.
fn role(words: &Words, at: usize, slots: u16) -> Option<Role> {
    let state = words.at(at + 4);
    if state & (FAULTY | REMOVED) != 0 {
        return Some(Role::Failed);
    }
    let slot = u16::try_from(words.at(at + 3)).ok().filter(|slot| *slot < slots);
    let is_member = state & ACTIVE != 0 && state & SYNC != 0;
    is_member.then_some(slot?).map(Role::Active)
}

fn entries(words: &Words, slots: u16) -> Vec<Entry> {
    let devices = (0..usize::from(MOST_MEMBERS)).map(|device| DEVICES + device * DEVICE_WORDS);
    let entry = |at: usize| {
        // The descriptor of a device that never existed is zero.
        let is_there = words.at(at + 1) != 0 || words.at(at + 2) != 0;
        let role = role(words, at, slots).filter(|_| is_there)?;
        Some(Entry { key: words.at(at).to_string(), role })
    };
    devices.filter_map(entry).collect()
}
