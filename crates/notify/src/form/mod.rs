//! Messages in the formats of other programs: journal, syslog, mail, JSON, SNMP.

mod journal;
mod mail;
mod snmp;
mod syslog;

pub use journal::{journal, message_id};
pub use mail::{mail_subject, mail_text};
pub use snmp::{Variables, answers, snmp};
pub use syslog::{octet_counted, syslog};

use crate::{Message, Sender};
use serde_json::{Value, json};

/// JSON for webhooks and hooks: the event as in `softroc events --json`, with `host`, `more` and
/// `left_out`. `text` is the message in one sentence; `title` and `message` repeat it for services
/// that read these.
pub fn json(message: &Message, sender: &Sender) -> Value {
    let mut value =
        serde_json::to_value(message).unwrap_or_else(|error| json!({ "error": error.to_string() }));
    value["host"] = sender.host.as_str().into();
    value["time"] = units::utc(message.event.time_unix_s).into();
    value["text"] = format!("{}: {}", sender.host, message.text()).into();
    value["title"] = mail_subject(message, sender).into();
    value["message"] = message.text().into();
    value
}
