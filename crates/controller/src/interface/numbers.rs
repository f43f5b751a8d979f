//! The numbers by which operators know drives, arrays and volumes.

use serde::{Deserialize, Serialize};

/// The numbers of a drive. No other drive has the same device number, ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct DriveNumbers {
    /// Its enclosure; 252 for all drives that are in none, or do not say in which.
    pub enclosure: u32,
    /// Its slot there: the bay, where the drive says which; otherwise a number that no other drive has.
    pub slot: u32,
    /// Its own number.
    pub device: u32,
    /// Whether the numbers that were given before are not known: it may have had other ones ([`ControllerInfo::provisional_numbers`](crate::interface::ControllerInfo::provisional_numbers)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
}

/// See [`Command::NumbersSet`](crate::interface::Command::NumbersSet).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetNumbers {
    /// The serial number of the controller; absent: it stays.
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

/// The numbers that a drive gets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveNumber {
    /// Its name.
    pub drive: String,
    /// Its enclosure. Of a drive that says in which enclosure it is, the number of that enclosure.
    pub enclosure: u32,
    /// Its slot there. A drive that says in which bay it is keeps the number of the bay.
    pub slot: u32,
    /// Its own number.
    pub device: u32,
}

/// The number that an array or a volume gets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbered {
    /// Its UUID.
    pub uuid: String,
    /// Its number.
    pub number: u32,
}
