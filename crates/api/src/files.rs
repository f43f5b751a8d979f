//! Files of the state folder that nobody else may read.

use env::{Error, ErrorKind, Result};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces a file, durably: a crash leaves the old content or the new one.
pub(crate) fn store(file: &Path, content: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| {
        let sentence =
            format!("cannot write {}; make room for it, or let this user write there", file.display());
        Error::new(ErrorKind::System, sentence).caused_by(error)
    };
    let beside = file.with_extension("new");
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut open = std::fs::OpenOptions::new();
    let mut new = open.write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
    new.write_all(content).and_then(|()| new.sync_all()).map_err(failed)?;
    std::fs::rename(&beside, file).map_err(failed)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Adds to a file, durably; a crash leaves a part of it at most.
pub(crate) fn append(file: &Path, content: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| {
        let sentence = format!("cannot write {}; make room for it", file.display());
        Error::new(ErrorKind::System, sentence).caused_by(error)
    };
    let mut open = std::fs::OpenOptions::new();
    let mut file = open.append(true).create(true).mode(0o600).open(file).map_err(failed)?;
    file.write_all(content).and_then(|()| file.sync_data()).map_err(failed)
}

/// The content of a file; `None`: there is none.
pub(crate) fn load(file: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(file) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let sentence = format!("cannot read {}; let this user read it", file.display());
            Err(Error::new(ErrorKind::System, sentence).caused_by(error))
        }
    }
}
