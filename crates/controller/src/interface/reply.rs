//! The controller's replies. In JSON, each is an object with its kind under `reply`.

use crate::interface::{
    AlarmInfo, AuditEntry, CountersInfo, CoverageInfo, DiskInfo, DriveCost, DriveInfo, Event,
    ForeignDrive, ForeignVolume, HealthReport, HostInfo, LogInfo, MemoryInfo, MetricsInfo,
    ReshapeInfo, ScheduleInfo, SpareInfo, TaskInfo, UpsInfo,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The reply to a successful command.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// Success.
    Done {
        /// Notes, a sentence each.
        notes: Vec<String>,
    },
    /// A reshape, started or previewed.
    Reshape {
        /// The layouts and the progress.
        reshape: Box<ReshapeInfo>,
        /// Notes, a sentence each.
        notes: Vec<String>,
    },
    /// A drive.
    Drive {
        /// The drive.
        drive: Box<DriveInfo>,
        /// Notes, a sentence each.
        notes: Vec<String>,
        /// The costs of taking it out of service, if requested.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        costs: Vec<DriveCost>,
    },
    /// Drives: those of volumes by slot, then the others by name.
    Drives {
        /// The drives.
        drives: Vec<DriveInfo>,
    },
    /// A volume.
    Volume {
        /// The volume.
        volume: Box<VolumeInfo>,
        /// Notes, a sentence each.
        notes: Vec<String>,
    },
    /// Volumes by name.
    Volumes {
        /// The volumes.
        volumes: Vec<VolumeInfo>,
    },
    /// A task.
    Task {
        /// The task.
        task: Box<TaskInfo>,
        /// Notes, a sentence each.
        notes: Vec<String>,
    },
    /// Tasks: active ones, then ended ones, the newest first.
    Tasks {
        /// The tasks.
        tasks: Vec<TaskInfo>,
    },
    /// Schedules.
    Schedules {
        /// The schedules.
        schedules: Vec<ScheduleInfo>,
    },
    /// A spare.
    Spare {
        /// The spare.
        spare: Box<SpareInfo>,
        /// Notes, a sentence each.
        notes: Vec<String>,
    },
    /// Hot spares and their coverage.
    Spares {
        /// The spares, by name.
        spares: Vec<SpareInfo>,
        /// The coverage of each array by spares.
        coverage: Vec<CoverageInfo>,
    },
    /// Foreign volumes, and unused drives with metadata.
    Foreign {
        /// Volumes of other systems.
        volumes: Vec<ForeignVolume>,
        /// Unused drives with metadata of any kind, by name.
        drives: Vec<ForeignDrive>,
    },
    /// Logs: the one in use, then others with a device present.
    Logs {
        /// The logs.
        logs: Vec<LogInfo>,
        /// Notes, a sentence each.
        notes: Vec<String>,
    },
    /// Persistent cache memory of other controllers.
    Memories {
        /// The memories.
        memories: Vec<MemoryInfo>,
    },
    /// Imported volumes, all of one array.
    Imported {
        /// The volumes.
        volumes: Vec<VolumeInfo>,
        /// Notes, a sentence each.
        notes: Vec<String>,
    },
    /// A block device of this host.
    Disk {
        /// The disk.
        disk: Box<DiskInfo>,
        /// Notes, a sentence each.
        notes: Vec<String>,
    },
    /// Block devices of this host, by path.
    Disks {
        /// The disks.
        disks: Vec<DiskInfo>,
    },
    /// Events, newest last.
    Events {
        /// The events.
        events: Vec<Event>,
    },
    /// Orders, newest last.
    Audit {
        /// The orders.
        orders: Vec<AuditEntry>,
    },
    /// The I/O that a request causes.
    Explained {
        /// For operators: the plan of every stripe, with a diagram, its cost and the reason.
        text: String,
        /// The same for programs.
        explanation: serde_json::Value,
    },
    /// The controller.
    Info {
        /// The info.
        info: Box<ControllerInfo>,
    },
    /// All counters and measurements.
    Metrics {
        /// The metrics.
        metrics: Box<MetricsInfo>,
    },
    /// Counters of volumes and drives.
    Counters {
        /// The counters.
        counters: Box<CountersInfo>,
    },
    /// The alarm.
    Alarm {
        /// The alarm.
        alarm: AlarmInfo,
    },
    /// Overall health.
    Health {
        /// The health.
        health: HealthReport,
    },
}

impl Reply {
    /// The notes, a sentence each.
    pub fn notes(&self) -> &[String] {
        match self {
            Reply::Done { notes }
            | Reply::Reshape { notes, .. }
            | Reply::Drive { notes, .. }
            | Reply::Volume { notes, .. }
            | Reply::Task { notes, .. }
            | Reply::Spare { notes, .. }
            | Reply::Logs { notes, .. }
            | Reply::Imported { notes, .. }
            | Reply::Disk { notes, .. } => notes,
            Reply::Drives { .. }
            | Reply::Audit { .. }
            | Reply::Memories { .. }
            | Reply::Volumes { .. }
            | Reply::Tasks { .. }
            | Reply::Schedules { .. }
            | Reply::Spares { .. }
            | Reply::Foreign { .. }
            | Reply::Disks { .. }
            | Reply::Events { .. }
            | Reply::Explained { .. }
            | Reply::Info { .. }
            | Reply::Metrics { .. }
            | Reply::Counters { .. }
            | Reply::Alarm { .. }
            | Reply::Health { .. } => &[],
        }
    }
}

impl Reply {
    /// Adds a note, if this kind of reply has notes.
    pub(crate) fn add_note(&mut self, note: String) {
        match self {
            Reply::Done { notes }
            | Reply::Reshape { notes, .. }
            | Reply::Drive { notes, .. }
            | Reply::Volume { notes, .. }
            | Reply::Task { notes, .. }
            | Reply::Spare { notes, .. }
            | Reply::Logs { notes, .. }
            | Reply::Imported { notes, .. }
            | Reply::Disk { notes, .. } => notes.push(note),
            _ => {}
        }
    }
}

/// The state of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// All members are online and current.
    Optimal,
    /// It works with less redundancy.
    Degraded,
    /// It is not served.
    Offline,
    /// None of its drives is present. Its values are the last known ones.
    Missing,
}

impl VolumeState {
    /// All states.
    pub const ALL: [VolumeState; 4] =
        [VolumeState::Optimal, VolumeState::Degraded, VolumeState::Offline, VolumeState::Missing];

    /// Whether hosts can use the volume.
    pub fn serves(self) -> bool {
        matches!(self, VolumeState::Optimal | VolumeState::Degraded)
    }
}

/// The progress of a resync or of the background initialisation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// Remaining regions.
    pub regions_left: u32,
    /// Regions of the volume.
    pub regions: u32,
    /// The completed share, rounded down; 100 only at the end.
    pub percent: u8,
}

/// A policy: its configured value, its current value, and the reason for a difference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// The name of the policy.
    pub name: String,
    /// The configured value.
    pub configured: String,
    /// The current value.
    pub current: String,
    /// Its meaning, or the reason for the difference.
    pub reason: String,
    /// When the current value took effect, in seconds since 1970.
    pub since_unix_s: u64,
}

/// A volume's cached data, and counters since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct CacheInfo {
    /// Dirty data: acknowledged, and not yet on the drives.
    pub dirty_bytes: u64,
    /// Preserved cache: dirty data whose destage failed.
    pub pinned_bytes: u64,
    /// Stripe writes that were acknowledged from the cache.
    pub absorbed: u64,
    /// Stripe reads with a full or partial cache hit.
    pub hits: u64,
    /// Destages.
    pub destages: u64,
    /// Whether a flush is acknowledged when dirty data is on the log devices; otherwise when it is
    /// on the drives.
    #[serde(default)]
    pub flushes_to_log: bool,
    /// Clean data that is kept for reads, or read ahead.
    #[serde(default)]
    pub clean_bytes: u64,
    /// Read-ahead data that hosts read.
    #[serde(default)]
    pub ahead_used_bytes: u64,
    /// Read-ahead data that was evicted unread.
    #[serde(default)]
    pub ahead_wasted_bytes: u64,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeInfo {
    /// Its name, also of its NBD export.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its state.
    pub state: VolumeState,
    /// Why it is not optimal, and the remedy: a sentence each.
    pub reasons: Vec<String>,
    /// When it entered that state, in seconds since 1970.
    pub since_unix_s: u64,
    /// The level, such as `raid5`.
    pub level: String,
    /// The number of spans; 1 for levels without spans.
    pub spans: u16,
    /// The number of copies of each strip.
    pub copies: u16,
    /// The strip size.
    pub strip_bytes: u64,
    /// The layout of parity or copies, if the level has several.
    pub arrangement: Option<String>,
    /// The logical sector size reported to hosts.
    pub sector_bytes: u64,
    /// The physical sector size reported to hosts; 0 from earlier versions.
    #[serde(default)]
    pub physical_sector_bytes: u64,
    /// Its capacity for hosts.
    pub capacity_bytes: u64,
    /// The offset of its data on each drive.
    pub data_start_bytes: u64,
    /// Its data size on each drive.
    pub member_bytes: u64,
    /// The UUID of its array.
    pub array: String,
    /// The names of all volumes of its array.
    pub array_volumes: Vec<String>,
    /// The largest contiguous free space on each drive of its array.
    pub array_free_bytes: u64,
    /// Current fault tolerance: any drives that may fail.
    pub may_lose: u16,
    /// Current fault tolerance in the most favourable case.
    pub may_lose_at_most: u16,
    /// Its reshape, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reshape: Option<Box<ReshapeInfo>>,
    /// Bytes in punctured blocks.
    pub lost_bytes: u64,
    /// Its drives, by slot.
    pub drives: Vec<DriveInfo>,
    /// The resync that runs or is due; `None` when all redundancy agrees with the data.
    pub resync: Option<Progress>,
    /// The background initialisation; `None` when it is complete, or when the volume has none.
    #[serde(default)]
    pub initialisation: Option<Progress>,
    /// Marked regions of the write-intent map.
    pub dirty_regions: u32,
    /// Policies: write mode, write hole, and those of its array.
    pub policies: Vec<Policy>,
    /// Its cached data and cache counters.
    pub cache: CacheInfo,
    /// Its connected hosts, in the order of connection.
    pub hosts: Vec<HostInfo>,
    /// Its block device on this host.
    pub disk: Option<DiskInfo>,
    /// The generation of its labels.
    pub generation: u64,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: u64,
    /// For a missing volume: when one of its drives was last seen, in seconds since 1970.
    pub last_seen_unix_s: Option<u64>,
    /// Its number, never reused; `None` for a volume that was just added.
    #[serde(default)]
    pub number: Option<u32>,
    /// The number of its array (drive group), never reused.
    #[serde(default)]
    pub group: Option<u32>,
    /// Whether its numbers are provisional: [`ControllerInfo::provisional_numbers`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
    /// Rises with each change of these values, except counters and measurements.
    #[serde(default)]
    pub revision: u64,
    /// The same for its array.
    #[serde(default)]
    pub array_revision: u64,
}

/// The controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ControllerInfo {
    /// The software version.
    pub version: String,
    /// Its serial number, created with the state folder at the first start.
    #[serde(default)]
    pub serial: String,
    /// Why the numbers of drives and volumes are provisional, and the remedy: a sentence; `None` if
    /// they are final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisional_numbers: Option<String>,
    /// Its start, in seconds since 1970.
    pub started_unix_s: u64,
    /// The number of I/O threads.
    pub shards: u16,
    /// The supported RAID levels.
    pub levels: Vec<String>,
    /// Optimal volumes.
    pub volumes_optimal: u32,
    /// Degraded volumes.
    pub volumes_degraded: u32,
    /// Offline volumes.
    pub volumes_offline: u32,
    /// Missing volumes.
    pub volumes_missing: u32,
    /// Known drives.
    pub drives: u32,
    /// Connected hosts: the number of connections.
    pub hosts: u32,
    /// The state of the UPS, if one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ups: Option<UpsInfo>,
    /// The alarm.
    #[serde(default)]
    pub alarm: AlarmInfo,
    /// NBD addresses: `HOST:PORT` or `unix:PATH`.
    #[serde(default)]
    pub nbd: Vec<String>,
    /// The largest size of the write cache.
    #[serde(default)]
    pub cache_bytes: u64,
    /// The memory that is reserved for it: more is reserved when it is needed.
    #[serde(default)]
    pub cache_reserved_bytes: u64,
    /// Names of drives that have not responded since the start. Arrays that may include them wait
    /// for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaited: Vec<String>,
}

impl fmt::Display for VolumeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            VolumeState::Optimal => "optimal",
            VolumeState::Degraded => "degraded",
            VolumeState::Offline => "offline",
            VolumeState::Missing => "missing",
        })
    }
}
