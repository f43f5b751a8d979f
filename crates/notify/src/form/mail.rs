//! Subject and body of a mail. The sender folds lines and encodes characters.

use crate::{Message, Sender};

/// The longest subject, in characters; the body has the full text.
const LONGEST: usize = 120;

/// The subject.
pub fn mail_subject(message: &Message, sender: &Sender) -> String {
    let subject =
        format!("[softroc {}] {}: {}", sender.host, message.event.severity, message.text());
    if subject.chars().count() <= LONGEST {
        return subject;
    }
    subject.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The body: a sentence, details, and commands for more.
pub fn mail_text(message: &Message, sender: &Sender) -> String {
    let event = &message.event;
    let mut lines = vec![message.text(), String::new()];
    let facts = [
        ("Code", event.code.as_str()),
        ("Severity", &event.severity.to_string()),
        ("Subject", &event.subject),
        ("Cause", &event.cause),
        ("Effect", &event.effect),
        ("Event", &event.number.to_string()),
        ("Time", &units::utc(event.time_unix_s)),
        ("Host", &sender.host),
    ]
    .map(|(name, value)| format!("{:<10}{value}", format!("{name}:")));
    lines.extend(facts);
    lines.push(String::new());
    lines.push("See 'softroc events' and 'softroc volume list' on that host.".to_owned());
    lines.join("\n") + "\n"
}
