//! `softroc volume` and `softroc log`.

use super::create::VolumeCreate;
use super::{Checked, Output, StatsSpan, levels, tasks};
use clap::{Args, Subcommand};
use layout::Level;
use units::{ByteCount, StripSize};

/// See [`Command::Volume`](super::Command::Volume).
#[derive(Subcommand, Debug)]
pub enum VolumeCommand {
    /// Create a volume.
    Create(VolumeCreate),
    /// List all volumes.
    List(Checked),
    /// Show volumes: their state, their drives, the reasons, and the hosts that are connected.
    Show {
        /// The names of the volumes.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// What the exit code says.
        #[command(flatten)]
        checked: Checked,
    },
    /// Show what volumes do: rates, latencies, queues, the cache, over one second; with --since what they did.
    Stats {
        /// The names of the volumes [default: all].
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Of what.
        #[command(flatten)]
        stats: StatsSpan,
    },
    /// Rename a volume. Hosts that use it stay connected; who connects asks for the new name.
    Rename {
        /// The name of the volume.
        name: String,
        /// The new name.
        to: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Give a volume more room while hosts use it, and the same level: more drives, or all there is on larger ones. Its array's other volumes come to new drives after it.
    Expand(VolumeExpand),
    /// Move a volume to another level or strip size, or to fewer drives, while hosts use it. Its array's other volumes come to as many drives after it.
    Migrate(VolumeMigrate),
    /// Set when writes of a volume are answered, how it closes the write hole, whether it is attached, and the policies of its array: medium-error limit, spares, rate of tasks.
    Set(tasks::VolumeSet),
    /// Start volumes that need an operator's decision because drives are missing.
    Start {
        /// The names of the volumes.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Start despite stale parity; blocks of the missing drive may read wrongly where a write was interrupted.
        #[arg(long)]
        accept_stale_parity: bool,
        /// Start without the missing drives. Make sure that they were not used on their own since.
        #[arg(long)]
        degraded: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Write what the cache has of volumes to their drives.
    Flush {
        /// The names of the volumes.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Forget missing volumes: those of which no drive is there, nor will be. What their drives hold stays.
    Forget {
        /// The names of the volumes. All volumes of their arrays are forgotten.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Delete volumes. Their data is lost.
    Delete {
        /// The names of the volumes.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Delete them even while hosts are connected, and disconnect these.
        #[arg(long)]
        disconnect_hosts: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}

/// See [`VolumeCommand::Expand`].
#[derive(Args, Debug)]
pub struct VolumeExpand {
    /// The name of the volume.
    pub name: String,
    /// Drives that it is to use as well, behind those that it has [default: none, where the drives that it has have more room].
    #[arg(long, num_args = 1.., value_name = "DRIVE")]
    pub add: Vec<String>,
    /// How.
    #[command(flatten)]
    pub how: Reshaping,
}

/// See [`VolumeCommand::Migrate`].
#[derive(Args, Debug)]
pub struct VolumeMigrate {
    /// The name of the volume.
    pub name: String,
    /// The level that it is to have [default: the one that it has].
    #[arg(long, value_name = "LEVEL", value_parser = levels(), required_unless_present_any = ["strip", "remove"])]
    pub level: Option<Level>,
    /// Drives that it is to use as well, behind those that it has.
    #[arg(long, num_args = 1.., value_name = "DRIVE")]
    pub add: Vec<String>,
    /// Drives that it is to use no more: the last ones of those that it has. They are unused in the end.
    #[arg(long, num_args = 1.., value_name = "DRIVE", conflicts_with = "add")]
    pub remove: Vec<String>,
    /// The strip size that it is to have [default: the one that it has].
    #[arg(long, value_name = "SIZE", visible_alias = "stripe-size")]
    pub strip: Option<StripSize>,
    /// How.
    #[command(flatten)]
    pub how: Reshaping,
}

/// What both have.
#[derive(Args, Debug)]
pub struct Reshaping {
    /// The capacity in the end [default: all there is]. Less than now only with --destroy-data.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<ByteCount>,
    /// Overwrite what the new drives hold, and give up what the volume has behind a smaller --size.
    #[arg(long)]
    pub destroy_data: bool,
    /// Only say what would be: capacity, redundancy on the way, the time at the rate at which the drives can be read now.
    #[arg(long)]
    pub dry_run: bool,
    /// The output format.
    #[command(flatten)]
    pub output: Output,
}
