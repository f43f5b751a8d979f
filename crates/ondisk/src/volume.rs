//! A volume in the label of its array.

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

/// The most volumes of one array: the number of configuration records of a drive in DDF.
pub const MAX_VOLUMES: usize = 64;

/// The most runs of punctured blocks, and of excluded ones, of one drive in one volume.
pub const MAX_PUNCTURED_RUNS: usize = 1024;

/// The most devices of a log; each has the whole log.
pub const MAX_LOG_DEVICES: usize = 2;

/// The longest name of a volume.
pub const LONGEST_NAME: usize = 64;

/// The protection against the write hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteHole {
    /// A journal receives stripe writes before the drives do; a replay finishes them after a crash.
    Journal,
    /// Regions with interrupted writes are resynced; until then their redundancy is not used.
    Resync,
}

/// Memory that may have acknowledged writes which the drives lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptLabel {
    /// The UUID of the memory.
    pub memory: Uuid,
    /// The boot ID of the host computer: a power cut clears the memory.
    pub boot: Uuid,
}

/// Log devices that may have durable writes of a volume which its drives lack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataLogLabel {
    /// The UUID of the valid records.
    pub id: Uuid,
    /// The log devices; each has all records.
    pub devices: Vec<Uuid>,
    /// Its offset on each device.
    pub start_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
}

impl DataLogLabel {
    fn check(&self, name: &str) -> Result<()> {
        check_place_on_log(name, "data log", &self.devices, self.start_bytes, self.len_bytes)
    }
}

/// Checks a place on log devices.
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
        "the label gives '{name}' a {what} of {len_bytes} bytes at byte {start_bytes} of {} log \
         devices, which is an invalid place",
        devices.len()
    )))
}

/// The place of a journal that is not on the members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnLog {
    /// The log devices; each has all records.
    pub devices: Vec<Uuid>,
    /// Its offset on each device.
    pub start_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
}

/// The place of a volume's journal, and the meaning of its records.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalLabel {
    /// Its offset in the space of all journals, on every member.
    pub start_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
    /// The UUID of the valid records; `None` if none were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// Whether the records cover all writes that a crash may have interrupted. False where the
    /// redundancy of marked regions may be wrong for another reason.
    pub tells_all: bool,
    /// The place of the records, if it is not on the members; the space on the members stays
    /// reserved in case these devices fail. Software that does not support this refuses the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<OnLog>,
}

impl JournalLabel {
    /// Its end.
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
            "the label gives '{name}' a journal of {} bytes at byte {}, which is an invalid place",
            self.len_bytes, self.start_bytes
        )))
    }
}

/// The drives' content at the creation of the volume, and its initialisation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// Zeros: redundancy is valid from the start.
    Zeroed,
    /// Unknown: the ends are zeroed, and a resync runs in the background.
    Fast,
    /// Unknown: a resync runs in the background.
    Background,
    /// Unknown: all is zeroed before the volume is served.
    Full,
}

/// Listed blocks of one drive: punctured or excluded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Punctured {
    /// The drive's slot.
    pub slot: u16,
    /// Half-open runs of bytes from the volume's first byte on that drive, ascending; whole
    /// sectors.
    pub bytes: Vec<[u64; 2]>,
}

/// Regions in which the strips of a failed drive are in the distributed spare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relocated {
    /// The slot of the failed drive.
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
    /// The layout of parity, where the level has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity: Option<ParityArrangement>,
    /// The layout of copies, where the level has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<MirrorArrangement>,
    /// The number of spans; 1 where the level has none.
    pub spans: u16,
    /// The number of copies of each data strip.
    pub copies: u16,
    /// The strip.
    pub strip_bytes: u64,
    /// The offset of its data on every member.
    pub data_start_bytes: u64,
    /// The bytes used on every member from there on.
    pub member_bytes: u64,
    /// Its first region in the array.
    #[serde(alias = "first_lane")]
    pub first_region: u32,

    /// The number of its regions.
    #[serde(alias = "lanes")]
    pub regions: u32,

    /// The sector.
    pub sector_bytes: u64,
    /// The size that hosts see.
    pub capacity_bytes: u64,
    /// The protection against the write hole.
    pub write_hole: WriteHole,
    /// The drives' content at its creation, and its initialisation.
    pub init: Init,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: u64,
    /// Slots of members that it needed when they failed: there were no writes since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u16>,
    /// Regions without a write since its creation, except the marked ones.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub unwritten: Runs,
    /// Set if the drives' tails record its initialised stripes: the bytes of data in such a stripe.
    /// Absent: all stripes are initialised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialised_by_bytes: Option<u64>,
    /// Its journal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalLabel>,
    /// When writes are acknowledged.
    #[serde(default, skip_serializing_if = "WriteMode::is_default")]
    pub write_mode: WriteMode,
    /// Whether sequential reads are read ahead.
    #[serde(default, skip_serializing_if = "ReadMode::is_default")]
    pub read_mode: ReadMode,
    /// Whether data that were read stay in the cache.
    #[serde(default, skip_serializing_if = "CacheMode::is_default")]
    pub cache_mode: CacheMode,
    /// The desired state of the drives' own write caches.
    #[serde(default, skip_serializing_if = "DriveCache::is_default")]
    pub drive_cache: DriveCache,
    /// The sectors that are advertised to hosts.
    #[serde(default, skip_serializing_if = "SectorFormat::is_default")]
    pub sector_format: SectorFormat,
    /// Persistent memory that may have its data. Software that does not support this refuses the
    /// label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptLabel>,
    /// The same, on log devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_log: Option<DataLogLabel>,
    /// Regions that are in the distributed spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relocated: Option<Relocated>,
    /// Punctured blocks: their data are lost.
    #[serde(default, alias = "bad", skip_serializing_if = "Vec::is_empty")]
    pub punctured: Vec<Punctured>,
    /// Blocks excluded from reads on one drive. Software that does not support this refuses the
    /// label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Punctured>,
    /// The number of members that it uses, from the first one on, if not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u16>,
    /// Its reshape, while it is reshaping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reshape: Option<ReshapeLabel>,
    /// The reshape for which it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<FollowsLabel>,
    /// Its relation to a reshaping volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartLabel>,
}

/// Whether a text is valid as the name of a volume.
pub fn is_volume_name(name: &str) -> bool {
    let first_is_fine = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fits = name.len() <= LONGEST_NAME;
    first_is_fine
        && fits
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn contradiction(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Contradiction, what)
}

impl VolumeLabel {
    /// Its shape on that number of drives.
    pub(crate) fn shape(&self, drives: DriveCount) -> Shape {
        Shape {
            level: self.level,
            drives,
            spans: Some(self.spans),
            copies: Some(self.copies),
            parity: self.parity,
            mirrors: self.mirrors,
        }
    }

    /// Its layout over that number of members.
    ///
    /// # Errors
    /// When the layout is invalid.
    pub fn geometry(&self, members: usize) -> Result<Geometry> {
        let wrong =
            |sentence: String| contradiction(format!("invalid volume in the label: {sentence}"));
        let strip = StripSize::new(ByteCount(self.strip_bytes))
            .map_err(|error| wrong(error.to_string()))?;
        let members = members_of(self, members)?;
        let drives =
            u16::try_from(members).map_err(|_| wrong(format!("it has {members} members")))?;
        self.shape(DriveCount(drives))
            .geometry(strip, ByteCount(self.member_bytes))
            .map_err(|error| wrong(error.to_string()))
    }

    /// Its sector.
    ///
    /// # Errors
    /// When the sector size is not supported.
    pub fn sector(&self) -> Result<SectorSize> {
        let bytes = self.sector_bytes;
        SectorSize::from_bytes(bytes).ok_or_else(|| {
            contradiction(format!("the label names sectors of {bytes} bytes; use 512 or 4096"))
        })
    }

    /// The end of its data on every member.
    pub fn data_end_bytes(&self) -> u64 {
        self.data_start_bytes.saturating_add(self.member_bytes)
    }

    /// The region behind its last one, in the array.
    pub fn end_region(&self) -> u32 {
        self.first_region.saturating_add(self.regions)
    }

    /// The members that it lacks when these are not in use: all of them, except one whose whole
    /// content is in the distributed spare.
    pub fn does_without(&self, out: &DriveSet) -> DriveSet {
        let is_whole = |moved: &&Relocated| moved.regions.regions() >= u64::from(self.regions);
        match self.relocated.as_ref().filter(is_whole) {
            Some(moved) => out.without(DriveIndex(moved.slot)),
            None => *out,
        }
    }

    /// Whether its redundancy suffices without these members.
    pub fn survives(&self, members: usize, out: &DriveSet) -> bool {
        self.geometry(members).is_ok_and(|geometry| {
            geometry.survives_set(
                &self.does_without(out).intersection(&DriveSet::first(geometry.drives())),
            )
        })
    }

    /// The lists of punctured and of excluded blocks.
    fn listed(&self) -> impl Iterator<Item = &Punctured> {
        self.punctured.iter().chain(&self.excluded)
    }

    /// Checks the content.
    ///
    /// # Errors
    /// Describes the first invalid field.
    pub(crate) fn check(&self, members: usize) -> Result<()> {
        let name = &self.name;
        if !is_volume_name(name) && !self.is_part() {
            return Err(contradiction(format!("the label has the invalid volume name {name:?}")));
        }
        let geometry = self.geometry(members)?;
        let sector = self.sector()?;
        if geometry.member_size().0 != self.member_bytes {
            return Err(contradiction("the label names a member size that is not whole strips"));
        }
        let capacity = ByteCount(self.capacity_bytes);
        if capacity.is_zero()
            || capacity > geometry.capacity()
            || !capacity.is_aligned(sector.bytes())
        {
            return Err(contradiction(format!(
                "the label names a capacity of {capacity}, but its volume has {}",
                geometry.capacity()
            )));
        }
        let ends =
            self.data_start_bytes.checked_add(self.member_bytes).is_some_and(|end| end < 1 << 63);
        if !ends || !ByteCount(self.data_start_bytes).is_aligned(sector.bytes()) {
            return Err(contradiction(format!(
                "the label lets '{name}' begin at byte {}, which is invalid",
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
        let inside = |runs: &Runs| {
            runs.0.iter().all(|run| run[0] >= self.first_region && run[1] <= self.end_region())
        };
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
        let is_sorted =
            |list: &[Punctured]| list.windows(2).all(|pair| pair[0].slot < pair[1].slot);
        if !slots_exist || !is_sorted(&self.punctured) || !is_sorted(&self.excluded) {
            return Err(contradiction(format!(
                "the label names invalid slots for '{}'",
                self.name
            )));
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
                    "the label lists blocks of drive {slot} in '{}' that are invalid",
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
