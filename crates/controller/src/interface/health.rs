//! Health data of drives.

use serde::{Deserialize, Serialize};

/// Health data of a drive.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct HealthInfo {
    /// The source of the data, or why there is none.
    pub source: String,
    /// Whether the drive predicts its failure.
    pub predicted_failure: Option<bool>,
    /// Used endurance in percent of the vendor's rating; may exceed 100.
    pub wear_percent: Option<u8>,
    /// Remaining spare blocks in percent.
    pub spare_percent: Option<u8>,
    /// Uncorrected medium errors over its life.
    pub media_errors: Option<u64>,
    /// Reallocated sectors over its life.
    pub reallocated_sectors: Option<u64>,
    /// The temperature in degrees Celsius.
    pub temperature_c: Option<i16>,
    /// Power-on hours.
    pub power_on_hours: Option<u64>,
    /// Bytes written by hosts, over its life.
    pub written_bytes: Option<u64>,
    /// Why the drive should be replaced: a sentence.
    pub warning: Option<String>,
    /// The time of the last reading, in seconds since 1970.
    pub asked_unix_s: u64,
}
