//! The controller: drives, arrays, volumes, events, and the [`Command`]s that every interface speaks.
//!
//! It lives on shard 0, in the world like the engine. [`Controller::start`] opens the drives it knows, starts the
//! volumes on them and returns a [`ControllerHandle`], which takes [`Command`]s from any thread and answers with
//! [`Reply`]s. What shards report (failures, regions to be marked) it makes durable, and only then lets them go on.
//!
//! | where | what |
//! | --- | --- |
//! | `command.rs`, `reply.rs`, `error.rs`, `handle.rs` | what interfaces see |
//! | `core.rs` | the state and the tasks |
//! | `reports.rs` | what shards report, sorted to the arrays |
//! | `keeper.rs`, `record.rs`, `clear.rs` | **the promises while an array is started**: failures and marks; labels; how marks go |
//! | `scan.rs`, `assemble.rs`, `serve.rs` | from labels to arrays; started and stopped, and in which order; volumes on shards |
//! | `create.rs`, `delete.rs` | making and deleting volumes, and in which order |
//! | `candidates.rs`, `shape.rs`, `extents.rs` | drives that are to be taken; what a volume is like on them, and where |
//! | `change.rs` | drives taken out, names, starting by order |
//! | `returning.rs`, `members.rs`, `rebuild.rs` | drives that come back or take the place of others, and in which order |
//! | `leaving.rs` | drives that have not returned all that they were asked, and are nobody's until then |
//! | `array.rs`, `volume.rs`, `inventory.rs` | an array, a volume, a drive, as they are kept |
//! | `disk.rs` | labels and maps on drives |
//! | `events.rs`, `info.rs`, `explain.rs` | what is told |
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

mod array;
mod assemble;
mod candidates;
mod change;
mod choose;
mod clear;
mod command;
mod command_tasks;
mod core;
mod create;
mod delete;
mod disk;
mod due;
mod error;
mod events;
mod explain;
mod extents;
mod foreign;
mod guard;
mod handle;
mod info;
mod inventory;
mod journal;
mod keeper;
mod leaving;
mod members;
mod patrol;
mod policy;
mod record;
mod repair;
mod reply;
mod reply_foreign;
mod reply_tasks;
mod reports;
mod returning;
mod scan;
mod schedule;
mod serve;
mod shape;
mod spares;
mod structures;
mod tasks;
mod tend;
mod volume;
mod waiting;

pub use crate::core::{Controller, Options};

pub use command::{Command, CreateVolume, Explain};
pub use command_tasks::{AddSpare, Scheduled, SetPolicy, SetSchedule, SetTask, StartTask, Startable};
pub use error::{Error, ErrorKind, Result};
pub use guard::HealthInfo;
pub use handle::{Answer, ControllerHandle, Request};
pub use ondisk::WriteHole;
pub use reply::{
    ControllerInfo, DriveInfo, DriveState, Event, Policy, Progress, Reply, Severity, VolumeInfo, VolumeState,
};
pub use reply_foreign::{ForeignDrive, ForeignMember, ForeignOther, ForeignVolume};
pub use reply_tasks::{
    Blamed, CoverageInfo, Found, ScheduleInfo, SpareInfo, SpareKind, TaskInfo, TaskKind, TaskState,
};
