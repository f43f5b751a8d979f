//! The Linux platform: io_uring, the monotonic clock, threads, sockets and files.
//!
//! A binary creates one [`Shard`] on its own thread, and others with [`spawn_shard`]. Each runs a
//! future that uses the platform through its [`platform::Env`]:
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
//! | module | content |
//! | --- | --- |
//! | `shard` | the loop: run, submit, wait, reap, fire timers |
//! | `ring`, `op`, `wait` | the ring and its operations |
//! | `open`, `file_drive`, `transfer` | drives: opening and locking, requests, one transfer |
//! | `sysfs`, `behind`, `health` | the device behind a drive: properties, light, health |
//! | `listener`, `inherited`, `connect` | sockets: listening, passed on by the parent, connecting |
//! | `pair`, `stream`, `peer` | socket pairs, connected streams, the other end |
//! | `event` | events shared with another process |
//! | `ublk` | kernel block devices served by this process |
//! | `dying`, `ports` | waiting for resources of a killed process |
//! | `state`, `state_folder` | the directory of durable state, and its files |
//! | `guarded` | folders and files that no other user can change |
//! | `kept` | persistent memory |
//! | `other_kept` | persistent memory of other processes |
//! | `outlives` | whether a file system outlives the process |
//! | `parking`, `worker` | waking a shard; threads for blocking calls |
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the platform that other crates use through env"
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
pub use ublk::{NewUblk, UBLK_SINCE, UblkControl, UblkInfo, ublk_queues};
