//! `softroc config`.

use super::Output;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// See [`Command::Config`](super::Command::Config).
#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Save the configuration as a file that people can read (TOML): policies and names of volumes, spares, schedules, notifications,
    /// accounts, numbers. It has no data, and no passwords, keys or other secrets.
    Save {
        /// The file; '-' for standard output.
        #[arg(long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// Print JSON instead of TOML; to standard output alone.
        #[arg(long, conflicts_with = "output")]
        json: bool,
    },
    /// Compare a saved configuration with the controller, and set what differs. Arrays that are found on drives are used as they are.
    /// Nothing is deleted, and no data is overwritten.
    Restore(ConfigRestore),
}

/// See [`ConfigCommand::Restore`].
#[derive(Args, Debug)]
pub struct ConfigRestore {
    /// The file; '-' for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Only list the differences, one a line; nothing is changed.
    #[arg(long)]
    pub dry_run: bool,

    /// Create volumes of the file that no drive has, empty, on the drives that they had. These drives must be unused, and hold no
    /// file system, partition or array.
    #[arg(long)]
    pub create: bool,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}
