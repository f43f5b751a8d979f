//! `softroc log`.

use super::{Checked, Output};
use clap::Subcommand;

/// See [`Command::Log`](super::Command::Log).
#[derive(Subcommand, Debug)]
pub enum LogCommand {
    /// Put the journals of volumes on one drive, or on two that hold the same, instead of the members. Drives that are log
    /// devices already keep what is on them.
    Add {
        /// The drives: paths of files, partitions or NVMe drives, nbd:// addresses, mem:SIZE.
        #[arg(required = true, num_args = 1..=2, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Overwrite what the drives hold now: file systems, partitions, arrays, journals.
        #[arg(long)]
        destroy_data: bool,
        /// Take both drives even if they lie on one disk, which is lost with both.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// List logs: their drives, and which journals lie there.
    List(Checked),
    /// Remove the log: journals go back to the members. Its drives stay registered, and hold nothing.
    Remove {
        /// One of its drives: a path.
        #[arg(value_name = "DRIVE")]
        drive: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Give up what the cache has of a volume, or had when its memory was lost, and what a log device that is missing has. Hosts were
    /// told that it is written.
    Discard {
        /// The name of the volume.
        name: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}
