//! Intel Matrix Storage Manager: the metadata of Intel RST and VROC.
//!
//! ```text
//! block      last - k … last - 2      last - 1     last
//!            rest of the metadata     anchor       migration record
//!
//! anchor:  0x00 32 signature and version      0xD8  disks, 48 bytes each
//!          0x20  4 checksum                         volumes: 112 bytes, then a map, or two while
//!          0x24  4 length of all                    it migrates
//!                                                  map: 48 bytes, then 4 for each member
//! ```
//!
//! All numbers are little-endian. The metadata are the same on all drives: only its serial number
//! identifies a drive in them. Names follow mdadm's `super-intel.c`.

mod limits;

use super::glimpse::Glimpse;
use super::record::{
    Consistency, Entry, Feature, Format, Identity, MemberRecord, Record, Reshape, Role, Told,
    VolumeRecord,
};
use super::search::Displaced;
use super::section::Arrangement;
use crate::bytes::{u16_at, u32_at, u64_at};
use layout::{Level, ParityArrangement, Shape};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount};

const SIGNATURE: &[u8] = b"Intel Raid ISM Cfg Sig. ";
const DISKS: usize = 0xD8;
const DISK: usize = 48;
const VOLUME: usize = 112;
const MAP: usize = 48;
/// The most bytes that are read: 255 disks and as many volumes with two maps of all disks need
/// less.
const LONGEST: u64 = 1 << 20;

const DISK_SPARE: u32 = 1;
const DISK_FAILED: u32 = 4;
const DISK_JOURNAL: u32 = 0x0200_0000;
const NEEDS_REBUILD: u32 = 1 << 24;
const NO_FAILED_DISK: u8 = 0xFF;

/// The offset of a volume's kind of migration.
const MIGRATION_TYPE: usize = 89;
const GENERAL_MIGRATION: u8 = 3;
/// The state of a map whose parity or copies were never initialised.
const UNINITIALISED: u8 = 1;

/// Decodes the metadata on a drive; the probe buffer may have its serial number.
pub(super) fn read(glimpse: &Glimpse) -> Told {
    let mut told = Told::default();
    for block in [512, 4096] {
        let at = glimpse.size().0.checked_sub(2 * block);
        match at.and_then(|at| metadata(glimpse, block, at)) {
            Some(Ok(bytes)) => {
                let image = Image { bytes, block };
                told.extend(image.told(glimpse));
                break;
            }
            Some(Err(why)) => told.notes.push(format!("holds Intel RAID metadata, and {why}")),
            None => {}
        }
    }
    told
}

/// The ranges of anchors on a drive, valid or not.
pub(super) fn places(glimpse: &Glimpse) -> Vec<ByteRange> {
    let anchor = |block: u64| {
        let at = glimpse.size().0.checked_sub(2 * block)?;
        let is_one = glimpse.bytes(at, block)?.starts_with(SIGNATURE);
        is_one.then_some(ByteRange::new(ByteOffset(at), ByteCount(block)))
    };
    [512, 4096].into_iter().filter_map(anchor).collect()
}

/// The metadata around an anchor that a search found, if they list a drive that ended one block
/// behind it.
pub(super) fn displaced(glimpse: &Glimpse, at: ByteOffset, head: &[u8]) -> Option<Displaced> {
    if !head.starts_with(SIGNATURE) {
        return None;
    }
    let image = [512, 4096].into_iter().find_map(|block| {
        let bytes = metadata(glimpse, block, at.0)?.ok()?;
        let image = Image { bytes, block };
        let was = at.0.checked_add(2 * block)?;
        let own = glimpse.serial().map(normal_serial);
        let is_own = |disk: usize| own.as_ref().is_none_or(|own| image.serial(disk) == *own);
        let ended_there =
            (0..image.disks()).any(|disk| is_own(disk) && image.disk_size(disk).0 == was);
        ended_there.then_some(image)
    })?;
    Some(Displaced {
        what: "Intel RAID metadata".into(),
        at,
        was: ByteCount(at.0 + 2 * image.block),
        told: image.told(glimpse),
    })
}

/// All metadata in order, where an anchor is at that place and the rest is readable.
fn metadata(glimpse: &Glimpse, block: u64, anchor_at: u64) -> Option<Result<Vec<u8>, String>> {
    let anchor = glimpse.bytes(anchor_at, block)?;
    if !anchor.starts_with(SIGNATURE) {
        return None;
    }
    let length = u64::from(u32_at(anchor, 0x24));
    if length < DISKS as u64 || length > LONGEST {
        return Some(Err(format!("its length of {length} bytes is invalid")));
    }
    let more = length.div_ceil(block).saturating_sub(1) * block;
    let mut bytes = anchor.to_vec();
    if more > 0 {
        let Some(start) = anchor_at.checked_sub(more) else {
            return Some(Err("it would begin before the drive".into()));
        };
        bytes.extend(glimpse.bytes(start, more)?);
    }
    bytes.truncate(length as usize);
    let words =
        bytes.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_le_bytes);
    let sum = words.fold(0, u32::wrapping_add).wrapping_sub(u32_at(&bytes, 0x20));
    Some(if sum == u32_at(&bytes, 0x20) { Ok(bytes) } else { Err("its checksum is wrong".into()) })
}

/// The metadata, with lengths counted in blocks of that size.
struct Image {
    bytes: Vec<u8>,
    block: u64,
}

/// One volume's part of the metadata.
struct Volume<'a> {
    bytes: &'a [u8],
    index: usize,
    map: Map<'a>,
    /// The map before a migration; during the rebuild of a member, the map with its mark.
    source: Option<Map<'a>>,
}

impl Volume<'_> {
    /// Whether a migration moves its data: initialisation, rebuild and verification do not.
    fn is_moved(&self) -> bool {
        self.bytes.get(MIGRATION_TYPE) == Some(&GENERAL_MIGRATION)
    }

    /// Index into the table of disks, and whether the member is being rebuilt. mdadm marks the
    /// member in the second map, which exists during the rebuild (`imsm_process_update`).
    fn order(&self, slot: u8) -> (usize, bool) {
        let (disk, is_marked) = self.map.order(slot);
        let second = self.source.filter(|map| !self.is_moved() && slot < map.members());
        (disk, is_marked || second.is_some_and(|map| map.order(slot).1))
    }
}

#[derive(Clone, Copy)]
struct Map<'a> {
    bytes: &'a [u8],
}

impl Map<'_> {
    fn members(&self) -> u8 {
        self.bytes.get(16).copied().unwrap_or(0)
    }

    fn level(&self) -> u8 {
        self.bytes.get(15).copied().unwrap_or(0)
    }

    fn strip_blocks(&self) -> u16 {
        u16_at(self.bytes, 12)
    }

    /// Index into the table of disks, and whether the member is being rebuilt.
    fn order(&self, slot: u8) -> (usize, bool) {
        let entry = u32_at(self.bytes, MAP + 4 * usize::from(slot));
        ((entry & (NEEDS_REBUILD - 1)) as usize, entry & NEEDS_REBUILD != 0)
    }

    fn state(&self) -> u8 {
        self.bytes.get(14).copied().unwrap_or(0)
    }

    /// The failed slot, in a map that is degraded or failed.
    fn failed(&self) -> Option<u8> {
        let state = self.state();
        let slot = self.bytes.get(18).copied().unwrap_or(NO_FAILED_DISK);
        (state >= 2 && slot != NO_FAILED_DISK).then_some(slot)
    }

    fn wide(&self, low: usize, high: usize) -> u64 {
        u64::from(u32_at(self.bytes, low)) | u64::from(u32_at(self.bytes, high)) << 32
    }

    fn start(&self) -> u64 {
        self.wide(0, 20)
    }

    fn blocks(&self) -> u64 {
        self.wide(4, 24)
    }
}

impl Image {
    fn told(&self, glimpse: &Glimpse) -> Told {
        let mut told = Told::default();
        let own = glimpse.serial().map(normal_serial);
        let is_known =
            own.as_ref().is_none_or(|own| (0..self.disks()).any(|disk| self.serial(disk) == *own));
        if !is_known {
            told.notes.push("holds Intel RAID metadata that do not list its serial number".into());
        }
        // A bridge in front of the drive may report its own serial number: an unlisted number
        // counts as unknown.
        let own = own.filter(|_| is_known);
        let mut at = DISKS + DISK * self.disks();
        for index in 0..usize::from(self.byte(0x39)) {
            let Some((volume, next)) = self.volume(at, index) else {
                told.notes
                    .push(format!("holds Intel RAID metadata with a truncated volume {index}"));
                return told;
            };
            told.records.push(self.record(&volume, own.as_deref()));
            at = next;
        }
        if told.records.is_empty() {
            told.notes.push("holds Intel RAID metadata without a volume: it is a spare".into());
        }
        told
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn disks(&self) -> usize {
        usize::from(self.byte(0x38))
    }

    fn serial(&self, disk: usize) -> String {
        let at = DISKS + DISK * disk;
        self.bytes.get(at..at + 16).map(text).unwrap_or_default()
    }

    /// The size of a disk of the table.
    fn disk_size(&self, disk: usize) -> ByteCount {
        let at = DISKS + DISK * disk;
        self.sectors(
            u64::from(u32_at(&self.bytes, at + 16)) | u64::from(u32_at(&self.bytes, at + 32)) << 32,
        )
    }

    fn disk_status(&self, disk: usize) -> u32 {
        u32_at(&self.bytes, DISKS + DISK * disk + 24)
    }

    fn volume(&self, at: usize, index: usize) -> Option<(Volume<'_>, usize)> {
        let map = |at: usize| {
            let members = usize::from(*self.bytes.get(at + 16)?);
            let end = at + MAP + 4 * members;
            self.bytes.get(at..end).map(|bytes| (Map { bytes }, end))
        };
        let bytes = self.bytes.get(at..at + VOLUME)?;
        let (first, end) = map(at + VOLUME)?;
        let is_migrating = bytes[88] != 0;
        let (source, end) =
            if is_migrating { map(end).map(|(map, end)| (Some(map), end))? } else { (None, end) };
        Some((Volume { bytes, index, map: first, source }, end))
    }

    fn sectors(&self, blocks: u64) -> ByteCount {
        ByteCount(blocks.saturating_mul(self.block))
    }

    fn record(&self, volume: &Volume<'_>, own: Option<&str>) -> Record {
        let map = volume.map;
        let members = u16::from(map.members());
        let (level, layout, mut arrangement) = arrangement(map.level(), members);
        let strip = self.sectors(map.strip_blocks().into());
        let mut features = self.features(volume);
        if let Some(why) = limits::unknown(self, volume) {
            arrangement = Arrangement::Other(why);
        }
        if let Some(reshape) = self.migration(volume) {
            arrangement = Arrangement::Other(format!(
                "a migration from {} to {} was interrupted; let the controller or mdadm finish it \
                 on copies of the drives",
                reshape.from, reshape.to
            ));
            features.push(Feature::Reshape(reshape));
        }
        let family = if u32_at(&self.bytes, 0x40) != 0 { 0x40 } else { 0x28 };
        let family = &self.bytes[family..family + 4];
        let container = [family, &self.bytes[0x50..0x58]].concat();
        let name = text(&volume.bytes[..16]);
        let identity = [&container[..], &volume.bytes[..16], &[volume.index as u8]].concat();
        let family = format!("{:08x}", u32_at(family, 0));
        let volume_record = VolumeRecord {
            format: Format::Imsm,
            version: text(self.bytes.get(SIGNATURE.len()..32).unwrap_or_default()),
            identity: Identity { text: format!("{family}/{}", volume.index), bytes: identity },
            container: Some(Identity { text: family, bytes: container.clone() }),
            name,
            level: level.into(),
            layout: layout.into(),
            arrangement,
            strip: (level != "raid1" && !strip.is_zero()).then_some(strip),
            capacity: Some(self.sectors(
                u64::from(u32_at(volume.bytes, 16)) | u64::from(u32_at(volume.bytes, 20)) << 32,
            )),
            member_size: Some(self.sectors(map.blocks())),
            slots: members,
            entries: self.entries(volume),
            sequence: u32_at(&self.bytes, 0x2C).into(),
            may_lag: 1,
            created_unix_s: Some(u64_at(&self.bytes, 0x50)).filter(|seconds| *seconds != 0),
            updated_unix_s: None,
            consistency: if volume.bytes[90] != 0
                || volume.bytes[88] != 0
                || map.state() == UNINITIALISED
            {
                Consistency::Dirty
            } else {
                Consistency::Clean
            },
            features,
        };
        Record { volume: volume_record, member: self.member(volume, own, &container) }
    }

    fn features(&self, volume: &Volume<'_>) -> Vec<Feature> {
        let mut features = Vec::new();
        match volume.bytes[50] {
            1 | 3 => features.push(Feature::Ppl),
            2 => features.push(Feature::Journal),
            6 => features.push(Feature::Bitmap),
            _ => {}
        }
        if limits::bad_blocks(self).is_ok_and(|bad| !bad.is_empty()) {
            features.push(Feature::BadBlocks);
        }
        features
    }

    /// A migration that moves data: initialisation, rebuild and verification do not.
    fn migration(&self, volume: &Volume<'_>) -> Option<Reshape> {
        let source = volume.source.filter(|_| volume.is_moved())?;
        let words = |map: &Map<'_>| {
            let (level, ..) = arrangement(map.level(), map.members().into());
            let strip = self.sectors(map.strip_blocks().into());
            format!("{level} on {} members with a strip of {strip}", map.members())
        };
        let unit = u64::from(u32_at(volume.bytes, 80)) | u64::from(u32_at(volume.bytes, 96)) << 32;
        Some(Reshape {
            // Only the migration record, outside these metadata, describes units: the position is
            // unknown here.
            position: ByteOffset(0),
            backwards: false,
            from: words(&source),
            to: format!("{}, at its unit {unit}", words(&volume.map)),
            shift: 0,
            layouts: None,
        })
    }

    fn entries(&self, volume: &Volume<'_>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = (0..volume.map.members())
            .filter_map(|slot| {
                let (disk, is_rebuilding) = volume.order(slot);
                let serial = self.serial(disk);
                if disk >= self.disks() || serial.starts_with("missing:") {
                    return None;
                }
                let is_failed =
                    self.disk_status(disk) & DISK_FAILED != 0 || volume.map.failed() == Some(slot);
                let role = match (is_failed, is_rebuilding) {
                    (true, _) => Role::Failed,
                    (false, true) => Role::Rebuilding(slot.into()),
                    (false, false) => Role::Active(slot.into()),
                };
                Some(Entry { key: serial, role })
            })
            .collect();
        for disk in 0..self.disks() {
            let (key, status) = (self.serial(disk), self.disk_status(disk));
            if entries.iter().all(|entry| entry.key != key) {
                let role = match status {
                    status if status & DISK_FAILED != 0 => Role::Failed,
                    status if status & DISK_JOURNAL != 0 => Role::Journal,
                    status if status & DISK_SPARE != 0 => Role::Spare,
                    _ => continue,
                };
                entries.push(Entry { key, role });
            }
        }
        entries
    }

    fn member(&self, volume: &Volume<'_>, own: Option<&str>, container: &[u8]) -> MemberRecord {
        let slot = (0..volume.map.members())
            .find(|&slot| own.is_some_and(|own| self.serial(volume.order(slot).0) == own));
        let role = match slot.map(|slot| (u16::from(slot), volume.order(slot).1)) {
            Some((slot, true)) => Role::Rebuilding(slot),
            Some((slot, false)) => Role::Active(slot),
            None if own.is_none() => Role::Unknown,
            None => Role::Spare,
        };
        let disk = slot.map(|slot| volume.order(slot).0);
        let (bad, excluded) = match limits::bad_blocks(self) {
            Ok(runs) => {
                let own = runs.into_iter().filter(|(of, _)| Some(*of) == disk);
                (own.map(|(_, run)| run).collect(), None)
            }
            Err(why) => (Vec::new(), Some(why)),
        };
        let start = self.sectors(volume.map.start());
        let room = ByteCount(u64::MAX - start.0);
        MemberRecord {
            key: own.unwrap_or_default().into(),
            device: own.map(|own| Identity {
                text: own.into(),
                bytes: [container, own.as_bytes()].concat(),
            }),
            role,
            data: ByteRange::new(ByteOffset(start.0), self.sectors(volume.map.blocks()).min(room)),
            rebuilt: None,
            bad,
            excluded,
        }
    }
}

/// Level and layout as text, and as an arrangement.
fn arrangement(level: u8, members: u16) -> (&'static str, &'static str, Arrangement) {
    let shape = |level| Shape::new(level, DriveCount(members));
    let (name, layout, shape) = match level {
        0 => ("raid0", "", shape(Level::Raid0)),
        1 if members > 2 => pairs(members),
        1 => ("raid1", "", shape(Level::Raid1)),
        10 => pairs(members),
        5 => {
            let parity = Some(ParityArrangement::LeftAsymmetric);
            ("raid5", "left-asymmetric", Shape { parity, ..shape(Level::Raid5) })
        }
        _ => return ("unknown", "", Arrangement::Other(format!("level {level} is not supported"))),
    };
    match shape.check() {
        Ok(()) => (name, layout, Arrangement::Shape(shape)),
        Err(error) => (name, layout, Arrangement::Other(error.context)),
    }
}

fn pairs(members: u16) -> (&'static str, &'static str, Shape) {
    (
        "raid10",
        "near 2",
        Shape { spans: Some(members / 2), ..Shape::new(Level::Raid10, DriveCount(members)) },
    )
}

/// A serial number in the form of the metadata: without white space, colons replaced, the last 16
/// characters.
fn normal_serial(serial: &str) -> String {
    let letters =
        serial.chars().filter(|letter| letter.is_ascii() && !letter.is_ascii_whitespace());
    let letters: Vec<char> =
        letters.map(|letter| if letter == ':' { ';' } else { letter }).collect();
    letters[letters.len().saturating_sub(16)..].iter().collect()
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    text.trim().chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of disks 0 to 3 with these slots marked.
    fn map(marked: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; MAP];
        bytes[16] = 4;
        for slot in 0..4u8 {
            let mark = if marked.contains(&slot) { NEEDS_REBUILD } else { 0 };
            bytes.extend((u32::from(slot) | mark).to_le_bytes());
        }
        bytes
    }

    /// Regression: a member whose rebuild was interrupted passed for current: mdadm marks it in the
    /// second map alone.
    #[test]
    fn a_member_that_is_being_rebuilt_is_marked_in_the_second_map() {
        let (first, second) = (map(&[]), map(&[2]));
        let mut bytes = vec![0; VOLUME];
        for (kind, is_rebuilding) in [(1, true), (GENERAL_MIGRATION, false)] {
            (bytes[88], bytes[MIGRATION_TYPE]) = (1, kind);
            let source = Some(Map { bytes: &second });
            let volume = Volume { bytes: &bytes, index: 0, map: Map { bytes: &first }, source };
            assert_eq!(volume.order(2), (2, is_rebuilding), "kind {kind}");
            assert_eq!(volume.order(1), (1, false), "kind {kind}");
        }
    }
}
