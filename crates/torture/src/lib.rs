//! Deterministic torture: the whole controller in virtual time, faults and crashes at any event, and an oracle
//! that knows what every sector may hold.
//!
//! A run is a function of its seed. It draws an array ([`Setup`]), then lets a controller's process live several
//! lives over the same drives: each starts from what is on them, sends concurrent requests of awkward sizes on
//! every shard while drives fail, and is cut off at some event by a kill or a power cut, be it while it creates
//! the volume, recovers from the crash before, resyncs, serves or shuts down. In the last life nothing goes
//! wrong any more, and everything must get well. Then the volume is read with drives removed.
//!
//! | where | what |
//! | --- | --- |
//! | `setup.rs` | what a seed draws |
//! | `run.rs` | the lives of a volume, how each ends, the reading without drives |
//! | `life.rs` | one life: start, operator, look, requests, shutdown; what the controller may say of itself |
//! | `workload.rs` | the requests |
//! | `faults.rs` | what happens to drives |
//! | `oracle.rs` | what every sector may hold, and why |
//! | `stamp.rs` | what a sector holds, so that it tells whose it is |
//! | `scene.rs` | what the harness knows, and its story |
//! | `campaign.rs` | many seeds, each twice |
//!
//! # What is excused
//! A request may fail only while more is lost than the level survives. Until parity agrees with the data again
//! after a crash (`write-hole: resync`), any fault of a drive is more than that on levels with parity. A volume with
//! parity that is degraded and was being written must be refused at its start; torture plays the operator who
//! accepts it, and from then on excuses sectors of the missing drive beside a write that was interrupted, and
//! no others: neither when a further drive dies, nor when the volume is read with as many drives removed as the level
//! survives. The missing drive is no excuse for requests to fail any more.

#![allow(clippy::disallowed_methods, reason = "seeds are run on threads of their own")]

mod campaign;
mod error;
mod faults;
mod life;
pub mod oracle;
mod run;
mod scene;
mod setup;
pub mod stamp;
mod workload;

pub use campaign::{Failed, Summary, run_all, run_twice};
pub use error::{Error, ErrorKind, Result};
pub use run::{Report, run};
pub use scene::{Scene, Tally};
pub use setup::{Lie, Options, Setup};
