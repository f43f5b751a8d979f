//! Persistent cache memory of other controllers.

use serde::{Deserialize, Serialize};
use units::ByteCount;

/// Persistent cache memory of another controller on this host, in use or orphaned.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// The path of its file.
    pub memory: String,
    /// Its size.
    pub size_bytes: u64,
    /// A running controller uses it; its content is unknown then.
    pub in_use: bool,
    /// The volumes with data in it.
    pub volumes: Vec<MemoryVolume>,
    /// Why it cannot be read: a clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A volume's data in such memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemoryVolume {
    /// The volume's UUID.
    pub uuid: String,
    /// Its name, if this controller knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Dirty bytes, which its drives may lack.
    pub dirty_bytes: u64,
}

impl MemoryVolume {
    /// Its name, or else its UUID.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.uuid)
    }
}

impl MemoryInfo {
    /// The loss if it is removed: a clause.
    pub fn lost(&self) -> String {
        let dirty = self.volumes.iter().filter(|volume| volume.dirty_bytes > 0);
        let dirty: Vec<String> = dirty
            .map(|volume| {
                format!("{} of dirty data of {}", ByteCount(volume.dirty_bytes), volume.title())
            })
            .collect();
        match &self.why {
            Some(why) => format!("lost: unknown, since it cannot be read ({why})"),
            None if dirty.is_empty() => "lost: nothing".to_owned(),
            None => format!("lost: {}", dirty.join(", ")),
        }
    }
}
