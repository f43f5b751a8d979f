//! The engine: the life of I/Os on one shard.
//!
//! # The life of a request
//! A **read**: *admit → fast path*, or *admit → look into the cache → plan → execute*; where bytes have to be computed from others,
//! *admit → lock → plan → execute*, because a stripe that is being written does not add up. What a drive could not
//! read is repaired afterwards, behind the host's back.
//!
//! A **write** (write-through): *admit → wait for what is being written in its columns → lock → mark dirty → plan, with what
//! waits there too → execute (reads, compute, commit, writes) → record what failed → acknowledge → release*. What cannot be
//! read and stands in its way is repaired first.
//!
//! A **write** (write-back): *admit → wait for room in the cache → copy to cells → acknowledge*; the rest of the way is that of its destage,
//! which nobody waits for but a flush.
//!
//! | step | where | what it guarantees |
//! | --- | --- | --- |
//! | admit | `host::volume`, `host::split` | inside the volume; cut into requests on one stripe, dealt to the shards that own them; memory reserved whole or waited for |
//! | fast path | `host::fast_path`, `members::balance` | a request that needs nothing but mapping takes nothing else; of several copies the least busy and nearest |
//! | runs | `host::runs` | the same over several strips: one operation for all of them that lie together on a drive |
//! | wait | `cache`, the crate `block-cache` | writes that wait for the same columns of a stripe are one plan; nobody waits for what may not come |
//! | cells | `shard::cells`, the crate `write-log` (`cells`) | what is acknowledged is in memory that outlives the process |
//! | destage | `cache::write_back` | what is dirty is destaged for a flush, for room, for its age, or while nothing else is to be done |
//! | lock | `platform::locks`, `cache::held` | nobody else writes these columns of the stripe, or computes from them |
//! | initialise | `stripe::initialise` | a stripe that no host has written reads as zeros; its first write writes all of it |
//! | mark dirty | `stripe::dirty`, `stripe::first_write` | every drive in use is current in the region; a crash from here on is followed by a resync of this region |
//! | plan | `stripe::attempt`, the crate `plan` | which drives are read and written, and what is computed: a value, made for the stripe's health of this moment |
//! | execute | `stripe::execute`, `stripe::compute`, `stripe::drive_ops` | reads, computes, the commit, writes; before the commit a fault or a change of state means a new plan, after it the plan is finished |
//! | together | `stripe::together` | whole stripes that follow one another, of a host's write or of a task: one operation for what lies together on a drive; anything out of the ordinary, and each goes by itself |
//! | divide | `recovery::reading` | where no plan serves all of a read, its parts are served one by one |
//! | recover | `recovery::ladder`: the table of who tries what how often | what stands in the way of a request is mended, and the request is attempted again |
//! | repair | `recovery::repair` | what a drive could not read is written anew; what is lost is listed before anything could pass for it |
//! | record | `members::faults`, `members::health` | a drive that was skipped is durably known to have failed before the write is acknowledged |
//!
//! # The rooms
//! Each room has a struct of its own over the one below, which it derefs to. A call upward does not compile.
//!
//! ```text
//! server        Shard: takes messages, owns volumes and tasks
//! background    Tasks: rebuild, copy, check, initialisation, resync, relocation; reshape
//! host          Volume: what hosts ask, of one layout or of two; Exchange: what is on its way to other shards
//! cache         Cache: writes that wait, and go to the drives together
//! recovery      Recovery: what to do when bytes cannot be had
//! stripe        Stripes: one request on one stripe; marks, flushes, the journal
//! members       Drives: slots, faults, balance; what is recorded, and what this shard alone knows
//! shard         Resources: world, locks, memory, the ways to the controller and to the peers
//! ```
//!
//! # What is known of a volume
//! One value of the crate [`volume_state`], which changes by a list of [`Change`]s: the controller records a change, and sends
//! the same change to every shard (`members::changes`). What this shard alone knows beside it:
//!
//! | what | where | it ends |
//! | --- | --- | --- |
//! | drives that fail here, and whose failure nobody has recorded | `members::health` | with the change that takes them out of service |
//! | stripes that are current already on a drive that is stale in their region | `members::slots` | with the region's [`Change::Current`] |
//! | stripes of forced regions whose redundancy agrees again | `members::settled` | with the region's [`Change::Synced`] |
//! | which regions are marked, and who writes there | `stripe::dirty` | when the region has been quiet |
//!
//! # Shards
//! A [`Shard`] is the sole owner of its regions; all state of a stripe lives on its shard. Shards and the
//! controller exchange [`ShardMessage`]s and [`Report`]s, nothing else.

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
pub use host::{VolumeDrive, VolumeService};
pub use memory::{Absorb, CacheCounters, CacheMemory, CacheTerms, CellShare, FoundCell, Marks};
pub use messages::{
    Done, REPORTS_OPEN, REQUESTS_AWAY, Report, ReportKind, Seat, ShardIndex, ShardMessage, StripeOutcome,
    StripeRequest, StripeWork, Ticket,
};
pub use server::{Shard, ShardSeed};
pub use shard::Resources;
pub use stripe::{JournalTerms, count_as_zeros, ring_len};
pub use task::{TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace, TaskProgress};
pub use volume::{ALIGNMENT, Counters, FaultPolicy, VolumeId, VolumeMeter, VolumeSpec, served};
pub use volume_state::{
    BlockList, Change, Moved, Mover, RegionIndex, RegionSet, Regions, Relocated, Reshape, Step, StripeSet,
    VolumeState,
};
pub use write_log::CELL;
