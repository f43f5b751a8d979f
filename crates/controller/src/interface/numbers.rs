//! The numbers by which operators know drives.

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
