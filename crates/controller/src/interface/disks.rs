//! Volumes as block devices of this host.
//!
//! The controller knows the volumes and the desired state. The program that starts it creates the
//! block devices ([`Disks`]).

use crate::interface::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Whether the controller attaches a volume as a block device when it is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachPolicy {
    /// Attach it.
    On,
    /// Attach it read-only.
    ReadOnly,
    /// Leave it to an operator.
    Off,
}

impl AttachPolicy {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            AttachPolicy::On => "on",
            AttachPolicy::ReadOnly => "read-only",
            AttachPolicy::Off => "off",
        }
    }
}

/// The kernel driver of a block device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// The kernel's NBD client, which every kernel has.
    #[default]
    Nbd,
    /// ublk, the kernel's driver for block devices in user space. Newer kernels have it; it reports
    /// I/O sizes to the kernel.
    Ublk,
}

/// The state of a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// Requests reach the volume.
    Connected,
    /// Requests wait, since the volume is not served or has just started. After two minutes they
    /// fail.
    Waiting,
}

/// A block device of this host that is a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskInfo {
    /// Its path, such as `/dev/nbd0`. The number may change when it is attached again.
    pub device: String,
    /// Existing stable links to it.
    pub links: Vec<String>,
    /// The volume's name; `None` if there is no such volume, or it is not served.
    pub volume: Option<String>,
    /// The volume's UUID.
    pub uuid: String,
    /// It is read-only.
    pub read_only: bool,
    /// Its state.
    pub state: DiskState,
    /// Its users: a clause each, such as `mounted at /srv`.
    pub users: Vec<String>,
}

/// A volume that can be attached, as it is served now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskVolume {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its number among the targets of the ports.
    pub number: u64,
    /// Its capacity for hosts.
    pub capacity_bytes: u64,
    /// The logical sector size reported to hosts.
    pub sector_bytes: u64,
    /// The physical sector size reported to hosts.
    pub physical_sector_bytes: u64,
    /// The strip size.
    pub strip_bytes: u64,
    /// The stripe size.
    pub stripe_bytes: u64,
    /// Its attach policy.
    pub policy: AttachPolicy,
}

/// A request to [`Disks`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskRequest {
    /// These volumes are served: reconnect their block devices, and create those that a policy
    /// requires.
    Look(Vec<DiskVolume>),
    /// Create a block device for a volume.
    Attach {
        /// The volume.
        volume: DiskVolume,
        /// It is read-only.
        read_only: bool,
        /// The kernel driver.
        by: DiskKind,
    },
    /// Remove a block device.
    Detach {
        /// Its path.
        device: String,
        /// Remove it even if it is in use or has pending requests. Unwritten data is lost.
        force: bool,
    },
}

/// Receives the list of block devices after a request, on any thread. It must not block.
pub type DiskAnswer = Box<dyn FnOnce(Result<Vec<DiskInfo>>) + Send>;

/// Creates block devices for volumes.
pub trait Disks: Send + Sync {
    /// Carries out requests in order, on a thread of its own. `answer` is called when it is done.
    fn ask(&self, request: DiskRequest, answer: DiskAnswer);
}

/// The creator of block devices; none by default.
#[derive(Clone, Default)]
pub struct DiskMaker(pub Option<Arc<dyn Disks>>);

impl fmt::Debug for DiskMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "DiskMaker" } else { "no DiskMaker" })
    }
}
