//! What a label says: the array, its volume, its members; as TOML text.

use crate::error::{Error, ErrorKind, Result};
use crate::tail::{SLOT, Tail};
use crate::uuid::Uuid;
use layout::{Geometry, Level, ParityArrangement, Shape};
use serde::{Deserialize, Serialize};
use units::{ByteCount, DriveCount, SectorSize, StripSize};

/// How far the life of an array has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is being made: nobody was told yet that it exists.
    Creating,
    /// It exists.
    Online,
    /// It was deleted; what is left of it means nothing.
    Deleted,
}

/// How a member stands with its array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It holds what it should.
    Online,
    /// The array goes on without it.
    Failed,
}

/// Why an array goes on without a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// An operation on it failed.
    Error,
    /// It was not found when the array was started.
    Missing,
    /// An operator took it out, for a while.
    Offline,
    /// An operator declared it failed.
    Operator,
}

/// A member of the array, as the label records it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The UUID of its drive.
    pub uuid: Uuid,
    /// How that drive was named, for people.
    pub name: String,
    /// How it stands.
    pub state: MemberState,
    /// The generation from which on it stands so.
    pub since: u64,
    /// Why it failed; `None` of one that is online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Whether anything was, or may have been, written without it: then what it holds is old.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed_writes: bool,
}

impl Member {
    /// Whether it is online.
    pub fn is_online(&self) -> bool {
        self.state == MemberState::Online
    }
}

/// The volume that lies on the array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeLabel {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// Where parity is, where the level has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<ParityArrangement>,
    /// How many spans; 1 where the level has none.
    pub spans: u16,
    /// The strip.
    pub strip_bytes: u64,
    /// Bytes used of every member, from its first byte on.
    pub member_bytes: u64,
    /// The sector.
    pub sector_bytes: u64,
    /// What hosts can use.
    pub capacity_bytes: u64,
    /// How redundancy is made to agree with data after a crash.
    pub write_hole: WriteHole,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: u64,
}

/// How a stripe that was interrupted in the middle is dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteHole {
    /// Lanes that were being written are resynced; until then their redundancy is not used.
    Resync,
}

/// What a label says. All members carry the same, but for `drive`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The array's UUID.
    pub array: Uuid,
    /// The UUID of the drive that carries this label.
    pub drive: Uuid,
    /// Counts changes of what the label says. Every change is on all online members before the next.
    pub generation: u64,
    /// How far the array's life has come.
    pub phase: Phase,
    /// Whether the array was stopped in order, with everything on the drives and no lane marked.
    pub clean: bool,
    /// Its volume.
    pub volume: VolumeLabel,
    /// Its members, by slot.
    pub member: Vec<Member>,
}

/// The longest name of a volume.
pub const LONGEST_NAME: usize = 64;

/// Whether a text can be the name of a volume.
pub fn is_volume_name(name: &str) -> bool {
    let first_is_fine = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fits = name.len() <= LONGEST_NAME;
    first_is_fine && fits && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn contradiction(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Contradiction, what)
}

impl Label {
    /// The slot of the drive that carries it, if it is a member.
    pub fn slot(&self) -> Option<usize> {
        self.slot_of(self.drive)
    }

    /// The slot of a drive.
    pub fn slot_of(&self, drive: Uuid) -> Option<usize> {
        self.member.iter().position(|member| member.uuid == drive)
    }

    /// The same label for another member.
    #[must_use]
    pub fn for_drive(&self, drive: Uuid) -> Label {
        Label { drive, ..self.clone() }
    }

    /// Whether two labels say the same of their array.
    pub fn agrees_with(&self, other: &Label) -> bool {
        *self == other.for_drive(self.drive)
    }

    /// How many members are online.
    pub fn online(&self) -> usize {
        self.member.iter().filter(|member| member.is_online()).count()
    }

    /// The layout of the volume.
    ///
    /// # Errors
    /// When no volume can be like that.
    pub fn geometry(&self) -> Result<Geometry> {
        let volume = &self.volume;
        let wrong = |sentence: String| contradiction(format!("the label describes no volume: {sentence}"));
        let strip =
            StripSize::new(ByteCount(volume.strip_bytes)).map_err(|error| wrong(error.to_string()))?;
        let drives = u16::try_from(self.member.len())
            .map_err(|_| wrong(format!("it has {} members", self.member.len())))?;
        let member_size = ByteCount(volume.member_bytes);
        let shape = Shape {
            spans: Some(volume.spans),
            parity: volume.rotation,
            ..Shape::new(volume.level, DriveCount(drives))
        };
        shape.geometry(strip, member_size).map_err(|error| wrong(error.to_string()))
    }

    /// The volume's sector.
    ///
    /// # Errors
    /// When drives have no such sector.
    pub fn sector(&self) -> Result<SectorSize> {
        let bytes = self.volume.sector_bytes;
        SectorSize::from_bytes(bytes).ok_or_else(|| {
            contradiction(format!("the label names sectors of {bytes} bytes; 512 and 4096 exist"))
        })
    }

    /// Whether the drive that carries it can, by its size.
    pub fn fits(&self, drive_size: ByteCount) -> bool {
        Tail::of(drive_size).is_some_and(|tail| tail.start().0 >= self.volume.member_bytes)
    }

    /// Looks whether everything it says can be.
    ///
    /// # Errors
    /// Says what cannot.
    pub fn check(&self) -> Result<()> {
        let geometry = self.geometry()?;
        let sector = self.sector()?;
        let volume = &self.volume;
        if geometry.member_size().0 != volume.member_bytes {
            return Err(contradiction("the label names a member size that is not whole strips"));
        }
        let capacity = ByteCount(volume.capacity_bytes);
        if capacity.is_zero() || capacity > geometry.capacity() || !capacity.is_aligned(sector.bytes()) {
            return Err(contradiction(format!(
                "the label names a capacity of {capacity}, but its volume has {}",
                geometry.capacity()
            )));
        }
        if !is_volume_name(&volume.name) {
            return Err(contradiction(format!(
                "the label names a volume {:?}, which is no name",
                volume.name
            )));
        }
        let mut uuids: Vec<Uuid> = self.member.iter().map(|member| member.uuid).collect();
        uuids.sort_unstable();
        if uuids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(contradiction("the label names one drive as two members"));
        }
        if self.slot().is_none() {
            return Err(contradiction(format!("the label says that its drive {} is no member", self.drive)));
        }
        if self.generation == 0 || self.generation >= u64::MAX / 2 {
            return Err(contradiction(format!("the label's generation {} cannot be", self.generation)));
        }
        Ok(())
    }

    /// As text.
    ///
    /// # Errors
    /// When it does not fit a slot.
    pub(crate) fn to_text(&self) -> Result<String> {
        let text = toml::to_string(self)
            .map_err(|error| contradiction(format!("the label cannot be written as text: {error}")))?;
        if text.len() as u64 > (SLOT - crate::tail::BLOCK).0 {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the label takes {} bytes, but a slot has room for 1 MiB; use shorter names",
                    text.len()
                ),
            ));
        }
        Ok(text)
    }

    /// From text.
    ///
    /// # Errors
    /// When it is not a label's text, or says what cannot be.
    pub(crate) fn from_text(text: &[u8]) -> Result<Label> {
        let text = std::str::from_utf8(text).map_err(|_| contradiction("the label's text is not UTF-8"))?;
        let label: Label = toml::from_str(text).map_err(|error| {
            contradiction(format!("the label's text cannot be understood: {}", error.message()))
        })?;
        label.check()?;
        Ok(label)
    }
}
