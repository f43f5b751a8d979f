//! Background tasks, their schedules, and spares: what can be asked of them, and what is answered.

use crate::interface::AttachPolicy;
use ondisk::{CacheMode, DriveCache, ReadMode, SectorFormat, StartDegraded, WriteHole, WriteMode};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// Makes the content of a drive current: it took the place of another one, or it was away.
    Rebuild,
    /// Copies back to the drive that replaced a failed one what a spare holds; the spare is free afterwards.
    Copyback,
    /// Copies what a drive holds to the one that takes its place, while it serves.
    Replace,
    /// Zeroes a volume.
    Init,
    /// Makes redundancy agree with data, after a crash or on a new volume.
    Resync,
    /// Compares redundancy with data.
    Check,
    /// Compares redundancy with data, and makes it agree.
    Repair,
    /// Reads drives from end to end.
    Patrol,
    /// Moves what a failed drive held into the distributed spare (RAID 5EE).
    Relocate,
    /// Moves it back to the drive that took its place.
    Restore,
    /// Moves a volume to another layout.
    Reshape,
}

/// How a task stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// It is being done.
    Running,
    /// An operator has paused it.
    Paused,
    /// Something else has to happen first: the reason says what.
    Waiting,
    /// An operator ended it before it was done.
    Stopped,
    /// It is done.
    Done,
    /// It cannot be done: the reason says why.
    Failed,
    /// What it was about was deleted.
    Cancelled,
}

impl TaskState {
    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        matches!(self, TaskState::Stopped | TaskState::Done | TaskState::Failed | TaskState::Cancelled)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a task has found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Found {
    /// Stripes whose redundancy did not agree with their data.
    pub mismatches: u64,
    /// Stripes, or places on drives, that were written anew because of that or because they could not be read.
    pub repaired: u64,
    /// Places on drives that could not be read.
    pub unreadable: u64,
    /// Bytes of them that redundancy could not give back either.
    pub unrecoverable_bytes: u64,
    /// Stripes that a check could not compare, or not as a whole.
    #[serde(skip_serializing_if = "is_zero")]
    pub uncompared: u64,
}

/// A drive that was found to be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blamed {
    /// Its slot.
    pub slot: u16,
    /// In how many stripes.
    pub stripes: u64,
}

/// A background task. A *block* is 512 bytes: of the drive that is filled or read, or of the volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Its number.
    pub task: u64,
    /// What it does.
    pub kind: TaskKind,
    /// On what, for people: a volume's name, a drive.
    pub subject: String,
    /// The volume, or one of the array, where it is about one.
    pub volume: Option<String>,
    /// The drive, where it is about one.
    pub drive: Option<String>,
    /// How it stands.
    pub state: TaskState,
    /// Why it stands so, where that does not go without saying: a sentence.
    pub reason: Option<String>,
    /// Why it was begun.
    pub cause: String,
    /// Blocks that are done.
    pub done_blocks: u64,
    /// Blocks in all; 0 while that is not known.
    pub total_blocks: u64,
    /// The share that is done, rounded down; 100 only when all is.
    pub percent: u8,
    /// How fast it is now; `None` unless it runs.
    pub rate_mib_s: Option<f64>,
    /// When it will be done at that rate, in seconds from now.
    pub eta_s: Option<u64>,
    /// What it has found.
    pub found: Found,
    /// Drives that are wrong where redundancy does not agree, where the level can tell.
    pub blamed: Vec<Blamed>,
    /// The share of time that it may take while hosts do I/O, in percent.
    pub share_percent: u8,
    /// The most it reads and writes per second.
    pub limit_bytes_per_s: Option<u64>,
    /// When it was begun, in seconds since 1970.
    pub started_unix_s: u64,
    /// When it ended, in seconds since 1970.
    pub ended_unix_s: Option<u64>,
}

/// What is done by itself every so often.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScheduleInfo {
    /// What.
    pub what: Scheduled,
    /// Of which volume; `None` for a patrol.
    pub volume: Option<String>,
    /// Whether it is done at all.
    pub on: bool,
    /// Every so many days.
    pub every_days: u32,
    /// At which second of the day, UTC.
    pub at_s: u32,
    /// Whether a check repairs what it finds.
    pub repair: bool,
    /// The share of time that it may take beside hosts, in percent; `None`: the array's usual one.
    pub share_percent: Option<u8>,
    /// The most it reads per second.
    pub limit_bytes_per_s: Option<u64>,
    /// When it is due next, in seconds since 1970; `None` if it is off.
    pub next_unix_s: Option<u64>,
    /// When it was last begun by its schedule, in seconds since 1970.
    pub last_unix_s: Option<u64>,
}

/// What a spare stands by for.
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
    /// What it stands by for.
    pub kind: SpareKind,
    /// Volumes of the arrays it is dedicated to.
    pub dedicated_to: Vec<String>,
    /// Its enclosure.
    pub enclosure: Option<String>,
    /// Whether it is a spare again once its data went back to the drive that replaced the failed one.
    pub revertible: bool,
    /// Whether it rotates.
    pub rotational: bool,
    /// Its capacity; `None` while it cannot be opened.
    pub size_bytes: Option<u64>,
    /// Whether it could stand in now.
    pub ready: bool,
    /// Why it could not: a sentence.
    pub reason: Option<String>,
    /// Volumes of the arrays for which it could stand in now.
    pub covers: Vec<String>,
}

/// Whether a spare could stand in for a drive of an array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoverageInfo {
    /// The array's volumes.
    pub volumes: Vec<String>,
    /// The least a spare must hold.
    pub needs_bytes: u64,
    /// Whether a rotating drive is needed, or a solid-state one; `None` if either will do.
    pub needs_rotational: Option<bool>,
    /// Spares that could stand in now, the one that would be taken first.
    pub covered_by: Vec<String>,
    /// Why no other spare could, a sentence each.
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

impl Startable {
    /// Whether it destroys what a volume holds.
    pub(crate) fn is_init(self) -> bool {
        matches!(self, Startable::InitFull | Startable::InitFast)
    }
}

/// See [`Command::TaskStart`](crate::interface::Command::TaskStart).
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
    /// The most bytes per second, of the volume or of the drive that it is about; no limit otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
    /// Hosts that are connected to the volume may be disconnected: for an initialisation.
    #[serde(default)]
    pub disconnect_hosts: bool,
}

/// See [`Command::TaskSet`](crate::interface::Command::TaskSet).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetTask {
    /// Its number.
    pub task: u64,
    /// The share of time that it may take beside hosts, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// The most bytes per second, of the volume or of the drive that it is about; 0 is no limit.
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

/// See [`Command::TaskSchedule`](crate::interface::Command::TaskSchedule).
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

/// See [`Command::VolumePolicy`](crate::interface::Command::VolumePolicy).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPolicy {
    /// A volume of the array.
    pub volume: String,
    /// A drive goes out when so many unreadable places on it could not be repaired; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium_error_limit: Option<u32>,
    /// A drive that is suspended fails after so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_limit_s: Option<u32>,
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
    /// Whether the array starts without drives that are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_degraded: Option<StartDegraded>,
    /// The share of time that background tasks take beside hosts, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_share_percent: Option<u8>,
    /// How a stripe that is interrupted in the middle is dealt with, of this volume alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_hole: Option<WriteHole>,
    /// When hosts are told that a write is done, of this volume alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mode: Option<WriteMode>,
    /// Whether what follows a stream of reads is read before hosts ask for it, of this volume alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_mode: Option<ReadMode>,
    /// Whether what hosts read is kept for whoever reads it next, of this volume alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_mode: Option<CacheMode>,
    /// What the drives' own write caches are to be; a drive is of all volumes of its array, and one that wants it off has its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_cache: Option<DriveCache>,
    /// Which sectors hosts that connect from now on are told of, of this volume alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector_format: Option<SectorFormat>,
    /// Whether it is a disk of this machine whenever it is served, of this volume alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach: Option<AttachPolicy>,
}

impl SetPolicy {
    /// Whether nothing of it concerns the other volumes of the array.
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
        without != *self && without == SetPolicy { volume: self.volume.clone(), ..SetPolicy::default() }
    }
}

/// See [`Command::SpareAdd`](crate::interface::Command::SpareAdd).
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
