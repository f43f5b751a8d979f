//! The controller: drives, arrays, volumes, events, and the [`Command`]s that every interface speaks.
//!
//! It lives on shard 0, in the world like the engine. [`Controller::start`] opens the drives it knows, starts the
//! volumes on them and returns a [`ControllerHandle`], which takes [`Command`]s from any thread and answers with
//! [`Reply`]s. What shards report (failures, regions to be marked) it makes durable, and only then lets them go on.
//!
//! | where | what |
//! | --- | --- |
//! | `interface` | what interfaces say and hear: commands, replies, errors |
//! | `commands` | commands taken and answered; the controller started |
//! | `lifecycle` | volumes made, found, started, renamed, deleted; drives that come and go |
//! | `reconcile` | what is wanted against what there is: spares, rebuilds, what is due |
//! | `foreign` | arrays of other controllers |
//! | `policy` | what operators wish for an array, for good |
//! | `tasks` | background tasks |
//! | `arrays` | **the promises while an array is started**: failures, marks, labels; what shards report |
//! | `inventory` | drives |
//! | `events` | what happened |
//! | `signals` | waiting for what others do |
//!
//! # What is where
//! The truth is on the drives: labels and write-intent maps (crate `ondisk`). The state store keeps hints and
//! history: `drives.toml`, the names of drives to look at, and `events.jsonl`. Losing it loses neither.
//!
//! # A kill at any point
//! Each file that writes to drives states its order and what a kill leaves at each step. In short: a label says
//! *creating* before anything else is written, and *online* after everything; a failure and a mark are durable
//! before they are answered; a mark goes only after a flush; a start raises the generation before it serves; and a
//! volume that has lost more than its level survives acknowledges nothing and records nothing, so that it is
//! whole when its drives are back.

mod arrays;
mod commands;
mod events;
mod foreign;
mod interface;
mod inventory;
mod lifecycle;
mod policy;
mod reconcile;
mod signals;
mod tasks;

pub use crate::commands::core::{Controller, Options};

pub use commands::handle::{Answer, ControllerHandle, Request};
pub use interface::command::{Command, CreateVolume, Explain};
pub use interface::command_tasks::{
    AddSpare, Scheduled, SetPolicy, SetSchedule, SetTask, StartTask, Startable,
};
pub use interface::error::{Error, ErrorKind, Result};
pub use interface::reply::{
    ControllerInfo, DriveInfo, DriveState, Event, Policy, Progress, Reply, Severity, VolumeInfo, VolumeState,
};
pub use interface::reply_foreign::{ForeignDrive, ForeignMember, ForeignOther, ForeignVolume};
pub use interface::reply_tasks::{
    Blamed, CoverageInfo, Found, ScheduleInfo, SpareInfo, SpareKind, TaskInfo, TaskKind, TaskState,
};
pub use inventory::health::HealthInfo;
pub use ondisk::WriteHole;
