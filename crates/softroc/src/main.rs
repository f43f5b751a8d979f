//! The one command-line binary and daemon.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a binary joins a world to the engine")]

mod cli;

use clap::Parser;

fn main() {
    let cli = cli::Cli::parse();
    println!("{cli:?}");
}
