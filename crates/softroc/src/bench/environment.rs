//! The environment of a measurement: the machine and the targets.

use super::block_device::{BlockDevice, mount_of};
use crate::control::Control;
use crate::machine;
use controller::{Command, Reply, VolumeInfo};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use storagebench::Environment;
use units::ByteCount;

/// The environment of the machine and of each target (name and address).
pub fn describe(targets: &[(String, String)], control: &Control) -> Environment {
    let mut facts = vec![("host".to_owned(), machine::host())];
    facts.extend(machine::describe());
    for (name, address) in targets {
        let prefix = if targets.len() > 1 { format!("{name}: ") } else { String::new() };
        let own = target(name, address, control);
        facts.extend(own.into_iter().map(|(fact, value)| (format!("{prefix}{fact}"), value)));
    }
    Environment(facts)
}

fn target(name: &str, address: &str, control: &Control) -> Vec<(String, String)> {
    if let Some(volume) = name.strip_prefix("volume:") {
        // If the controller does not respond, the measurement reports it.
        return match control.ask(&Command::VolumeShow { volume: volume.into() }) {
            Ok(Reply::Volume { volume, .. }) => volume_facts(&volume),
            _ => Vec::new(),
        };
    }
    let path = Path::new(address);
    let Ok(metadata) = std::fs::metadata(path) else { return Vec::new() };
    let mut facts = Vec::new();
    if !metadata.file_type().is_block_device() {
        facts.push(("file".to_owned(), ByteCount(metadata.len()).to_string()));
        facts.extend(mount_of(path).map(|mount| ("mount".to_owned(), mount)));
    }
    facts.extend(BlockDevice::below(path).map(|device| device.describe()).unwrap_or_default());
    facts
}

fn volume_facts(volume: &VolumeInfo) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![
        fact("level", volume.level.clone()),
        fact("state", volume.state.to_string()),
        fact("capacity", ByteCount(volume.capacity_bytes).to_string()),
        fact("strip", ByteCount(volume.strip_bytes).to_string()),
        fact("drives", volume.drives.len().to_string()),
    ];
    if volume.spans > 1 {
        facts.push(fact("spans", volume.spans.to_string()));
    }
    if volume.resync.is_some() {
        facts.push(fact("resync", "running or queued".to_owned()));
    }
    for policy in &volume.policies {
        let current = match policy.configured == policy.current {
            true => policy.current.clone(),
            false => format!("{} (configured: {})", policy.current, policy.configured),
        };
        facts.push((policy.name.clone(), current));
    }
    for drive in &volume.drives {
        let slot = drive.slot.map_or_else(|| "drive".to_owned(), |slot| format!("slot {slot}"));
        facts.push((slot, format!("{} ({})", drive.name, drive.state)));
    }
    facts
}
