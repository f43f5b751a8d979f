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
    /// The subcommand; `run` may be left out.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,

    /// What to measure.
    #[command(flatten)]
    pub run: BenchRun,
}

/// The subcommands of StorageBench. RUN is a number or a name from `softroc bench list`, `last`, or
/// a results file (JSON).
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Run load profiles against targets and measure them.
    Run(Box<BenchRun>),
    /// List the load profiles, or show the definitions of the given ones.
    Profiles(BenchProfiles),
    /// Convert an fio job file or an Iometer configuration to load profiles.
    Import(BenchImport),
    /// List the stored measurements.
    List(Output),
    /// Show a measurement: rows, notes and environment.
    Show {
        /// The number or name of a measurement, last, or a results file.
        run: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Compare measurements with the first one, or the targets of one measurement, by profile.
    Compare(BenchCompare),
    /// Export measurements to files: JSON, CSV, a report, a plot.
    Export {
        /// Numbers or names of measurements, last, or results files; several are exported side by
        /// side.
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// The files to write.
        #[command(flatten)]
        files: Files,
    },
    /// Merge measurements that ran at the same time on several hosts: rates are added, histograms
    /// merged.
    Merge(BenchMerge),
    /// Delete stored measurements.
    Delete {
        /// The numbers or names of measurements, or last.
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}

/// See [`BenchCommand::Profiles`].
#[derive(Args, Debug)]
pub struct BenchProfiles {
    /// Profiles to show, in the format of --workload-file.
    #[arg(value_name = "PROFILE")]
    pub names: Vec<String>,

    /// Also list the profiles of this file or folder. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub workload_file: Vec<PathBuf>,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`BenchCommand::Import`].
#[derive(Args, Debug)]
pub struct BenchImport {
    /// An fio job file (.fio, .job, .ini) or an Iometer configuration (.icf). Files that a job file
    /// includes are read; environment variables in it are replaced.
    pub file: PathBuf,

    /// The output file [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`BenchCommand::Compare`].
#[derive(Args, Debug)]
pub struct BenchCompare {
    /// Numbers or names of measurements, last, or results files. The first one is the baseline.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,

    /// Write an HTML report that shows the measurements side by side.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`BenchCommand::Merge`].
#[derive(Args, Debug)]
pub struct BenchMerge {
    /// Numbers or names of measurements, last, or results files of 'softroc bench export'.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,

    /// The name of the merged measurement.
    #[arg(long, default_value = "merged")]
    pub name: String,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// Where results are written.
#[derive(Args, Clone, Debug, Default)]
pub struct Files {
    /// Print the result rows as JSON.
    #[arg(long)]
    pub json: bool,

    /// Write the result rows as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub json_file: Option<PathBuf>,

    /// Write the result rows as CSV; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the result rows as CSV of Iometer 1.1; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub iometer: Option<PathBuf>,

    /// Write a report with plots as one HTML page.
    #[arg(long, visible_alias = "report", value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write one plot as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Write one plot as PNG. Needs a program with the feature png, as in the packages.
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,

    /// The plot for --svg and --png: best-iops, best-throughput, or throughput, latency,
    /// distribution or time of a profile, such as latency:database.
    #[arg(long, value_name = "PLOT", default_value = "best-iops")]
    pub plot: Plot,
}

/// A measurement.
#[derive(Args, Debug)]
pub struct BenchRun {
    /// What to measure: a file, a block device, nbd://HOST:PORT/EXPORT,
    /// nbd+unix:///EXPORT?socket=PATH, volume:NAME, or array:LEVEL,drives=8xmem:256M,strip=64K (a
    /// temporary array inside this process).
    #[arg(required = true, value_name = "TARGET")]
    pub targets: Vec<String>,

    /// A load profile: a name, a family or a group from 'softroc bench profiles', or a definition
    /// such as random,67%read,8K. Options may follow, such as database,hot=90%:4G,rate=5000/s. May
    /// be given several times [default: all profiles of --workload-file, otherwise the five
    /// standard profiles].
    #[arg(long, value_name = "PROFILE")]
    pub profile: Vec<String>,

    /// A file of load profiles, a folder of such files, an fio job file (.fio) or an Iometer
    /// configuration (.icf). May be given several times.
    #[arg(long, value_name = "FILE")]
    pub workload_file: Vec<PathBuf>,

    /// Outstanding I/Os: 1..512 for the powers of two, or a list such as 1,3,8,16 [default: those
    /// of the profile, otherwise 1..512].
    #[arg(long, value_name = "LADDER")]
    pub outstanding: Option<String>,

    /// The part of the targets to measure: 0..10%, 10%..35% or 4G..8G. by-access measures
    /// sequential profiles in the first 10 % and all others in the next 25 %.
    #[arg(long, value_name = "AREA", default_value = "all")]
    pub area: Area,

    /// Create and fill a test file of this size, if a target does not exist.
    #[arg(long, value_name = "SIZE")]
    pub create: Option<ByteCount>,

    /// Write blocks that carry their address and version, and verify every block that is read.
    #[arg(long)]
    pub verify: bool,

    /// Measure all targets at the same time; the outstanding I/Os are per target.
    #[arg(long)]
    pub together: bool,

    /// The seed of all random numbers [default: a new one for each run].
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// The measuring time at each number of outstanding I/Os [default: that of the profile,
    /// otherwise 30s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub runtime: Option<std::time::Duration>,

    /// The time to run before each measurement; 0s for none [default: that of the profile,
    /// otherwise 5s].
    #[arg(long, value_name = "TIME", value_parser = parse_ramp)]
    pub ramp: Option<std::time::Duration>,

    /// Measure longer than --runtime, until the 95 % confidence intervals of the rate and the mean
    /// latency are within plus or minus this share; none: never measure longer [default: none for
    /// profiles with a run time of their own, otherwise 2%].
    #[arg(long, value_name = "PERCENT", value_parser = parse_confidence)]
    pub confidence: Option<Confidence>,

    /// The longest measuring time of a point: of each number of outstanding I/Os [default: four
    /// times the run time].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub max_runtime: Option<std::time::Duration>,

    /// Measure rounds of this length until the rate is steady: five consecutive rounds differ by at
    /// most 20 % and drift by at most 10 %. At most 25 rounds; the result is that of the five.
    #[arg(
        long,
        value_name = "ROUND",
        num_args = 0..=1,
        default_missing_value = "60s",
        require_equals = true,
        value_parser = parse_duration,
        conflicts_with_all = ["runtime", "max_runtime"]
    )]
    pub steady_state: Option<std::time::Duration>,

    /// Write sequentially before measuring: a size, or snia for twice the measured area and then
    /// each profile in rounds until it is steady.
    #[arg(long, value_name = "SIZE", default_value = "none")]
    pub precondition: Precondition,

    /// The number of workers. Each has its own connection, and its own stream of a sequential load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: u32,

    /// The name of the measurement, for show, compare and export.
    #[arg(long, default_value = "")]
    pub name: String,

    /// Do not store the measurement in the results database (STATE/results.db, or
    /// ~/.local/state/softroc/results.db without a state folder).
    #[arg(long)]
    pub no_save: bool,

    /// Write to a target even if it holds data. The data is lost.
    #[arg(long)]
    pub destroy_data: bool,

    /// Measure a volume while hosts are connected to it. The measurement and the hosts slow each
    /// other down.
    #[arg(long)]
    pub beside_hosts: bool,

    /// Where to write the results.
    #[command(flatten)]
    pub files: Files,
}

/// The confidence target in percent; `None`: no target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Confidence(pub Option<f64>);

/// Reads a time; zero is allowed.
fn parse_ramp(text: &str) -> Result<std::time::Duration, String> {
    if matches!(text, "0" | "0s") { Ok(std::time::Duration::ZERO) } else { parse_duration(text) }
}

/// Reads `2%`, `0.5` or `none`.
pub(super) fn parse_confidence(text: &str) -> Result<Confidence, String> {
    if text == "none" {
        return Ok(Confidence(None));
    }
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() => Ok(Confidence(Some(percent))),
        _ => Err(format!("'{text}' is not a confidence; expected percent, such as 2%, or none")),
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
