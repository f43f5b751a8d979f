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
    /// Give up what a volume that is offline waits for: memory of the cache that is gone, or records on a log device that is missing or
    /// damaged. Acknowledged writes may be lost; the question says which. Without an option, nothing that is intact is given up.
    Discard {
        /// The name of the volume.
        name: String,
        /// Give up what the memory of the cache has, also if it is intact. Records on a log device are kept and replayed.
        #[arg(long, conflicts_with = "records")]
        cache: bool,
        /// Give up the records on log devices, also if they are intact. What the cache has is kept.
        #[arg(long)]
        records: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}
