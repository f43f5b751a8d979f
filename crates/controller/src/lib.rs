//! The controller: drives, arrays, volumes, events, and the [`Command`]s that every interface speaks.

mod command;
mod error;
mod handle;
mod reply;

pub use command::{Command, CreateVolume, Explain};
pub use error::{Error, ErrorKind, Result};
pub use handle::{Answer, ControllerHandle, Request};
pub use reply::{
    ControllerInfo, DriveInfo, DriveState, Event, Policy, Progress, Reply, Severity, VolumeInfo, VolumeState,
};
