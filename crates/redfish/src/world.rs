//! The input of resources, from one moment.

use access::{AccountInfo, Limits, SessionInfo};
use controller::{ControllerInfo, DriveInfo, Event, LogInfo, SpareInfo, TaskInfo, VolumeInfo};
use serde::{Deserialize, Serialize};

/// See the module. It contains only what the caller may see.
#[derive(Clone, Debug)]
pub struct World {
    /// The current time, in seconds since 1970.
    pub now_unix_s: u64,
    /// The name of this machine.
    pub host: String,
    /// The UUID of this installation.
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
    /// Event subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// The rules for locking accounts.
    pub limits: Limits,
    /// Idle time after which a session ends, in seconds.
    pub session_idle_s: u64,
}

/// An event subscription.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Its number, as text.
    pub id: String,
    /// The destination: `http://HOST[:PORT]/PATH` or `https://…`.
    pub destination: String,
    /// The context that is sent with each event.
    pub context: String,
    /// Whether an `https` destination needs a certificate of a trusted authority.
    #[serde(default)]
    pub verify_certificate: bool,
}
