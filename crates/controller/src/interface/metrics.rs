//! What monitoring asks for at once: everything that has a number, all of one moment, and nothing that a drive or a shard has to
//! be asked for.

use crate::interface::{
    ControllerInfo, CoverageInfo, DriveInfo, DriveLimit, ScheduleInfo, Severity, SpareInfo, TaskInfo,
    VolumeInfo,
};
use serde::{Deserialize, Serialize};

/// Everything that is counted or measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MetricsInfo {
    /// When it was told, in nanoseconds, by a clock that never goes back; it begins anew with the controller.
    #[serde(default)]
    pub taken_ns: u64,
    /// The controller.
    pub controller: ControllerInfo,
    /// The upper bounds, in nanoseconds, of the buckets of every [`WorkInfo`].
    pub bucket_bounds_ns: Vec<u64>,
    /// Volumes by name.
    pub volumes: Vec<VolumeMetrics>,
    /// Drives: those of volumes by slot, then the others by name.
    pub drives: Vec<DriveMetrics>,
    /// Tasks: those that go on, then those that ended, the newest first.
    pub tasks: Vec<TaskInfo>,
    /// What is done by itself every so often.
    pub schedules: Vec<ScheduleInfo>,
    /// Hot spares, by name.
    pub spares: Vec<SpareInfo>,
    /// Each array that could use one.
    pub coverage: Vec<CoverageInfo>,
    /// How many events of each kind there have been since the controller was started, by code.
    pub events: Vec<EventCount>,
}

/// A volume, and what hosts have asked of it since the controller was started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolumeMetrics {
    /// It.
    pub volume: VolumeInfo,
    /// What hosts have asked of it.
    pub work: Vec<WorkInfo>,
    /// Requests that took the fast path.
    pub fast_path: u64,
    /// Writes to a stripe that went to its drives together with others, by one plan.
    pub joined_writes: u64,
    /// Writes of hosts that did not begin and end at whole multiples of 4 KiB.
    #[serde(default)]
    pub unaligned_writes: u64,
    /// Times that a fault made a stripe request be planned again.
    pub replans: u64,
    /// Runs of blocks that a drive could not read and that were written anew.
    pub repaired: u64,
    /// Runs of blocks whose content was lost.
    pub lost: u64,
    /// How many drives may fail, whichever they are, while none is out.
    pub may_lose_when_optimal: u16,
}

/// A drive, and what was asked of it since the controller was started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DriveMetrics {
    /// It.
    pub drive: DriveInfo,
    /// What was asked of it: by hosts, by tasks, and for its metadata.
    pub work: Vec<WorkInfo>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<DriveLimit>,
}

/// What was done of one kind of operation.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct WorkInfo {
    /// Of which: `read`, `write` (zeroes included), `trim`, `flush`.
    pub operation: String,
    /// Operations that are under way.
    pub outstanding: u64,
    /// Operations that have ended, those that failed among them.
    pub completed: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Bytes that those that succeeded were about.
    pub bytes: u64,
    /// The time that all took together, in nanoseconds.
    pub time_ns: u64,
    /// How many took no longer than each of [`MetricsInfo::bucket_bounds_ns`] and longer than the one before; last, those that
    /// took longer than all.
    pub buckets: Vec<u64>,
    /// Of a drive: how many were slow, which is longer than [`DriveWork::slow_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<u64>,
}

/// What was asked of a drive since the controller was started, and how long it took.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveWork {
    /// What took longer is slow, in nanoseconds: the limit for a read that redundancy can serve, or the next bound above it.
    pub slow_ns: u64,
    /// The upper bounds, in nanoseconds, of the buckets.
    pub bucket_bounds_ns: Vec<u64>,
    /// Of each kind of operation.
    pub operations: Vec<WorkInfo>,
    /// How long it may take; none of one that cannot be opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<DriveLimit>,
}

/// What hosts have asked of volumes, and what was asked of drives: counters alone, for whoever looks every few seconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CountersInfo {
    /// When it was told, in nanoseconds, by a clock that never goes back; it begins anew with the controller.
    pub taken_ns: u64,
    /// Volumes that are known, in no order.
    pub volumes: Vec<VolumeCounters>,
    /// Drives that are registered, in no order.
    pub drives: Vec<DriveCounters>,
}

/// The counters of a volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolumeCounters {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// What hosts have asked of it.
    pub work: Vec<WorkInfo>,
    /// Reads of a stripe of which the cache had a part, or all.
    pub cache_hits: u64,
    /// Writes to a stripe that were acknowledged from the cache.
    pub cache_writes: u64,
}

/// The counters of a drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DriveCounters {
    /// Its name.
    pub name: String,
    /// What tells it from others: its serial number, else how it is opened.
    pub identity: String,
    /// What was asked of it.
    pub work: Vec<WorkInfo>,
    /// Its temperature when it was asked last, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i16>,
}

/// How many events of a kind there have been.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventCount {
    /// The kind, as `docs/operate/events.md` lists them.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// How many.
    pub count: u64,
}
