//! Numbers of drives, arrays and volumes for operators.

use serde::{Deserialize, Serialize};

/// The numbers of a drive. Device numbers are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct DriveNumbers {
    /// Its enclosure; 252 for drives without a known enclosure.
    pub enclosure: u32,
    /// Its slot there: its bay if known, otherwise a unique number.
    pub slot: u32,
    /// Its own number.
    pub device: u32,
    /// Whether its earlier numbers are unknown and may differ
    /// ([`ControllerInfo::provisional_numbers`](crate::interface::ControllerInfo::provisional_numbers)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
}

/// See [`Command::NumbersSet`](crate::interface::Command::NumbersSet).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetNumbers {
    /// The serial number of the controller; absent: unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Numbers of drives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveNumber>,
    /// Numbers of arrays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<Numbered>,
    /// Numbers of volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Numbered>,
}

/// The numbers to assign to a drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveNumber {
    /// Its name.
    pub drive: String,
    /// Its enclosure. If the drive reports an enclosure, the number of that enclosure.
    pub enclosure: u32,
    /// Its slot there. A drive that reports its bay keeps the number of the bay.
    pub slot: u32,
    /// Its own number.
    pub device: u32,
}

/// The number to assign to an array or a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbered {
    /// Its UUID.
    pub uuid: String,
    /// Its number.
    pub number: u32,
}
