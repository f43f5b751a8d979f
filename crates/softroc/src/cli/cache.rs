//! `softroc cache`.

use super::Output;
use clap::Subcommand;

/// See [`Command::Cache`](super::Command::Cache).
#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// List the memory that other controllers of this machine have for their caches, or left behind: its volumes, and how much of each
    /// may not be on the drives.
    List(Output),
    /// Remove memory that a controller left behind. What its volumes' drives lack is lost.
    Remove {
        /// Which, as it is listed: a path.
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
