//! The controller: drives, arrays, volumes, events, and the [`Command`]s that every interface speaks.

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
