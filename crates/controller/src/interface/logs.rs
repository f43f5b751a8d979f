//! Logs and their devices.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A log: one drive, or two mirrored drives, that hold the journals of volumes instead of the
/// members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogInfo {
    /// Its UUID.
    pub log: String,
    /// Whether the controller uses it. A log of another controller is listed, but not in use.
    pub in_use: bool,
    /// Its devices: one, or two mirrored ones.
    pub devices: Vec<LogDeviceInfo>,
    /// The journals on it.
    pub places: Vec<LogPlaceInfo>,
}

/// A device of a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogDeviceInfo {
    /// Its name.
    pub drive: String,
    /// Its state.
    pub state: LogDeviceState,
    /// Why it is not online: a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its capacity; `None` while it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The space that journals use.
    pub used_bytes: u64,
}

/// The state of a log device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogDeviceState {
    /// It is present and works.
    Online,
    /// It is missing.
    Missing,
    /// It is present and cannot be used.
    Failed,
}

impl fmt::Display for LogDeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LogDeviceState::Online => "online",
            LogDeviceState::Missing => "missing",
            LogDeviceState::Failed => "failed",
        })
    }
}

/// A journal on a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogPlaceInfo {
    /// The volume.
    pub volume: String,
    /// Its length.
    pub bytes: u64,
}

/// See [`Command::LogDiscard`](crate::interface::Command::LogDiscard).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscardLog {
    /// The volume.
    pub volume: String,
    /// The data to discard, even if it is present and intact. `None`: the data that the volume
    /// waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<Discarded>,
    /// Discard nothing; the notes list the loss.
    #[serde(default)]
    pub dry_run: bool,
}

impl DiscardLog {
    /// Discards the data that a volume waits for.
    pub fn lacking(volume: impl Into<String>) -> DiscardLog {
        DiscardLog { volume: volume.into(), what: None, dry_run: false }
    }
}

/// The data that `log discard` discards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discarded {
    /// The volume's data in the cache, present or lost.
    Cache,
    /// The volume's journal and data log on log devices.
    Records,
}
