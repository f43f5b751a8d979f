//! What interfaces see of the cache's memory of other controllers.

use serde::{Deserialize, Serialize};
use units::ByteCount;

/// Memory of the cache that another controller of this machine has, or left behind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// How it is named: the path of its file.
    pub memory: String,
    /// How much room it takes.
    pub size_bytes: u64,
    /// A controller that runs has it. What is in it is not known then.
    pub in_use: bool,
    /// The volumes that have a place in it.
    pub volumes: Vec<MemoryVolume>,
    /// Why it cannot be read: a sentence's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What is in such memory of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemoryVolume {
    /// The volume's UUID.
    pub uuid: String,
    /// Its name, where this controller knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many bytes hosts wrote to it that its drives may lack.
    pub dirty_bytes: u64,
}

impl MemoryVolume {
    /// How it is named for people.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.uuid)
    }
}

impl MemoryInfo {
    /// What is lost if it is removed.
    pub fn lost(&self) -> String {
        let dirty = self.volumes.iter().filter(|volume| volume.dirty_bytes > 0);
        let dirty: Vec<String> = dirty
            .map(|volume| format!("{} that hosts wrote to {}", ByteCount(volume.dirty_bytes), volume.title()))
            .collect();
        match &self.why {
            Some(why) => format!("lost: what it has, which is not known ({why})"),
            None if dirty.is_empty() => "lost: nothing".to_owned(),
            None => format!("lost: {}", dirty.join(", ")),
        }
    }
}
