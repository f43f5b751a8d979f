//! Drives in the external interface.

use crate::interface::{DriveNumbers, DriveWork, HealthInfo, SuspensionInfo};
use ondisk::FailedDrive;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveState {
    /// It is a current member of a volume, started or not.
    Online,
    /// It belongs to no volume.
    Unused,
    /// It failed; its volume works without it.
    Failed,
    /// An operator took it offline.
    Offline,
    /// It does not respond; its volume works without it until it responds.
    Suspended,
    /// It is a member that was not found, or a registered drive that cannot be opened.
    Missing,
    /// It is a member whose volume worked without it; its data is outdated.
    Stale,
    /// It is online, and part of its data is outdated; it is being rebuilt.
    Rebuilding,
    /// A member is copied to it, to be replaced by it.
    Filling,
    /// It is a hot spare.
    Spare,
    /// It is a log device: it holds journals of volumes.
    Log,
    /// Its label cannot be used (another version, or a copy of another drive's label), or it lost
    /// acknowledged writes.
    Refused,
    /// It is a member of an array of another system, which has not been imported.
    Foreign,
}

/// A drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveInfo {
    /// Its path or address, or `mem:SIZE`; for a missing drive, the last known one.
    pub name: String,
    /// Its state.
    pub state: DriveState,
    /// The reason for that state, if it is not in service: a sentence.
    pub reason: Option<String>,
    /// The names of the volumes on it; the first one names its array.
    pub volumes: Vec<String>,
    /// Its slot in its array, from zero.
    pub slot: Option<u16>,
    /// Its free space; `None` while it cannot be opened.
    pub free_bytes: Option<u64>,
    /// The number of its stale regions.
    pub stale_regions: u32,
    /// The UUID in its label.
    pub uuid: Option<String>,
    /// Its capacity; `None` while it cannot be opened.
    pub size_bytes: Option<u64>,
    /// Its new size if it has grown; the controller uses the previous size until a rescan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grown_to_bytes: Option<u64>,
    /// `block device`, `file`, `memory`, ...; `None` while it cannot be opened.
    pub kind: Option<String>,
    /// Its identity, equal for all names of the same drive.
    pub identity: Option<String>,
    /// Its logical sector size.
    pub logical_sector_bytes: Option<u64>,
    /// Its physical sector size.
    pub physical_sector_bytes: Option<u64>,
    /// Whether it is rotational.
    pub rotational: bool,
    /// Whether it is read-only.
    pub read_only: bool,
    /// The foreign array that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_array: Option<ForeignArray>,
    /// Its failure, unless an operator has cleared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureInfo>,
    /// The number of medium errors since the controller started.
    pub medium_errors: u64,
    /// The number of suspensions for timeouts since the controller started.
    #[serde(default)]
    pub suspensions: u64,
    /// The reason for its suspension and the time left, if it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<SuspensionInfo>,
    /// Its I/O counters and latencies; only in the reply to `drive-show`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Box<DriveWork>>,
    /// Its model, as the operating system reports it.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its firmware revision.
    pub firmware: Option<String>,
    /// Its enclosure, as the operating system reports it.
    pub enclosure: Option<String>,
    /// Its bay in the enclosure.
    pub bay: Option<String>,
    /// Its health data; `None` before the first reading.
    pub health: Option<Box<HealthInfo>>,
    /// Its numbers for operators; `None` for one that was never present, or was just added.
    #[serde(default)]
    pub numbers: Option<DriveNumbers>,
    /// Rises with each change of these values, except counters and measurements.
    #[serde(default)]
    pub revision: u64,
}

/// The recorded failure of a drive, until an operator clears it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct FailureInfo {
    /// The time, in seconds since 1970.
    pub at_unix_s: u64,
    /// The cause: a clause.
    pub why: String,
}

impl FailureInfo {
    pub(crate) fn of(failure: &FailedDrive) -> FailureInfo {
        FailureInfo { at_unix_s: failure.at_unix_s, why: failure.why.clone() }
    }
}

/// A foreign array, according to one of its members.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ForeignArray {
    /// The format of its metadata, such as `Linux md`.
    pub format: String,
    /// Its name; its identity where it has no name.
    pub name: String,
}

impl DriveState {
    /// All states.
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
