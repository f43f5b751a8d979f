//! Foreign volumes and unusable drives as text.

use super::{volume, with_notes};
use crate::output::table;
use controller::{ForeignDrive, ForeignVolume, VolumeInfo};
use units::ByteCount;

/// Volumes of other systems, and unusable drives.
pub fn list(volumes: &[ForeignVolume], drives: &[ForeignDrive]) -> String {
    if volumes.is_empty() && drives.is_empty() {
        return "No foreign volumes on the registered drives. Register more with 'softroc drive \
            add'."
            .into();
    }
    let mut parts: Vec<String> = volumes.iter().map(volume).collect();
    let rows = drives.iter().map(|drive| {
        vec![drive.name.clone(), drive.holds.join("; "), drive.reason.clone().unwrap_or_default()]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        parts.push(table(&["drive", "contents", "not used because"], &rows, &[false; 3]));
    }
    parts.join("\n\n")
}

fn volume(volume: &ForeignVolume) -> String {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let row = vec![
        or_dash(&volume.name),
        format!("{} {}", volume.format, volume.version),
        volume.level.clone(),
        or_dash(&volume.layout),
        volume.strip_bytes.map_or("-".into(), |strip| ByteCount(strip).to_string()),
        ByteCount(volume.size_bytes).to_string(),
        volume.state.clone(),
    ];
    let headers = ["volume", "format", "level", "layout", "strip", "capacity", "state"];
    let mut lines = vec![
        table(&headers, &[row], &[false, false, false, false, true, true, false]),
        format!("  identity {}", volume.identity),
    ];
    let members = volume.members.iter().map(|member| {
        let drive = member.drive.clone().unwrap_or_else(|| "-".into());
        format!("  {:>3}  {drive}  {}", member.slot, member.standing)
    });
    lines.extend(members);
    lines.extend(volume.others.iter().map(|other| format!("  {}", other.reason)));
    lines.extend(volume.reasons.iter().map(|reason| format!("  {reason}")));
    if !volume.clean {
        lines.push("  it was not cleanly shut down".into());
    }
    let name = if volume.name.is_empty() { &volume.identity } else { &volume.name };
    lines.push(match &volume.obstacle {
        Some(why) => format!("  {why}"),
        None => {
            let with = match volume.together_with.is_empty() {
                true => String::new(),
                false => format!(", together with {}", volume.together_with.join(", ")),
            };
            format!("  can be imported{with}: softroc foreign import {name}")
        }
    });
    lines.join("\n")
}

/// Imported volumes.
pub fn imported(volumes: &[VolumeInfo], notes: &[String]) -> String {
    with_notes(volume::list(volumes), notes)
}
