//! What an order to take a drive out costs: reported before it is carried out, and sent with the order that accepts it.

use serde::{Deserialize, Serialize};

/// What a volume loses with a drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveCost {
    /// The volume's UUID.
    pub volume: String,
    /// In how many places data cannot be read any more: regions, and runs of blocks that another drive did not keep.
    pub lost_places: u32,
    /// Whether it is left without redundancy, which it has now.
    pub last_redundancy: bool,
}

impl DriveCost {
    /// Whether it costs data.
    pub fn loses_data(&self) -> bool {
        self.lost_places > 0
    }

    /// Whether these costs, which were accepted, include all of it.
    pub fn is_within(&self, accepted: &[DriveCost]) -> bool {
        accepted.iter().any(|other| {
            other.volume == self.volume
                && self.lost_places <= other.lost_places
                && (other.last_redundancy || other.loses_data() || !self.last_redundancy)
        })
    }
}
