//! Unused drives with metadata, and foreign volumes.

use serde::{Deserialize, Serialize};

/// A volume that another system created or changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignVolume {
    /// Its name; may be empty.
    pub name: String,
    /// Its unique identity, as its format writes it.
    pub identity: String,
    /// The format: `ddf`, `linux-md`, `imsm`.
    pub format: String,
    /// The format's version.
    pub version: String,
    /// Its level, as its format calls it.
    pub level: String,
    /// Its layout, as its format calls it; empty if the level has only one.
    pub layout: String,
    /// Its strip size; `None` for levels without strips.
    pub strip_bytes: Option<u64>,
    /// Its size; 0 if unknown.
    pub size_bytes: u64,
    /// `complete`, `degraded` or `not readable`.
    pub state: String,
    /// Whether it was cleanly shut down.
    pub clean: bool,
    /// Its members, by slot.
    pub members: Vec<ForeignMember>,
    /// Other drives that are related to it.
    pub others: Vec<ForeignOther>,
    /// Missing or stale members with the reason: a sentence each.
    pub reasons: Vec<String>,
    /// Names or identities of volumes on the same drives, which are imported together with it.
    pub together_with: Vec<String>,
    /// Why it cannot be imported, and the alternative: a sentence; `None` if it can be imported.
    pub obstacle: Option<String>,
}

/// A member of a foreign volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignMember {
    /// Its slot, from zero.
    pub slot: u16,
    /// The drive; `None` if it is missing.
    pub drive: Option<String>,
    /// `current`, `rebuilding`, `stale` or `missing`.
    pub standing: String,
    /// The offset of its data on the drive.
    pub data_start_bytes: Option<u64>,
    /// Why it is not current: a sentence.
    pub reason: Option<String>,
}

/// A drive that is related to a foreign volume but is not a member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignOther {
    /// The drive.
    pub drive: String,
    /// Its role: `spare`, `journal`, `failed`, `stale`, `copy`.
    pub what: String,
    /// Details: a sentence.
    pub reason: String,
}

/// A drive with metadata that belongs to no volume of SoftROC.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignDrive {
    /// The drive.
    pub name: String,
    /// Its metadata: a few words each.
    pub holds: Vec<String>,
    /// Why it is not used: a sentence.
    pub reason: Option<String>,
    /// Whether `foreign clear` erases all of it.
    pub clearable: bool,
}
