//! The one command-line binary and daemon.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `cli` | every command and flag, defined once |
//! | `serve` | `softroc serve`: the controller and its ports in this process |
//! | `place` | where the state of a controller is |
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
mod place;
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
use failure::{Failure, Outcome};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error),
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(cli.json),
    }
}

/// Help and the version are printed as they are. A command line that cannot be understood is an error like others,
/// as JSON where the line asks for that anywhere.
fn not_understood(error: &clap::Error) -> ExitCode {
    let asks_for_json = std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if error.use_stderr() && asks_for_json {
        let text = error.render().to_string();
        return Failure::usage(text.trim_start_matches("error: ").trim_end()).report(true);
    }
    error.exit()
}

fn run(cli: &Cli) -> Outcome {
    let control = Control::of(cli);
    match &cli.command {
        Command::Quickstart(tour) => quickstart::run(tour),
        Command::Serve(serve) => serve::run(serve, &control),
        Command::Drive(command) => control.drive(command),
        Command::Volume(command) => control.volume(command),
        Command::Spare(command) => control.spare(command),
        Command::Foreign(command) => control.foreign(command),
        Command::Task(command) => control.task(command),
        Command::Events(events) => control.events(events),
        Command::Explain(explain) if explain.volume.is_some() => control.explain(explain),
        Command::Explain(explain) => explain::run(explain),
        Command::Bench(bench) => bench::run(bench, &control, &place::results(cli)),
        Command::Predict(command) => predictions::predict::run(command),
        Command::Reproduce(command) => predictions::reproduce::run(command),
        Command::Calibrate(command) => predictions::calibrate::run(command),
        Command::Catalog(command) => predictions::catalog::run(command),
        Command::Rescue(rescue) => rescue::run(rescue),
        Command::Info(output) => info::run(&control, output.json),
    }
}
