//! The audit trail as text, one command per line.

use super::date;
use controller::{AuditEntry, AuditOutcome};

/// The audit trail, or its newest part.
pub fn list(orders: &[AuditEntry]) -> String {
    if orders.is_empty() {
        return "No orders.".to_owned();
    }
    orders.iter().map(line).collect::<Vec<String>>().join("\n")
}

fn line(entry: &AuditEntry) -> String {
    let by = entry.by.as_ref().map_or_else(|| "the controller".to_owned(), ToString::to_string);
    let time = date(entry.time_unix_s);
    let mut text = format!(
        "{:>6} {time} {:<8} {} {} by {by}",
        entry.number, entry.outcome, entry.order, entry.subject
    );
    if !entry.fields.is_null() && entry.outcome != AuditOutcome::Refused {
        text.push_str(&format!(": {}", entry.fields));
    }
    if let Some(why) = &entry.why {
        text.push_str(&format!(": {why}"));
    }
    if entry.count > 1 {
        let last = entry.ended_unix_s.map(date).unwrap_or_default();
        text.push_str(&format!(" ({} times, the last at {last})", entry.count));
    }
    text
}
