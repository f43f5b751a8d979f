//! The one command-line binary and daemon.

mod array_target;
mod bench;
mod calibrate;
mod cli;
mod control;
mod explain;
mod failure;
mod hardware;
mod info;
mod machine;
mod node;
mod output;
mod parallel;
mod predict;
mod progress;
mod quickstart;
mod render;
mod reproduce;
mod rescue;
mod serve;
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
        Command::Predict(command) => predict::run(command),
        Command::Reproduce(command) => reproduce::run(command),
        Command::Calibrate(command) => calibrate::run(command),
        Command::Catalog(command) => hardware::run(command),
        Command::Rescue(rescue) => rescue::run(rescue),
        Command::Info(output) => info::run(&control, output.json),
    }
}
