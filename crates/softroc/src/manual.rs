//! `softroc manual`: man pages and shell completions, generated from the command line definition.
//! The command is hidden, since only packages need it.

use crate::cli::{Cli, Manual};
use crate::failure::{Failure, Outcome};
use crate::output;
use clap_complete::Shell;

/// Writes `softroc.1` and a page for each command into `man1` of the folder, and completions into
/// `completions`.
pub fn run(manual: &Manual) -> Outcome {
    let failed = |error: std::io::Error| {
        Failure::failed(format!("cannot write into {}: {error}", manual.folder.display()))
    };
    let (pages, completions) = (manual.folder.join("man1"), manual.folder.join("completions"));
    for folder in [&pages, &completions] {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    clap_mangen::generate_to(Cli::shaped(), &pages).map_err(failed)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::shaped(), "softroc", &completions)
            .map_err(failed)?;
    }
    output::print(&format!(
        "The manual and completions for bash, zsh and fish are in {}.",
        manual.folder.display()
    ))
}
