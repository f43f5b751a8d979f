//! Everything that resources are made of, all of one moment.

use access::{AccountInfo, Limits, SessionInfo};
use controller::{ControllerInfo, DriveInfo, Event, LogInfo, SpareInfo, TaskInfo, VolumeInfo};
use serde::{Deserialize, Serialize};

/// See the module. What somebody may not see is left out by whoever makes it.
#[derive(Clone, Debug)]
pub struct World {
    /// What time it is, in seconds since 1970.
    pub now_unix_s: u64,
    /// What this machine is called.
    pub host: String,
    /// An UUID of this installation.
    pub uuid: String,
    /// The port of HTTPS.
    pub port: Option<u16>,
    /// The controller.
    pub info: ControllerInfo,
    /// Volumes.
    pub volumes: Vec<VolumeInfo>,
    /// Drives.
    pub drives: Vec<DriveInfo>,
    /// Hot spares.
    pub spares: Vec<SpareInfo>,
    /// Logs.
    pub logs: Vec<LogInfo>,
    /// Background tasks.
    pub tasks: Vec<TaskInfo>,
    /// Events, newest last.
    pub events: Vec<Event>,
    /// Accounts.
    pub accounts: Vec<AccountInfo>,
    /// Open sessions.
    pub sessions: Vec<SessionInfo>,
    /// Who gets events sent.
    pub subscriptions: Vec<Subscription>,
    /// When accounts are locked.
    pub limits: Limits,
    /// How long a session may go unused.
    pub session_idle_s: u64,
}

/// Somebody who gets events sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Its number, as a text.
    pub id: String,
    /// Where events are sent: `http://HOST[:PORT]/PATH` or `https://…`.
    pub destination: String,
    /// What is sent along, for whoever made it.
    pub context: String,
    /// Whether the machine's authorities have to vouch for the destination's certificate, where that is `https`.
    #[serde(default)]
    pub verify_certificate: bool,
}
