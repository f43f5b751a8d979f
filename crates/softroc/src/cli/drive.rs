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
        /// What the exit code says.
        #[command(flatten)]
        checked: Checked,
    },
    /// Show what drives do: rates, latencies, queues, over one second; with --since what they did.
    Stats {
        /// The drives: paths, or VOLUME:SLOT [default: all].
        #[arg(value_name = "DRIVE")]
        drives: Vec<String>,
        /// Of what.
        #[command(flatten)]
        stats: StatsSpan,
    },
    /// Declare drives failed; spares take their slots.
    Fail {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Do not ask for confirmation, also where data is lost: see what the command answers without it.
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
        /// Do not ask for confirmation, also where data is lost: see what the command answers without it.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Suspend drives for a while: their volumes go on without them, and no spare takes their slots. They are used again with
    /// 'drive resume' alone, also after a restart, and do not fail for being suspended long. A drive that holds the last copy of anything
    /// is not suspended.
    Suspend {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Do not ask for confirmation where no redundancy is left.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Use suspended drives again, whether by 'drive suspend' or by a time limit, and give them what they missed.
    Resume {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Bring drives back online and resync what they missed.
    Online {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Look how large drives are now: what became larger is used altogether from now on, or from the next start on if it is in use.
    Rescan {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// How large they were, where this controller cannot know that.
        #[arg(long, value_name = "SIZE")]
        was: Option<ByteCount>,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Replace a drive: the new one is rebuilt if the old one is out, and copied to first if it still serves.
    Replace {
        /// The drive to replace: its path, or VOLUME:SLOT.
        drive: String,
        /// The new drive.
        #[arg(long, value_name = "DRIVE")]
        with: String,
        /// Overwrite what the new drive holds now: file systems, partitions, other arrays.
        #[arg(long)]
        destroy_data: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Trust a failed drive again, after its repair. Until then it is no spare, and no volume takes it.
    ClearFailed {
        /// The drive: its path.
        drive: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Switch on the lights that show where drives sit in their enclosures.
    Locate {
        /// The drives: paths, or VOLUME:SLOT.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Switch them off.
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
