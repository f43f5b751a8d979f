//! The engine: the life of I/Os on one shard.
//!
//! # The life of a request
//! A **read**: *admit → fast path*, or *admit → plan → execute*; where bytes have to be computed from others,
//! *admit → lock → plan → execute*, because a stripe that is being written does not add up. What a drive could not
//! read is repaired afterwards, behind the host's back.
//!
//! A **write** (write-through): *admit → lock → mark dirty → plan → execute (reads, compute, commit, writes) →
//! record what failed → acknowledge → release*. What cannot be read and stands in its way is repaired first.
//!
//! | step | where | what it guarantees |
//! | --- | --- | --- |
//! | admit | [`intake`](Volume::read) | inside the volume; cut into pieces of one stripe, dealt to the shards that own them; memory reserved whole or waited for |
//! | fast path | `fast_path`, `balance` | a request that needs nothing but mapping takes nothing else; of several copies the least busy and nearest |
//! | lock | `env::locks` | nobody else writes these columns of the stripe, or computes from them |
//! | mark dirty | `dirty`, `first_write` | every drive in use is current in the region; a crash from here on is followed by a resync of this region |
//! | plan | `attempt`, the crate `plan` | which drives are read and written, and what is computed: a value, made for the stripe's health of this moment |
//! | execute | `execute`, `compute`, `payload` | reads, computes, the commit, writes; before the commit a fault means a new plan, after it the plan is finished |
//! | divide | `reading` | where no plan serves all of a read, its parts are served one by one |
//! | repair | `repair` | what a drive could not read is written anew; what is lost is listed before anything could pass for it |
//! | record | `faults`, `health` | a drive that was skipped is durably known to have failed before the write is acknowledged |
//!
//! # What is known of a volume
//! | what | where | who changes it |
//! | --- | --- | --- |
//! | which drives are used | `health` | the controller; this shard at once takes out what fails |
//! | the drives, and those that are being filled to take their places | `members` | the controller, while requests run |
//! | regions in which a drive is stale, and how far they are made current again | `members` | the region's owner, then the controller for all |
//! | blocks whose content is lost | `punctured`, `members` | the stripe's owner by way of the controller |
//! | regions that are unsynced, never written, dirty | `dirty` | the region's owner, then the controller for all |
//! | regions whose redundancy is forced as it is, and which of their stripes are settled | `forced` | the controller; the region's owner |
//!
//! Long flows move a window over the volume: `window` (resync, rebuild, copy, check, initialisation, relocation).
//!
//! # Shards
//! A [`Shard`] is the sole owner of its regions; all state of a stripe lives on its shard. Shards and the
//! controller exchange [`ShardMessage`]s and [`Report`]s, nothing else.

mod attachment;
mod background;
mod host;
mod members;
mod messages;
mod recovery;
mod server;
mod shard;
#[cfg(test)]
mod sizes;
mod stripe;
mod task;
pub mod unkept;
mod volume;

pub use attachment::{Attachment, JournalPlace, StreamSharing};
pub use host::Volume;
pub use host::{VolumeDrive, VolumeService};
pub use messages::{
    Done, PIECES_AWAY, Piece, PieceKind, PieceOutcome, REPORTS_OPEN, Report, ReportKind, Seat, ShardIndex,
    ShardMessage, Ticket,
};
pub use server::{Shard, ShardSeed};
pub use shard::Resources;
pub use state::{Change, PuncturedBlocks, RegionIndex, RegionSet, Regions, Relocated, VolumeState};
pub use stripe::ring_len;
pub use task::{TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace, TaskProgress};
pub use volume::{Counters, FaultPolicy, VolumeId, VolumeSpec, served};
