//! The real world: io_uring, the monotonic clock, threads, sockets and files.
//!
//! A binary makes one [`Shard`] on its own thread and, if it wants more, others with [`spawn_shard`]; each
//! runs a future that sees the world through its [`platform::Env`]:
//!
//! ```
//! use platform_linux::{Settings, Shard};
//! let shard = Shard::new(&Settings::with_memory(units::ByteCount::MIB))?;
//! let env = shard.env().clone();
//! let answer = shard.run(async move {
//!     env.sleep(std::time::Duration::from_millis(1)).await;
//!     42
//! });
//! assert_eq!(answer, 42);
//! # Ok::<(), platform::Error>(())
//! ```
//!
//! | where to look | for |
//! | --- | --- |
//! | `shard` | the loop: run, submit, wait, reap, fire timers |
//! | `ring`, `op`, `wait` | the ring and what is in it |
//! | `open`, `file_drive`, `transfer` | drives: opened and locked, their requests, one request's way |
//! | `sysfs`, `behind`, `health` | the device behind a drive: what it is, its light, its health |
//! | `listener`, `inherited`, `connect`, `pair`, `stream`, `peer` | sockets, those that are handed over or made in pairs, and who is at their other end |
//! | `event` | events that another process shares with this one |
//! | `ublk` | block devices of the kernel that are served from here |
//! | `dying`, `ports` | waiting for what a killed process still holds |
//! | `state`, `state_folder` | the directory of durable state, and its files |
//! | `guarded` | folders and files that no other user of the machine can change |
//! | `kept` | memory that outlives the process |
//! | `other_kept` | such memory of other processes |
//! | `outlives` | whether a file system does |
//! | `parking`, `worker` | waking a shard; threads for what blocks |
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the world that everybody else reaches through env"
)]

mod behind;
mod connect;
mod dying;
mod errno;
mod event;
mod file_drive;
mod guarded;
mod health;
mod inherited;
mod kept;
mod listener;
mod op;
mod open;
mod other_kept;
mod outlives;
mod pair;
mod parking;
mod peer;
mod ports;
mod ring;
mod shard;
mod state;
mod state_folder;
mod stream;
mod sysfs;
mod transfer;
mod ublk;
mod wait;
mod worker;
mod world;

pub use event::event_stream;
pub use inherited::{InheritedSocket, inherited_sockets};
pub use kept::{is_in_memory, outlives_process, trouble_with_kept};
pub use listener::{SocketFile, SocketPermissions, UnixSocket, listen_unix};
pub use pair::{NearEnd, stream_pair};
pub use peer::of_unix as unix_peer;
pub use shard::{Settings, Shard, ShardHandle, spawn_shard};
pub use state::StateFolder;
pub use state_folder::make_state_folder;
pub use ublk::{NewUblk, UblkControl, UblkInfo, ublk_queues};
