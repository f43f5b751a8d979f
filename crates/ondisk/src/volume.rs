//! What a label says of one of the volumes of its array.

use crate::error::{Error, ErrorKind, Result};
use crate::intent::MAX_REGIONS;
use crate::modes::{CacheMode, DriveCache, ReadMode, SectorFormat, WriteMode};
use crate::reshape::{FollowsLabel, PartLabel, ReshapeLabel, members_of};
use crate::runs::Runs;
use crate::tail::{BLOCK, Tail};
use crate::uuid::Uuid;
use layout::{Geometry, Level, MirrorArrangement, ParityArrangement, Shape};
use serde::{Deserialize, Serialize};
use units::{ByteCount, DriveCount, DriveIndex, DriveSet, SectorSize, StripSize};

/// The most volumes of one array: as many configuration records as a drive has in DDF.
pub const MAX_VOLUMES: usize = 64;

/// The most runs of punctured blocks, and of excluded ones, that a label names of one drive in one volume.
pub const MAX_PUNCTURED_RUNS: usize = 1024;

/// The most devices that a log has: each has all of it.
pub const MAX_LOG_DEVICES: usize = 2;

/// The longest name of a volume.
pub const LONGEST_NAME: usize = 64;

/// How a stripe that was interrupted in the middle is dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteHole {
    /// What is about to be written is kept in a journal first, and finished after a crash.
    Journal,
    /// Regions that were being written are resynced; until then their redundancy is not used.
    Resync,
}

/// Memory that may have what hosts were told is written, and the drives do not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptLabel {
    /// The identity of the memory.
    pub memory: Uuid,
    /// The start of the machine that the memory belongs to: when its power goes, so does what is in it.
    pub boot: Uuid,
}

/// Where records may be of what hosts of a volume were told is durable, and its drives do not have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataLogLabel {
    /// The identity of the records that count.
    pub id: Uuid,
    /// The log devices of which each has all records.
    pub devices: Vec<Uuid>,
    /// From the beginning of each device.
    pub start_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
}

impl DataLogLabel {
    fn check(&self, name: &str) -> Result<()> {
        check_place_on_log(name, "data log", &self.devices, self.start_bytes, self.len_bytes)
    }
}

/// Something of a volume that lies on log devices.
fn check_place_on_log(
    name: &str,
    what: &str,
    devices: &[Uuid],
    start_bytes: u64,
    len_bytes: u64,
) -> Result<()> {
    let ends = start_bytes.checked_add(len_bytes).is_some_and(|end| end < 1 << 63);
    let is_there = ends && len_bytes > 0 && ByteCount(start_bytes | len_bytes).is_aligned(BLOCK);
    let twice = devices.iter().enumerate().any(|(at, device)| devices[..at].contains(device));
    if is_there && !twice && (1..=MAX_LOG_DEVICES).contains(&devices.len()) {
        return Ok(());
    }
    Err(contradiction(format!(
        "the label gives '{name}' a {what} of {len_bytes} bytes at byte {start_bytes} of {} log devices, where none can be",
        devices.len()
    )))
}

/// Where a journal lies that is not on the members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnLog {
    /// The log devices of which each has all records.
    pub devices: Vec<Uuid>,
    /// From the beginning of each device.
    pub start_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
}

/// Where a volume's journal lies, and what its records are worth.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalLabel {
    /// From the beginning of the room that all journals have, on every member.
    pub start_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
    /// The identity of the records that count; none where none were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// Whether they tell all that a crash may have interrupted. They do not where the redundancy of marked regions may
    /// disagree for another reason.
    pub tells_all: bool,
    /// Where the records are, if they are not on the members; the room there is kept for when these devices fail. Programs that know
    /// nothing of that refuse the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<OnLog>,
}

impl JournalLabel {
    /// Where it ends.
    pub fn end_bytes(&self) -> u64 {
        self.start_bytes.saturating_add(self.len_bytes)
    }

    fn check(&self, name: &str) -> Result<()> {
        let is_aligned = |bytes: u64| ByteCount(bytes).is_aligned(BLOCK);
        if let Some(log) = &self.log {
            check_place_on_log(name, "journal", &log.devices, log.start_bytes, log.len_bytes)?;
        }
        if self.len_bytes > 0
            && self.end_bytes() <= Tail::JOURNALS.0
            && is_aligned(self.start_bytes | self.len_bytes)
        {
            return Ok(());
        }
        Err(contradiction(format!(
            "the label gives '{name}' a journal of {} bytes at byte {}, where none can be",
            self.len_bytes, self.start_bytes
        )))
    }
}

/// What the drives held where the volume lies when it was made, and what was done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// Zeroes: redundancy agrees from the start.
    Zeroed,
    /// Anything: the ends are zeroed, and redundancy is made to agree in the background.
    Fast,
    /// Anything: redundancy is made to agree in the background.
    Background,
    /// Anything: all is zeroed, and the volume is not served before that is done.
    Full,
}

/// Blocks of one drive that are listed: as punctured, or as excluded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Punctured {
    /// The drive's slot.
    pub slot: u16,
    /// Half-open runs of bytes from the volume's first byte on that drive, ascending; whole sectors.
    pub bytes: Vec<[u64; 2]>,
}

/// Regions in which a lost drive's strips lie in the distributed spare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relocated {
    /// The slot of the lost drive.
    pub slot: u16,
    /// The regions.
    #[serde(alias = "lanes")]
    pub regions: Runs,
}

/// A volume of the array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeLabel {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// Where parity is, where the level has a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity: Option<ParityArrangement>,
    /// Where copies are, where the level has a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<MirrorArrangement>,
    /// How many spans; 1 where the level has none.
    pub spans: u16,
    /// How often each data strip is stored.
    pub copies: u16,
    /// The strip.
    pub strip_bytes: u64,
    /// Where its data begins on every member.
    pub data_start_bytes: u64,
    /// Bytes used of every member, from there on.
    pub member_bytes: u64,
    /// Its first region, of the array's.
    #[serde(alias = "first_lane")]
    pub first_region: u32,

    /// How many regions it has.
    #[serde(alias = "lanes")]
    pub regions: u32,

    /// The sector.
    pub sector_bytes: u64,
    /// What hosts can use.
    pub capacity_bytes: u64,
    /// How redundancy is made to agree with data after a crash.
    pub write_hole: WriteHole,
    /// What its drives held, and what is done about it.
    pub init: Init,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: u64,
    /// Slots of members that it could not do without when they went out: nothing was written to it since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u16>,
    /// Regions that nobody has written since it was created, but for those that are marked.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub unwritten: Runs,
    /// Which of its stripes are initialised is recorded in the drives' tail; so many bytes of data count as a stripe there. Left out:
    /// all of them are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialised_by_bytes: Option<u64>,
    /// Its journal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalLabel>,
    /// When hosts are to be told that a write is done.
    #[serde(default, skip_serializing_if = "WriteMode::is_default")]
    pub write_mode: WriteMode,
    /// Whether reads in order are read ahead.
    #[serde(default, skip_serializing_if = "ReadMode::is_default")]
    pub read_mode: ReadMode,
    /// Whether what was read is kept for the next who reads it.
    #[serde(default, skip_serializing_if = "CacheMode::is_default")]
    pub cache_mode: CacheMode,
    /// What the drives' own write caches are to be.
    #[serde(default, skip_serializing_if = "DriveCache::is_default")]
    pub drive_cache: DriveCache,
    /// Which sectors hosts are told of.
    #[serde(default, skip_serializing_if = "SectorFormat::is_default")]
    pub sector_format: SectorFormat,
    /// Where else its data may be. Programs that know nothing of that refuse the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptLabel>,
    /// The same, on log devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_log: Option<DataLogLabel>,
    /// Regions that lie in the distributed spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relocated: Option<Relocated>,
    /// Blocks whose content is lost.
    #[serde(default, alias = "bad", skip_serializing_if = "Vec::is_empty")]
    pub punctured: Vec<Punctured>,
    /// Blocks that a drive did not keep: what it holds there is not to be read. Programs that do not know of them refuse the label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Punctured>,
    /// On how many of the members it is, from the first one on, if not on all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u16>,
    /// Its way to another layout, if it is on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reshape: Option<ReshapeLabel>,
    /// What it comes to when other volumes of its array have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<FollowsLabel>,
    /// The volume on its way that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartLabel>,
}

/// Whether a text can be the name of a volume.
pub fn is_volume_name(name: &str) -> bool {
    let first_is_fine = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fits = name.len() <= LONGEST_NAME;
    first_is_fine && fits && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn contradiction(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Contradiction, what)
}

impl VolumeLabel {
    /// Its layout over so many members.
    ///
    /// # Errors
    /// When no volume can be like that.
    pub fn geometry(&self, members: usize) -> Result<Geometry> {
        let wrong = |sentence: String| contradiction(format!("the label describes no volume: {sentence}"));
        let strip = StripSize::new(ByteCount(self.strip_bytes)).map_err(|error| wrong(error.to_string()))?;
        let members = members_of(self, members)?;
        let drives = u16::try_from(members).map_err(|_| wrong(format!("it has {members} members")))?;
        let shape = Shape {
            level: self.level,
            drives: DriveCount(drives),
            spans: Some(self.spans),
            copies: Some(self.copies),
            parity: self.parity,
            mirrors: self.mirrors,
        };
        shape.geometry(strip, ByteCount(self.member_bytes)).map_err(|error| wrong(error.to_string()))
    }

    /// Its sector.
    ///
    /// # Errors
    /// When drives have no such sector.
    pub fn sector(&self) -> Result<SectorSize> {
        let bytes = self.sector_bytes;
        SectorSize::from_bytes(bytes).ok_or_else(|| {
            contradiction(format!("the label names sectors of {bytes} bytes; 512 and 4096 exist"))
        })
    }

    /// Where its data ends on every member.
    pub fn data_end_bytes(&self) -> u64 {
        self.data_start_bytes.saturating_add(self.member_bytes)
    }

    /// The region behind its last one, of the array's.
    pub fn end_region(&self) -> u32 {
        self.first_region.saturating_add(self.regions)
    }

    /// Members that it has to do without where these are out: all of them, but for one whose content lies in the
    /// distributed spare as a whole.
    pub fn does_without(&self, out: &DriveSet) -> DriveSet {
        let is_whole = |moved: &&Relocated| moved.regions.regions() >= u64::from(self.regions);
        match self.relocated.as_ref().filter(is_whole) {
            Some(moved) => out.without(DriveIndex(moved.slot)),
            None => *out,
        }
    }

    /// Whether it can be served, as to redundancy, without these of its members.
    pub fn survives(&self, members: usize, out: &DriveSet) -> bool {
        self.geometry(members).is_ok_and(|geometry| {
            geometry.survives_set(&self.does_without(out).intersection(&DriveSet::first(geometry.drives())))
        })
    }

    /// The lists of punctured and of excluded blocks.
    fn listed(&self) -> impl Iterator<Item = &Punctured> {
        self.punctured.iter().chain(&self.excluded)
    }

    /// Looks whether everything it says can be.
    ///
    /// # Errors
    /// Says what cannot.
    pub(crate) fn check(&self, members: usize) -> Result<()> {
        let name = &self.name;
        if !is_volume_name(name) && !self.is_part() {
            return Err(contradiction(format!("the label names a volume {name:?}, which is no name")));
        }
        let geometry = self.geometry(members)?;
        let sector = self.sector()?;
        if geometry.member_size().0 != self.member_bytes {
            return Err(contradiction("the label names a member size that is not whole strips"));
        }
        let capacity = ByteCount(self.capacity_bytes);
        if capacity.is_zero() || capacity > geometry.capacity() || !capacity.is_aligned(sector.bytes()) {
            return Err(contradiction(format!(
                "the label names a capacity of {capacity}, but its volume has {}",
                geometry.capacity()
            )));
        }
        let ends = self.data_start_bytes.checked_add(self.member_bytes).is_some_and(|end| end < 1 << 63);
        if !ends || !ByteCount(self.data_start_bytes).is_aligned(sector.bytes()) {
            return Err(contradiction(format!(
                "the label lets '{name}' begin at byte {}, which cannot be",
                self.data_start_bytes
            )));
        }
        let regions = u64::from(self.first_region) + u64::from(self.regions);
        if self.regions == 0 || regions > u64::from(MAX_REGIONS) {
            return Err(contradiction(format!(
                "the label gives '{name}' regions {} to {regions}; an array has {MAX_REGIONS}",
                self.first_region
            )));
        }
        self.journal.as_ref().map_or(Ok(()), |journal| journal.check(name))?;
        self.data_log.as_ref().map_or(Ok(()), |log| log.check(name))?;
        self.check_sets(members, sector)
    }

    fn check_sets(&self, members: usize, sector: SectorSize) -> Result<()> {
        let is_slot = |slot: u16| usize::from(slot) < members;
        let inside =
            |runs: &Runs| runs.0.iter().all(|run| run[0] >= self.first_region && run[1] <= self.end_region());
        self.unwritten.check("unwritten")?;
        let mut sets_are_inside = inside(&self.unwritten);
        let mut slots_exist = self.lost.iter().all(|slot| is_slot(*slot));
        if let Some(relocated) = &self.relocated {
            relocated.regions.check("relocated")?;
            sets_are_inside &= inside(&relocated.regions);
            slots_exist &= is_slot(relocated.slot);
        }
        slots_exist &= self.listed().all(|listed| is_slot(listed.slot));
        if !sets_are_inside {
            return Err(contradiction(format!(
                "the label names regions of '{}' that are not its own",
                self.name
            )));
        }
        let is_sorted = |list: &[Punctured]| list.windows(2).all(|pair| pair[0].slot < pair[1].slot);
        if !slots_exist || !is_sorted(&self.punctured) || !is_sorted(&self.excluded) {
            return Err(contradiction(format!("the label names slots for '{}' that are none", self.name)));
        }
        for Punctured { slot, bytes } in self.listed() {
            let in_order = bytes.windows(2).all(|pair| pair[0][1] < pair[1][0]);
            let fine = |run: &[u64; 2]| {
                run[0] < run[1]
                    && run[1] <= self.member_bytes
                    && run.iter().all(|at| ByteCount(*at).is_aligned(sector.bytes()))
            };
            if !in_order || bytes.len() > MAX_PUNCTURED_RUNS || !bytes.iter().all(fine) {
                return Err(contradiction(format!(
                    "the label lists blocks of drive {slot} in '{}' that cannot be",
                    self.name
                )));
            }
        }
        Ok(())
    }
}

/// Members by slot, as a set.
pub fn slots(slots: impl IntoIterator<Item = usize>) -> DriveSet {
    slots.into_iter().filter_map(|slot| u16::try_from(slot).ok()).map(DriveIndex).collect()
}
