//! What interfaces see of logs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A log: one drive or two that hold journals of volumes, instead of their members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogInfo {
    /// Its UUID.
    pub log: String,
    /// Whether journals lie on it now. A log that was used elsewhere is there and not in use.
    pub in_use: bool,
    /// Its devices, one or two, which hold the same.
    pub devices: Vec<LogDeviceInfo>,
    /// Which journals lie there.
    pub places: Vec<LogPlaceInfo>,
}

/// A drive that belongs to a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogDeviceInfo {
    /// Its name.
    pub drive: String,
    /// How it is.
    pub state: LogDeviceState,
    /// Why it is not online: a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many bytes it has room for; `None` while it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// How many of these journals take.
    pub used_bytes: u64,
}

/// How a device of a log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogDeviceState {
    /// It is there, and works.
    Online,
    /// It is not there.
    Missing,
    /// It is there, and cannot be used.
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
    /// The volume whose journal it is.
    pub volume: String,
    /// How long it is.
    pub bytes: u64,
}

/// See [`Command::LogDiscard`](crate::interface::Command::LogDiscard).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscardLog {
    /// Of which volume.
    pub volume: String,
    /// What is given up, also where it is here and intact. `None`: what the volume waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<Discarded>,
    /// Nothing is given up: the notes say what would be lost.
    #[serde(default)]
    pub dry_run: bool,
}

impl DiscardLog {
    /// What a volume waits for is given up.
    pub fn lacking(volume: impl Into<String>) -> DiscardLog {
        DiscardLog { volume: volume.into(), what: None, dry_run: false }
    }
}

/// What `log discard` gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discarded {
    /// What the memory of the cache has of the volume, or had when it was lost.
    Cache,
    /// Records of the volume on log devices: of its journal, and of its data log.
    Records,
}
