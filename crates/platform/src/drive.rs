//! The interface of drives.

use crate::error::{IoError, Result};
use crate::executor::LocalFuture;
use crate::health::Hardware;
use crate::ops::Completion;
use crate::request::IoRequest;
use crate::traffic::Traffic;
use crate::world::Env;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, SectorSize};

/// The kind of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveKind {
    /// A local block device.
    BlockDevice,
    /// A file.
    File,
    /// Memory of this process.
    Memory,
    /// Completes at once, reads zeros, stores nothing.
    Null,
    /// A remote NBD export.
    Remote,
    /// A model in virtual time.
    Model,
    /// A volume of this controller, used as a drive.
    Volume,
}

impl fmt::Display for DriveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriveKind::BlockDevice => "block device",
            DriveKind::File => "file",
            DriveKind::Memory => "memory",
            DriveKind::Null => "null",
            DriveKind::Remote => "remote",
            DriveKind::Model => "model",
            DriveKind::Volume => "volume",
        })
    }
}

/// Identifies a drive whatever its path: a device and inode number, or a serial number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DriveIdentity(pub String);

/// A drive's properties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveInfo {
    /// The name by which it was opened: a path, `mem:1G`, an address.
    pub name: String,
    /// The identity, which is the same under every name.
    pub identity: DriveIdentity,
    /// The kind.
    pub kind: DriveKind,
    /// The capacity, in whole sectors.
    pub size: ByteCount,
    /// The logical sector: the smallest unit of I/O.
    pub logical_sector: SectorSize,
    /// The physical sector: the smallest write without a read first.
    pub physical_sector: SectorSize,
    /// Whether it rotates.
    pub rotational: bool,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether the open excludes all other users. False for a remote export: NBD has no locks.
    pub exclusive: bool,
    /// The device and its location, as far as the computer reports them.
    pub hardware: Hardware,
}

impl DriveInfo {
    /// The underlying storage, as far as the computer reports it. Drives with equal values are one
    /// storage under two names: two paths to a disk, or a loop device and its file. `None`:
    /// unknown.
    pub fn storage(&self) -> Option<String> {
        let Hardware { wwn, partition, backing, .. } = &self.hardware;
        match self.kind {
            DriveKind::File => Some(self.identity.0.clone()),
            DriveKind::BlockDevice | DriveKind::Model => {
                let disk = backing.clone().or_else(|| Some(format!("wwn:{}", wwn.as_ref()?)))?;
                Some(match partition {
                    Some(partition) => format!("{disk} partition {}", partition.number),
                    None => disk,
                })
            }
            DriveKind::Memory | DriveKind::Null | DriveKind::Remote | DriveKind::Volume => None,
        }
    }

    /// Whether another drive is on the same disk or file system, and fails with it, as far as the
    /// computer reports that.
    pub fn is_on_same_disk(&self, other: &DriveInfo) -> bool {
        // `file:MAJOR:MINOR:INODE`
        let file_system = |info: &DriveInfo| match info.kind {
            DriveKind::File => info
                .identity
                .0
                .strip_prefix("file:")?
                .rsplit_once(':')
                .map(|(system, _)| system.to_owned()),
            _ => None,
        };
        let (own, its) = (&self.hardware, &other.hardware);
        let disk = |hardware: &Hardware| {
            hardware.partition.as_ref().map(|partition| partition.disk.clone())
        };
        let is_one_system =
            file_system(self).is_some_and(|system| file_system(other) == Some(system));
        let is_one_device =
            own.serial.is_some() && (&own.serial, &own.model) == (&its.serial, &its.model);
        let is_one_wwn = own.wwn.is_some() && own.wwn == its.wwn;
        is_one_system
            || is_one_device
            || is_one_wwn
            || disk(own).is_some_and(|own| disk(its) == Some(own))
    }

    /// Whether another drive is the same storage under another name, as far as the computer reports
    /// that.
    pub fn is_same_storage(&self, other: &DriveInfo) -> bool {
        self.identity == other.identity
            || self.storage().is_some_and(|own| other.storage() == Some(own))
    }
}

/// A drive, attached to one shard.
pub trait Drive {
    /// The drive's properties.
    fn info(&self) -> &DriveInfo;

    /// Starts a request, and reports its outcome through `completion`, at once or later.
    fn start(&self, request: IoRequest, completion: Completion);
}

/// An open drive. Each shard attaches it once; all attachments are the same drive. The lock against
/// other controllers is held as long as this lives.
pub trait DriveSource: Send + Sync {
    /// The drive's properties.
    fn info(&self) -> &DriveInfo;

    /// Bytes after the last whole sector, which the drive does not use. Zero for a file made as a
    /// drive.
    fn odd_bytes(&self) -> ByteCount {
        ByteCount::ZERO
    }

    /// Attaches the drive to this shard.
    ///
    /// # Errors
    /// When the shard's platform cannot attach another drive.
    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>>;

    /// Checks that the path still leads to the opened file or device, with its size unchanged.
    /// Always succeeds for a drive without a path on this computer.
    ///
    /// # Errors
    /// [`Changed`](crate::IoErrorKind::Changed) if not; any error that prevents the check.
    fn look<'a>(&'a self) -> LocalFuture<'a, std::result::Result<(), IoError>> {
        Box::pin(async { Ok(()) })
    }

    /// The counters of its operations, if they are counted.
    fn traffic(&self) -> Option<&Traffic> {
        None
    }
}

/// A drive whose operations are counted, on all shards.
pub struct MeteredSource {
    source: Arc<dyn DriveSource>,
    traffic: Traffic,
}

impl MeteredSource {
    /// Counts the operations of `source` in `traffic`.
    pub fn new(source: Arc<dyn DriveSource>, traffic: Traffic) -> MeteredSource {
        MeteredSource { source, traffic }
    }
}

impl DriveSource for MeteredSource {
    fn info(&self) -> &DriveInfo {
        self.source.info()
    }

    fn odd_bytes(&self) -> ByteCount {
        self.source.odd_bytes()
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        self.source.attach(env)
    }

    fn look<'a>(&'a self) -> LocalFuture<'a, std::result::Result<(), IoError>> {
        self.source.look()
    }

    fn traffic(&self) -> Option<&Traffic> {
        Some(&self.traffic)
    }
}
