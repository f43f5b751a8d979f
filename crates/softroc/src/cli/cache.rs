//! `softroc cache`.

use super::Output;
use clap::Subcommand;

/// See [`Command::Cache`](super::Command::Cache).
#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// List persistent cache memory of other controllers on this machine: volumes, and dirty data
    /// per volume.
    List(Output),
    /// Remove persistent cache memory of a stopped controller. Data that is not yet on its drives
    /// is lost.
    Remove {
        /// The path of the memory, as 'softroc cache list' prints it.
        #[arg(value_name = "MEMORY")]
        memory: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}
