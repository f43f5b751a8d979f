//! Overall health and the alarm as text.

use super::{date, facts};
use controller::{AlarmInfo, Finding, HealthReport};
use units::printable;

/// The overall health; then each finding, with its recommended action.
pub fn health(health: &HealthReport) -> String {
    let finding = |finding: &Finding| {
        let todo = finding
            .todo
            .as_ref()
            .map_or_else(String::new, |todo| format!("\n    To do: {}", printable(todo)));
        format!("{}: {}{todo}", finding.status, printable(&finding.what))
    };
    let word = health.status.to_string().to_uppercase();
    let mut text = format!("{word}: {}.\n", printable(health.sentence.trim_end_matches('.')));
    if !health.findings.is_empty() {
        let findings: Vec<String> = health.findings.iter().map(finding).collect();
        text.push_str(&format!("\n{}\n", findings.join("\n")));
    }
    text
}

/// The alarm.
pub fn alarm(alarm: &AlarmInfo) -> String {
    let mut list = vec![("alarm", if alarm.on { "on" } else { "off" }.to_owned())];
    let since = alarm.since_unix_s.map(|since| format!("since {}", date(since)));
    list.push(("sounds", since.unwrap_or_else(|| "no".to_owned())));
    list.extend(alarm.because.clone().map(|because| ("because", because)));
    facts(&list)
}
