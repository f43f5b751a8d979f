//! The alarm: its state and its setting.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of the alarm.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AlarmInfo {
    /// Whether it sounds when something fails.
    pub on: bool,
    /// Whether it sounds now.
    pub sounds: bool,
    /// Why it sounds: a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Since when it sounds, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_unix_s: Option<u64>,
}

impl Default for AlarmInfo {
    fn default() -> AlarmInfo {
        AlarmInfo { on: true, sounds: false, because: None, since_unix_s: None }
    }
}

/// A change of the alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmSetting {
    /// It sounds from now on when something fails.
    On,
    /// It is silent, whatever fails.
    Off,
    /// It is silent until something else fails.
    Silence,
}

impl fmt::Display for AlarmSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AlarmSetting::On => "on",
            AlarmSetting::Off => "off",
            AlarmSetting::Silence => "silence",
        })
    }
}
