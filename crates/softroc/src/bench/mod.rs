//! `softroc bench`: StorageBench on the command line.

mod block_device;
mod environment;
mod run;
mod surroundings;
mod workloads;

pub use environment::describe as environment_of;
pub use run::{AtOnce, cancel_on_interrupt, measure_targets, report};

use crate::cli::{Bench, BenchCommand};
use crate::failure::Outcome;

/// Runs the command.
pub fn run(bench: &Bench, control: &crate::control::Control) -> Outcome {
    match &bench.command {
        Some(BenchCommand::Profiles(asked)) => workloads::profiles(asked),
        Some(BenchCommand::Import(import)) => workloads::import(import),
        Some(BenchCommand::Run(run)) => run::measure(run, control),
        None => run::measure(&bench.run, control),
    }
}
