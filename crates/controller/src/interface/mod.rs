//! The controller's external interface: commands, replies and errors.
//!
//! **Owns** no state: only values, with their JSON form. The other modules use them too.
//!
//! **Invariants.** Names and JSON forms are stable: clients and stored files rely on them.
//!
//! **Callers**: every module. It depends on none of them.

mod alarm;
mod audit;
mod caller;
mod coercion;
mod command;
mod costs;
mod disks;
mod drives;
mod error;
mod event;
mod foreign;
mod health;
mod hosts;
mod limits;
mod logs;
mod memories;
mod metrics;
pub(crate) mod modes;
mod numbers;
mod presets;
mod reply;
mod report;
mod reshape;
mod tasks;
mod ups;

pub use alarm::{AlarmInfo, AlarmSetting};
pub use audit::{AuditEntry, AuditOutcome, OrderGiven};
pub use caller::{Caller, Origin};
pub use coercion::Coercion;
pub use command::{Command, CreateVolume, Explain};
pub use costs::DriveCost;
pub use disks::{
    AttachPolicy, DiskAnswer, DiskInfo, DiskKind, DiskMaker, DiskRequest, DiskState, DiskVolume,
    Disks,
};
pub use drives::{DriveInfo, DriveState, FailureInfo, ForeignArray};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, Severity};
pub use foreign::{ForeignDrive, ForeignMember, ForeignOther, ForeignVolume};
pub use health::HealthInfo;
pub use hosts::HostInfo;
pub use limits::{DriveLimit, LimitSource, SuspendedBy, SuspensionInfo};
pub use logs::{DiscardLog, Discarded, LogDeviceInfo, LogDeviceState, LogInfo, LogPlaceInfo};
pub use memories::{MemoryInfo, MemoryVolume};
pub use metrics::{
    CountersInfo, DriveCounters, DriveMetrics, DriveWork, EventCount, MetricsInfo, VolumeCounters,
    VolumeMetrics, WorkInfo,
};
pub use numbers::{DriveNumber, DriveNumbers, Numbered, SetNumbers};
pub(crate) use presets::is_volatile;
pub use presets::{Preset, Settings};
pub use reply::{CacheInfo, ControllerInfo, Policy, Progress, Reply, VolumeInfo, VolumeState};
pub use report::{Finding, HealthReport, WellBeing};
pub use reshape::{LayoutInfo, ReshapeInfo, ReshapeVolume};
pub use tasks::{
    AddSpare, Blamed, CoverageInfo, Found, ScheduleInfo, Scheduled, SetPolicy, SetSchedule,
    SetTask, SpareInfo, SpareKind, StartTask, Startable, TaskInfo, TaskKind, TaskState,
};
pub use ups::{ProtectionState, UpsAddress, UpsInfo};
