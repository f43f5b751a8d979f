//! Logs as text.

use crate::output::table;
use controller::{LogDeviceInfo, LogInfo};
use units::ByteCount;

/// The logs, each with its devices and journals.
pub fn list(logs: &[LogInfo], notes: &[String]) -> String {
    let text = match logs.is_empty() {
        true => {
            "No log: journals are on the members. Add one with 'softroc log add DRIVE'.".to_owned()
        }
        false => logs.iter().map(one).collect::<Vec<_>>().join("\n\n"),
    };
    super::with_notes(text, notes)
}

fn one(log: &LogInfo) -> String {
    let rows: Vec<Vec<String>> = log.devices.iter().map(|device| row(log, device)).collect();
    let headers = ["log", "state", "capacity", "used", "drive", ""];
    let mut text = table(&headers, &rows, &[false, false, true, true, false, false]);
    for place in &log.places {
        text.push_str(&format!("\nJournal of {}: {}", place.volume, ByteCount(place.bytes)));
    }
    text
}

fn row(log: &LogInfo, device: &LogDeviceInfo) -> Vec<String> {
    vec![
        if log.in_use { "in use" } else { "not in use" }.to_owned(),
        device.state.to_string(),
        device.size_bytes.map_or_else(|| "-".to_owned(), |size| ByteCount(size).to_string()),
        ByteCount(device.used_bytes).to_string(),
        device.drive.clone(),
        device.why.clone().unwrap_or_default(),
    ]
}
