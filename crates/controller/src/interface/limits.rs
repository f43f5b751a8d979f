//! How long drives may take, and what became of those that took longer.

use serde::{Deserialize, Serialize};

/// How long a drive may take for an operation before it is suspended, or redundancy is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveLimit {
    /// For which: `short-read` (a read that redundancy can serve), `read`, `write`, `flush`, `discard`.
    pub operation: String,
    /// So long.
    pub limit_ms: u64,
    /// Why that long.
    pub from: LimitSource,
}

/// Where a time limit of a drive comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitSource {
    /// It is that of drives of this machine, unless anything else is set.
    Default,
    /// It is that of the drive's class, which is not the default.
    DriveClass,
    /// It was set for the drive's class: `serve --time-limit`.
    Setting,
}

/// What suspended a drive.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuspendedBy {
    /// It exceeded a time limit. It is used again when it answers, or fails.
    #[default]
    TimeLimit,
    /// An operator: `drive suspend`. It is used again with `drive resume` alone.
    Operator,
}

/// A drive that is suspended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SuspensionInfo {
    /// What suspended it.
    #[serde(default)]
    pub by: SuspendedBy,
    /// Why, to be read within a sentence, such as `a write takes longer than 2s`.
    pub why: String,
    /// It fails unless it answers within so many seconds. One that an operator suspended does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails_in_s: Option<u64>,
}
