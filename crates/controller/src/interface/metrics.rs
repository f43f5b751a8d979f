//! Metrics for monitoring: all values in one snapshot, without I/O to drives and without messages
//! to shards.

use crate::interface::{
    ControllerInfo, CoverageInfo, DriveInfo, DriveLimit, ScheduleInfo, Severity, SpareInfo,
    TaskInfo, VolumeInfo,
};
use serde::{Deserialize, Serialize};

/// All counters and measurements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MetricsInfo {
    /// The time of the snapshot, in nanoseconds of a monotonic clock that starts with the
    /// controller.
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
    /// Tasks: active ones, then ended ones, the newest first.
    pub tasks: Vec<TaskInfo>,
    /// The schedules.
    pub schedules: Vec<ScheduleInfo>,
    /// Hot spares, by name.
    pub spares: Vec<SpareInfo>,
    /// The coverage of each array by spares.
    pub coverage: Vec<CoverageInfo>,
    /// The number of events of each code since the controller started.
    pub events: Vec<EventCount>,
}

/// A volume and its host I/O since the controller started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolumeMetrics {
    /// The volume.
    pub volume: VolumeInfo,
    /// Its host I/O.
    pub work: Vec<WorkInfo>,
    /// FastPath requests.
    pub fast_path: u64,
    /// Stripe writes that were merged with others into one plan.
    pub joined_writes: u64,
    /// Host writes that are not aligned to 4 KiB.
    #[serde(default)]
    pub unaligned_writes: u64,
    /// Stripe requests that were planned again after a fault.
    pub replans: u64,
    /// Unreadable runs of blocks that were repaired.
    pub repaired: u64,
    /// Runs of blocks whose data was lost.
    pub lost: u64,
    /// The fault tolerance of the volume when optimal.
    pub may_lose_when_optimal: u16,
}

/// A drive and its I/O since the controller started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DriveMetrics {
    /// The drive.
    pub drive: DriveInfo,
    /// Its I/O: by hosts, by tasks and for metadata.
    pub work: Vec<WorkInfo>,
    /// Its time limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<DriveLimit>,
}

/// I/O of one kind of operation.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct WorkInfo {
    /// The operation: `read`, `write` (zeroes included), `trim`, `flush`.
    pub operation: String,
    /// Outstanding operations.
    pub outstanding: u64,
    /// Completed operations, including failed ones.
    pub completed: u64,
    /// Failed operations.
    pub failed: u64,
    /// Bytes of successful operations.
    pub bytes: u64,
    /// The total time, in nanoseconds.
    pub time_ns: u64,
    /// The number of operations per bucket of [`MetricsInfo::bucket_bounds_ns`]; the last bucket
    /// counts those above all bounds.
    pub buckets: Vec<u64>,
    /// For a drive: operations that took longer than [`DriveWork::slow_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<u64>,
}

/// A drive's I/O counters and latencies since the controller started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveWork {
    /// The threshold of slow operations, in nanoseconds: the limit for a read that redundancy can
    /// serve, or the next bucket bound above it.
    pub slow_ns: u64,
    /// The upper bounds, in nanoseconds, of the buckets.
    pub bucket_bounds_ns: Vec<u64>,
    /// Each kind of operation.
    pub operations: Vec<WorkInfo>,
    /// Its time limits; none if it cannot be opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<DriveLimit>,
}

/// I/O counters of volumes and drives, for polling every few seconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CountersInfo {
    /// The time of the snapshot, in nanoseconds of a monotonic clock that starts with the
    /// controller.
    pub taken_ns: u64,
    /// Volumes, unordered.
    pub volumes: Vec<VolumeCounters>,
    /// Registered drives, unordered.
    pub drives: Vec<DriveCounters>,
}

/// The counters of a volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolumeCounters {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its host I/O.
    pub work: Vec<WorkInfo>,
    /// Stripe reads with a full or partial cache hit.
    pub cache_hits: u64,
    /// Stripe writes that were acknowledged from the cache.
    pub cache_writes: u64,
}

/// The counters of a drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DriveCounters {
    /// Its name.
    pub name: String,
    /// Its identity: its serial number, or else its path.
    pub identity: String,
    /// Its I/O.
    pub work: Vec<WorkInfo>,
    /// Its temperature at the last reading, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i16>,
}

/// The number of events of one code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventCount {
    /// The code, listed by `softroc help event-codes`.
    pub code: String,
    /// Its severity.
    pub severity: Severity,
    /// The number of events.
    pub count: u64,
}
