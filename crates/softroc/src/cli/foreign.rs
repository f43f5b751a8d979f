//! `softroc foreign`.

use super::Output;
use clap::Subcommand;

/// The verbs of `softroc foreign`.
#[derive(Subcommand, Debug)]
pub enum ForeignCommand {
    /// List the volumes of other systems on drives that were added, whether they can be imported, and drives that
    /// cannot be used.
    List(Output),
    /// Make a volume of another system SoftROC's own, with its data; other volumes on the same drives come with it.
    Import {
        /// Its name or identity: see 'softroc foreign list'.
        volume: String,
        /// Give it another name.
        #[arg(long, value_name = "NEW")]
        name: Option<String>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
    /// Take the metadata of other systems, and labels that cannot be used, off drives that are not in use.
    Clear {
        /// The drives.
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// How to answer.
        #[command(flatten)]
        output: Output,
    },
}
