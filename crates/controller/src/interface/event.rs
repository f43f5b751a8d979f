//! Events in the external interface and in the stored file.

use super::Caller;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The severity of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// For information.
    Info,
    /// Redundancy or performance is reduced.
    Warning,
    /// Data may become unavailable.
    Critical,
    /// Data is lost or unavailable.
    Fatal,
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its unique, rising number; 0 for events of versions without numbers.
    #[serde(default)]
    pub number: u64,
    /// When, in seconds since 1970.
    pub time_unix_s: u64,
    /// Its code, listed by `softroc help event-codes`; empty for events of versions without codes.
    #[serde(default)]
    pub code: String,
    /// Its severity.
    pub severity: Severity,
    /// The object: the name of a volume or drive, or `controller`; `several` for repeats on several
    /// objects.
    pub subject: String,
    /// A related object: for a member, its array (named after its first volume); for a volume, the
    /// drive that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related: Option<String>,
    /// The cause.
    pub cause: String,
    /// The effect.
    pub effect: String,
    /// The complete event in one sentence.
    pub text: String,
    /// The account that requested the change, and its origin; `None` if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Caller>,
    /// The number of occurrences. Repeats are one event with the text of the last one.
    #[serde(default = "once")]
    pub count: u64,
    /// The time of the first of several repeats; `time_unix_s` is the time of the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_unix_s: Option<u64>,
}

fn once() -> u64 {
    1
}

impl Event {
    /// Whether it concerns a volume or drive of this name.
    pub fn concerns(&self, name: &str) -> bool {
        self.subject == name || self.related.as_deref() == Some(name)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
            Severity::Fatal => "fatal",
        })
    }
}
