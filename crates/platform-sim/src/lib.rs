//! The simulated platform: virtual time, one seed, injected faults.
//!
//! A [`Sim`] runs the code above the platform on one thread. It runs all ready tasks, then advances
//! time to the next action. One seed ([`Rng`]) determines all random numbers, so that runs with
//! equal seeds have equal hashes ([`Sim::hash`]). A simulation that is stuck, or runs without time
//! passing, ends with a [`Stall`] that names the waiting tasks.
//!
//! Drives ([`SimDrive`]) separate their true content from the data they return: faults are an
//! overlay. They lose what real drives lose: unflushed sectors at a power cut, any part of
//! operations in flight. A test stops at any event ([`Sim::stop_at_event`]), kills the process or
//! cuts the power, restarts with the same drives, and compares.
//!
//! ```
//! use units::ByteCount;
//! use platform_sim::{DriveOptions, Sim, SimOptions};
//! let mut sim = Sim::new(SimOptions::seeded(1));
//! sim.add_drive("a", DriveOptions::sized(ByteCount::MIB));
//! let env = sim.env();
//! let size = sim.run(async move {
//!     let source = env.world().open_drive("a").await?;
//!     let drive = platform::Member::new(&env, source.attach(&env)?);
//!     drive.flush().await.result.unwrap();
//!     platform::Result::Ok(drive.info().size)
//! });
//! assert_eq!(size.unwrap().unwrap(), ByteCount::MIB);
//! assert!(sim.now().ns >= 50_000, "a flush takes its time");
//! ```

mod agenda;
mod core;
mod drive;
mod kept;
mod network;
mod options;
mod rng;
mod sim;
mod stall;
mod state;
mod trace;
mod world;

pub use crate::core::{Actor, SimHandle, SimId};
pub use drive::{DriveImage, DriveStats, FaultKind, Paced, Pacer, SimDrive, StrayWrite};
pub use kept::KeptImage;
pub use options::{
    Costs, DriveFaults, DriveOptions, Latency, NetworkOptions, Order, SimOptions, Trimmed,
    Unwritten,
};
pub use rng::Rng;
pub use sim::{ProcessId, Sim, Step};
pub use stall::{Stall, StallKind};
pub use trace::{TraceEvent, TraceRecord};
