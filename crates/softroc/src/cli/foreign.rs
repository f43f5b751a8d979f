//! `softroc foreign`.

use super::Output;
use clap::Subcommand;

/// The subcommands of `softroc foreign`.
#[derive(Subcommand, Debug)]
pub enum ForeignCommand {
    /// List volumes of other systems on registered drives, whether they can be imported, and
    /// unusable drives.
    List(Output),
    /// Import a volume of another system with its data. All volumes on the same drives are
    /// imported.
    Import {
        /// The name or identity of the volume in 'softroc foreign list'.
        volume: String,
        /// Import it under another name.
        #[arg(long, value_name = "NEW")]
        name: Option<String>,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
    /// Erase metadata of other systems and unusable labels, from unused drives.
    Clear {
        /// The drives.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// The output format.
        #[command(flatten)]
        output: Output,
    },
}
