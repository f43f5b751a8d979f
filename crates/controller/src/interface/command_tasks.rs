//! Commands about background tasks, their schedules, and spares.

use serde::{Deserialize, Serialize};

/// What an operator can start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Startable {
    /// Compare a volume's redundancy with its data, and report.
    #[default]
    Check,
    /// The same, and make it agree.
    Repair,
    /// Zero a volume: all its data is lost.
    InitFull,
    /// Zero the first and the last MiB of a volume: its data is lost.
    InitFast,
    /// Read drives from end to end, to find what cannot be read before it is needed.
    Patrol,
    /// Go on with making a drive's content current, after it was stopped or has failed.
    Rebuild,
}

/// See [`Command::TaskStart`](crate::Command::TaskStart).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartTask {
    /// What is to be done.
    pub what: Startable,
    /// On which volume; not for a patrol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// On which drives: one for a rebuild, any number for a patrol, where none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<String>,
    /// The share of time that it may take beside hosts, 1 to 100; the usual one otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// The most it reads and writes per second; no limit otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// See [`Command::TaskSet`](crate::Command::TaskSet).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetTask {
    /// Its number.
    pub task: u64,
    /// The share of time that it may take beside hosts, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// The most it reads and writes per second; 0 is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// What is done by itself every so often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduled {
    /// A check of a volume.
    Check,
    /// A patrol over all drives.
    #[default]
    Patrol,
}

/// See [`Command::TaskSchedule`](crate::Command::TaskSchedule).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// What is scheduled.
    pub what: Scheduled,
    /// Of which volume; not for a patrol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Whether it is done at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<bool>,
    /// Every so many days; setting it switches it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_days: Option<u32>,
    /// At which second of the day, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<u32>,
    /// Whether a check repairs what it finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<bool>,
    /// The share of time that it may take beside hosts, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// The most it reads per second; 0 is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// See [`Command::VolumePolicy`](crate::Command::VolumePolicy).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPolicy {
    /// A volume of the array.
    pub volume: String,
    /// A drive goes out when so many unreadable places on it could not be repaired; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium_error_limit: Option<u32>,
    /// What a spare took over goes back to the blank drive that appears where the failed one sat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copyback: Option<bool>,
    /// Where no spare fits, an unused drive may be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emergency_spare: Option<bool>,
    /// A drive that expects to fail is copied to a spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_guard: Option<bool>,
    /// A spare of the other kind may be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed_kinds: Option<bool>,
    /// The share of time that background tasks take beside hosts, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_share_percent: Option<u8>,
}

/// See [`Command::SpareAdd`](crate::Command::SpareAdd).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddSpare {
    /// Which drive. One that the controller does not know yet is added.
    pub drive: String,
    /// Volumes whose arrays it stands by for; none: all arrays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Stand by only for arrays with a drive in its enclosure.
    #[serde(default)]
    pub same_enclosure: bool,
    /// Once its data went back to the drive that replaced the failed one, it is a spare again; otherwise it
    /// stays in the array.
    #[serde(default = "yes")]
    pub revertible: bool,
    /// What the drive holds may be lost.
    #[serde(default)]
    pub destroy_data: bool,
}

fn yes() -> bool {
    true
}
