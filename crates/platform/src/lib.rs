//! The seam between the engine and the world it runs in.
//!
//! Everything above this crate (engine, controller, ports, StorageBench) is plain `async` code that sees
//! the world through an [`Env`]: time, random numbers, drives, byte streams, small durable state, buffers
//! and tasks. Two worlds stand below it: `platform-linux` (io_uring, the monotonic clock, threads) and
//! `platform-sim` (virtual time, one seed, drives that fail on purpose). The code above cannot tell which.
//!
//! # How an operation runs
//! Operations are *started*, then awaited: [`Member::read`] and its siblings hand the operation to the
//! drive at once and return an [`Io`], so that several are in flight before the first is awaited, and
//! awaiting them one after the other is a join. Buffers move into an operation and come back with it.
//! An [`Io`] that is dropped before it finished panics: an I/O in flight is never forgotten;
//! [`Io::abandon`] says that it is meant.
//!
//! # One thread, one executor
//! An [`Executor`] runs the tasks of one shard, single-threaded; nothing in here is shared between
//! threads but [`mailbox`] (bounded messages), [`Feed`] (numbered items that are followed),
//! [`Block`](buffers) reference counts, the counters of [`Hosts`],
//! what [`Tally`] and [`Traffic`] count, what a [`DriveSource`] shares between its attachments, and [`Words`]. State lives in cells; nothing is borrowed over an await.
//!
//! # What outlives a process
//! Drives, the state ([`StateStore`]), and, until the power goes, memory that it keeps ([`KeptMemory`]).
//!
//! Budget: starting, completing and awaiting an operation costs about 25 ns beyond what the drive does.

mod block_target;
pub mod buffers;
mod credits;
mod drive;
mod error;
mod executor;
mod feed;
mod health;
mod hosts;
mod kept;
mod kernel_queue;
pub mod locks;
pub mod mailbox;
mod member;
mod ops;
mod outcome;
mod oversight;
mod parts;
mod past_caches;
mod runners;
mod service;
mod state;
mod stream;
pub mod sync;
mod tally;
mod time;
mod time_limits;
mod traffic;
mod world;

pub use block_target::{BlockTarget, HostSectors, TargetGeometry, Targets, longest_payload};
pub use buffers::{Buf, BufferPool, Bufs, Slice, Slices};
pub use drive::{
    BlockStatus, Drive, DriveIdentity, DriveInfo, DriveKind, DriveSource, Durability, IoRequest,
    MeteredSource, StatusExtent,
};
pub use error::{Error, ErrorKind, IoError, IoErrorKind, Result};
pub use executor::{Executor, JoinHandle, RemoteWaker, Schedule, TaskId, Unpark};
pub use feed::{Feed, Gap, News, Publisher, Subscription};
pub use health::{DriveHealth, Hardware, HealthScript, HealthSource, Partition};
pub use hosts::{Connected, Connection, Host, HostWork, Hosts};
pub use kept::{KeptMemory, KeptSize, OtherMemory, Words};
pub use kernel_queue::{KernelQueue, KernelQueueSource, KernelRequest, KernelWork};
pub use member::{DEFAULT_TIME_LIMIT, Member, Zeroes};
pub use ops::{Completion, Io, OnReturn};
pub use outcome::IoOutcome;
pub use oversight::{Exceeded, Overseer};
pub use parts::Parts;
pub use past_caches::copy_past_caches;
pub use runners::Runners;
pub use service::{Served, Service};
pub use state::StateStore;
pub use stream::{Address, Listener, Peer, Process, Stream, StreamSource};
pub use tally::{Tally, TallyRow};
pub use time::Instant;
pub use time_limits::{DriveClass, LimitsByClass, TimeLimits};
pub use traffic::{BUCKET_BOUNDS_NS, Operation, Performed, Timed, Traffic, TrafficRow, counted_from};
pub use world::{Env, LocalFuture, Work, World};
