//! The one command-line binary and daemon.

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
