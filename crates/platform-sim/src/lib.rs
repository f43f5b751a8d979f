//! The simulated world: virtual time, one seed, drives that fail on purpose.
//!
//! A [`Sim`] runs the code above the seam on one thread. Every task that can run runs, then time jumps to what
//! is next; everything random follows from one seed ([`Rng`]), so that a run is a function of its seed and
//! [`Sim::hash`] of two runs agrees. A simulation that cannot go on, or goes on without time passing, ends with
//! a [`Stall`] that names who waited.
//!
//! Drives ([`SimDrive`]) keep what is true apart from what they say: faults lie over the content. They lose
//! what real ones lose: unflushed sectors at a power cut, any part of what was in flight. A test steps to any
//! event ([`Sim::stop_at_event`]), kills the process or cuts the power there, starts anew over the same drives,
//! and compares.
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
    Costs, DriveFaults, DriveOptions, Latency, NetworkOptions, Order, SimOptions, Trimmed, Unwritten,
};
pub use rng::Rng;
pub use sim::{ProcessId, Sim, Step};
pub use stall::{Stall, StallKind};
pub use trace::{TraceEvent, TraceRecord};
