//! Volumes that go to another layout: what is asked, and what is answered.

use serde::{Deserialize, Serialize};

/// See [`Command::VolumeReshape`](crate::Command::VolumeReshape). What is not said stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReshapeVolume {
    /// Which.
    pub volume: String,
    /// The level that it is to have, such as `raid6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Drives that it is to lie on as well, behind those that it is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// Drives that it is to lie on no more: the last ones of those that it is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// The strip that it is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip_bytes: Option<u64>,
    /// What hosts can use of it in the end; all there is otherwise. It may be less than now where what is behind it may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// What the new drives hold may be lost, and what the volume has behind a smaller size.
    #[serde(default)]
    pub destroy_data: bool,
    /// Only says what would be.
    #[serde(default)]
    pub dry_run: bool,
}

/// A layout, in a few words and numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LayoutInfo {
    /// The level.
    pub level: String,
    /// On how many drives.
    pub drives: u16,
    /// The strip.
    pub strip_bytes: u64,
    /// What hosts can use.
    pub capacity_bytes: u64,
    /// How many drives may be lost, whichever they are.
    pub may_lose: u16,
}

/// A volume's way to another layout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReshapeInfo {
    /// The volume's name.
    pub volume: String,
    /// As it is.
    pub from: LayoutInfo,
    /// As it will be.
    pub to: LayoutInfo,
    /// How many drives may be lost on the way, whichever they are.
    pub may_lose: u16,
    /// So much of the volume is saved first at a time, where it would be written over what is still needed.
    pub saved_at_a_time_bytes: u64,
    /// Hosts wait for so much of the volume at a time.
    pub at_a_time_bytes: u64,
    /// How long it takes at the rate at which its drives were just read, in seconds.
    #[serde(default)]
    pub estimated_s: Option<u64>,
    /// Bytes of the volume that lie by the new layout.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Bytes of the volume in all.
    #[serde(default)]
    pub total_bytes: u64,
    /// Whether its last byte goes first.
    #[serde(default)]
    pub down: bool,
    /// Drives that it does not lie on in the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removes: Vec<String>,
    /// Whether it has not begun: other volumes of its array go first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// The ways of the array's other volumes, which move along after it, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<ReshapeInfo>,
}
