//! Stable names of disks: `/dev/softroc/NAME` and `/dev/disk/by-id/softroc-UUID`. If udev runs with
//! SoftROC's rule, it makes them from [`NOTES`]; otherwise this module does.

use super::devices::{Device, backend};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file for each disk, under the disk's name, with data that udev and the next controller cannot
/// determine otherwise: the volume's name, and for a ublk disk its UUID.
pub const NOTES: &str = "/run/softroc/disks";

/// Exists while udev runs.
const UDEV: &str = "/run/udev/control";

/// The links of a disk.
pub fn of(name: &str, uuid: &str) -> [PathBuf; 2] {
    [
        Path::new("/dev/softroc").join(name),
        Path::new("/dev/disk/by-id").join(format!("softroc-{uuid}")),
    ]
}

/// The existing links to that disk.
pub fn there(name: &str, uuid: &str, device: Device) -> Vec<String> {
    let leads_there = |link: &PathBuf| leads_to(link, device);
    of(name, uuid).into_iter().filter(leads_there).map(|link| link.display().to_string()).collect()
}

fn leads_to(link: &Path, device: Device) -> bool {
    let target = std::fs::read_link(link);
    target.is_ok_and(|target| target.file_name() == device.file().file_name())
}

/// Whether udev runs on this machine.
pub fn has_udev() -> bool {
    Path::new(UDEV).exists()
}

const OF_VOLUME: &str = "SOFTROC_DISK=";

/// Writes the note of a disk: its volume.
pub fn note(notes: &Path, name: &str, uuid: &str, device: Device) -> Result<(), String> {
    let note = notes.join(device.name());
    let text = format!("SOFTROC_NAME={name}\n{OF_VOLUME}{}\n", backend(uuid));
    // Written to another file first: a partial note would name no volume.
    let unfinished = notes.join(format!(".{}", device.name()));
    std::fs::create_dir_all(notes)
        .and_then(|()| std::fs::write(&unfinished, text))
        .and_then(|()| std::fs::rename(&unfinished, &note))
        .map_err(|error| format!("{} cannot be written: {error}", note.display()))
}

/// The UUID of the volume in the note of a disk.
pub fn noted(notes: &Path, device: Device) -> Option<String> {
    let note = std::fs::read_to_string(notes.join(device.name())).ok()?;
    let line = note.lines().find_map(|line| line.strip_prefix(OF_VOLUME))?;
    line.strip_prefix(&backend("")).map(str::to_owned)
}

/// Makes missing links. A link to another device belongs to an earlier disk, and is replaced.
pub fn make(name: &str, uuid: &str, device: Device) {
    for link in of(name, uuid).into_iter().filter(|link| !leads_to(link, device)) {
        let folder = link.parent().unwrap_or(Path::new("/dev"));
        let made = std::fs::create_dir_all(folder)
            .and_then(|()| remove(&link))
            .and_then(|()| std::os::unix::fs::symlink(device.file(), &link));
        if let Err(error) = made {
            tracing::debug!("{} cannot be made: {error}", link.display());
        }
    }
}

/// Removes links and note of a removed or renamed disk.
pub fn unmake(name: &str, uuid: &str, device: Device) {
    for link in of(name, uuid).into_iter().filter(|link| leads_to(link, device)) {
        if let Err(error) = remove(&link) {
            tracing::debug!("{} cannot be removed: {error}", link.display());
        }
    }
}

/// Removes the note of a removed disk.
pub fn forget(notes: &Path, device: Device) {
    if let Err(error) = remove(&notes.join(device.name())) {
        tracing::debug!("the note of {} cannot be removed: {error}", device.name());
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
