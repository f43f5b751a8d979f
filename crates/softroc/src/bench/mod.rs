//! `softroc bench`: StorageBench on the command line.

mod block_device;
mod environment;
mod files;
mod kept;
mod png;
mod run;
mod served;
mod surroundings;
mod workloads;

pub use environment::describe as environment_of;
pub use files::{report, text};
pub use run::{AtOnce, Finished, MakesObserver, Measurement, cancel_on_interrupt};
pub use served::{beside, check, served};

use crate::cli::{Bench, BenchCommand};
use crate::failure::Outcome;
use std::path::Path;

/// The given load profiles, or the standard ones.
pub fn profiles(names: &[String]) -> Outcome<Vec<storagebench::Profile>> {
    workloads::select(&workloads::catalog(&[])?, names)
}

/// Runs the command; `state` is the folder of the results.
pub fn run(bench: &Bench, control: &crate::control::Control, state: &Path) -> Outcome {
    match &bench.command {
        None => run::measure(&bench.run, control, state),
        Some(BenchCommand::Run(run)) => run::measure(run, control, state),
        Some(BenchCommand::Profiles(asked)) => workloads::profiles(asked),
        Some(BenchCommand::Import(import)) => workloads::import(import),
        Some(BenchCommand::List(output)) => kept::list(state, output.json),
        Some(BenchCommand::Show { run, output }) => kept::show(state, run, output.json),
        Some(BenchCommand::Compare(compare)) => kept::compare(state, compare),
        Some(BenchCommand::Export { runs, files }) => kept::export(state, runs, files),
        Some(BenchCommand::Merge(merge)) => kept::merge(state, merge),
        Some(BenchCommand::Delete { runs, yes, output }) => {
            kept::delete(state, runs, *yes, output.json)
        }
    }
}
