//! `softroc drive`.

use super::{Checked, Output, StatsSpan};
use clap::Subcommand;
use units::ByteCount;

/// See [`Command::Drive`](super::Command::Drive).
#[derive(Subcommand, Debug)]
pub enum DriveCommand {
    /// Register drives: block devices, files, mem:SIZE or nbd:// addresses.
    Add {
        /// The drives.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Create file drives of this size, with their space reserved.
        #[arg(long, value_name = "SIZE")]
        create: Option<ByteCount>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// List all registered drives.
    List(Checked),
    /// Show drives.
    Show {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The exit code.
        #[command(flatten)]
        checked: Checked,
    },
    /// Show rates, latencies and queues of drives over one second, or their history with --since.
    Stats {
        /// The drives: paths, or VOLUME:SLOT [default: all].
        #[arg(value_name = "DRIVE")]
        drives: Vec<String>,
        /// The period.
        #[command(flatten)]
        stats: StatsSpan,
    },
    /// Declare drives failed; spares take their slots.
    Fail {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Do not ask for confirmation, even if data is lost. Run the command without --yes first
        /// to see the consequence.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Take drives offline for a while; no spare takes their slots.
    Offline {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Do not ask for confirmation, even if data is lost. Run the command without --yes first
        /// to see the consequence.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Suspend drives for a while: their volumes stay online, and no spare takes their slots. Only
    /// 'drive resume' ends it, also after a restart; a long suspension does not fail the drive. A
    /// drive with the only copy of data is not suspended.
    Suspend {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Do not ask for confirmation if no redundancy is left.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Resume drives that 'drive suspend' or a time limit suspended, and resync missed writes.
    Resume {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Bring drives back online and resync missed writes.
    Online {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Detect new drive sizes. Additional capacity is used at once, or after the next start if the
    /// drive is in use.
    Rescan {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The previous size, if this controller does not know it.
        #[arg(long, value_name = "SIZE")]
        was: Option<ByteCount>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Replace a drive: rebuild the new one if the old one is offline or failed, otherwise copy the
    /// old one first.
    Replace {
        /// The drive to replace: its path, or VOLUME:SLOT.
        drive: String,
        /// The new drive.
        #[arg(long, value_name = "DRIVE")]
        with: String,
        /// Overwrite data on the new drive: file systems, partitions, other arrays.
        #[arg(long)]
        destroy_data: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Clear the failed state of a repaired drive. Until then, the drive is neither a spare nor a
    /// member of a new volume.
    ClearFailed {
        /// The drive: its path.
        drive: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Switch on the locate LEDs of drives in enclosures.
    Locate {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Switch the LEDs off.
        #[arg(long)]
        off: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Unregister unused drives. Their contents stay.
    #[command(visible_alias = "remove")]
    Forget {
        /// The drives: paths.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}
