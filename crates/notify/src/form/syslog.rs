//! Syslog, RFC 5424.

use crate::{Message, Sender};

/// Facility 3, system daemons.
const FACILITY: u8 = 3;

/// One record: header, structured data, text. The code is its MSGID. The enterprise number is the
/// one for examples (RFC 5612); the project has no own number.
pub fn syslog(message: &Message, sender: &Sender) -> Vec<u8> {
    let event = &message.event;
    let priority = FACILITY * 8 + message.priority();
    let time = units::utc(event.time_unix_s);
    let parameters = [
        ("number", event.number.to_string()),
        ("severity", event.severity.to_string()),
        ("subject", event.subject.clone()),
        ("cause", event.cause.clone()),
        ("effect", event.effect.clone()),
        ("more", message.more.to_string()),
    ];
    let data: String =
        parameters.iter().map(|(name, value)| format!(" {name}=\"{}\"", escaped(value))).collect();
    let (host, code) = (name(&sender.host, 255), name(&event.code, 32));
    let pid = sender.pid;
    // The byte order mark declares UTF-8.
    let text = message.text();
    format!("<{priority}>1 {time} {host} softroc {pid} {code} [softroc@32473{data}] \u{FEFF}{text}")
        .into_bytes()
}

/// A record in a stream: with its length before it (RFC 6587, 3.4.1).
pub fn octet_counted(record: &[u8]) -> Vec<u8> {
    let mut framed = format!("{} ", record.len()).into_bytes();
    framed.extend(record);
    framed
}

/// A header field: printable ASCII; `-` if empty.
fn name(text: &str, longest: usize) -> String {
    let word: String = text.chars().filter(char::is_ascii_graphic).take(longest).collect();
    if word.is_empty() { "-".to_owned() } else { word }
}

fn escaped(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        match c {
            '"' | '\\' | ']' => out.extend(['\\', c]),
            c if units::is_unprintable(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
