//! Time limits of drives, and suspensions.

use serde::{Deserialize, Serialize};

/// The time limit of an operation, after which the drive is suspended or the read is served from
/// redundancy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveLimit {
    /// The operation: `short-read` (a read that redundancy can serve), `read`, `write`, `flush`,
    /// `discard`.
    pub operation: String,
    /// The limit.
    pub limit_ms: u64,
    /// The source of the limit.
    pub from: LimitSource,
}

/// The source of a time limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitSource {
    /// The default for local drives.
    Default,
    /// The default of the drive's class.
    DriveClass,
    /// A setting for the drive's class: `serve --time-limit`.
    Setting,
}

/// The cause of a suspension.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuspendedBy {
    /// It exceeded a time limit. It returns when it responds, or fails.
    #[default]
    TimeLimit,
    /// An operator: `drive suspend`. Only `drive resume` ends it.
    Operator,
}

/// A suspension.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SuspensionInfo {
    /// Its cause.
    #[serde(default)]
    pub by: SuspendedBy,
    /// The reason: a clause, such as `a write takes longer than 2s`.
    pub why: String,
    /// Seconds until the drive fails if it does not respond; `None` if an operator suspended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails_in_s: Option<u64>,
}
