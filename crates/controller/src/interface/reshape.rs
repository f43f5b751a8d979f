//! Reshapes: parameters and progress.

use serde::{Deserialize, Serialize};

/// See [`Command::VolumeReshape`](crate::Command::VolumeReshape). Absent values stay unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReshapeVolume {
    /// The volume.
    pub volume: String,
    /// The new level, such as `raid6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Drives to add, in the next slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// Drives to remove: those of the last slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// The new strip size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip_bytes: Option<u64>,
    /// The new capacity; by default all space. A smaller capacity requires `destroy_data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Overwrite data on added drives, and discard data beyond a smaller capacity.
    #[serde(default)]
    pub destroy_data: bool,
    /// Report the result and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

impl ReshapeVolume {
    /// The command line of this reshape: `volume expand` where level, strip size and drives stay.
    pub fn command_line(&self) -> String {
        let expands = self.level.is_none() && self.strip_bytes.is_none() && self.remove.is_empty();
        let verb = if expands { "expand" } else { "migrate" };
        let mut words = vec![format!("softroc volume {verb} {}", self.volume)];
        words.extend(self.level.iter().map(|level| format!("--level {level}")));
        words.extend(self.strip_bytes.map(|strip| format!("--strip {strip}")));
        let drives = [("--add", &self.add), ("--remove", &self.remove)];
        let drives = drives.into_iter().filter(|(_, drives)| !drives.is_empty());
        words.extend(drives.map(|(option, drives)| format!("{option} {}", drives.join(" "))));
        words.extend(self.size_bytes.map(|size| format!("--size {size}")));
        words.extend(self.destroy_data.then(|| "--destroy-data".to_owned()));
        words.extend(self.dry_run.then(|| "--dry-run".to_owned()));
        words.join(" ")
    }
}

/// A summary of a layout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LayoutInfo {
    /// The level.
    pub level: String,
    /// The number of drives.
    pub drives: u16,
    /// The strip size.
    pub strip_bytes: u64,
    /// The capacity for hosts.
    pub capacity_bytes: u64,
    /// Fault tolerance: any drives that may fail.
    pub may_lose: u16,
}

/// The reshape of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReshapeInfo {
    /// The volume's name.
    pub volume: String,
    /// The current layout.
    pub from: LayoutInfo,
    /// The new layout.
    pub to: LayoutInfo,
    /// Fault tolerance during the reshape.
    pub may_lose: u16,
    /// Bytes saved per step where the move overwrites data that is still needed.
    pub saved_at_a_time_bytes: u64,
    /// Bytes locked for hosts per step.
    pub at_a_time_bytes: u64,
    /// Estimated duration in seconds, from the measured read rate of its drives.
    #[serde(default)]
    pub estimated_s: Option<u64>,
    /// Bytes in the new layout.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Total bytes.
    #[serde(default)]
    pub total_bytes: u64,
    /// Whether it moves from the end to the start.
    #[serde(default)]
    pub down: bool,
    /// Drives that it removes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removes: Vec<String>,
    /// Whether it is queued behind other volumes of its array.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Reshapes of the other volumes of the array, which follow one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<ReshapeInfo>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_expands_where_the_layout_stays() {
        let order = ReshapeVolume {
            volume: "v".into(),
            add: vec!["a".into(), "b".into()],
            size_bytes: Some(4096),
            destroy_data: true,
            ..ReshapeVolume::default()
        };
        let line = "softroc volume expand v --add a b --size 4096 --destroy-data";
        assert_eq!(order.command_line(), line);
        let order = ReshapeVolume { level: Some("raid6".into()), ..order };
        let line = "softroc volume migrate v --level raid6 --add a b --size 4096 --destroy-data";
        assert_eq!(order.command_line(), line);
    }
}
