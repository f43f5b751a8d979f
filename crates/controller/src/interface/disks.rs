//! Volumes that are disks of this machine: what there is of them, and who makes them.
//!
//! The controller knows volumes, and what operators wish; how a kernel is told of a disk is known by whoever starts the
//! controller ([`Disks`]).

use crate::interface::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Whether a volume is a disk of this machine whenever the controller serves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachPolicy {
    /// It is.
    On,
    /// It is, and nothing can be written to the disk.
    ReadOnly,
    /// Only when an operator asks for it.
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

/// Which of the kernel's ways a disk goes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// The kernel's NBD client: every kernel has it.
    #[default]
    Nbd,
    /// The kernel's driver for disks that a program serves: newer kernels have it, and it knows the shape of the disk.
    Ublk,
}

/// How a disk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// Requests reach the volume.
    Connected,
    /// Requests wait: the volume is not served, or was not until a moment ago. After two minutes they fail.
    Waiting,
}

/// A disk of this machine that is a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskInfo {
    /// Its file, such as `/dev/nbd0`. The number may be another one the next time.
    pub device: String,
    /// Files that lead to it and stay the same, those that are there.
    pub links: Vec<String>,
    /// The volume's name; `None` if there is no such volume, or it is not served.
    pub volume: Option<String>,
    /// The volume's UUID.
    pub uuid: String,
    /// Nothing can be written to it.
    pub read_only: bool,
    /// How it is.
    pub state: DiskState,
    /// Who uses it: a sentence's part each, such as `mounted at /srv`.
    pub users: Vec<String>,
}

/// A volume that can be a disk, as it is served now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskVolume {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its number among the targets of the ports.
    pub number: u64,
    /// What hosts can use.
    pub capacity_bytes: u64,
    /// The logical sector that hosts are told of.
    pub sector_bytes: u64,
    /// The physical sector that hosts are told of.
    pub physical_sector_bytes: u64,
    /// A strip.
    pub strip_bytes: u64,
    /// A stripe.
    pub stripe_bytes: u64,
    /// What is wished for it.
    pub policy: AttachPolicy,
}

/// What is asked of [`Disks`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskRequest {
    /// These volumes are served: connect their disks again that are not connected, and make those that are wished for.
    Look(Vec<DiskVolume>),
    /// Make a disk of a volume.
    Attach {
        /// Which.
        volume: DiskVolume,
        /// Nothing can be written to it.
        read_only: bool,
        /// Which way it goes.
        by: DiskKind,
    },
    /// Remove a disk.
    Detach {
        /// Its file.
        device: String,
        /// Even while it is in use, or requests wait on it: what was not written is lost.
        force: bool,
    },
}

/// Takes every disk there is after a request was carried out, on any thread: it must not block.
pub type DiskAnswer = Box<dyn FnOnce(Result<Vec<DiskInfo>>) + Send>;

/// Makes volumes disks of this machine.
pub trait Disks: Send + Sync {
    /// Carries out a request, one after the other, on a thread of its own. `answer` is called when it is done.
    fn ask(&self, request: DiskRequest, answer: DiskAnswer);
}

/// Who makes disks; nobody by default.
#[derive(Clone, Default)]
pub struct DiskMaker(pub Option<Arc<dyn Disks>>);

impl fmt::Debug for DiskMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "DiskMaker" } else { "no DiskMaker" })
    }
}
