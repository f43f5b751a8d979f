//! The command line of predictions.

use super::bench::{Confidence, Files, parse_confidence};
use super::{Output, WriteHole, levels, parse_duration};
use clap::{Args, Subcommand, ValueEnum};
use layout::Level;
use std::path::PathBuf;
use storagebench::Area;
use units::{ByteCount, StripSize};

/// The measuring method of a publication: the part of the drives, the alignment, the outstanding
/// I/Os, and the usable share of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MethodName {
    /// As 'softroc bench' does: all of the volume, blocks aligned to their size, 1 to 512
    /// outstanding I/Os.
    Bench,
    /// A file of 32 GB (up to 8 drives), 64 GB (up to 16) or 128 GB, aligned to sectors, 1 to 512
    /// outstanding I/Os; links carry 85 % of their rate.
    Fujitsu2013,
    /// Sequential in the first 10 %, random in the next 25 %, aligned to 4 KiB, 1 to 512
    /// outstanding I/Os; links carry 90 % of their rate.
    Fujitsu2016,
    /// A file of 8 GB, aligned to sectors, 3 outstanding I/Os; links carry 85 % of their rate.
    Sx940,
    /// All of the volume, blocks aligned to their size, 1 to 256 outstanding I/Os; links carry 90 %
    /// of their rate.
    Intel2014,
    /// All of the volume, aligned to sectors, 1 to 256 outstanding I/Os; links carry 85 % of their
    /// rate.
    Reviews,
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
    /// The controller: an alias or a product name from 'softroc catalog list', or direct for a
    /// single drive.
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "compare",
        default_value = "",
        hide_default_value = true
    )]
    pub controller: String,

    /// Two controllers instead of --controller: compares the same drives and load on both.
    #[arg(long, value_names = ["NAME", "NAME"], num_args = 2, conflicts_with = "controller")]
    pub compare: Vec<String>,

    /// The number of controllers in one host, each with the drives of --drives and one volume. The
    /// host stripes over the volumes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub controllers: usize,

    /// The drives, such as 8xSAS-6G-HDD; several kinds are joined by +.
    #[arg(long, value_name = "SPEC")]
    pub drives: String,

    /// The RAID level [default: jbod for one drive].
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    pub level: Option<Level>,

    /// The number of spans (RAID 00, 10, 50, 60).
    #[arg(long, value_name = "N")]
    pub spans: Option<u16>,

    /// The strip size [default: that of the controller].
    #[arg(long, value_name = "SIZE")]
    pub strip: Option<StripSize>,

    /// The controller's preset: data-protection (drive caches off), performance (drive caches on)
    /// or fast-path (without the controller's cache, drive caches on) [default: performance, with
    /// each drive's own drive-cache setting].
    #[arg(long, value_name = "PRESET")]
    pub preset: Option<String>,

    /// The write mode of a controller with a cache: write-through, write-back (if its cache is
    /// protected against power cuts) or always-write-back [default: write-back].
    #[arg(long, value_name = "MODE")]
    pub write_mode: Option<String>,

    /// The read mode of a controller that has one: read-ahead or no-read-ahead [default:
    /// read-ahead].
    #[arg(long, value_name = "MODE")]
    pub read_mode: Option<String>,

    /// The cache mode of a controller with a cache: direct or cached (keeps data that hosts read)
    /// [default: direct].
    #[arg(long, value_name = "MODE")]
    pub cache_mode: Option<String>,

    /// Use a SoftROC write cache of this size, in memory that survives crashes and power cuts. It
    /// is full to its high-water mark before each measurement [default: writes are acknowledged by
    /// the drives].
    #[arg(long, value_name = "SIZE")]
    pub cache: Option<ByteCount>,

    /// How levels with parity close the write hole: journal (SoftROC writes to a journal on the
    /// drives first, or on the --log devices) or resync (no journal) [default: resync, as
    /// controllers without a cache do].
    #[arg(long, value_name = "journal|resync", hide_possible_values = true)]
    pub write_hole: Option<WriteHole>,

    /// The catalog drive of the journal, such as NVMe-SSD, instead of the drives of the array. Give
    /// it twice, or as 2xNVMe-SSD, for two mirrored log devices. The log device has its own link to
    /// the host. Needs --write-hole journal.
    #[arg(long, value_name = "DRIVE")]
    pub log: Vec<String>,

    /// The slots of failed drives, such as 2 or 2,5; they are not replaced. Reads recompute their
    /// data.
    #[arg(long, value_name = "SLOTS", value_delimiter = ',')]
    pub failed: Vec<u16>,

    /// The write caches of the drives [default: each drive's own setting].
    #[arg(long, value_name = "on|off")]
    pub drive_cache: Option<Switch>,

    /// A load profile, as for 'softroc bench'; may be given several times [default: the five
    /// standard profiles].
    #[arg(long, value_name = "PROFILE")]
    pub profile: Vec<String>,

    /// Outstanding I/Os: 1..512 for the powers of two, or a list such as 1,3,8,16 [default: those
    /// of the method].
    #[arg(long, value_name = "LADDER")]
    pub outstanding: Option<String>,

    /// The number of workers. Each has its own stream of a sequential load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: u32,

    /// The measuring method: that of 'softroc bench', or of a publication.
    #[arg(long, value_name = "METHOD", default_value = "bench")]
    pub method: MethodName,

    /// The part of the volume to measure [default: that of the method].
    #[arg(long, value_name = "AREA")]
    pub area: Option<Area>,

    /// The longest virtual measuring time of a point: of each number of outstanding I/Os [default:
    /// 20s with rotating drives, otherwise 500ms].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub runtime: Option<std::time::Duration>,

    /// End when the result is exact to this share: the 95 % confidence intervals of the rate and
    /// the mean latency are within plus or minus this share, after at least a quarter of --runtime;
    /// none: use all of --runtime.
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_confidence)]
    pub confidence: Confidence,

    /// The time to run before each measurement, in virtual time [default: a quarter of --runtime].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub ramp: Option<std::time::Duration>,

    /// The first seed of all random numbers. The same seeds give exactly the same figures.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// The number of seeds. Figures are means over the seeds, intervals come from their spread.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..=100),
    )]
    pub seeds: u64,

    /// A model file with your own drive or controller. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,

    /// Where to write the results.
    #[command(flatten)]
    pub files: Files,
}

/// See [`super::Command::Reproduce`].
#[derive(Args, Debug)]
pub struct Reproduce {
    /// The publication: fujitsu2013, fujitsu2016, sx940, intel2014 or reviews [default: all].
    #[arg(value_name = "DOC")]
    pub doc: Option<String>,

    /// Only the figures whose number starts with this prefix, such as f16-21.
    #[arg(long, value_name = "ID")]
    pub only: Option<String>,

    /// Also list the figures that are not covered, grouped by the missing feature.
    #[arg(long)]
    pub missing: bool,

    /// Write one HTML page with plots as in the publications, published next to predicted.
    #[arg(long, visible_alias = "report", value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the errors of all figures not used for fitting: the source of the expected error of
    /// predictions.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["doc", "only"])]
    pub errors: Option<PathBuf>,

    /// A model file with your own drive or controller. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,

    /// The output format.
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

    /// Also fit five times with one profile left out, and show the error of that profile.
    #[arg(long)]
    pub leave_one_out: bool,

    /// The largest number of passes over all parameters.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rounds: u32,

    /// A model file with a drive of your own. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`super::Command::Catalog`].
#[derive(Subcommand, Debug)]
pub enum CatalogCommand {
    /// List the drives and controllers.
    List(Output),
    /// Show one entry: every number with its source, in the format of --catalog.
    Show {
        /// An alias, a model or a product name.
        name: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}
