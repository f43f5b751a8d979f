//! The one command-line binary and daemon.
//!
//! | module | contents |
//! | --- | --- |
//! | `cli` | all commands and options, defined once |
//! | `serve` | `softroc serve`: the controller and its ports in this process |
//! | `place` | the location of a controller's state |
//! | `control` | commands sent to a running controller |
//! | `attach` | volumes as disks of this machine |
//! | `render` | responses of the controller as text |
//! | `bench` | `softroc bench`: StorageBench on the command line |
//! | `workbench` | measurements and predictions for the console, in `serve` |
//! | `predictions` | `softroc predict`, `reproduce`, `calibrate`, `catalog`: the crate `predict` |
//! | `rescue` | `softroc rescue`: arrays of other systems, read-only |
//! | `storcli` | `softroc storcli`: the crate `storcli` on this machine |
//! | `explain` | `softroc explain` for arbitrary layouts |
//! | `quickstart` | `softroc quickstart`: the tour |
//! | `info` | `softroc info` |
//! | `stats` | `volume stats`, `drive stats`, `top`: rates from the controller's counters |
//! | `support` | `softroc support`: the support bundle |
//! | `snmp` | `softroc snmp pass`: SNMP through snmpd of net-snmp |
//! | `service` | notifications to systemd |
//! | `ending` | the time limit of a stop |
//! | `topics` | `softroc help TOPIC`: long tables |
//! | `manual` | man pages and completions, for packages |
//! | `shards` | the shards of this process, each on a thread |
//! | `signals` | termination signals |
//! | `machine` | facts about this machine |
//! | `output`, `progress` | terminal output: tables, JSON, prompts; bars and live views |
//! | `failure` | the failure of a command: a message and an exit code |

mod attach;
mod bench;
mod cache;
mod cli;
mod control;
mod ending;
mod explain;
mod failure;
mod guests;
mod info;
mod machine;
mod manual;
mod nbd_security;
mod output;
mod place;
mod predictions;
mod progress;
mod quickstart;
mod render;
mod rescue;
mod serve;
mod service;
mod shards;
mod signals;
mod snmp;
mod stats;
mod storcli;
mod support;
mod topics;
mod workbench;

use cli::{Cli, Command, SnmpCommand};
use control::Control;
use failure::{Failure, Outcome};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().collect();
    let (arguments, json) = match storcli::as_command(arguments) {
        Ok(arguments) => (arguments, false),
        Err(arguments) => json_first(arguments),
    };
    if let Some(text) = topics::asked(&arguments) {
        return match output::print(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(false),
        };
    }
    let cli = match Cli::parsed(arguments) {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error, json),
    };
    // StorCLI has its own output format and exit codes, even for failures.
    if let Command::Storcli(words) = &cli.command {
        return match Control::of(&cli) {
            Ok(control) => storcli::run(&control, &words.words),
            Err(failure) => failure.report(false),
        };
    }
    // The exit code is the overall health.
    if let Command::Health(output) = &cli.command {
        let told = Control::of(&cli).and_then(|control| control.health(cli.json || output.json));
        return told.unwrap_or_else(|failure| {
            failure.report(cli.json);
            ExitCode::from(UNKNOWN)
        });
    }
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(cli.json),
    }
}

/// The exit code for unknown health, as in monitoring plugins.
const UNKNOWN: u8 = 3;

/// The command line with `--json` moved to the front, and whether it was present: clap accepts no
/// option between a command (`bench`) and its subcommand.
fn json_first(mut arguments: Vec<OsString>) -> (Vec<OsString>, bool) {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let verbatim = arguments.split_off(end);
    let all = arguments.len();
    arguments.retain(|argument| argument != "--json");
    let json = arguments.len() < all;
    if json {
        arguments.insert(1.min(arguments.len()), "--json".into());
    }
    arguments.extend(verbatim);
    (arguments, json)
}

/// Prints help and the version as they are. A wrong command line is an ordinary error, as JSON if
/// `--json` occurs anywhere.
fn not_understood(error: &clap::Error, json: bool) -> ExitCode {
    if error.use_stderr() && json {
        let text = error.render().to_string();
        return Failure::usage(text.trim_start_matches("error: ").trim_end()).report(true);
    }
    error.exit()
}

fn run(cli: &Cli) -> Outcome {
    let control = Control::of(cli)?;
    match &cli.command {
        Command::Quickstart(tour) => quickstart::run(tour),
        Command::Serve(serve) => serve::run(serve, &control),
        Command::Drive(command) => control.drive(command),
        Command::Volume(command) => control.volume(command),
        Command::Attach(attach) => control.attach(attach),
        Command::Detach(detach) => control.detach(detach),
        Command::Log(command) => control.log(command),
        Command::Cache(command) => control.cache(command),
        Command::Spare(command) => control.spare(command),
        Command::Foreign(command) => control.foreign(command),
        Command::Task(command) => control.task(command),
        Command::Account(command) => control.account(command),
        Command::Notify(command) => control.notify(command),
        Command::Config(command) => control.config(command),
        Command::Events(events) => control.events(events),
        Command::Audit(audit) => control.audit(audit),
        Command::Top(top) => stats::top(&control, top),
        Command::Alarm(command) => control.alarm(command),
        Command::Snmp(SnmpCommand::Pass) => snmp::pass(&control),
        Command::Support(command) => support::run(&control, command),
        Command::Explain(explain) if explain.volume.is_some() => control.explain(explain),
        Command::Explain(explain) => explain::run(explain),
        Command::Bench(bench) => bench::run(bench, &control, &place::results(cli)),
        Command::Predict(command) => predictions::predict::run(command),
        Command::Reproduce(command) => predictions::reproduce::run(command),
        Command::Calibrate(command) => predictions::calibrate::run(command),
        Command::Catalog(command) => predictions::catalog::run(command),
        Command::Rescue(rescue) => rescue::run(rescue),
        Command::Manual(command) => manual::run(command),
        Command::Info(output) => info::run(&control, output.json),
        words @ (Command::Storcli(_) | Command::Health(_)) => {
            Err(Failure::usage(format!("{words:?} is handled earlier")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_wherever_it_stands() {
        let first = |line: &str| {
            let (arguments, json) = json_first(line.split(' ').map(OsString::from).collect());
            let words: Vec<String> =
                arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            (words.join(" "), json)
        };
        for line in
            ["softroc --json bench list", "softroc bench --json list", "softroc bench list --json"]
        {
            assert_eq!(first(line), ("softroc --json bench list".to_owned(), true));
        }
        assert_eq!(first("softroc bench list"), ("softroc bench list".to_owned(), false));
        assert_eq!(
            first("softroc drive add -- --json"),
            ("softroc drive add -- --json".to_owned(), false)
        );
    }
}
