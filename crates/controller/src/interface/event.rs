//! What happened, as interfaces and the stored file have it.

use super::Caller;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much an event matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Redundancy or performance suffers.
    Warning,
    /// Data may become unavailable.
    Critical,
    /// Data is lost, or cannot be reached.
    Fatal,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// A number that no other event of this controller has; later events have higher ones. 0 for events from before
    /// there were numbers.
    #[serde(default)]
    pub number: u64,
    /// When, in seconds since 1970.
    pub time_unix_s: u64,
    /// What kind of event it is, as `docs/operate/events.md` lists them; empty for events from before there were codes.
    #[serde(default)]
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it happened to: a volume's or a drive's name, `controller`; `several` where repeats are of several.
    pub subject: String,
    /// What else it concerns: of a member drive, the name of its array, which is that of its first volume; of a volume, the
    /// drive that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related: Option<String>,
    /// Why it happened.
    pub cause: String,
    /// What it changed.
    pub effect: String,
    /// All of it in one sentence.
    pub text: String,
    /// Who asked for the change, and from where; `None` where nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Caller>,
    /// How many times it happened: repeats are one event, with what the last of them says.
    #[serde(default = "once")]
    pub count: u64,
    /// When the first of several repeats happened; `time_unix_s` is that of the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_unix_s: Option<u64>,
}

fn once() -> u64 {
    1
}

impl Event {
    /// Whether it belongs to the history of a volume or drive of that name.
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
