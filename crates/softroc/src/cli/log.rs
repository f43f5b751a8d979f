//! `softroc log`.

use super::{Checked, Output};
use clap::Subcommand;

/// See [`Command::Log`](super::Command::Log).
#[derive(Subcommand, Debug)]
pub enum LogCommand {
    /// Put the journals of volumes on one log device, or on two mirrored ones, instead of the
    /// members. Existing log devices keep their contents.
    Add {
        /// The drives: paths of files, partitions or NVMe drives, nbd:// addresses, mem:SIZE.
        #[arg(required = true, num_args = 1..=2, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Overwrite data on the drives: file systems, partitions, arrays, journals.
        #[arg(long)]
        destroy_data: bool,
        /// Accept two drives on the same disk, although a failure of the disk loses both.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// List logs, their drives and the journals on them.
    List(Checked),
    /// Remove the log: journals move back to the members. Its drives stay registered, without
    /// contents.
    Remove {
        /// A drive of the log: its path.
        #[arg(value_name = "DRIVE")]
        drive: String,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Discard the data that keeps a volume offline: lost cache memory, or records on a missing or
    /// damaged log device. Acknowledged writes may be lost; the confirmation lists them. Without an
    /// option, intact data is kept.
    Discard {
        /// The name of the volume.
        name: String,
        /// Discard the volume's dirty data in cache memory, even if it is intact. Records on log
        /// devices are kept and replayed.
        #[arg(long, conflicts_with = "records")]
        cache: bool,
        /// Discard the records on log devices, even if they are intact. The volume's dirty data in
        /// cache memory is kept.
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
