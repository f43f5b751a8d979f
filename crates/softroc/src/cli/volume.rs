//! `softroc volume`.

use super::{Checked, Output, levels, tasks};
use clap::{Args, Subcommand, ValueEnum};
use layout::Level;
use units::{ByteCount, StripSize};

/// See [`VolumeCommand::Create`].
#[derive(Args, Debug)]
pub struct VolumeCreate {
    /// The name of the volume: letters, digits, '-', '_' and '.'.
    pub name: String,

    /// The RAID level.
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    pub level: Level,

    /// The drives in slot order: paths, mem:SIZE, nbd:// addresses. If they are all drives of an array, the volume uses
    /// its free space.
    #[arg(long, required_unless_present = "array", num_args = 1.., value_name = "DRIVE")]
    pub drives: Vec<String>,

    /// Use the free space of this volume's array, instead of --drives.
    #[arg(long, value_name = "VOLUME", conflicts_with = "drives")]
    pub array: Option<String>,

    /// The number of spans of raid00, raid10, raid50 and raid60 [default: pairs for raid10, otherwise the fewest].
    #[arg(long, value_name = "N")]
    pub spans: Option<u16>,

    /// The number of copies of each strip on raid1e [default: 2].
    #[arg(long, value_name = "N")]
    pub copies: Option<u16>,

    /// The strip size, that is the part of a stripe on one drive: 4K to 1M [default: 256K on rotating drives, 64K on SSDs].
    #[arg(long, value_name = "SIZE", visible_alias = "stripe-size")]
    pub strip: Option<StripSize>,

    /// The layout of parity or copies on the drives, such as left-symmetric or near [default: that of the level].
    #[arg(long, value_name = "LAYOUT", visible_alias = "arrangement")]
    pub layout: Option<String>,

    /// The capacity [default: all free space].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<ByteCount>,

    /// How levels with parity close the write hole. journal: writes go to a journal on the drives first, and a crash is
    /// repaired from it. resync: writes are faster and stripes are resynced after a crash, but a volume that is also
    /// degraded then needs an operator [default: journal].
    #[arg(long, value_name = "HOW")]
    pub write_hole: Option<WriteHole>,

    /// Overwrite what the drives hold now: file systems, partitions, other arrays.
    #[arg(long)]
    pub destroy_data: bool,

    /// Do not ask for confirmation where drives of different sizes waste space.
    #[arg(long)]
    pub yes: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`VolumeCreate::write_hole`].
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum WriteHole {
    /// Write to a journal on the drives first.
    Journal,
    /// Resync after a crash.
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
    /// Set the policies of a volume's array: medium-error limit, spares, rate of background tasks.
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
