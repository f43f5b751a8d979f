//! The command line of `softroc bench`.

use super::{Output, parse_duration};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use storagebench::{Area, Plot, Precondition};
use units::ByteCount;

/// See [`super::Command::Bench`].
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Bench {
    /// What to do; `run` may be left out.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,

    /// What to measure.
    #[command(flatten)]
    pub run: BenchRun,
}

/// The verbs of StorageBench. RUN is a number or a name of `softroc bench list`, `last`, or a results file (JSON).
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Measure.
    Run(Box<BenchRun>),
    /// List the load profiles, or show how those are defined that are named.
    Profiles(BenchProfiles),
    /// Turn an fio job file or an Iometer configuration into a file of load profiles.
    Import(BenchImport),
    /// List the measurements that are kept.
    List(Output),
    /// Show a measurement: its rows, notes and surroundings.
    Show {
        /// Its number or name, last, or a results file.
        run: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Compare measurements with the first one (or the targets of one): faster, slower or no difference, by profile.
    Compare(BenchCompare),
    /// Write a measurement to files: rows with histograms, tables, a report, a plot.
    Export {
        /// Its number or name, last, or a results file; several are written side by side.
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// Where to.
        #[command(flatten)]
        files: Files,
    },
    /// Join measurements that ran at the same time on several hosts: rates add up, histograms merge exactly.
    Merge(BenchMerge),
    /// Forget a measurement.
    Delete {
        /// Its number or name, or last.
        run: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// See [`BenchCommand::Profiles`].
#[derive(Args, Debug)]
pub struct BenchProfiles {
    /// Profiles to show: the answer is a file to copy and change.
    #[arg(value_name = "PROFILE")]
    pub names: Vec<String>,

    /// Also what is in this file or folder; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub workload_file: Vec<PathBuf>,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

/// See [`BenchCommand::Import`].
#[derive(Args, Debug)]
pub struct BenchImport {
    /// An fio job file (.fio, .job, .ini) or an Iometer configuration (.icf).
    pub file: PathBuf,

    /// Write the load profiles here instead of to standard output.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// See [`BenchCommand::Compare`].
#[derive(Args, Debug)]
pub struct BenchCompare {
    /// Numbers or names, last, or results files; the first is what the others are compared with.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,

    /// Write a report that shows them side by side.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

/// See [`BenchCommand::Merge`].
#[derive(Args, Debug)]
pub struct BenchMerge {
    /// Numbers or names, last, or results files of 'softroc bench export'.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,

    /// What the joined measurement shall be called.
    #[arg(long, default_value = "merged")]
    pub name: String,
}

/// Where results are written.
#[derive(Args, Debug, Default)]
pub struct Files {
    /// Write the result rows as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the result rows as CSV; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the result rows as CSV laid out like a results file of Iometer 1.1; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub iometer: Option<PathBuf>,

    /// Write the report, one HTML page with plots.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write one plot as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Write one plot as PNG.
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,

    /// Which plot: best-iops, best-throughput, or throughput, latency, distribution or time, of a profile as in
    /// latency:database.
    #[arg(long, value_name = "PLOT", default_value = "best-iops")]
    pub plot: Plot,
}

/// A measurement.
#[derive(Args, Debug)]
pub struct BenchRun {
    /// A file, a block device, nbd://HOST:PORT/EXPORT, nbd+unix:///EXPORT?socket=PATH, volume:NAME, or
    /// array:LEVEL,drives=8xmem:256M,strip=64K: an array made for this run inside this process.
    #[arg(required = true, value_name = "TARGET")]
    pub targets: Vec<String>,

    /// A load profile: a name, a family or a group ('softroc bench profiles' lists them), or inline such as
    /// random,67%read,8K; options may follow, such as database,hot=90%:4G,rate=5000/s. May be given several times
    /// [default: all of --workload-file, else the five standard profiles].
    #[arg(long, value_name = "PROFILE")]
    pub profile: Vec<String>,

    /// A file of load profiles, or a folder of such files; also an fio job file (.fio) or an Iometer configuration
    /// (.icf). May be given several times.
    #[arg(long, value_name = "FILE")]
    pub workload_file: Vec<PathBuf>,

    /// Outstanding I/Os: 1..512 is the powers of two, 1,3,8,16 a list [default: what a profile says of itself, else
    /// 1..512].
    #[arg(long, value_name = "LADDER")]
    pub outstanding: Option<String>,

    /// Which part of the targets: 0..10%, 10%..35%, 4G..8G; by-access: sequential profiles in the first 10 %, all
    /// others in the 25 % after it.
    #[arg(long, value_name = "AREA", default_value = "all")]
    pub area: Area,

    /// Make a test file of this size where a target does not exist, and write it full before measuring.
    #[arg(long, value_name = "SIZE")]
    pub create: Option<ByteCount>,

    /// Write blocks that say what they are, and check every block that is read.
    #[arg(long)]
    pub verify: bool,

    /// Measure all targets at the same time, each with as many outstanding I/Os.
    #[arg(long)]
    pub together: bool,

    /// The seed of all random numbers [default: another one each time].
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// How long to measure at each depth.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub runtime: std::time::Duration,

    /// How long to run before measuring; 0s: not at all.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_ramp)]
    pub ramp: std::time::Duration,

    /// Measure on until the 95 % intervals of the rate and the mean latency are this narrow, either way; none: never
    /// longer than --runtime.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = parse_confidence)]
    pub confidence: Confidence,

    /// How long to measure at each depth at most [default: four times --runtime].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub max_runtime: Option<std::time::Duration>,

    /// Measure in rounds of this length until five in a row are alike (they differ by at most 20 % and drift by at
    /// most 10 %), at most 25 rounds; the row is of those five.
    #[arg(long, value_name = "ROUND", num_args = 0..=1, default_missing_value = "60s", require_equals = true,
        value_parser = parse_duration, conflicts_with_all = ["runtime", "max_runtime"])]
    pub steady_state: Option<std::time::Duration>,

    /// Write this much before measuring, sequentially: a size, or snia: twice the measured area, and then each
    /// profile in rounds until it is steady.
    #[arg(long, value_name = "SIZE", default_value = "none")]
    pub precondition: Precondition,

    /// Workers: each has its own connection, and its own stream of a sequential load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: u32,

    /// What the measurement shall be called, for show, compare and export.
    #[arg(long, default_value = "")]
    pub name: String,

    /// Do not keep the measurement in the results database (STATE/results.db; without a state folder
    /// ~/.local/state/softroc/results.db).
    #[arg(long)]
    pub no_save: bool,

    /// Write to a target that holds data.
    #[arg(long)]
    pub destroy_data: bool,

    /// Where to write the results.
    #[command(flatten)]
    pub files: Files,
}

/// How narrow intervals are to be, in percent; `None`: as they come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Confidence(pub Option<f64>);

/// Reads a time, or none of it.
fn parse_ramp(text: &str) -> Result<std::time::Duration, String> {
    if matches!(text, "0" | "0s") { Ok(std::time::Duration::ZERO) } else { parse_duration(text) }
}

/// Reads `2%`, `0.5` or `none`.
fn parse_confidence(text: &str) -> Result<Confidence, String> {
    if text == "none" {
        return Ok(Confidence(None));
    }
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() => Ok(Confidence(Some(percent))),
        _ => Err(format!("'{text}' is no confidence; expected percent, such as 2%, or none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_percent_or_none() {
        assert_eq!(parse_confidence("2%"), Ok(Confidence(Some(2.0))));
        assert_eq!(parse_confidence("0.5"), Ok(Confidence(Some(0.5))));
        assert_eq!(parse_confidence("none"), Ok(Confidence(None)));
        for wrong in ["", "%", "two", "inf", "nan%"] {
            assert!(parse_confidence(wrong).is_err(), "{wrong}");
        }
    }
}
