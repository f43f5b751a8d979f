//! `softroc bench`: StorageBench on the command line.

mod block_device;
mod environment;
mod run;
mod surroundings;

pub use environment::describe as environment_of;
pub use run::{cancel_on_interrupt, measure_targets, report};

use crate::cli::{Bench, BenchCommand};
use crate::failure::Outcome;
use crate::output;
use storagebench::STANDARD_PROFILES;

/// Runs the command.
pub fn run(bench: &Bench, control: &crate::control::Control) -> Outcome {
    match &bench.command {
        Some(BenchCommand::Profiles(output)) => profiles(output.json),
        Some(BenchCommand::Run(run)) => run::measure(run, control),
        None => run::measure(&bench.run, control),
    }
}

fn profiles(json: bool) -> Outcome {
    let rows: Vec<Vec<String>> = STANDARD_PROFILES
        .iter()
        .map(|profile| vec![profile.name.into(), profile.profile().description(), profile.prose.into()])
        .collect();
    if json {
        let list: Vec<serde_json::Value> = rows
            .iter()
            .map(|row| serde_json::json!({"name": row[0], "load": row[1], "description": row[2]}))
            .collect();
        return output::json(&serde_json::json!({ "profiles": list }));
    }
    output::print(&output::table(&["profile", "load", "what it stands for"], &rows, &[]))
}
