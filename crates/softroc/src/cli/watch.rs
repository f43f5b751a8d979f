//! What is looked at now: `softroc top`, `volume stats`, `drive stats`; the alarm; what is written for whoever helps.

use super::{Output, parse_duration};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// How often rates are shown.
#[derive(Args, Clone, Debug)]
pub struct Sampling {
    /// The time over which rates are taken [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub interval: Option<Duration>,

    /// How many times they are shown [default: once; with --interval until Ctrl-C].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// The output format; shown more than once, JSON is one object a line.
    #[command(flatten)]
    pub output: Output,
}

/// What rates are of.
#[derive(Args, Clone, Debug)]
pub struct StatsSpan {
    /// Show the history of so long until now instead of what is done now: at most 30d. Of one NAME, in parts as well.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["interval", "count"])]
    pub since: Option<Duration>,

    /// How many parts a history has at most.
    #[arg(long, value_name = "N", requires = "since", value_parser = clap::value_parser!(u64).range(1..=1500))]
    pub points: Option<u64>,

    /// How often.
    #[command(flatten)]
    pub sampling: Sampling,
}

/// See [`Command::Top`](super::Command::Top).
#[derive(Args, Clone, Debug)]
pub struct Top {
    /// How often. On a terminal it goes on until 'q' is pressed.
    #[command(flatten)]
    pub sampling: Sampling,
}

/// See [`Command::Alarm`](super::Command::Alarm).
#[derive(Subcommand, Debug)]
pub enum AlarmCommand {
    /// Show whether the alarm is on, whether it sounds, and why.
    Show(Output),
    /// Switch it on: it sounds when a drive fails or data is in danger.
    On(Output),
    /// Switch it off: it is silent, whatever fails.
    Off(Output),
    /// Silence it until something else fails.
    Silence(Output),
}

/// See [`Command::Support`](super::Command::Support).
#[derive(Args, Debug)]
pub struct Support {
    /// The file, a tar archive that is compressed with gzip; '-' for standard output [default: softroc-support-HOST-DATE.tar.gz].
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The output format of what is said about it.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Command::Snmp`](super::Command::Snmp).
#[derive(Subcommand, Debug)]
pub enum SnmpCommand {
    /// Answer the questions of snmpd on standard input; in its settings: pass_persist .1.3.6.1.4.1.32473.1.3 /usr/bin/softroc snmp pass.
    Pass,
}
