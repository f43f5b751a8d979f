//! The command line of predictions.

use super::bench::Files;
use super::{Output, levels, parse_duration};
use clap::{Args, Subcommand, ValueEnum};
use layout::Level;
use std::path::PathBuf;
use storagebench::Area;
use units::StripSize;

/// How a paper measured: the part of the drives, the alignment, the ladder, and what it takes links to carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MethodName {
    /// As 'softroc bench' does: all of the volume, blocks aligned to their size, 1..512.
    Bench,
    /// A file of 32, 64 or 128 GB (up to 8, 16, more drives), offsets in sectors, 1,3,8..512; links carry 85 %.
    Fujitsu2013,
    /// Sequential in the first 10 %, random in the next 25 %, offsets in 4 KiB, 1..512; links carry 90 %.
    Fujitsu2016,
    /// A file of 8 GB, offsets in sectors, 3 outstanding; links carry 85 %.
    Sx940,
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// See [`super::Command::Predict`].
#[derive(Args, Debug)]
pub struct Predict {
    /// The controller: an alias or a product name of 'softroc catalog list'; direct: a drive by itself.
    #[arg(long, value_name = "NAME")]
    pub controller: String,

    /// The drives: 8xSAS-6G-HDD, or several kinds joined by +.
    #[arg(long, value_name = "SPEC")]
    pub drives: String,

    /// The level [default: jbod for one drive].
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    pub level: Option<Level>,

    /// How many spans (levels 00, 10, 50, 60).
    #[arg(long, value_name = "N")]
    pub spans: Option<u16>,

    /// The strip [default: the controller's].
    #[arg(long, value_name = "SIZE")]
    pub strip: Option<StripSize>,

    /// A controller's preset: data-protection or performance (the drives' caches off or on), or fast-path.
    #[arg(long, value_name = "PRESET")]
    pub preset: Option<String>,

    /// The controller's write mode, where it has a cache.
    #[arg(long, value_name = "MODE")]
    pub write_mode: Option<String>,

    /// The controller's read mode, where it has one: read-ahead or no-read-ahead [default: read-ahead].
    #[arg(long, value_name = "MODE")]
    pub read_mode: Option<String>,

    /// The controller's cache mode, where it has a cache.
    #[arg(long, value_name = "MODE")]
    pub cache_mode: Option<String>,

    /// The drives' own write caches [default: as each drive is by itself].
    #[arg(long, value_name = "on|off")]
    pub drive_cache: Option<Switch>,

    /// A load profile, as for 'softroc bench'; may be given several times [default: the five standard profiles].
    #[arg(long, value_name = "PROFILE")]
    pub profile: Vec<String>,

    /// Outstanding I/Os: 1..512 is the powers of two, 1,3,8,16 a list [default: the method's].
    #[arg(long, value_name = "LADDER")]
    pub outstanding: Option<String>,

    /// Workers: each has its own stream of a sequential load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: u32,

    /// How the load is put on: as 'softroc bench' does, or as a paper did.
    #[arg(long, value_name = "METHOD", default_value = "bench")]
    pub method: MethodName,

    /// Which part of the volume, in place of the method's.
    #[arg(long, value_name = "AREA")]
    pub area: Option<Area>,

    /// How long to measure at each depth, in virtual time [default: 20s with a spindle, 500ms without].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub runtime: Option<std::time::Duration>,

    /// How long to run before measuring, in virtual time [default: a quarter of --runtime].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub ramp: Option<std::time::Duration>,

    /// The first seed of all random numbers: the same seeds give the same figures to the last digit.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// How many seeds: figures are their means, and the intervals come from the spread between them.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub seeds: u64,

    /// A file of your own with a drive or a controller; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,

    /// Where to write the results.
    #[command(flatten)]
    pub files: Files,
}

/// See [`super::Command::Reproduce`].
#[derive(Args, Debug)]
pub struct Reproduce {
    /// fujitsu2013, fujitsu2016, sx940, intel2014 or reviews [default: all].
    #[arg(value_name = "DOC")]
    pub doc: Option<String>,

    /// Only those whose number begins so, such as f16-21.
    #[arg(long, value_name = "ID")]
    pub only: Option<String>,

    /// Also list the figures that are not covered, by what is missing for them.
    #[arg(long)]
    pub missing: bool,

    /// A file of your own with a drive or a controller; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

/// See [`super::Command::Calibrate`].
#[derive(Args, Debug)]
pub struct Calibrate {
    /// The drive.
    #[arg(value_name = "DRIVE")]
    pub drive: String,

    /// Write the fitted values to this copy of the drive's file [default: only show them].
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,

    /// Also fit without each of the five profiles in turn, and show how far each is missed then.
    #[arg(long)]
    pub leave_one_out: bool,

    /// How many times all parameters are gone through at most.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rounds: u32,

    /// A file of your own with a drive; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,
}

/// See [`super::Command::Catalog`].
#[derive(Subcommand, Debug)]
pub enum CatalogCommand {
    /// List the drives and controllers.
    List(Output),
    /// Show one: every number with its source; the answer is in the file to copy and change.
    Show {
        /// An alias, a model or a product name.
        name: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
}
