//! Background tasks, schedules, spares and policies.

use crate::interface::AttachPolicy;
use ondisk::{CacheMode, DriveCache, ReadMode, SectorFormat, StartDegraded, WriteHole, WriteMode};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// Recomputes the content of a replaced or returned drive.
    Rebuild,
    /// Copies a spare's content to the drive that replaced the failed one, and frees the spare.
    Copyback,
    /// Copies an online drive to its replacement.
    Replace,
    /// Zeroes a volume.
    Init,
    /// Makes redundancy agree with data, after a crash or on a new volume.
    Resync,
    /// Compares redundancy with data.
    Check,
    /// Compares redundancy with data, and makes it agree.
    Repair,
    /// Reads drives completely to find medium errors.
    Patrol,
    /// Moves the content of a failed drive into the distributed spare (RAID 5EE).
    Relocate,
    /// Moves the distributed spare's content to the replacement drive.
    Restore,
    /// Changes the layout of a volume.
    Reshape,
}

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// It is running.
    Running,
    /// An operator has paused it.
    Paused,
    /// It waits for another operation, which the reason names.
    Waiting,
    /// An operator stopped it before completion.
    Stopped,
    /// It is complete.
    Done,
    /// It failed for the reason given.
    Failed,
    /// Its volume was deleted.
    Cancelled,
}

impl TaskState {
    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        matches!(
            self,
            TaskState::Stopped | TaskState::Done | TaskState::Failed | TaskState::Cancelled
        )
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Findings of a task.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Found {
    /// Stripes whose redundancy did not agree with their data.
    pub mismatches: u64,
    /// Repaired stripes or sectors.
    pub repaired: u64,
    /// Unreadable runs of sectors on drives.
    pub unreadable: u64,
    /// Bytes that redundancy could not restore.
    pub unrecoverable_bytes: u64,
    /// Stripes that a check could not compare completely.
    #[serde(skip_serializing_if = "is_zero")]
    pub uncompared: u64,
}

/// A drive with wrong blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blamed {
    /// Its slot.
    pub slot: u16,
    /// The number of affected stripes.
    pub stripes: u64,
}

/// A background task. A *block* is 512 bytes of the drive or volume that it processes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Its number.
    pub task: u64,
    /// Its kind.
    pub kind: TaskKind,
    /// Its object for operators: a volume or a drive.
    pub subject: String,
    /// The volume, or one of the array, if it concerns one.
    pub volume: Option<String>,
    /// The drive, if it concerns one.
    pub drive: Option<String>,
    /// Its state.
    pub state: TaskState,
    /// The reason for its state, where needed: a sentence.
    pub reason: Option<String>,
    /// Why it was started.
    pub cause: String,
    /// Completed blocks.
    pub done_blocks: u64,
    /// Total blocks; 0 while unknown.
    pub total_blocks: u64,
    /// The completed share, rounded down; 100 only at the end.
    pub percent: u8,
    /// Its current rate; `None` unless it runs.
    pub rate_mib_s: Option<f64>,
    /// The remaining time at that rate, in seconds.
    pub eta_s: Option<u64>,
    /// Its findings.
    pub found: Found,
    /// Drives with wrong blocks, if the level can identify them.
    pub blamed: Vec<Blamed>,
    /// Its share of drive time during host I/O, in percent.
    pub share_percent: u8,
    /// Its limit of bytes per second.
    pub limit_bytes_per_s: Option<u64>,
    /// Its start, in seconds since 1970.
    pub started_unix_s: u64,
    /// Its end, in seconds since 1970.
    pub ended_unix_s: Option<u64>,
}

/// A scheduled task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScheduleInfo {
    /// The task.
    pub what: Scheduled,
    /// The volume; `None` for a patrol.
    pub volume: Option<String>,
    /// Whether the schedule is enabled.
    pub on: bool,
    /// The interval in days.
    pub every_days: u32,
    /// The second of the day, UTC.
    pub at_s: u32,
    /// Whether a check repairs what it finds.
    pub repair: bool,
    /// Its share of drive time during host I/O, in percent; `None`: the array's default.
    pub share_percent: Option<u8>,
    /// Its limit of bytes per second.
    pub limit_bytes_per_s: Option<u64>,
    /// The next run, in seconds since 1970; `None` if it is disabled.
    pub next_unix_s: Option<u64>,
    /// The last scheduled run, in seconds since 1970.
    pub last_unix_s: Option<u64>,
}

/// The scope of a hot spare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpareKind {
    /// All arrays.
    Global,
    /// Some arrays.
    Dedicated,
    /// Arrays with a drive in its enclosure.
    Enclosure,
}

/// A hot spare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpareInfo {
    /// The drive.
    pub drive: String,
    /// Its scope.
    pub kind: SpareKind,
    /// Volumes of the arrays it is dedicated to.
    pub dedicated_to: Vec<String>,
    /// Its enclosure.
    pub enclosure: Option<String>,
    /// Whether a copyback to the replacement drive makes it a spare again.
    pub revertible: bool,
    /// Whether it is rotational.
    pub rotational: bool,
    /// Its capacity; `None` while it cannot be opened.
    pub size_bytes: Option<u64>,
    /// `block device`, `file`, `memory`, ...; `None` while it cannot be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_kind: Option<String>,
    /// Whether it can replace a drive now.
    pub ready: bool,
    /// Why it cannot: a sentence.
    pub reason: Option<String>,
    /// Volumes of the arrays in which it can replace a drive now.
    pub covers: Vec<String>,
}

/// The coverage of an array by hot spares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoverageInfo {
    /// The array's volumes.
    pub volumes: Vec<String>,
    /// The minimum size of a spare.
    pub needs_bytes: u64,
    /// Whether a rotational drive is needed, or a solid-state one; `None` if both fit.
    pub needs_rotational: Option<bool>,
    /// Suitable spares, in the order of preference.
    pub covered_by: Vec<String>,
    /// Why other spares do not fit, a sentence each.
    pub reasons: Vec<String>,
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TaskKind::Rebuild => "rebuild",
            TaskKind::Copyback => "copyback",
            TaskKind::Replace => "replace",
            TaskKind::Init => "init",
            TaskKind::Resync => "resync",
            TaskKind::Check => "check",
            TaskKind::Repair => "repair",
            TaskKind::Patrol => "patrol",
            TaskKind::Relocate => "relocate",
            TaskKind::Restore => "restore",
            TaskKind::Reshape => "reshape",
        })
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TaskState::Running => "running",
            TaskState::Paused => "paused",
            TaskState::Waiting => "waiting",
            TaskState::Stopped => "stopped",
            TaskState::Done => "done",
            TaskState::Failed => "failed",
            TaskState::Cancelled => "cancelled",
        })
    }
}

impl fmt::Display for SpareKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SpareKind::Global => "global",
            SpareKind::Dedicated => "dedicated",
            SpareKind::Enclosure => "enclosure",
        })
    }
}

impl fmt::Display for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Scheduled::Check => "check",
            Scheduled::Patrol => "patrol",
        })
    }
}

/// A task that an operator can start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Startable {
    /// Compare a volume's redundancy with its data and report differences.
    #[default]
    Check,
    /// Compare and repair.
    Repair,
    /// Zero a volume: all its data is lost.
    InitFull,
    /// Zero the first and the last MiB of a volume: its data is lost.
    InitFast,
    /// Read drives completely to find medium errors early.
    Patrol,
    /// Continue a stopped or failed rebuild.
    Rebuild,
}

impl Startable {
    /// Whether it destroys the volume's data.
    pub(crate) fn is_init(self) -> bool {
        matches!(self, Startable::InitFull | Startable::InitFast)
    }
}

/// See [`Command::TaskStart`](crate::interface::Command::TaskStart).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartTask {
    /// The task.
    pub what: Startable,
    /// The volume; not for a patrol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The drives: one for a rebuild; any number for a patrol, where none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<String>,
    /// Its share of drive time during host I/O, 1 to 100; by default that of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// Its limit of bytes per second of the volume or drive; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
    /// Disconnect hosts of the volume (for an initialisation).
    #[serde(default)]
    pub disconnect_hosts: bool,
}

/// See [`Command::TaskSet`](crate::interface::Command::TaskSet).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetTask {
    /// Its number.
    pub task: u64,
    /// Its share of drive time during host I/O, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// Its limit of bytes per second of the volume or drive; 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// A scheduled task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduled {
    /// A check of a volume.
    Check,
    /// A patrol over all drives.
    #[default]
    Patrol,
}

/// See [`Command::TaskSchedule`](crate::interface::Command::TaskSchedule).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// The task.
    pub what: Scheduled,
    /// The volume; not for a patrol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Whether the schedule is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<bool>,
    /// The interval in days; setting it enables the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_days: Option<u32>,
    /// The second of the day, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<u32>,
    /// Whether a check repairs what it finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<bool>,
    /// Its share of drive time during host I/O, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// Its limit of bytes per second; 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// See [`Command::VolumePolicy`](crate::interface::Command::VolumePolicy).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPolicy {
    /// A volume of the array.
    pub volume: String,
    /// A drive fails at this number of unrepaired medium errors; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium_error_limit: Option<u32>,
    /// A suspended drive fails after this number of seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_limit_s: Option<u32>,
    /// Copy a spare's content back to a blank drive in the bay of the failed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copyback: Option<bool>,
    /// Use an unused drive if no spare fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emergency_spare: Option<bool>,
    /// Copy a drive that predicts its failure to a spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_guard: Option<bool>,
    /// Accept an SSD as a spare for a rotational drive, and the reverse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed_kinds: Option<bool>,
    /// Whether the array starts without missing drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_degraded: Option<StartDegraded>,
    /// The share of drive time for background tasks during host I/O, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_share_percent: Option<u8>,
    /// The protection against the write hole, for this volume only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_hole: Option<WriteHole>,
    /// The write mode, for this volume only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mode: Option<WriteMode>,
    /// Read-ahead, for this volume only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_mode: Option<ReadMode>,
    /// Whether the cache keeps read data, for this volume only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_mode: Option<CacheMode>,
    /// The drives' own write caches. All volumes of an array share its drives; if one volume sets
    /// it off, it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_cache: Option<DriveCache>,
    /// The sector format reported to new host connections, for this volume only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector_format: Option<SectorFormat>,
    /// Whether it is attached on this host when it is served, for this volume only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach: Option<AttachPolicy>,
}

impl SetPolicy {
    /// Whether it changes only settings of this volume.
    pub(crate) fn is_of_volume_alone(&self) -> bool {
        let without = SetPolicy {
            write_hole: None,
            write_mode: None,
            read_mode: None,
            cache_mode: None,
            drive_cache: None,
            sector_format: None,
            attach: None,
            ..self.clone()
        };
        without != *self
            && without == SetPolicy { volume: self.volume.clone(), ..SetPolicy::default() }
    }
}

/// See [`Command::SpareAdd`](crate::interface::Command::SpareAdd).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddSpare {
    /// The drive. An unregistered drive is registered.
    pub drive: String,
    /// Volumes whose arrays it covers; none: all arrays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Cover only arrays with a drive in its enclosure.
    #[serde(default)]
    pub same_enclosure: bool,
    /// It becomes a spare again after a copyback; otherwise it stays in the array.
    #[serde(default = "yes")]
    pub revertible: bool,
    /// Overwrite existing data on the drive.
    #[serde(default)]
    pub destroy_data: bool,
}

fn yes() -> bool {
    true
}
