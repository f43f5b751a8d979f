//! Cache memory of other controllers as text.

use crate::output::table;
use controller::MemoryInfo;
use units::ByteCount;

/// Each memory with its volumes and their dirty data.
pub fn list(memories: &[MemoryInfo]) -> String {
    if memories.is_empty() {
        return "No cache memory of other controllers exists.".to_owned();
    }
    let rows: Vec<Vec<String>> = memories.iter().map(row).collect();
    table(&["memory", "size", "state", "dirty"], &rows, &[false, true, false, false])
}

fn row(info: &MemoryInfo) -> Vec<String> {
    let state = if info.in_use { "in use" } else { "left behind" };
    let dirty = match (&info.why, info.in_use) {
        (Some(why), _) => format!("not known: {why}"),
        (None, true) => "not known".to_owned(),
        (None, false) if info.volumes.is_empty() => "-".to_owned(),
        (None, false) => {
            let volumes = info.volumes.iter();
            let volumes =
                volumes.map(|of| format!("{}: {}", of.title(), ByteCount(of.dirty_bytes)));
            volumes.collect::<Vec<_>>().join(", ")
        }
    };
    vec![info.memory.clone(), ByteCount(info.size_bytes).to_string(), state.to_owned(), dirty]
}
