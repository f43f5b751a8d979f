//! Overall health and the alarm as text.

use super::{date, facts, for_people};
use controller::{AlarmInfo, Finding, HealthReport};
use units::printable;

/// The overall health; then each finding, with its recommended action.
pub fn health(health: &HealthReport) -> String {
    let word = health.status.to_string().to_uppercase();
    let mut text = format!("{word}: {}.\n", for_people(health.sentence.trim_end_matches('.')));
    if !health.findings.is_empty() {
        let findings: Vec<String> = health.findings.iter().map(finding).collect();
        text.push_str(&format!("\n{}\n", findings.join("\n")));
    }
    text
}

/// A finding, then its cause if that is not in the finding, then the commands to paste.
fn finding(finding: &Finding) -> String {
    let mut text = format!("{}: {}", finding.status, for_people(&finding.what));
    let (cause, commands) = finding.todo.as_deref().map_or((None, Vec::new()), cause_and_commands);
    text.extend(cause.map(|cause| format!("\n    {}", for_people(cause))));
    text.extend(commands.iter().map(|command| format!("\n    To do: {}", printable(command))));
    text
}

/// An action is a command, a command to wait with, or a sentence with its commands in quotes.
fn cause_and_commands(todo: &str) -> (Option<&str>, Vec<&str>) {
    let bare = todo.strip_prefix("wait: ").unwrap_or(todo);
    if bare.starts_with("softroc ") {
        return (None, vec![bare]);
    }
    (Some(todo), todo.split('\'').filter(|part| part.starts_with("softroc ")).collect())
}

/// The alarm.
pub fn alarm(alarm: &AlarmInfo) -> String {
    let mut list = vec![("alarm", if alarm.on { "on" } else { "off" }.to_owned())];
    let since = alarm.since_unix_s.map(|since| format!("since {}", date(since)));
    list.push(("sounds", since.unwrap_or_else(|| "no".to_owned())));
    list.extend(alarm.because.clone().map(|because| ("because", because)));
    facts(&list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller::WellBeing;

    #[test]
    fn what_to_do_is_a_command_and_a_cause_stands_apart() {
        for (todo, shown) in [
            (None, ""),
            (Some("softroc alarm silence"), "\n    To do: softroc alarm silence"),
            (Some("wait: softroc task follow 7"), "\n    To do: softroc task follow 7"),
            (Some("connect the drives of 'v'"), "\n    connect the drives of 'v'"),
            (
                Some(
                    "drive 1 of 'v' failed; run 'softroc volume show v', or 'softroc volume start \
                     v'",
                ),
                "\n    drive 1 of 'v' failed; run 'softroc volume show v', or 'softroc volume \
                 start v'\n    To do: softroc volume show v\n    To do: softroc volume start v",
            ),
        ] {
            let todo = todo.map(str::to_owned);
            let one = Finding {
                status: WellBeing::Warning,
                subject: String::new(),
                what: "x".into(),
                todo,
            };
            assert_eq!(finding(&one), format!("warning: x{shown}"));
        }
    }
}
