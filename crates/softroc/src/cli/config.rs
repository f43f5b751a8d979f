//! `softroc config`.

use super::Output;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// See [`Command::Config`](super::Command::Config).
#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Save the configuration as TOML: policies and names of volumes, spares, schedules,
    /// notifications, accounts. The file contains no data, passwords, keys or other secrets.
    Save {
        /// The file for the configuration; '-' for standard output.
        #[arg(long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// Print JSON instead of TOML, to standard output only.
        #[arg(long, conflicts_with = "output")]
        json: bool,
    },
    /// Compare a saved configuration with the controller, and apply the differences. Arrays on the
    /// drives stay as they are. The command deletes nothing and overwrites no data.
    Restore(ConfigRestore),
}

/// See [`ConfigCommand::Restore`].
#[derive(Args, Debug)]
pub struct ConfigRestore {
    /// The file with the saved configuration; '-' for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Only list the differences, one per line; change nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Create the volumes of the file that are on no drive, empty, on their former drives. These
    /// drives must be unused, without a file system, partition or array.
    #[arg(long)]
    pub create: bool,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}
