//! Names of disks that stay the same: `/dev/softroc/NAME` and `/dev/disk/by-id/softroc-UUID`. Where udev runs with our rule, it makes
//! them, and what it needs to know is in [`NOTES`]; otherwise they are made here.

use super::devices::{self, Shown};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file for each disk, named as the disk, with what udev cannot find out: its volume's name.
const NOTES: &str = "/run/softroc/disks";

/// What is there while udev runs.
const UDEV: &str = "/run/udev/control";

/// The links of a disk.
pub fn of(name: &str, uuid: &str) -> [PathBuf; 2] {
    [Path::new("/dev/softroc").join(name), Path::new("/dev/disk/by-id").join(format!("softroc-{uuid}"))]
}

/// Those that are there and lead to that disk.
pub fn there(name: &str, uuid: &str, index: u32) -> Vec<String> {
    let leads_there = |link: &PathBuf| leads_to(link, index);
    of(name, uuid).into_iter().filter(leads_there).map(|link| link.display().to_string()).collect()
}

fn leads_to(link: &Path, index: u32) -> bool {
    let target = std::fs::read_link(link);
    target.is_ok_and(|target| target.file_name() == devices::file(index).file_name())
}

/// Whether udev runs here.
pub fn has_udev() -> bool {
    Path::new(UDEV).exists()
}

/// Tells udev of the disk and its volume's name.
pub fn note(shown: &Shown, name: &str, index: u32) {
    let note = Path::new(NOTES).join(devices::name(index));
    let written =
        std::fs::create_dir_all(NOTES).and_then(|()| std::fs::write(&note, format!("SOFTROC_NAME={name}\n")));
    if let Err(error) = written {
        tracing::debug!("{} is not written: {error}", note.display());
    }
    shown.announce(index);
}

/// Makes the links that are not there. One that leads elsewhere is of a disk that was there before.
pub fn make(name: &str, uuid: &str, index: u32) {
    for link in of(name, uuid).into_iter().filter(|link| !leads_to(link, index)) {
        let folder = link.parent().unwrap_or(Path::new("/dev"));
        let made = std::fs::create_dir_all(folder)
            .and_then(|()| remove(&link))
            .and_then(|()| std::os::unix::fs::symlink(devices::file(index), &link));
        if let Err(error) = made {
            tracing::debug!("{} is not made: {error}", link.display());
        }
    }
}

/// Removes links and note of a disk that is no more, or has another name.
pub fn unmake(name: &str, uuid: &str, index: u32) {
    for link in of(name, uuid).into_iter().filter(|link| leads_to(link, index)) {
        if let Err(error) = remove(&link) {
            tracing::debug!("{} is not removed: {error}", link.display());
        }
    }
}

/// Removes the note of a disk that is no more.
pub fn forget(index: u32) {
    if let Err(error) = remove(&Path::new(NOTES).join(devices::name(index))) {
        tracing::debug!("the note of {} is not removed: {error}", devices::name(index));
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
