//! The controller: drives, arrays, volumes, events, and the [`Command`]s that every interface speaks.
//!
//! It lives on shard 0, in the world like the engine. [`Controller::start`] opens the drives it knows, starts the
//! volumes on them and returns a [`ControllerHandle`], which takes [`Command`]s from any thread and answers with
//! [`Reply`]s. What shards report (failures, lanes to be marked) it makes durable, and only then lets them go on.
//!
//! | where | what |
//! | --- | --- |
//! | `command.rs`, `reply.rs`, `error.rs`, `handle.rs` | what interfaces see |
//! | `core.rs` | the state and the tasks |
//! | `keeper.rs` | **the promises while a volume is started**: failures, marks, their clearing |
//! | `assemble.rs` | from labels to started volumes and back, and in which order |
//! | `create.rs` | making and deleting volumes, and in which order |
//! | `change.rs` | drives out and in, names, starting by order |
//! | `array.rs`, `inventory.rs` | an array, a drive, as they are kept |
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
mod change;
mod command;
mod core;
mod create;
mod disk;
mod error;
mod events;
mod explain;
mod handle;
mod info;
mod inventory;
mod keeper;
mod reply;

pub use crate::core::{Controller, Options};

pub use command::{Command, CreateVolume, Explain};
pub use disk::drive_mark;
pub use error::{Error, ErrorKind, Result};
pub use handle::{Answer, ControllerHandle, Request};
pub use reply::{
    ControllerInfo, DriveInfo, DriveState, Event, Policy, Progress, Reply, Severity, VolumeInfo, VolumeState,
};
