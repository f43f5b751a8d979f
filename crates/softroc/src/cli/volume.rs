//! `softroc volume`.

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
    /// Show volumes: their state with its reasons, drives and connected hosts.
    Show {
        /// The names of the volumes.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Show also policies, counters, numbers and identifiers.
        #[arg(long)]
        all: bool,
        /// What the exit code says.
        #[command(flatten)]
        checked: Checked,
    },
    /// Show rates, latencies, queues and cache use of volumes, over one second or as a history with
    /// --since.
    Stats {
        /// The names of the volumes [default: all].
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The period.
        #[command(flatten)]
        stats: StatsSpan,
    },
    /// Rename a volume. Connected hosts stay connected; new connections use the new name.
    Rename {
        /// The name of the volume.
        name: String,
        /// The new name.
        to: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Expand a volume while hosts use it, at the same level: add drives, or use all space of
    /// larger ones. The other volumes of its array move to the new drives afterwards.
    Expand(VolumeExpand),
    /// Change level or strip size, or remove drives, while hosts use the volume. The other volumes
    /// of its array move to the same number of drives afterwards.
    Migrate(VolumeMigrate),
    /// Set the write mode, write hole and attachment of a volume, and the policies of its array:
    /// medium-error limit, spares, rate of tasks.
    Set(tasks::VolumeSet),
    /// Start volumes that wait for a decision, because drives are missing.
    Start {
        /// The names of the volumes.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Start with stale parity accepted; blocks of the missing drive may be wrong where a write
        /// was interrupted.
        #[arg(long)]
        accept_stale_parity: bool,
        /// Start without the missing drives. If another system has written to them since the
        /// volume was last in use here, these writes are lost.
        #[arg(long)]
        degraded: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Destage the dirty data of volumes to their drives.
    Flush {
        /// The names of the volumes.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Remove missing volumes from the list, if all their drives are gone for good. Data on the
    /// drives stays.
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
        /// Delete volumes even if hosts are connected, and disconnect them.
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
    /// The drives to add, after the existing ones [default: none, if the existing drives have more
    /// space].
    #[arg(long, num_args = 1.., value_name = "DRIVE")]
    pub add: Vec<String>,
    /// Options of the reshape.
    #[command(flatten)]
    pub how: Reshaping,
}

/// See [`VolumeCommand::Migrate`].
#[derive(Args, Debug)]
pub struct VolumeMigrate {
    /// The name of the volume.
    pub name: String,
    /// The new level [default: unchanged].
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    pub level: Option<Level>,
    /// The drives to add, after the existing ones. At the same level and strip size, use 'softroc
    /// volume expand'.
    #[arg(long, num_args = 1.., value_name = "DRIVE")]
    pub add: Vec<String>,
    /// The drives to remove: the last ones of the volume. They are unused afterwards.
    #[arg(long, num_args = 1.., value_name = "DRIVE", conflicts_with = "add")]
    pub remove: Vec<String>,
    /// The new strip size [default: unchanged].
    #[arg(long, value_name = "SIZE", visible_alias = "stripe-size")]
    pub strip: Option<StripSize>,
    /// Options of the reshape.
    #[command(flatten)]
    pub how: Reshaping,
}

/// Options of both kinds of reshape.
#[derive(Args, Debug)]
pub struct Reshaping {
    /// The new capacity [default: all available]. A smaller one needs --destroy-data.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<ByteCount>,
    /// Overwrite data on the new drives, and discard data beyond a smaller --size.
    #[arg(long)]
    pub destroy_data: bool,
    /// Only print the plan: capacity, redundancy during the reshape, and time at the current read
    /// rate of the drives.
    #[arg(long)]
    pub dry_run: bool,
    /// The output format.
    #[command(flatten)]
    pub output: Output,
}
