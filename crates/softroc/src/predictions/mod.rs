//! `softroc predict`, `reproduce`, `calibrate` and `catalog`: commands of the crate `predict`.

pub mod calibrate;
pub mod catalog;
pub mod predict;
pub mod reproduce;

use crate::failure::{Failure, Outcome};
use ::predict::Progress;
use indicatif::ProgressBar;
use models::Catalog;
use std::path::{Path, PathBuf};

/// The built-in drives and controllers with those of the user's `files`.
fn catalog_with(files: &[PathBuf]) -> Outcome<Catalog> {
    let mut catalog = Catalog::builtin().clone();
    for file in files {
        let name = file.display().to_string();
        catalog.read(&name, &read(file)?).map_err(Failure::refused)?;
    }
    Ok(catalog)
}

fn read(file: &Path) -> Outcome<String> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::refused(format!("cannot read {}: {error}", file.display())))
}

/// Shows progress on a bar.
fn on(bar: &ProgressBar) -> impl Fn(Progress<'_>) + Sync {
    |progress| match progress {
        Progress::Begins(name) => bar.set_message(name.to_owned()),
        Progress::OneDone => bar.inc(1),
    }
}
