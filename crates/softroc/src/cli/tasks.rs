//! `softroc task` and `softroc spare`.

use super::Output;
use clap::{Args, Subcommand, ValueEnum};
use units::ByteCount;

/// How fast a task may be.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Pace {
    /// The share of time that it may take while hosts have I/O under way, such as 30% [default: the array's].
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub rate: Option<u8>,

    /// The most it reads and writes per second, such as 200M; 0 is no limit.
    #[arg(long, value_name = "SIZE")]
    pub limit: Option<ByteCount>,
}

/// What is done with a task that was started.
#[derive(Args, Clone, Copy, Debug)]
pub struct Follow {
    /// Show its progress until it ends; Ctrl-C ends the showing, not the task.
    #[arg(long)]
    pub follow: bool,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

/// The verbs of `softroc task`.
#[derive(Subcommand, Debug)]
pub enum TaskCommand {
    /// List the tasks: what goes on, and what ended not long ago.
    List(Output),
    /// Show one task.
    Show {
        /// Its number.
        task: u64,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Show a task's progress until it ends; Ctrl-C ends the showing, not the task.
    Follow {
        /// Its number.
        task: u64,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Start a task; rebuilds, resyncs and copies start by themselves.
    #[command(subcommand)]
    Start(StartCommand),
    /// Let a task stand still.
    Pause {
        /// Its number.
        task: u64,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Go on with a task that was paused or stopped, or has failed.
    Resume {
        /// Its number.
        task: u64,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// End a task before it is done.
    Stop {
        /// Its number.
        task: u64,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Change how fast a task may be.
    Set {
        /// Its number.
        task: u64,
        /// How fast it may be.
        #[command(flatten)]
        pace: Pace,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Say what is done by itself every so often, or show it.
    #[command(subcommand)]
    Schedule(ScheduleCommand),
}

/// What can be started.
#[derive(Subcommand, Debug)]
pub enum StartCommand {
    /// Compare a volume's redundancy with its data.
    Check {
        /// The volume.
        volume: String,
        /// Make redundancy agree where it does not, instead of only saying so.
        #[arg(long)]
        repair: bool,
        /// How fast it may be.
        #[command(flatten)]
        pace: Pace,
        /// What is done with it then.
        #[command(flatten)]
        follow: Follow,
    },
    /// Read drives from end to end, and repair what cannot be read.
    Patrol {
        /// The drives [default: all, spares and unused ones too].
        drives: Vec<String>,
        /// How fast it may be.
        #[command(flatten)]
        pace: Pace,
        /// What is done with it then.
        #[command(flatten)]
        follow: Follow,
    },
    /// Zero a volume: all its data is lost.
    #[command(group = clap::ArgGroup::new("how").required(true))]
    Init {
        /// The volume.
        volume: String,
        /// Zero all of it.
        #[arg(long, group = "how")]
        full: bool,
        /// Zero its first and last MiB, so that nobody takes it for something.
        #[arg(long, group = "how")]
        fast: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// How fast it may be.
        #[command(flatten)]
        pace: Pace,
        /// What is done with it then.
        #[command(flatten)]
        follow: Follow,
    },
    /// Go on with a rebuild or a copy that was stopped or has failed.
    Rebuild {
        /// The drive that is made current: its path, or VOLUME:SLOT.
        drive: String,
        /// How fast it may be.
        #[command(flatten)]
        pace: Pace,
        /// What is done with it then.
        #[command(flatten)]
        follow: Follow,
    },
}

/// When something is done by itself.
#[derive(Args, Clone, Debug)]
pub struct When {
    /// Every so often: a number of days or weeks, such as 30d or 4w.
    #[arg(long, value_name = "TIME", value_parser = parse_days)]
    pub every: Option<u32>,

    /// At which time of the day, UTC, such as 02:00.
    #[arg(long, value_name = "HH:MM", value_parser = parse_time_of_day)]
    pub at: Option<u32>,

    /// Do it by itself.
    #[arg(long, conflicts_with = "off")]
    pub on: bool,

    /// Do not do it by itself.
    #[arg(long)]
    pub off: bool,
}

/// The verbs of `softroc task schedule`.
#[derive(Subcommand, Debug)]
pub enum ScheduleCommand {
    /// Show what is done by itself, and when next.
    List(Output),
    /// Check a volume every so often [default: off; every 4 weeks at 02:00 once it is on].
    Check {
        /// The volume.
        volume: String,
        /// When.
        #[command(flatten)]
        when: When,
        /// Make redundancy agree where it does not.
        #[arg(long, conflicts_with = "report_only")]
        repair: bool,
        /// Only say where redundancy does not agree.
        #[arg(long)]
        report_only: bool,
        /// How fast it may be.
        #[command(flatten)]
        pace: Pace,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Read all drives every so often [default: on, every week at 02:00].
    Patrol {
        /// When.
        #[command(flatten)]
        when: When,
        /// How fast it may be.
        #[command(flatten)]
        pace: Pace,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
}

/// The verbs of `softroc spare`.
#[derive(Subcommand, Debug)]
pub enum SpareCommand {
    /// Let drives stand by for one that fails.
    Add {
        /// The drives: paths, nbd:// addresses, mem:SIZE.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Only for the arrays of these volumes [default: for all arrays].
        #[arg(long = "for", value_name = "VOLUME", num_args = 1.., conflicts_with = "same_enclosure")]
        volumes: Vec<String>,
        /// Only for arrays with a drive in the same enclosure.
        #[arg(long)]
        same_enclosure: bool,
        /// Let it stay where it stood in, instead of giving the data back to the drive that replaces the failed one.
        #[arg(long)]
        permanent: bool,
        /// Overwrite what the drives hold now: file systems, partitions, other arrays.
        #[arg(long)]
        destroy_data: bool,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// List the spares, what they cover, and which volumes none covers and why.
    List(Output),
    /// Let a drive stand by no longer.
    Remove {
        /// Its path.
        drive: String,
        /// How to answer.
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
    /// The volume; what is set concerns all volumes of its array.
    pub name: String,

    /// The share of time that rebuilds, resyncs, checks and copies take while hosts have I/O under way, such as 30%.
    #[arg(long, group = "what", value_name = "PERCENT", value_parser = parse_percent, visible_alias = "rebuild-rate")]
    pub task_rate: Option<u8>,

    /// Take a drive out when so many unreadable places on it could not be repaired; 0: never.
    #[arg(long, group = "what", value_name = "N")]
    pub medium_error_limit: Option<u32>,

    /// Give what a spare took over to the blank drive that appears where the failed one sat.
    #[arg(long, group = "what", value_name = "SWITCH")]
    pub copyback: Option<Switch>,

    /// Take an unused drive that holds nothing where no spare fits.
    #[arg(long, group = "what", value_name = "SWITCH")]
    pub emergency_spare: Option<Switch>,

    /// Copy a drive that predicts its failure, or is worn out, to a spare before it fails.
    #[arg(long, group = "what", value_name = "SWITCH")]
    pub drive_guard: Option<Switch>,

    /// Let a rotating spare take the place of an SSD, and the other way round.
    #[arg(long, group = "what", value_name = "SWITCH")]
    pub mixed_kinds: Option<Switch>,

    /// How to answer.
    #[command(flatten)]
    pub output: Output,
}

/// Reads a share such as `30%` or `30`.
pub fn parse_percent(text: &str) -> Result<u8, String> {
    let wrong = || format!("'{text}' is not a share; expected 1% to 100%");
    let number: u8 = text.trim_end_matches('%').trim_end().parse().map_err(|_| wrong())?;
    if (1..=100).contains(&number) { Ok(number) } else { Err(wrong()) }
}

/// Reads a number of days or weeks such as `30d` or `4w`.
fn parse_days(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a number of days or weeks; expected such as 30d or 4w");
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
