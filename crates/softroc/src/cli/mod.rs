//! The command line: every command and flag, defined once. Help, and whatever else describes them, comes from here.

mod bench;
pub mod foreign;
mod predictions;
pub mod tasks;

pub use bench::{Bench, BenchCommand, BenchCompare, BenchImport, BenchMerge, BenchProfiles, BenchRun, Files};

pub use predictions::{Calibrate, CatalogCommand, MethodName, Predict, Reproduce, Switch};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use env::Address;
use layout::{Level, MirrorArrangement, ParityArrangement};
use std::path::PathBuf;
use units::{ByteCount, StripSize};

/// Where a controller keeps its state if nothing else is said.
pub const DEFAULT_STATE: &str = "./softroc-data";

/// SoftROC: the RAID-on-Chip controller in software.
#[derive(Parser, Debug)]
#[command(name = "softroc", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Start with 'softroc quickstart'. Sizes take binary suffixes: 64K = 65536 bytes.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// The control socket of the running controller [default: STATE/control.sock].
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// The folder where a controller keeps its sockets, its events, and the paths of its drives.
    #[arg(long, global = true, value_name = "DIR", default_value = DEFAULT_STATE)]
    pub state: PathBuf,
}

/// How a command answers.
#[derive(Args, Clone, Copy, Debug)]
pub struct Output {
    /// Answer in JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The nouns.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Take the tour: file drives, a RAID volume, NBD, StorageBench, a drive that is pulled, a report.
    Quickstart(Quickstart),
    /// Run the controller in the foreground.
    Serve(Serve),
    /// Drives: add, list, show, take out of use.
    #[command(subcommand)]
    Drive(DriveCommand),
    /// Volumes: create, list, show, delete.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Hot spares: add, list, remove.
    #[command(subcommand)]
    Spare(tasks::SpareCommand),
    /// Volumes of other systems, and drives that cannot be used: list, import, clear.
    #[command(subcommand)]
    Foreign(foreign::ForeignCommand),
    /// Background tasks: rebuilds, checks, patrols; their progress, pace and schedules.
    #[command(subcommand)]
    Task(tasks::TaskCommand),
    /// What happened: every change of state, with its cause and effect.
    Events(Events),
    /// Show what a request does: which drives are read and written, what is computed, and why.
    Explain(Explain),
    /// StorageBench: measure a disk subsystem with the standard load profiles.
    Bench(Box<Bench>),
    /// Predict what a server would do: the same engine on modelled drives and controllers, in virtual time.
    Predict(Box<Predict>),
    /// Published measurements beside predictions, with the error of each.
    Reproduce(Reproduce),
    /// Fit a drive's parameters to its published figures.
    Calibrate(Calibrate),
    /// The drives and controllers that predictions know: list, show.
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Read the arrays of other systems and of dead controllers: what is on these drives, and serve it read-only.
    Rescue(Rescue),
    /// Version, what this machine offers, what runs.
    Info(Output),
}

/// See [`Command::Quickstart`].
#[derive(Args, Debug)]
pub struct Quickstart {
    /// Where the drives and the report go.
    #[arg(long, value_name = "DIR", default_value = "./softroc-data")]
    pub dir: PathBuf,

    /// Keep the drive files afterwards; the report is kept in any case.
    #[arg(long)]
    pub keep: bool,

    /// How long to measure at each depth.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub runtime: std::time::Duration,
}

/// See [`Command::Serve`].
#[derive(Args, Debug)]
pub struct Serve {
    /// Where hosts reach the volumes by NBD: HOST:PORT or unix:PATH; may be given several times
    /// [default: unix:STATE/nbd.sock].
    #[arg(long, value_name = "ADDR")]
    pub nbd: Vec<Address>,

    /// Drives to look at besides those that were added before: their arrays are assembled.
    #[arg(long, value_name = "DRIVE", num_args = 1..)]
    pub drives: Vec<String>,

    /// Threads that serve I/O [default: half the cores, at least one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub shards: Option<u16>,

    /// Memory for data, all shards together.
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub memory: ByteCount,

    /// Allow NBD addresses that other machines can reach. There is no encryption: trust the network.
    #[arg(long)]
    pub allow_remote: bool,
}

/// See [`Command::Drive`].
#[derive(Subcommand, Debug)]
pub enum DriveCommand {
    /// Tell the controller of a drive: a block device, a file, mem:SIZE, or an nbd:// address.
    Add {
        /// The drives.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Make new file drives of this size, with their space reserved.
        #[arg(long, value_name = "SIZE")]
        create: Option<ByteCount>,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// List every drive the controller knows.
    List(Output),
    /// Show one drive.
    Show {
        /// Its path, or VOLUME:SLOT.
        drive: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Take a drive out of its volume, as if it had failed.
    Fail {
        /// Its path, or VOLUME:SLOT.
        drive: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Take a drive out of its volume for a while.
    Offline {
        /// Its path, or VOLUME:SLOT.
        drive: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Use a drive again that is out: what it missed is rebuilt.
    Online {
        /// Its path, or VOLUME:SLOT.
        drive: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Put another drive in a drive's place: rebuilt at once if that one is out, filled first if it serves.
    Replace {
        /// The drive that is replaced: VOLUME:SLOT, or its path.
        drive: String,
        /// The drive that takes its place.
        #[arg(long, value_name = "DRIVE")]
        with: String,
        /// Overwrite what that one holds now.
        #[arg(long)]
        destroy_data: bool,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Look at a drive no more that belongs to no volume; what is on it stays.
    Forget {
        /// Its path.
        drive: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
}

/// What a volume consists of.
#[derive(Args, Debug)]
pub struct VolumeCreate {
    /// Its name: letters, digits, '-', '_' and '.'.
    pub name: String,

    /// The RAID level.
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    pub level: Level,

    /// Its drives in order: paths, mem:SIZE, nbd:// addresses. All drives of an array: beside its other volumes.
    #[arg(long, required_unless_present = "array", num_args = 1.., value_name = "DRIVE")]
    pub drives: Vec<String>,

    /// Instead of drives: a volume beside which it is laid, in what is free on the same drives.
    #[arg(long, value_name = "VOLUME", conflicts_with = "drives")]
    pub array: Option<String>,

    /// Spans of raid00, raid10, raid50 and raid60 [default: pairs for raid10, as few as possible for others].
    #[arg(long, value_name = "N")]
    pub spans: Option<u16>,

    /// How often raid1e stores each strip [default: 2].
    #[arg(long, value_name = "N")]
    pub copies: Option<u16>,

    /// The strip: the run of blocks on one drive, 4K to 1M [default: 256K on rotating drives, 64K on others].
    #[arg(long, value_name = "SIZE", visible_alias = "stripe-size")]
    pub strip: Option<StripSize>,

    /// Where parity or copies are on the drives, such as left-symmetric or near [default: the level's usual one].
    #[arg(long, value_name = "ARRANGEMENT")]
    pub arrangement: Option<String>,

    /// Its capacity [default: all there is].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<ByteCount>,

    /// How a stripe is dealt with that a crash interrupts in the middle, on levels with parity: kept in a journal on the drives
    /// before it is written, or resynced afterwards, which is quicker to write and may need an operator where a drive is out
    /// as well [default: journal].
    #[arg(long, value_name = "HOW")]
    pub write_hole: Option<WriteHole>,

    /// Overwrite what the drives hold now: file systems, partitions, other arrays.
    #[arg(long)]
    pub destroy_data: bool,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

/// See [`VolumeCreate::write_hole`].
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum WriteHole {
    /// A journal.
    Journal,
    /// A resync.
    Resync,
}

impl From<WriteHole> for controller::WriteHole {
    fn from(how: WriteHole) -> controller::WriteHole {
        match how {
            WriteHole::Journal => controller::WriteHole::Journal,
            WriteHole::Resync => controller::WriteHole::Resync,
        }
    }
}

/// See [`Command::Volume`].
#[derive(Subcommand, Debug)]
pub enum VolumeCommand {
    /// Lay a volume over drives.
    Create(VolumeCreate),
    /// List every volume.
    List(Output),
    /// Show one volume: its state, its drives, and why they are as they are.
    Show {
        /// Its name.
        name: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Give a volume another name; hosts that use it under its old name are disconnected.
    Rename {
        /// Its name.
        name: String,
        /// Its new name.
        to: String,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Change what is wished for a volume's array: when drives go out, what spares and background tasks may do.
    Set(tasks::VolumeSet),
    /// Start a volume that is not started without asking, since drives are missing.
    Start {
        /// Its name.
        name: String,
        /// Say that blocks of the missing drive may read wrongly where a write was interrupted.
        #[arg(long)]
        accept_stale_parity: bool,
        /// Say that the drives that are missing were not used without those that are here.
        #[arg(long)]
        degraded: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Delete a volume: its data is lost.
    Delete {
        /// Its name.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
}

/// See [`Command::Events`].
#[derive(Args, Debug)]
pub struct Events {
    /// How many of the latest.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub last: usize,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Command::Rescue`].
#[derive(Args, Clone, Debug)]
pub struct Rescue {
    /// The drives, or images of them. Nothing is written to them.
    #[arg(required = true, value_name = "DRIVE")]
    pub drives: Vec<String>,

    /// Serve the volumes that can be read by NBD, read-only, until interrupted: HOST:PORT or unix:PATH; may be given
    /// several times.
    #[arg(long, value_name = "ADDR")]
    pub serve: Vec<Address>,

    /// The serial number of the drive that a file is an image of: Intel's metadata know drives by nothing else.
    #[arg(long, value_name = "DRIVE=NUMBER", value_parser = parse_serial)]
    pub serial: Vec<(String, String)>,

    /// The metadata are gone: guess order, level, layout, strip and start from what the drives hold, and show why.
    #[arg(long)]
    pub guess: bool,

    /// Which of the guesses to serve, as numbered in the table; the first unless another is as good.
    #[arg(long, value_name = "N", requires = "guess", requires = "serve")]
    pub candidate: Option<usize>,

    /// Memory for data while serving.
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub memory: ByteCount,

    /// Allow NBD addresses that other machines can reach. There is no encryption: trust the network.
    #[arg(long)]
    pub allow_remote: bool,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

fn parse_serial(text: &str) -> Result<(String, String), String> {
    let parts = text.rsplit_once('=').filter(|(drive, serial)| !drive.is_empty() && !serial.is_empty());
    let (drive, serial) =
        parts.ok_or_else(|| format!("'{text}' is not DRIVE=NUMBER, as in a.img=WD-WX12345"))?;
    Ok((drive.into(), serial.into()))
}

/// See [`Command::Explain`].
#[derive(Args, Debug)]
pub struct Explain {
    /// Of this volume of the running controller, as it is now.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["level", "drives", "spans", "strip", "layout", "copies", "mirrors"])]
    pub volume: Option<String>,

    /// The RAID level.
    #[arg(long, value_name = "LEVEL", value_parser = levels(), required_unless_present = "volume")]
    pub level: Option<Level>,

    /// How many drives.
    #[arg(long, value_name = "N", required_unless_present = "volume")]
    pub drives: Option<u16>,

    /// The strip.
    #[arg(long, value_name = "SIZE", default_value = "64K", visible_alias = "stripe-size")]
    pub strip: StripSize,

    /// In how many spans (RAID 00, 10, 50, 60) [default: pairs for RAID 10, otherwise as few as can be].
    #[arg(long, value_name = "N")]
    pub spans: Option<u16>,

    /// Where parity is (levels with parity), such as left-symmetric.
    #[arg(long, value_name = "ARRANGEMENT", visible_alias = "rotation")]
    pub layout: Option<ParityArrangement>,

    /// How often each strip is stored (RAID 1E) [default: 2].
    #[arg(long, value_name = "N")]
    pub copies: Option<u16>,

    /// Where copies are (RAID 1E): near, offset or far.
    #[arg(long, value_name = "ARRANGEMENT")]
    pub mirrors: Option<MirrorArrangement>,

    /// Drives that have failed, such as 2 or 2,5.
    #[arg(long, value_name = "SLOTS", value_delimiter = ',')]
    pub failed: Vec<u16>,

    /// What is done.
    pub operation: Operation,

    /// Where: SIZE@OFFSET, such as 8K@1M.
    #[arg(value_name = "SIZE@OFFSET")]
    pub range: String,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

/// What is asked of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write zeroes.
    WriteZeroes,
    /// Make redundancy agree with the data, in every stripe that is touched.
    Resync,
    /// Compare redundancy with the data, in every stripe that is touched.
    Verify,
}

/// Reads a level, and lists those there are.
fn levels() -> impl TypedValueParser<Value = Level> {
    let levels = Level::ALL.map(|level| PossibleValue::new(level.name()).help(level.row().summary));
    PossibleValuesParser::new(levels).try_map(|name| name.parse::<Level>())
}

/// Reads a time such as `30s`, `500ms` or `2m`.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("'{text}' is not a time; expected a number with ms, s, m or h, such as 30s");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "ms" => number / 1000.0,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    let time = std::time::Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if time.is_zero() { Err(format!("'{text}' is no time at all; give at least 1ms")) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(parse_duration("1.5s").unwrap().as_millis(), 1500);
        assert_eq!(parse_duration("500ms").unwrap().as_millis(), 500);
        assert_eq!(parse_duration("2m").unwrap().as_secs(), 120);
        for wrong in ["", "5", "s", "-1s", "0s", "1 year", "1e3s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bench_may_leave_out_run() {
        let with =
            Cli::try_parse_from(["softroc", "bench", "run", "/tmp/x", "--profile", "database"]).unwrap();
        let without = Cli::try_parse_from(["softroc", "bench", "/tmp/x", "--profile", "database"]).unwrap();
        assert!(matches!(with.command, Command::Bench(b) if matches!(b.command, Some(BenchCommand::Run(_)))));
        assert!(
            matches!(without.command, Command::Bench(b) if b.command.is_none() && b.run.targets == ["/tmp/x"])
        );
    }
}
