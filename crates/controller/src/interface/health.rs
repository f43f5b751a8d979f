//! What drives say of their health.

use serde::{Deserialize, Serialize};

/// What a drive tells of its health.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct HealthInfo {
    /// Who tells it, or why nobody does.
    pub source: String,
    /// Whether the drive expects to fail.
    pub predicted_failure: Option<bool>,
    /// Used endurance in percent of what the vendor rates the drive for; may exceed 100.
    pub wear_percent: Option<u8>,
    /// Spare blocks left, in percent of what there were.
    pub spare_percent: Option<u8>,
    /// Errors of the medium that the drive could not correct, over its life.
    pub media_errors: Option<u64>,
    /// Sectors that were replaced by spare ones, over its life.
    pub reallocated_sectors: Option<u64>,
    /// The temperature in degrees Celsius.
    pub temperature_c: Option<i16>,
    /// Hours under power, over its life.
    pub power_on_hours: Option<u64>,
    /// Bytes written by hosts, over its life.
    pub written_bytes: Option<u64>,
    /// Why the drive should be replaced, if it should: a sentence.
    pub warning: Option<String>,
    /// When it was asked last, in seconds since 1970.
    pub asked_unix_s: u64,
}
