//! The platform interface: everything that SoftROC needs from the system it runs on.
//!
//! The crates above this one (engine, controller, ports, StorageBench) are `async` code that
//! reaches the system only through an [`Env`]: time, random numbers, drives, streams, state,
//! buffers, tasks. There are two platforms: `platform-linux` (io_uring) and `platform-sim` (virtual
//! time, one seed, injected faults).
//!
//! [`Member::read`] and its siblings start an operation at once and return an [`Io`], so that
//! awaiting several in sequence is a join. Buffers move into an operation and return with its
//! result. An [`Io`] that is dropped before it finished panics; [`Io::abandon`] drops it
//! deliberately.
//!
//! An [`Executor`] runs the tasks of one shard, single-threaded; nothing is borrowed across an
//! await. Threads share only [`mailbox`], [`Feed`], [`Block`](buffers) counts, [`Hosts`],
//! [`Tally`], [`Traffic`], [`Words`] and a [`DriveSource`]. Budget: an operation costs about 25 ns
//! beyond the drive's time.

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
mod op_table;
mod ops;
mod outcome;
mod oversight;
mod parts;
mod past_caches;
mod request;
mod runners;
mod service;
mod split_mix;
mod state;
mod stream;
pub mod sync;
mod tally;
mod time;
mod time_limits;
mod traffic;
mod waiter;
mod world;

pub use block_target::{BlockTarget, HostSectors, TargetGeometry, Targets, longest_payload};
pub use buffers::{Buf, BufferPool, Bufs, Slice, Slices};
pub use drive::{Drive, DriveIdentity, DriveInfo, DriveKind, DriveSource, MeteredSource};
pub use error::{Error, ErrorKind, IoError, IoErrorKind, Result};
pub use executor::{Executor, JoinHandle, LocalFuture, RemoteWaker, Schedule, Unpark};
pub use feed::{Feed, Gap, News, Publisher, Subscription};
pub use health::{DriveHealth, Hardware, HealthScript, HealthSource, Partition};
pub use hosts::{Connected, Connection, Host, HostWork, Hosts};
pub use kept::{KeptMemory, KeptSize, KeptSpace, OtherMemory, Words};
pub use kernel_queue::{KernelQueue, KernelQueueSource, KernelRequest, KernelWork};
pub use member::{DEFAULT_TIME_LIMIT, Member, Zeroes};
pub use ops::{Completion, Io, Receiver};
pub use outcome::IoOutcome;
pub use oversight::{Exceeded, Overseer};
pub use parts::Parts;
pub use past_caches::copy_past_caches;
pub use request::{BlockStatus, Durability, IoRequest, StatusExtent};
pub use runners::Runners;
pub use service::{Served, Service};
pub use state::StateStore;
pub use stream::{Address, Peer, Process, Stream};
pub use tally::{Tally, TallyRow};
pub use time::Instant;
pub use time_limits::{DriveClass, LimitsByClass, TimeLimits};
pub use traffic::{
    BUCKET_BOUNDS_NS, Operation, Performed, Timed, Traffic, TrafficRow, counted_from,
};
pub use waiter::{OnReturn, TaskId};
pub use world::{Env, Listener, StreamSource, Work, World};
