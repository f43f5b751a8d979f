//! What a drive is to the code above the seam.

use crate::Slice;
use crate::buffers::{Bufs, Slices};
use crate::error::{IoError, Result};
use crate::health::Hardware;
use crate::ops::Completion;
use crate::traffic::Traffic;
use crate::world::{Env, LocalFuture};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When the drive has it, possibly in a cache that a power cut empties: a later flush covers it.
    #[default]
    Cached,
    /// When a power cut can no longer take it back (force unit access).
    Durable,
}

/// One request to a drive. Addresses are bytes on the raw drive; ranges are whole sectors.
#[derive(Debug)]
pub enum IoRequest {
    /// Fill `buffers`, in order, from `offset` on.
    Read {
        /// Where the first byte lies.
        offset: ByteOffset,
        /// What to fill; they come back in the outcome.
        buffers: Bufs,
    },
    /// Write `slices`, in order, from `offset` on.
    Write {
        /// Where the first byte goes.
        offset: ByteOffset,
        /// What to write.
        slices: Slices,
        /// When it counts as done.
        durability: Durability,
    },
    /// Make a range read as zeroes.
    WriteZeroes {
        /// Which.
        range: ByteRange,
        /// Whether the drive may give the space back.
        may_unmap: bool,
        /// When it counts as done.
        durability: Durability,
    },
    /// The content of a range is of no more interest; it may read as anything afterwards.
    Trim {
        /// Which.
        range: ByteRange,
    },
    /// Make every write that was completed before this started safe from a power cut.
    Flush,
    /// Which parts of a range are allocated, as far as the drive knows.
    Status {
        /// Which.
        range: ByteRange,
    },
    /// What the drive tells of its own state: the outcome's [`health`](crate::IoOutcome::health). A drive that
    /// cannot tell succeeds with one that is unknown; an error says that the drive did not answer.
    Health,
    /// Switches the drive's own write cache on or off; `NotSupported` where there is none, or it cannot be switched. With it off a
    /// write is durable when it is done, whatever it asked for.
    WriteCache {
        /// On or off.
        on: bool,
    },
    /// Turns the light that shows where the drive sits on or off; `NotSupported` where there is none.
    Locate {
        /// On or off.
        on: bool,
    },
}

/// Whether blocks are allocated, and whether they read as zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockStatus {
    /// They hold data.
    Data,
    /// They take no space and read as zeroes.
    Hole,
    /// They take space and read as zeroes.
    Zero,
}

/// A run of blocks of one status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    /// How long it is.
    pub len: ByteCount,
    /// What it is.
    pub status: BlockStatus,
}

/// What kind of drive it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveKind {
    /// A block device of this machine.
    BlockDevice,
    /// A file.
    File,
    /// Memory of this process.
    Memory,
    /// Completes at once, reads zeroes, keeps nothing.
    Null,
    /// An NBD export somewhere else.
    Remote,
    /// A model in virtual time.
    Model,
    /// A volume of this controller, seen as a drive.
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

/// Tells one drive from another, whatever path led to it: a device and inode number, a serial number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DriveIdentity(pub String);

/// What a drive says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveInfo {
    /// How it was named: a path, `mem:1G`, an address.
    pub name: String,
    /// The same drive under another name has the same identity.
    pub identity: DriveIdentity,
    /// What kind.
    pub kind: DriveKind,
    /// Its capacity, whole sectors.
    pub size: ByteCount,
    /// The smallest unit it reads and writes.
    pub logical_sector: SectorSize,
    /// The unit it writes without reading first.
    pub physical_sector: SectorSize,
    /// Whether it has a spindle.
    pub rotational: bool,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether nobody else can have it open while we do. Not so for a remote export: NBD knows no locks.
    pub exclusive: bool,
    /// What the machine knows of the device, and where it sits.
    pub hardware: Hardware,
}

impl DriveInfo {
    /// What it is kept on, as far as the machine tells: two drives with the same are one storage under two names, such as two paths to a disk,
    /// or a loop device and its file. `None`: nobody tells.
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

    /// Whether another drive lies on the same disk or file system, as far as the machine tells, and is lost with it.
    pub fn is_on_same_disk(&self, other: &DriveInfo) -> bool {
        // `file:MAJOR:MINOR:INODE`
        let file_system = |info: &DriveInfo| match info.kind {
            DriveKind::File => {
                info.identity.0.strip_prefix("file:")?.rsplit_once(':').map(|(system, _)| system.to_owned())
            }
            _ => None,
        };
        let (own, its) = (&self.hardware, &other.hardware);
        let disk = |hardware: &Hardware| hardware.partition.as_ref().map(|partition| partition.disk.clone());
        let is_one_system = file_system(self).is_some_and(|system| file_system(other) == Some(system));
        let is_one_device = own.serial.is_some() && (&own.serial, &own.model) == (&its.serial, &its.model);
        let is_one_wwn = own.wwn.is_some() && own.wwn == its.wwn;
        is_one_system || is_one_device || is_one_wwn || disk(own).is_some_and(|own| disk(its) == Some(own))
    }

    /// Whether another drive is the same storage under another name, as far as the machine tells.
    pub fn is_same_storage(&self, other: &DriveInfo) -> bool {
        self.identity == other.identity || self.storage().is_some_and(|own| other.storage() == Some(own))
    }
}

/// A drive, attached to one shard.
pub trait Drive {
    /// What it says of itself.
    fn info(&self) -> &DriveInfo;

    /// Takes a request; returns it through `completion` when done, at once or later.
    fn start(&self, request: IoRequest, completion: Completion);
}

/// A drive that was opened, not yet attached to a shard. Every shard attaches it once; all
/// attachments are the same drive. The lock against a second controller is held as long as this lives.
pub trait DriveSource: Send + Sync {
    /// What the drive says of itself.
    fn info(&self) -> &DriveInfo;

    /// Bytes behind the last whole sector, which are no part of the drive: a file that was made for a drive has none.
    fn odd_bytes(&self) -> ByteCount {
        ByteCount::ZERO
    }

    /// This shard's way to the drive.
    ///
    /// # Errors
    /// When the shard's world cannot take one more drive.
    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>>;

    /// Looks whether what was opened still is what its name leads to, and as long. A drive that has no place in this machine always is.
    ///
    /// # Errors
    /// [`Changed`](crate::IoErrorKind::Changed) when it is not; whatever keeps one from looking.
    fn look<'a>(&'a self) -> LocalFuture<'a, std::result::Result<(), IoError>> {
        Box::pin(async { Ok(()) })
    }

    /// Where operations on it are counted, if anybody wants to know.
    fn traffic(&self) -> Option<&Traffic> {
        None
    }
}

/// A drive whose operations are counted, on whichever shard they are.
pub struct MeteredSource {
    source: Arc<dyn DriveSource>,
    traffic: Traffic,
}

impl MeteredSource {
    /// `source`, whose operations count as `traffic`.
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

impl IoRequest {
    /// A short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            IoRequest::Read { .. } => "read",
            IoRequest::Write { .. } => "write",
            IoRequest::WriteZeroes { .. } => "write-zeroes",
            IoRequest::Trim { .. } => "trim",
            IoRequest::Flush => "flush",
            IoRequest::Status { .. } => "status",
            IoRequest::Health => "health",
            IoRequest::Locate { .. } => "locate",
            IoRequest::WriteCache { .. } => "write-cache",
        }
    }

    /// Which bytes of the drive it concerns; nothing for a flush and for what
    /// concerns the drive as a whole.
    pub fn range(&self) -> ByteRange {
        match self {
            IoRequest::Read { offset, buffers } => {
                ByteRange::new(*offset, ByteCount(buffers.iter().map(|buf| buf.len().0).sum()))
            }
            IoRequest::Write { offset, slices, .. } => {
                ByteRange::new(*offset, ByteCount(slices.iter().map(|slice: &Slice| slice.len().0).sum()))
            }
            IoRequest::WriteZeroes { range, .. }
            | IoRequest::Trim { range }
            | IoRequest::Status { range } => *range,
            IoRequest::Flush
            | IoRequest::Health
            | IoRequest::Locate { .. }
            | IoRequest::WriteCache { .. } => ByteRange::default(),
        }
    }
}
