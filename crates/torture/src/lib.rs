//! Deterministic torture: the whole controller in virtual time, faults and crashes at any event, and an oracle
//! that knows what every sector may hold.
//!
//! A run is a function of its seed. It draws an array ([`Setup`]), in some runs a second volume, then lets a controller's process live several
//! lives over the same drives: each starts from what is on them, sends concurrent requests of awkward sizes on
//! every shard while drives fail, and is cut off at some event by a kill or a power cut, be it while it creates
//! the volume, recovers from the crash before, resyncs, serves or shuts down. In the last life nothing goes
//! wrong any more, and everything must get well. Then the volumes are read with drives removed.
//!
//! | where | what |
//! | --- | --- |
//! | `options.rs`, `setup.rs`, `script.rs` | what may be asked for; what a seed draws; what a life is to be |
//! | `run.rs` | the lives of the volumes, and how each ends |
//! | `inquest.rs`, `removed.rs` | copies of the drives, looked at after every crash; the reading without drives, and which |
//! | `life.rs`, `host.rs` | one life: start, look, requests, shutdown; what the controller may say of itself |
//! | `beside.rs` | the neighbours' part in a life: requests, creation, deletion |
//! | `log_devices.rs`, `log_devices/` | what is known of log devices; what happens to them; volumes that wait for them |
//! | `operator.rs` | what an operator does, also at random times |
//! | `migrations.rs`, `migrations/way.rs` | volumes that go to another layout: who orders it; which layouts they may have, and what may be said of that |
//! | `larger.rs` | drives that become larger while they are used, and volumes on them |
//! | `requests.rs`, `workload.rs` | the requests; how they are sent and judged |
//! | `giving_up.rs` | in the end: the volume is deleted while drives hang, and another one made of them |
//! | `faults.rs`, `silent.rs` | what happens to drives; what they change without telling anybody |
//! | `oracle.rs` | what every sector may hold, and why |
//! | `tolerance.rs` | how many drives a volume may lose, as stated and as counted |
//! | `state_files.rs` | what happens to the state folder and the clock between lives |
//! | `stamp.rs` | what a sector holds, so that it tells whose it is |
//! | `scene.rs`, `machine.rs` | what the harness knows of a volume; of the machine and the drives that volumes share |
//! | `story.rs`, `tally.rs` | its story; its sum |
//! | `campaign.rs`, `shrink.rs` | many seeds, each twice; the shortest history that fails |
//! | `watch.rs` | a run that does not come back |
//!
//! # What is excused
//! A request may fail only while more is lost than the level survives. Until parity agrees with the data again
//! after a crash (`write-hole: resync`), any fault of a drive is more than that on levels with parity. A volume with
//! parity that is degraded and was being written must be refused at its start; torture plays the operator who
//! accepts it, and from then on excuses sectors of the missing drive beside a write that was interrupted, and
//! no others: neither when a further drive dies, nor when the volume is read with as many drives removed as the level
//! survives. The missing drive is no excuse for requests to fail any more. Nor is a drive that an operator takes out without accepting a loss.

#![allow(clippy::disallowed_methods, reason = "seeds are run on threads of their own")]

mod answering;
mod beside;
mod campaign;
mod error;
mod explained;
mod faults;
mod giving_up;
mod host;
mod inquest;
mod larger;
mod life;
mod log_devices;
mod machine;
mod migrations;
mod operator;
mod options;
pub mod oracle;
mod refusals;
mod removed;
mod requests;
mod run;
mod scene;
mod script;
mod setup;
mod shrink;
mod silent;
pub mod stamp;
mod state_files;
mod story;
mod tally;
mod tolerance;
mod watch;
mod workload;

pub use campaign::{Failed, Summary, Times, run_all, run_twice};
pub use controller::WriteHole;
pub use error::{Error, ErrorKind, Result};
pub use options::{
    Larger, Lie, Log, Logged, Migrations, Neighbour, Options, Reads, RequestName, Without, parse_requests,
};
pub use run::{Report, run};
pub use scene::Scene;
pub use setup::Setup;
pub use shrink::{Shrunk, shrink};
pub use story::Story;
pub use tally::{Deed, Tally};
