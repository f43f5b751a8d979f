//! Attached volumes as text.

use crate::output::table;
use controller::{DiskInfo, DiskState};

/// A table of the disks.
pub fn list(disks: &[DiskInfo]) -> String {
    if disks.is_empty() {
        return "No volume is attached. Attach one with 'softroc attach VOLUME'.".to_owned();
    }
    let rows: Vec<Vec<String>> = disks.iter().map(row).collect();
    table(&["device", "volume", "state", "access", "link", "used by"], &rows, &[false; 6])
}

fn row(disk: &DiskInfo) -> Vec<String> {
    let dash = || "-".to_owned();
    vec![
        disk.device.clone(),
        disk.volume.clone().unwrap_or_else(|| disk.uuid.clone()),
        state(disk).to_owned(),
        access(disk).to_owned(),
        disk.links.first().cloned().unwrap_or_else(dash),
        if disk.users.is_empty() { dash() } else { disk.users.join(", ") },
    ]
}

fn state(disk: &DiskInfo) -> &'static str {
    match disk.state {
        DiskState::Connected => "connected",
        DiskState::Waiting => "waiting",
    }
}

fn access(disk: &DiskInfo) -> &'static str {
    if disk.read_only { "read-only" } else { "read-write" }
}

/// An attached disk: its device and links.
pub fn one(disk: &DiskInfo) -> String {
    super::facts(&[
        ("device", disk.device.clone()),
        ("links", if disk.links.is_empty() { "-".to_owned() } else { disk.links.join(" ") }),
        ("state", state(disk).to_owned()),
        ("access", access(disk).to_owned()),
    ])
}

/// The disk of a volume, on one line.
pub fn of_volume(disk: &DiskInfo) -> String {
    let users = match disk.users.is_empty() {
        true => String::new(),
        false => format!(", {}", disk.users.join(", ")),
    };
    format!("{}, {}, {}{users}", disk.device, access(disk), state(disk))
}
