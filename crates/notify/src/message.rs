//! Messages to channels.

use controller::{Event, Severity};
use serde::{Deserialize, Serialize};

/// A message: an event, and the number of its repeats.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// The event; of several folded events, the last.
    #[serde(flatten)]
    pub event: Event,
    /// The number of earlier events that are folded into it.
    #[serde(default)]
    pub more: u64,
    /// The number of later events that were dropped because the queue was full.
    #[serde(default)]
    pub left_out: u64,
}

/// The sender of messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    /// The host name.
    pub host: String,
    /// The process ID.
    pub pid: u32,
    /// The start of the controller, in seconds since 1970.
    pub started_unix_s: u64,
}

impl Message {
    /// The message of one event.
    pub fn of(event: &Event) -> Message {
        Message { event: event.clone(), more: 0, left_out: 0 }
    }

    /// The message in one sentence, without line ends.
    pub fn text(&self) -> String {
        let mut text: String = self
            .event
            .text
            .chars()
            .map(|c| if units::is_unprintable(c) { ' ' } else { c })
            .collect();
        if self.more > 0 {
            text.push_str(&format!(" ({} more like it)", self.more));
        }
        if self.left_out > 0 {
            text.push_str(&format!(
                " ({} later events were dropped: the queue was full)",
                self.left_out
            ));
        }
        text
    }

    /// The syslog severity (RFC 5424, table 2): 1 alert, 2 critical, 4 warning, 6 informational.
    pub fn priority(&self) -> u8 {
        match self.event.severity {
            Severity::Info => 6,
            Severity::Warning => 4,
            Severity::Critical => 2,
            Severity::Fatal => 1,
        }
    }
}
