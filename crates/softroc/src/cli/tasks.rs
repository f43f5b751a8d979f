//! `softroc task` and `softroc spare`.

use super::create::setting;
use super::{AttachSwitch, Checked, Output, WriteHole};
use clap::{Args, Subcommand, ValueEnum};
use controller::{CacheMode, DriveCache, Preset, ReadMode, SectorFormat, WriteMode};
use units::ByteCount;

/// The rate of a task.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Pace {
    /// The most time that the task takes while hosts do I/O, such as 30% [default: that of the
    /// array].
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub rate: Option<u8>,

    /// The largest data rate of the task per second, such as 200M; 0 for no limit.
    #[arg(long, value_name = "SIZE")]
    pub limit: Option<ByteCount>,
}

/// Options for a started task.
#[derive(Args, Clone, Copy, Debug)]
pub struct Follow {
    /// Show the progress until the task ends. Exit code 1: the task failed, or found errors that it
    /// did not repair. Ctrl-C does not stop the task.
    #[arg(long)]
    pub follow: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// The subcommands of `softroc task`.
#[derive(Subcommand, Debug)]
pub enum TaskCommand {
    /// List running, waiting and recently ended tasks.
    List(Output),
    /// Show tasks.
    Show {
        /// The numbers of the tasks.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<u64>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Show the progress of tasks until they end, one after the other. Ctrl-C does not stop them.
    Follow {
        /// The numbers of the tasks.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<u64>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Start a task. Rebuilds, resyncs and copies start automatically.
    #[command(subcommand)]
    Start(StartCommand),
    /// Pause tasks.
    Pause {
        /// The numbers of the tasks.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<u64>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Resume paused, stopped or failed tasks.
    Resume {
        /// The numbers of the tasks.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<u64>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Stop tasks before they are complete.
    Stop {
        /// The numbers of the tasks.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<u64>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Set the rate of tasks.
    Set {
        /// The numbers of the tasks.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<u64>,
        /// The rate.
        #[command(flatten)]
        pace: Pace,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Show or set schedules.
    #[command(subcommand)]
    Schedule(ScheduleCommand),
}

/// The tasks that an operator can start.
#[derive(Subcommand, Debug)]
pub enum StartCommand {
    /// Check volumes (consistency check): compare their redundancy with their data.
    Check {
        /// The volumes.
        #[arg(required = true, value_name = "VOLUME")]
        volumes: Vec<String>,
        /// Repair redundancy that does not agree with the data, instead of only reporting it.
        #[arg(long)]
        repair: bool,
        /// The rate.
        #[command(flatten)]
        pace: Pace,
        /// Whether to wait for its end.
        #[command(flatten)]
        follow: Follow,
    },
    /// Start a patrol read: read drives completely, and repair unreadable sectors.
    Patrol {
        /// The drives [default: all registered drives, also spares and unused ones].
        drives: Vec<String>,
        /// The rate.
        #[command(flatten)]
        pace: Pace,
        /// Whether to wait for its end.
        #[command(flatten)]
        follow: Follow,
    },
    /// Initialise a volume with zeroes. All its data is lost.
    #[command(group = clap::ArgGroup::new("how").required(true))]
    Init {
        /// The volume.
        volume: String,
        /// Zero the whole volume.
        #[arg(long, group = "how")]
        full: bool,
        /// Zero only the first and the last MiB, so that no file system or partition table is
        /// detected.
        #[arg(long, group = "how")]
        fast: bool,
        /// Zero the volume even if hosts are connected, and disconnect them.
        #[arg(long)]
        disconnect_hosts: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The rate.
        #[command(flatten)]
        pace: Pace,
        /// Whether to wait for its end.
        #[command(flatten)]
        follow: Follow,
    },
    /// Resume stopped or failed rebuilds or copies.
    Rebuild {
        /// The drives to rebuild or to copy to: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The rate.
        #[command(flatten)]
        pace: Pace,
        /// Whether to wait for its end.
        #[command(flatten)]
        follow: Follow,
    },
}

/// When a scheduled task runs.
#[derive(Args, Clone, Debug)]
pub struct When {
    /// The period: a number of days or weeks, such as 30d or 4w.
    #[arg(long, value_name = "TIME", value_parser = parse_days)]
    pub every: Option<u32>,

    /// The time of day in UTC, such as 02:00.
    #[arg(long, value_name = "HH:MM", value_parser = parse_time_of_day)]
    pub at: Option<u32>,

    /// Switch the schedule on.
    #[arg(long, conflicts_with = "off")]
    pub on: bool,

    /// Switch the schedule off.
    #[arg(long)]
    pub off: bool,
}

/// The subcommands of `softroc task schedule`.
#[derive(Subcommand, Debug)]
pub enum ScheduleCommand {
    /// List schedules and their next times.
    List(Output),
    /// Schedule checks of a volume [default: off; every 4 weeks at 02:00 once switched on].
    Check {
        /// The volume.
        volume: String,
        /// The schedule.
        #[command(flatten)]
        when: When,
        /// Repair redundancy that does not agree with the data.
        #[arg(long, conflicts_with = "report_only")]
        repair: bool,
        /// Only report redundancy that does not agree with the data.
        #[arg(long)]
        report_only: bool,
        /// The rate.
        #[command(flatten)]
        pace: Pace,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Schedule patrol reads of all drives [default: on, every week at 02:00].
    Patrol {
        /// The schedule.
        #[command(flatten)]
        when: When,
        /// The rate.
        #[command(flatten)]
        pace: Pace,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}

/// The subcommands of `softroc spare`.
#[derive(Subcommand, Debug)]
pub enum SpareCommand {
    /// Make drives hot spares.
    Add {
        /// The drives: paths, nbd:// addresses, mem:SIZE.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Dedicate the spares to the arrays of these volumes [default: global, for all arrays].
        #[arg(
            long = "for",
            value_name = "VOLUME",
            num_args = 1..,
            conflicts_with = "same_enclosure"
        )]
        volumes: Vec<String>,
        /// Use each spare in its enclosure only: for arrays with a drive there.
        #[arg(long)]
        same_enclosure: bool,
        /// Keep a spare as a permanent member after a rebuild, instead of copying back to the new
        /// drive.
        #[arg(long)]
        permanent: bool,
        /// Overwrite data on the drives: file systems, partitions, other arrays.
        #[arg(long)]
        destroy_data: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// List spares and the arrays that they cover, and the arrays without a spare.
    List(Checked),
    /// Remove hot spares. The drives stay registered.
    Remove {
        /// The drives: paths.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// `softroc volume set`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct VolumeSet {
    /// The volume. The policies apply to all volumes of its array, except --write-mode,
    /// --read-mode, --cache-mode, --drive-cache, --preset, --write-hole, --sector and --attach.
    pub name: String,

    /// When writes of this volume are acknowledged: see 'softroc volume create --help'. Hosts stay
    /// connected.
    #[arg(
        long,
        group = "what",
        value_name = "MODE",
        value_parser = setting(WriteMode::ALL, WriteMode::name)
    )]
    pub write_mode: Option<WriteMode>,

    /// Whether the cache reads ahead, if reads are sequential. Hosts stay connected.
    #[arg(
        long,
        group = "what",
        value_name = "MODE",
        value_parser = setting(ReadMode::ALL, ReadMode::name)
    )]
    pub read_mode: Option<ReadMode>,

    /// Whether the cache keeps data that hosts read. Hosts stay connected.
    #[arg(
        long,
        group = "what",
        value_name = "MODE",
        value_parser = setting(CacheMode::ALL, CacheMode::name)
    )]
    pub cache_mode: Option<CacheMode>,

    /// The write caches of this volume's drives: see 'softroc volume create --help'. Hosts stay
    /// connected.
    #[arg(
        long,
        group = "what",
        value_name = "SWITCH",
        value_parser = setting(DriveCache::ALL, DriveCache::name)
    )]
    pub drive_cache: Option<DriveCache>,

    /// The preset of the four cache settings above, for this volume: see 'softroc volume create
    /// --help'.
    #[arg(
        long,
        group = "what",
        value_name = "PRESET",
        value_parser = setting(Preset::ALL, Preset::name)
    )]
    pub preset: Option<Preset>,

    /// How this volume closes the write hole: see 'softroc volume create --help'. Hosts stay
    /// connected.
    #[arg(long, group = "what", value_name = "HOW")]
    pub write_hole: Option<WriteHole>,

    /// The sector sizes reported to new connections: see 'softroc volume create --help'.
    #[arg(
        long = "sector",
        group = "what",
        value_name = "FORMAT",
        value_parser = setting(SectorFormat::ALL, SectorFormat::name)
    )]
    pub sector_format: Option<SectorFormat>,

    /// Attach this volume as a disk of this machine, now and whenever the controller serves it, as
    /// 'softroc attach' does.
    #[arg(long, group = "what", value_name = "SWITCH")]
    pub attach: Option<AttachSwitch>,

    /// The most time of tasks, while hosts do I/O, such as 30%: rebuilds, resyncs, checks
    /// and copies.
    #[arg(
        long,
        group = "what",
        value_name = "PERCENT",
        value_parser = parse_percent,
        visible_alias = "rebuild-rate"
    )]
    pub task_rate: Option<u8>,

    /// Fail a drive after N unrepaired medium errors; 0 for never.
    #[arg(long, group = "what", value_name = "N")]
    pub medium_error_limit: Option<u32>,

    /// Fail a drive that was suspended for this time.
    #[arg(long, group = "what", value_name = "TIME", value_parser = super::parse_seconds)]
    pub drive_suspend_limit: Option<u32>,

    /// Copy a spare to a new drive, in the bay of the failed one (copyback).
    #[arg(long, group = "what", value_name = "SWITCH")]
    pub copyback: Option<Switch>,

    /// Emergency spare: use an empty, unused drive if no hot spare fits.
    #[arg(long, group = "what", value_name = "SWITCH")]
    pub emergency_spare: Option<Switch>,

    /// Predictive-failure copy: copy a drive that predicts its failure or is worn out to a spare
    /// before it fails.
    #[arg(
        long = "predictive-failure-copy",
        group = "what",
        value_name = "SWITCH",
        visible_alias = "drive-guard"
    )]
    pub drive_guard: Option<Switch>,

    /// Allow a rotating spare to replace an SSD, and an SSD to replace a rotating drive.
    #[arg(long, group = "what", value_name = "SWITCH")]
    pub mixed_kinds: Option<Switch>,

    /// Start the array without missing drives: after a clean shutdown (auto), or never without
    /// asking (ask).
    #[arg(long, group = "what", value_name = "auto|ask", value_parser = parse_start_degraded)]
    pub start_degraded: Option<controller::StartDegraded>,

    /// Do not ask for confirmation. A question arises if a power cut may lose flushed data.
    #[arg(long)]
    pub yes: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// Reads a share such as `30%` or `30`.
pub fn parse_percent(text: &str) -> Result<u8, String> {
    let wrong = || format!("'{text}' is not a share; expected 1% to 100%");
    let number: u8 = text.trim_end_matches('%').trim_end().parse().map_err(|_| wrong())?;
    if (1..=100).contains(&number) { Ok(number) } else { Err(wrong()) }
}

/// Reads `auto` or `ask`.
fn parse_start_degraded(text: &str) -> Result<controller::StartDegraded, String> {
    match text {
        "auto" => Ok(controller::StartDegraded::Auto),
        "ask" => Ok(controller::StartDegraded::Ask),
        _ => Err("expected auto or ask".to_owned()),
    }
}

/// Reads a number of days or weeks such as `30d` or `4w`.
fn parse_days(text: &str) -> Result<u32, String> {
    let wrong = || {
        format!("'{text}' is not a number of days or weeks; expected a period such as 30d or 4w")
    };
    let (number, days) = match text.trim().split_at_checked(text.trim().len().saturating_sub(1)) {
        Some((number, "d")) => (number, 1),
        Some((number, "w")) => (number, 7),
        _ => return Err(wrong()),
    };
    let number: u32 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(days).filter(|days| *days > 0).ok_or_else(wrong)
}

/// Reads a time of the day such as `02:00`, `02:00 UTC` or `02:00Z`, as seconds.
fn parse_time_of_day(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a time of the day; expected 00:00 to 23:59, in UTC");
    let bare = text.trim().trim_end_matches('Z').trim_end_matches("UTC").trim_end();
    let (hours, minutes) = bare.split_once(':').ok_or_else(wrong)?;
    let hours: u32 = hours.parse().map_err(|_| wrong())?;
    let minutes: u32 = minutes.parse().map_err(|_| wrong())?;
    if hours < 24 && minutes < 60 { Ok(hours * 3600 + minutes * 60) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent() {
        assert_eq!(parse_percent("30%"), Ok(30));
        assert_eq!(parse_percent("100"), Ok(100));
        for wrong in ["", "%", "0%", "101%", "-1%", "30 apples", "3.5%", "300%"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn periods_are_whole_days() {
        assert_eq!(parse_days("30d"), Ok(30));
        assert_eq!(parse_days("4w"), Ok(28));
        for wrong in ["", "4", "w", "0d", "4h", "-1w", "1.5w", "9999999999w", "700000000w", "é"] {
            assert!(parse_days(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_of_day_are_utc() {
        assert_eq!(parse_time_of_day("02:00"), Ok(7200));
        assert_eq!(parse_time_of_day("02:00 UTC"), Ok(7200));
        assert_eq!(parse_time_of_day("23:59Z"), Ok(86_340));
        for wrong in ["", "2", "24:00", "02:60", "-1:00", "02:00 CET", "two"] {
            assert!(parse_time_of_day(wrong).is_err(), "{wrong}");
        }
    }
}
