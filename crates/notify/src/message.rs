//! What is sent.

use controller::{Event, Severity};
use serde::{Deserialize, Serialize};

/// What a channel is told: an event, and how often it was repeated meanwhile.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// The event; of several that were folded, the last one.
    #[serde(flatten)]
    pub event: Event,
    /// How many events of the same code and subject are folded into it, besides itself.
    #[serde(default)]
    pub more: u64,
    /// How many later events had no place in the queue behind it.
    #[serde(default)]
    pub left_out: u64,
}

/// Who sends messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    /// The name of this machine.
    pub host: String,
    /// The number of this process.
    pub pid: u32,
    /// Since when the controller runs, in seconds since 1970.
    pub started_unix_s: u64,
}

impl Message {
    /// A message of one event.
    pub fn of(event: &Event) -> Message {
        Message { event: event.clone(), more: 0, left_out: 0 }
    }

    /// All of it in one sentence. Line ends in it are blanks.
    pub fn text(&self) -> String {
        let mut text: String =
            self.event.text.chars().map(|c| if units::is_unprintable(c) { ' ' } else { c }).collect();
        if self.more > 0 {
            text.push_str(&format!(" ({} more like it)", self.more));
        }
        if self.left_out > 0 {
            text.push_str(&format!(" ({} later events are left out: the queue was full)", self.left_out));
        }
        text
    }

    /// The severity of syslog (RFC 5424, table 2): 1 alert, 2 critical, 4 warning, 6 informational.
    pub fn priority(&self) -> u8 {
        match self.event.severity {
            Severity::Info => 6,
            Severity::Warning => 4,
            Severity::Critical => 2,
            Severity::Fatal => 1,
        }
    }
}
