//! The one command-line binary and daemon.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `cli` | every command and flag, defined once |
//! | `serve` | `softroc serve`: the controller and its ports in this process |
//! | `control` | the commands that a running controller carries out |
//! | `render` | the controller's answers as text |
//! | `bench` | `softroc bench`: StorageBench on the command line |
//! | `predictions` | `softroc predict`, `reproduce`, `calibrate`, `catalog`: the commands around the crate `predict` |
//! | `rescue` | `softroc rescue`: arrays of other systems, read-only |
//! | `explain` | `softroc explain` for arrays that need not exist |
//! | `quickstart` | `softroc quickstart`: the tour |
//! | `info` | `softroc info` |
//! | `shards` | the shards of this process, each on a thread |
//! | `signals` | what a signal asks |
//! | `machine` | what this machine is and has |
//! | `output`, `progress` | what goes to the terminal: tables, JSON, questions; bars and live views |
//! | `failure` | how a command fails: one sentence and an exit code |

mod bench;
mod cli;
mod control;
mod explain;
mod failure;
mod info;
mod machine;
mod output;
mod predictions;
mod progress;
mod quickstart;
mod render;
mod rescue;
mod serve;
mod shards;
mod signals;

use clap::Parser;
use cli::{Cli, Command};
use control::Control;
use failure::Outcome;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: &Cli) -> Outcome {
    let control = Control::of(cli);
    match &cli.command {
        Command::Quickstart(tour) => quickstart::run(tour),
        Command::Serve(serve) => serve::run(cli, serve, &control),
        Command::Drive(command) => control.drive(command),
        Command::Volume(command) => control.volume(command),
        Command::Spare(command) => control.spare(command),
        Command::Foreign(command) => control.foreign(command),
        Command::Task(command) => control.task(command),
        Command::Events(events) => control.events(events),
        Command::Explain(explain) if explain.volume.is_some() => control.explain(explain),
        Command::Explain(explain) => explain::run(explain),
        Command::Bench(bench) => bench::run(bench, &control, &cli.state),
        Command::Predict(command) => predictions::predict::run(command),
        Command::Reproduce(command) => predictions::reproduce::run(command),
        Command::Calibrate(command) => predictions::calibrate::run(command),
        Command::Catalog(command) => predictions::catalog::run(command),
        Command::Rescue(rescue) => rescue::run(rescue),
        Command::Info(output) => info::run(&control, output.json),
    }
}
