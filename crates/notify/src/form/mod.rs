//! How other programs have a message: the journal, syslog, mail, JSON, SNMP.

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

/// JSON, as webhooks and hooks get it: the event as `softroc events --json` tells it, with `host`, `more` and `left_out`. `text` says all
/// in one sentence, also under the names `title` and `message`, where services look for it.
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
