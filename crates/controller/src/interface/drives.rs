//! A drive, as interfaces see it.

use crate::interface::{DriveNumbers, DriveWork, HealthInfo, SuspensionInfo};
use ondisk::FailedDrive;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a drive is to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveState {
    /// It serves in a volume, or would if the volume were started.
    Online,
    /// It belongs to no volume.
    Unused,
    /// It failed: its volume goes on without it.
    Failed,
    /// An operator took it out of its volume.
    Offline,
    /// It did not answer in time: its volume goes on without it until it answers.
    Suspended,
    /// It belongs to a volume and was not found, or it was added once and cannot be opened.
    Missing,
    /// It belongs to a volume that went on without it: what it holds is old.
    Stale,
    /// It serves, but what it holds is still old in part: it is being rebuilt.
    Rebuilding,
    /// It is filled with what another one holds, to take its place.
    Filling,
    /// It is a hot spare.
    Spare,
    /// It is a log device: it holds journals of volumes.
    Log,
    /// It carries a label that cannot be used: of another version, or a copy of another drive's. Or it has not returned
    /// all that was written to it.
    Refused,
    /// It is a member of an array of another system, which has not been imported.
    Foreign,
}

/// A drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveInfo {
    /// How it is named: a path, `mem:1G`, an address. Of a missing drive: how it was named.
    pub name: String,
    /// What it is to the controller.
    pub state: DriveState,
    /// Why it is in that state, if it is not in service: a sentence.
    pub reason: Option<String>,
    /// The names of the volumes on it, the first of which names its array.
    pub volumes: Vec<String>,
    /// Its place in its array, from zero.
    pub slot: Option<u16>,
    /// How much of it no volume uses; `None` while it cannot be opened.
    pub free_bytes: Option<u64>,
    /// How many regions of its volumes it still has to be given, or has missed.
    pub stale_regions: u32,
    /// The UUID in its label.
    pub uuid: Option<String>,
    /// Its capacity; `None` while it cannot be opened.
    pub size_bytes: Option<u64>,
    /// How large it became since: it is used as large as it was until it is rescanned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grown_to_bytes: Option<u64>,
    /// `block device`, `file`, `memory`, ...; `None` while it cannot be opened.
    pub kind: Option<String>,
    /// The same drive under another name has the same identity.
    pub identity: Option<String>,
    /// The smallest unit it reads and writes.
    pub logical_sector_bytes: Option<u64>,
    /// The unit it writes without reading first.
    pub physical_sector_bytes: Option<u64>,
    /// Whether it has a spindle.
    pub rotational: bool,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// The array of another system that it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_array: Option<ForeignArray>,
    /// Its failure, if it failed and no operator has cleared that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureInfo>,
    /// Times that it could not read some blocks, since the controller started.
    pub medium_errors: u64,
    /// How often it was suspended since the controller was started, as it did not answer in time.
    #[serde(default)]
    pub suspensions: u64,
    /// Why it is suspended, and for how long yet, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<SuspensionInfo>,
    /// What was asked of it, and how long that took: told by `drive-show` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Box<DriveWork>>,
    /// Its model, as the machine tells.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its firmware revision.
    pub firmware: Option<String>,
    /// The enclosure it sits in, as the machine tells.
    pub enclosure: Option<String>,
    /// Its place in the enclosure.
    pub bay: Option<String>,
    /// What it tells of its health; `None` before it was asked.
    pub health: Option<Box<HealthInfo>>,
    /// The numbers by which operators know it; `None` for one that was never here, or came a moment ago.
    #[serde(default)]
    pub numbers: Option<DriveNumbers>,
    /// A number that is higher after each change of what is said here; what is counted or measured does not count.
    #[serde(default)]
    pub revision: u64,
}

/// The failure of a drive, which counts until an operator clears it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct FailureInfo {
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// What happened, to be read within a sentence.
    pub why: String,
}

impl FailureInfo {
    pub(crate) fn of(failure: &FailedDrive) -> FailureInfo {
        FailureInfo { at_unix_s: failure.at_unix_s, why: failure.why.clone() }
    }
}

/// An array of another system, by what one of its members says.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ForeignArray {
    /// The format of its metadata, such as `Linux md`.
    pub format: String,
    /// Its name; its identity where it has no name.
    pub name: String,
}

impl DriveState {
    /// All of them.
    pub const ALL: [DriveState; 13] = [
        DriveState::Online,
        DriveState::Unused,
        DriveState::Failed,
        DriveState::Offline,
        DriveState::Missing,
        DriveState::Stale,
        DriveState::Rebuilding,
        DriveState::Filling,
        DriveState::Spare,
        DriveState::Log,
        DriveState::Refused,
        DriveState::Suspended,
        DriveState::Foreign,
    ];
}

impl fmt::Display for DriveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DriveState::Online => "online",
            DriveState::Unused => "unused",
            DriveState::Failed => "failed",
            DriveState::Offline => "offline",
            DriveState::Suspended => "suspended",
            DriveState::Missing => "missing",
            DriveState::Stale => "stale",
            DriveState::Rebuilding => "rebuilding",
            DriveState::Filling => "filling",
            DriveState::Spare => "spare",
            DriveState::Log => "log",
            DriveState::Refused => "refused",
            DriveState::Foreign => "foreign",
        })
    }
}
