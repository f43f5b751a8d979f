//! Background tasks in messages: work, pace and progress.
//!
//! Every shard processes its own regions; the controller starts a task on all of them, adds up
//! their reports, and completes the task when the last shard has.

use crate::volume::VolumeId;
use platform::IoError;
use units::{ByteRange, DriveIndex};
use volume_state::RegionSet;

/// Identifies a task of a controller; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TaskId(pub u64);

/// The work of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskKind {
    /// Make stale regions of a drive current.
    Rebuild {
        /// The drive.
        slot: DriveIndex,
    },
    /// Copy the content of a drive to its replacement, while the drive stays in use.
    Copy {
        /// The drive in use.
        slot: DriveIndex,
    },
    /// Compare redundancy with data.
    Check {
        /// Whether to rewrite the redundancy of mismatches.
        repair: bool,
    },
    /// Make the redundancy of a new volume agree with its data.
    Initialise {
        /// Whether everything is written; otherwise only partition tables and file system headers.
        full: bool,
    },
    /// Move the content of a failed drive into the distributed spare (RAID 5EE).
    Relocate {
        /// The failed drive.
        slot: DriveIndex,
    },
    /// Move it back from the distributed spare to the replacement drive.
    Restore {
        /// The drive.
        slot: DriveIndex,
    },
    /// Rewrite unreadable blocks of a drive from redundancy.
    RepairRange {
        /// The drive.
        slot: DriveIndex,
        /// The bytes of its part of the volume.
        range: ByteRange,
    },
}

/// The speed of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPace {
    /// While hosts have I/O in progress, the task takes at most this share of the drives' time, in
    /// percent.
    pub share_percent: u8,
    /// Whether it is paused.
    pub paused: bool,
    /// The most it reads and writes per second on one shard; `None` is no limit.
    pub max_bytes_per_s: Option<u64>,
}

/// The order of a task to the shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskOrder {
    /// Its volume.
    pub volume: VolumeId,
    /// Its number.
    pub task: TaskId,
    /// Its work.
    pub kind: TaskKind,
    /// Only these regions: the rest of an interrupted task. `None`: all.
    pub regions: Option<RegionSet>,
    /// Its speed.
    pub pace: TaskPace,
}

/// The progress of a task on one shard.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TaskProgress {
    /// Processed stripes.
    pub done_stripes: u64,
    /// The total stripes for this shard, as far as known.
    pub total_stripes: u64,
    /// Bytes read and written on drives.
    pub drive_bytes: u64,
    /// Stripes with a mismatch.
    pub mismatches: u64,
    /// Stripes rewritten because of mismatches or unreadable blocks.
    pub repaired: u64,
    /// Stripes that a check could not compare completely: a part is unreadable.
    pub uncompared: u64,
    /// Regions finished since the last report, for the checkpoint.
    pub finished: RegionSet,
}

/// The outcome of a task on one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskOutcome {
    /// All work of this shard is complete.
    Done,
    /// It was stopped early, by an operator or because its volume is detached.
    Stopped,
    /// It failed.
    Failed(IoError),
}
