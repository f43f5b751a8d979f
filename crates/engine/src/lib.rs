//! The engine: the life of I/Os on one shard.
//!
//! # The life of a request
//! A **read**: *admit → direct*, or *admit → look into the cache → plan → execute*. A read whose
//! bytes must be computed takes *admit → lock → plan → execute*, because the redundancy of a stripe
//! does not agree while it is written. Blocks that a drive cannot read are repaired after the read
//! is acknowledged.
//!
//! A **write** (write-through): *admit → wait for writes in progress to the same columns → lock →
//! mark dirty → plan, together with queued writes → execute (reads, compute, commit, writes) →
//! record failed drives → acknowledge → release*. Unreadable blocks that the write needs are
//! repaired first.
//!
//! A **write** (write-back): *admit → wait for cache memory → copy to cache blocks → acknowledge*.
//! Its destage takes the remaining steps; only a flush waits for it.
//!
//! | step | where | what it guarantees |
//! | --- | --- | --- |
//! | admit | `host::volume`, `host::split` | the range is inside the volume; the request is cut into requests on one stripe, for the shards that own them; all memory is reserved at once |
//! | classify | `host::way` | one table decides how a request reaches the drives |
//! | direct | `host::direct`, `members::balance` | a request that needs only mapping has no other cost, and no task; one operation for contiguous strips of a drive; of several copies, the least busy and nearest is read |
//! | wait | `cache`, the crate `block-cache` | queued writes to the same columns of a stripe share one plan; a write waits only for requests that have arrived |
//! | cells | `shard::cells`, the crate `write-log` (`cells`) | acknowledged data is in memory that survives a restart |
//! | destage | `cache::write_back` | dirty data is destaged for a flush, for free memory, for its age, or when the shard is idle |
//! | lock | `platform::locks`, `cache::locked` | no other request writes these columns of the stripe, or computes from them |
//! | initialise | `stripe::initialise` | a stripe that no host has written reads as zeros; its first write writes all of it |
//! | mark dirty | `stripe::writing`, `stripe::first_write` | every drive in use is current in the region; a crash from here on is followed by a resync of this region |
//! | plan | `stripe::attempt`, the crate `plan` | which drives are read and written, and what is computed, for the stripe's current health |
//! | execute | `stripe::execute`, `stripe::compute`, `stripe::drive_ops` | reads, computes, the commit, writes; a fault or state change before the commit causes a new plan; after the commit the plan is finished |
//! | together | `stripe::together` | consecutive whole stripes of a host's write or of a task: one operation per contiguous range of a drive; after any fault, each stripe runs by itself |
//! | divide | `recovery::reading` | a read that no single plan serves is served in parts |
//! | recover | `recovery::ladder`: the retry policies | unreadable blocks that a request needs are repaired, and the request is attempted again |
//! | repair | `recovery::repair` | unreadable blocks are rewritten; lost blocks are listed before any other content replaces them |
//! | record | `members::faults`, `members::health` | the failure of a skipped drive is durable before the write is acknowledged |
//!
//! # Layers
//! Each layer has a struct that dereferences to the layer below. A call to a higher layer does not
//! compile.
//!
//! ```text
//! server        Shard: receives messages, owns volumes and tasks
//! background    Tasks: rebuild, copy, check, initialisation, resync, relocation; reshape
//! host          Volume: host requests, for one layout or two; Exchange: requests at other shards
//! cache         Cache: queued writes, and their destages
//! recovery      Recovery: retries, repairs and punctured blocks
//! stripe        Stripes: one request on one stripe; marks, flushes, the journal
//! members       Drives: slots, faults, balance; recorded state, and state of this shard alone
//! shard         Resources: environment, locks, memory, channels to the controller and the peers
//! ```
//!
//! # State of a volume
//! A value of the crate [`volume_state`], which changes by [`Change`]s: the controller records a
//! change, and sends it to every shard (`members::changes`). State that only this shard has:
//!
//! | state | where | until |
//! | --- | --- | --- |
//! | drives that failed here, and whose failure is not recorded yet | `members::health` | the change that takes them out of service |
//! | stripes that are current on a drive that is stale in their region | `members::slots` | the region's [`Change::Current`] |
//! | stripes of stale-parity regions whose redundancy agrees again | `members::settled` | the region's [`Change::Synced`] |
//! | which regions are marked, and which writes are in progress there | `stripe::dirty` | the region has been quiet |
//!
//! # Shards
//! A [`Shard`] is the sole owner of its regions; all state of a stripe is on its shard. Shards and
//! the controller exchange only [`ShardMessage`]s and [`Report`]s.

pub mod alone;
mod attachment;
mod background;
mod cache;
mod host;
mod members;
mod memory;
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

pub use attachment::{
    Attachment, CopyWay, DataLogPlace, DataLogTerms, JournalOn, JournalPlace, LogDevice, ReadTerms,
    ReshapeOrder, ReshapePlace, StreamSharing, ToldSectors,
};
pub use host::Volume;
pub use host::{Explained, VolumeDrive, VolumeService};
pub use memory::{
    Absorb, CacheCounters, CacheMemory, CacheTerms, CellShare, FoundCell, Marks, MoreCells,
    Unreserved,
};
pub use messages::{
    Done, REPORTS_OPEN, REQUESTS_AWAY, Report, ReportKind, Seat, ShardIndex, ShardMessage,
    StripeOutcome, StripeRequest, StripeWork, Ticket,
};
pub use server::{Shard, ShardSeed};
pub use shard::Resources;
pub use stripe::{JournalTerms, count_as_zeros, ring_len};
pub use task::{TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace, TaskProgress};
pub use volume::{ALIGNMENT, Counters, FaultPolicy, VolumeId, VolumeMeter, VolumeSpec, served};
pub use volume_state::{
    BlockList, Change, Moved, Mover, RegionIndex, RegionSet, Regions, Relocated, Reshape, Step,
    StripeSet, VolumeState,
};
pub use write_log::CELL;
