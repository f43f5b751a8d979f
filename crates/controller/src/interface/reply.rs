//! What the controller answers. In JSON an object with its kind under `reply`.

use crate::interface::{
    AlarmInfo, AuditEntry, CountersInfo, CoverageInfo, DiskInfo, DriveCost, DriveInfo, Event, ForeignDrive,
    ForeignVolume, HealthReport, HostInfo, LogInfo, MemoryInfo, MetricsInfo, ReshapeInfo, ScheduleInfo,
    SpareInfo, TaskInfo, UpsInfo,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The answer to a command that was carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// It is done.
    Done {
        /// What is worth knowing about it, a sentence each.
        notes: Vec<String>,
    },
    /// A volume goes to another layout, or would.
    Reshape {
        /// From where to where.
        reshape: Box<ReshapeInfo>,
        /// What is worth knowing, a sentence each.
        notes: Vec<String>,
    },
    /// A drive.
    Drive {
        /// It.
        drive: Box<DriveInfo>,
        /// What is worth knowing, a sentence each.
        notes: Vec<String>,
        /// What taking it out costs its volumes, where that was asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        costs: Vec<DriveCost>,
    },
    /// Drives: those of volumes by slot, then the others by name.
    Drives {
        /// They.
        drives: Vec<DriveInfo>,
    },
    /// A volume.
    Volume {
        /// It.
        volume: Box<VolumeInfo>,
        /// What is worth knowing, a sentence each.
        notes: Vec<String>,
    },
    /// Volumes by name.
    Volumes {
        /// They.
        volumes: Vec<VolumeInfo>,
    },
    /// A task.
    Task {
        /// It.
        task: Box<TaskInfo>,
        /// What is worth knowing, a sentence each.
        notes: Vec<String>,
    },
    /// Tasks: those that go on, then those that ended, the newest first.
    Tasks {
        /// They.
        tasks: Vec<TaskInfo>,
    },
    /// What is done by itself every so often.
    Schedules {
        /// They.
        schedules: Vec<ScheduleInfo>,
    },
    /// A spare.
    Spare {
        /// It.
        spare: Box<SpareInfo>,
        /// What is worth knowing, a sentence each.
        notes: Vec<String>,
    },
    /// Spares, and what they cover.
    Spares {
        /// They, by name.
        spares: Vec<SpareInfo>,
        /// Each array that could use one.
        coverage: Vec<CoverageInfo>,
    },
    /// What is on drives that are not in use.
    Foreign {
        /// Volumes of other systems.
        volumes: Vec<ForeignVolume>,
        /// Drives that carry metadata of any kind and serve in no volume, by name.
        drives: Vec<ForeignDrive>,
    },
    /// Logs: that which is in use, then others of which a device is there.
    Logs {
        /// They.
        logs: Vec<LogInfo>,
        /// What is worth knowing, a sentence each.
        notes: Vec<String>,
    },
    /// The cache's memory of other controllers.
    Memories {
        /// It.
        memories: Vec<MemoryInfo>,
    },
    /// Volumes that were imported, all of one array.
    Imported {
        /// They.
        volumes: Vec<VolumeInfo>,
        /// What is worth knowing, a sentence each.
        notes: Vec<String>,
    },
    /// A disk of this machine.
    Disk {
        /// It.
        disk: Box<DiskInfo>,
        /// What is worth knowing, a sentence each.
        notes: Vec<String>,
    },
    /// Disks of this machine, by their files.
    Disks {
        /// They.
        disks: Vec<DiskInfo>,
    },
    /// Events, newest last.
    Events {
        /// They.
        events: Vec<Event>,
    },
    /// Orders, newest last.
    Audit {
        /// They.
        orders: Vec<AuditEntry>,
    },
    /// What a request would do.
    Explained {
        /// For people: the plan of every stripe, with its picture, its cost and the reason.
        text: String,
        /// The same for programs.
        explanation: serde_json::Value,
    },
    /// The controller.
    Info {
        /// It.
        info: Box<ControllerInfo>,
    },
    /// Everything that is counted or measured.
    Metrics {
        /// It.
        metrics: Box<MetricsInfo>,
    },
    /// Counters of volumes and drives.
    Counters {
        /// They.
        counters: Box<CountersInfo>,
    },
    /// The alarm.
    Alarm {
        /// It.
        alarm: AlarmInfo,
    },
    /// How all is.
    Health {
        /// It.
        health: HealthReport,
    },
}

impl Reply {
    /// What is worth knowing about what was done, a sentence each.
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
    /// Adds a sentence to its notes, where it has any.
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

/// How a volume is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Every drive serves.
    Optimal,
    /// It serves, without all of its drives.
    Degraded,
    /// It does not serve.
    Offline,
    /// None of its drives is there. What is said of it is what it was when it was last seen.
    Missing,
}

impl VolumeState {
    /// All of them.
    pub const ALL: [VolumeState; 4] =
        [VolumeState::Optimal, VolumeState::Degraded, VolumeState::Offline, VolumeState::Missing];

    /// Whether hosts can use it.
    pub fn serves(self) -> bool {
        matches!(self, VolumeState::Optimal | VolumeState::Degraded)
    }
}

/// How far a resync, or the background initialisation, has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// Regions still to be done.
    pub regions_left: u32,
    /// Regions of the volume.
    pub regions: u32,
    /// The share of the volume that is done, rounded down; 100 only when all is.
    pub percent: u8,
}

/// A policy: what is wished, what is in force, and why they differ if they do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// Which.
    pub name: String,
    /// What was wished.
    pub configured: String,
    /// What is in force.
    pub current: String,
    /// What that means, or why the two differ.
    pub reason: String,
    /// Since when it has been in force, in seconds since 1970.
    pub since_unix_s: u64,
}

/// What the cache has of a volume, and has done since it was started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct CacheInfo {
    /// What hosts were told is written, and the drives do not have yet.
    pub dirty_bytes: u64,
    /// What of that could not be written when it was tried.
    pub pinned_bytes: u64,
    /// Writes to a stripe that were answered from the cache.
    pub absorbed: u64,
    /// Reads of a stripe of which the cache had a part, or all.
    pub hits: u64,
    /// Destages of what had been answered.
    pub destages: u64,
    /// Whether a flush is answered when what is dirty is on the log devices; otherwise when it is on the drives.
    #[serde(default)]
    pub flushes_to_log: bool,
    /// What is kept of what the drives hold too: because hosts read it, or are about to.
    #[serde(default)]
    pub clean_bytes: u64,
    /// What was read ahead of hosts, and asked for then.
    #[serde(default)]
    pub ahead_used_bytes: u64,
    /// What was read ahead of hosts, and given up before anybody asked for it.
    #[serde(default)]
    pub ahead_wasted_bytes: u64,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeInfo {
    /// Its name, which is that of its export too.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// How it is.
    pub state: VolumeState,
    /// Why it is not optimal, and what to do: a sentence each.
    pub reasons: Vec<String>,
    /// Since when it has been in that state, in seconds since 1970.
    pub since_unix_s: u64,
    /// The level, such as `raid5`.
    pub level: String,
    /// Spans; 1 where the level has none.
    pub spans: u16,
    /// How often each strip is stored.
    pub copies: u16,
    /// The strip.
    pub strip_bytes: u64,
    /// Where parity or copies are, where the level has a choice.
    pub arrangement: Option<String>,
    /// The logical sector that hosts are told of.
    pub sector_bytes: u64,
    /// The physical sector that hosts are told of; 0 from a controller that did not say so yet.
    #[serde(default)]
    pub physical_sector_bytes: u64,
    /// What hosts can use.
    pub capacity_bytes: u64,
    /// Where its data begins on each drive.
    pub data_start_bytes: u64,
    /// How much of each drive is used for data.
    pub member_bytes: u64,
    /// The UUID of its array.
    pub array: String,
    /// The names of all volumes of its array.
    pub array_volumes: Vec<String>,
    /// How much of each drive of its array is free in one piece: room for another volume.
    pub array_free_bytes: u64,
    /// How many more drives may fail now, whichever they are.
    pub may_lose: u16,
    /// How many more drives may fail now, if they are the luckiest ones.
    pub may_lose_at_most: u16,
    /// Its way to another layout, if it is on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reshape: Option<Box<ReshapeInfo>>,
    /// Bytes whose content is lost.
    pub lost_bytes: u64,
    /// Its drives, by slot.
    pub drives: Vec<DriveInfo>,
    /// The resync that runs or is due; `None` when all redundancy agrees.
    pub resync: Option<Progress>,
    /// How far what no host has written is initialised; `None` when all of it is, or will not be before hosts write it.
    #[serde(default)]
    pub initialisation: Option<Progress>,
    /// Regions that are marked as being written.
    pub dirty_regions: u32,
    /// Policies: write mode, write hole, and those of its array.
    pub policies: Vec<Policy>,
    /// What the cache has of it, and has done since it was started.
    pub cache: CacheInfo,
    /// Hosts that are connected to it, in the order in which they came.
    pub hosts: Vec<HostInfo>,
    /// The disk of this machine that it is.
    pub disk: Option<DiskInfo>,
    /// The number of the latest change that its labels record.
    pub generation: u64,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: u64,
    /// Of one that is missing: when a drive of it was last seen, in seconds since 1970.
    pub last_seen_unix_s: Option<u64>,
    /// A number that no other volume has, ever; `None` for one that came a moment ago.
    #[serde(default)]
    pub number: Option<u32>,
    /// The number of its array (its drive group), which no other array has, ever.
    #[serde(default)]
    pub group: Option<u32>,
    /// Whether it may have had other numbers before: [`ControllerInfo::provisional_numbers`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
    /// A number that is higher after each change of what is said of it; what is counted or measured does not count.
    #[serde(default)]
    pub revision: u64,
    /// The same of its array.
    #[serde(default)]
    pub array_revision: u64,
}

/// The controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ControllerInfo {
    /// Of the software.
    pub version: String,
    /// Its serial number: that of its state folder, made at the first start.
    #[serde(default)]
    pub serial: String,
    /// Why all numbers of drives and volumes are provisional, and what to do: a sentence; `None`: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisional_numbers: Option<String>,
    /// Since when it runs, in seconds since 1970.
    pub started_unix_s: u64,
    /// Threads that serve I/O.
    pub shards: u16,
    /// Levels it knows.
    pub levels: Vec<String>,
    /// Volumes that are optimal.
    pub volumes_optimal: u32,
    /// Volumes that are degraded.
    pub volumes_degraded: u32,
    /// Volumes that are offline.
    pub volumes_offline: u32,
    /// Volumes of which no drive is there.
    pub volumes_missing: u32,
    /// Drives it knows.
    pub drives: u32,
    /// Hosts that are connected, each connection counted.
    pub hosts: u32,
    /// What the UPS says that the controller listens to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ups: Option<UpsInfo>,
    /// The alarm.
    #[serde(default)]
    pub alarm: AlarmInfo,
    /// Where volumes are served over NBD: `HOST:PORT` or `unix:PATH`.
    #[serde(default)]
    pub nbd: Vec<String>,
    /// Drives that have not answered since the controller was started, by name: arrays that may have them wait for them.
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
