//! Deterministic torture test: the whole controller in virtual time, with faults and crashes at any
//! event, and an oracle that knows the allowed values of every sector.
//!
//! A run is a function of its seed. It draws an array ([`Setup`]), in some runs a second volume,
//! and several *lives* of the controller's process over the same drives. Each life starts from the
//! drives, sends concurrent requests of unusual sizes on every shard while drives fail, and is cut
//! off at some event by a kill or a power cut: during creation, recovery, resync, service or
//! shutdown. The last life has no faults, and everything must recover. Then the volumes are read
//! with drives removed.
//!
//! | files | content |
//! | --- | --- |
//! | `options.rs`, `setup.rs`, `script.rs` | options; what a seed draws; the script of a life |
//! | `run.rs` | the lives of the volumes, and their ends |
//! | `inquest.rs`, `removed.rs` | checks of drive copies after crashes; reads without drives |
//! | `life.rs`, `host.rs` | one life: start, checks, requests, shutdown; allowed reports |
//! | `beside.rs` | the neighbours' part in a life: requests, creation, deletion |
//! | `log_devices.rs`, `log_devices/` | log devices: known state, faults, waiting volumes |
//! | `operator.rs` | operator actions, also at random times |
//! | `migrations.rs`, `migrations/way.rs` | reshapes: the operator; allowed layouts and reports |
//! | `larger.rs` | drives that become larger in use, and volumes on them |
//! | `requests.rs`, `workload.rs` | the requests; their transmission and validation |
//! | `giving_up.rs` | at the end: deletion while drives hang, and a new volume on them |
//! | `faults.rs`, `silent.rs` | faults of drives; silent corruption |
//! | `oracle.rs` | the allowed values of every sector |
//! | `tolerance.rs` | fault tolerance, as reported and as counted |
//! | `state_files.rs` | faults of the state folder and the clock between lives |
//! | `stamp.rs` | the content of sectors, which identifies its write |
//! | `scene.rs`, `machine.rs` | known state of a volume; of the machine and of shared drives |
//! | `story.rs`, `tally.rs` | the log of a run; its totals |
//! | `campaign.rs`, `shrink.rs` | many seeds, each twice; the shortest history that fails |
//! | `watch.rs` | detection of endless loops |

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
    Larger, Lie, Log, Logged, Migrations, Neighbour, Options, Reads, RequestName, Without,
    parse_requests,
};
pub use run::{Report, run};
pub use scene::Scene;
pub use setup::Setup;
pub use shrink::{Shrunk, shrink};
pub use story::Story;
pub use tally::{Event, Tally};
