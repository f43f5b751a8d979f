//! The engine: the life of I/Os on one shard.
//!
//! # The life of a request
//! A **read**: *admit → fast path*, or *admit → plan → execute*; where bytes have to be computed from others,
//! *admit → lock → plan → execute*, because a stripe that is being written does not add up.
//!
//! A **write** (write-through): *admit → lock → mark dirty → plan → execute (reads, compute, commit, writes) →
//! record what failed → acknowledge → release*.
//!
//! | step | where | what it guarantees |
//! | --- | --- | --- |
//! | admit | [`intake`](Volume::read) | inside the volume; cut into pieces of one stripe, dealt to the shards that own them; memory reserved whole or waited for |
//! | fast path | `fast_path` | a request that needs nothing but mapping takes nothing else |
//! | lock | `env::locks` | nobody else writes these columns of the stripe, or computes from them |
//! | mark dirty | `dirty` | a crash from here on is followed by a resync of this lane |
//! | plan | the crate `plan` | which drives are read and written, and what is computed: a value |
//! | execute | `execute` | reads, computes, the commit, writes; before the commit a fault means a new plan, after it the plan is finished |
//! | record | `health` | a drive that was skipped is durably known to have failed before the write is acknowledged |
//!
//! Long flows move a window over the volume: `window` (the resync after a crash).
//!
//! # Shards
//! A [`Shard`] is the sole owner of its lanes; all state of a stripe lives on its shard. Shards and the
//! controller exchange [`ShardMessage`]s and [`Report`]s, nothing else.

mod as_drive;
mod attachment;
mod attempt;
mod bad;
mod balance;
mod compute;
mod dirty;
mod execute;
mod fast_path;
mod faults;
mod flush;
mod health;
mod intake;
mod lanes;
mod members;
mod messages;
mod pieces;
mod reading;
mod repair;
mod shard;
mod task;
pub mod unkept;
mod volume;
mod window;

pub use as_drive::VolumeDrive;
pub use attachment::{Attachment, FaultPolicy, HealthView, MemberChange, Relocated};
pub use bad::BadBlocks;
pub use lanes::{LaneIndex, LaneSet, Lanes};
pub use messages::{
    Done, PIECES_AWAY, Piece, PieceKind, PieceOutcome, REPORTS_OPEN, Report, ReportKind, ShardIndex,
    ShardMessage, Ticket,
};
pub use shard::{Shard, ShardSeed};
pub use task::{TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace, TaskProgress};
pub use volume::{Counters, Volume, VolumeId, VolumeSpec};
