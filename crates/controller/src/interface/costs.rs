//! The cost of taking a member out of service: reported in advance, and sent back with the command
//! that accepts it.

use serde::{Deserialize, Serialize};

/// A volume's loss when a drive leaves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveCost {
    /// The volume's UUID.
    pub volume: String,
    /// The number of places where data becomes unreadable: regions, and runs of blocks that another
    /// drive failed to store.
    pub lost_places: u32,
    /// Whether it loses its last redundancy.
    pub last_redundancy: bool,
}

impl DriveCost {
    /// Whether data is lost.
    pub fn loses_data(&self) -> bool {
        self.lost_places > 0
    }

    /// Whether the accepted costs cover this one.
    pub fn is_within(&self, accepted: &[DriveCost]) -> bool {
        accepted.iter().any(|other| {
            other.volume == self.volume
                && self.lost_places <= other.lost_places
                && (other.last_redundancy || other.loses_data() || !self.last_redundancy)
        })
    }
}
