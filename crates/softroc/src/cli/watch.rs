//! The command line of `softroc top`, `volume stats`, `drive stats`, `alarm`, `support` and `snmp`.

use super::{Output, parse_duration};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// The sampling of rates.
#[derive(Args, Clone, Debug)]
pub struct Sampling {
    /// The time over which rates are averaged [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub interval: Option<Duration>,

    /// How many samples to show [default: one; with --interval until Ctrl-C].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// The output format; with several samples, JSON has one object per line.
    #[command(flatten)]
    pub output: Output,
}

/// The period of rates.
#[derive(Args, Clone, Debug)]
pub struct StatsSpan {
    /// Show the history of this period, at most 30d, instead of current rates. With one NAME, the
    /// history is also shown in intervals.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        conflicts_with_all = ["interval", "count"]
    )]
    pub since: Option<Duration>,

    /// The largest number of intervals of a history.
    #[arg(
        long,
        value_name = "N",
        requires = "since",
        value_parser = clap::value_parser!(u64).range(1..=1500)
    )]
    pub points: Option<u64>,

    /// The sampling.
    #[command(flatten)]
    pub sampling: Sampling,
}

/// See [`Command::Top`](super::Command::Top).
#[derive(Args, Clone, Debug)]
pub struct Top {
    /// The sampling. On a terminal it runs until 'q' is pressed.
    #[command(flatten)]
    pub sampling: Sampling,
}

/// See [`Command::Alarm`](super::Command::Alarm).
#[derive(Subcommand, Debug)]
pub enum AlarmCommand {
    /// Show whether the alarm is on, whether it sounds, and why.
    Show(Output),
    /// Switch the alarm on: it sounds when a drive fails or data is at risk.
    On(Output),
    /// Switch the alarm off: it stays silent.
    Off(Output),
    /// Silence the alarm until the next failure.
    Silence(Output),
}

/// See [`Command::Support`](super::Command::Support).
#[derive(Args, Debug)]
pub struct Support {
    /// The file, a gzip-compressed tar archive; '-' for standard output [default:
    /// softroc-support-HOST-DATE.tar.gz].
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The output format of the result.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Command::Snmp`](super::Command::Snmp).
#[derive(Subcommand, Debug)]
pub enum SnmpCommand {
    /// Answer the requests of snmpd on standard input. Line for snmpd.conf: pass_persist
    /// .1.3.6.1.4.1.32473.1.3 /usr/bin/softroc snmp pass.
    Pass,
}
