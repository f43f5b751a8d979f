//! Background tasks as messages name them: what is to be done, how fast, how far it is.
//!
//! Every shard does its own regions; the controller starts a task on all of them, adds up what they report, and
//! calls the task done when the last one is.

use crate::volume::VolumeId;
use platform::IoError;
use units::{ByteRange, DriveIndex};
use volume_state::RegionSet;

/// Names a task among those of a controller; never used again for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TaskId(pub u64);

/// What a task does to its volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskKind {
    /// Make the regions that are stale on a drive current.
    Rebuild {
        /// The drive.
        slot: DriveIndex,
    },
    /// Fill the drive that is to take another one's place with its content, while that one serves.
    Copy {
        /// The drive that serves.
        slot: DriveIndex,
    },
    /// Compare redundancy with data.
    Check {
        /// Whether to write the redundancy anew where they disagree.
        repair: bool,
    },
    /// Bring a new volume into a state in which redundancy agrees with data.
    Initialise {
        /// Whether everything is written; otherwise only what a host might take for something.
        full: bool,
    },
    /// Move what a failed drive held into the distributed spare (RAID 5EE).
    Relocate {
        /// The failed drive.
        slot: DriveIndex,
    },
    /// Move it back from the distributed spare to the drive that took its place.
    Restore {
        /// The drive.
        slot: DriveIndex,
    },
    /// Write what a drive cannot read anew, from redundancy.
    RepairRange {
        /// The drive.
        slot: DriveIndex,
        /// Which bytes of its part of the volume.
        range: ByteRange,
    },
}

/// How fast a task may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPace {
    /// While hosts have I/O under way, the task takes at most this share of the time, in percent.
    pub share_percent: u8,
    /// Whether it stands still.
    pub paused: bool,
    /// The most it reads and writes per second on one shard; `None` is no limit.
    pub max_bytes_per_s: Option<u64>,
}

/// A task for the shards: what to do, where, how fast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskOrder {
    /// Of which volume.
    pub volume: VolumeId,
    /// Its number.
    pub task: TaskId,
    /// What to do.
    pub kind: TaskKind,
    /// Only these regions: those that are left of a task that was interrupted. `None`: all it concerns.
    pub regions: Option<RegionSet>,
    /// How fast.
    pub pace: TaskPace,
}

/// How far a task is on one shard.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TaskProgress {
    /// Stripes dealt with.
    pub done_stripes: u64,
    /// Stripes that this shard has to deal with in all, as far as it knows.
    pub total_stripes: u64,
    /// Bytes read and written on drives.
    pub drive_bytes: u64,
    /// Stripes whose redundancy did not agree.
    pub mismatches: u64,
    /// Stripes that were written anew because of that, or because something could not be read.
    pub repaired: u64,
    /// Stripes that a check could not compare, or not as a whole: something of them cannot be read.
    pub uncompared: u64,
    /// Regions that were finished since the last report: what a checkpoint remembers.
    pub finished: RegionSet,
}

/// How a task ended on one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskOutcome {
    /// All this shard had to do is done.
    Done,
    /// It was stopped before, by order or because its volume is not served any more.
    Stopped,
    /// It cannot be done.
    Failed(IoError),
}
