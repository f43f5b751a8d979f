//! Overall health and the alarm as text.

use super::{date, facts, for_people};
use controller::{AlarmInfo, Finding, HealthReport, WellBeing};
use std::collections::BTreeSet;
use units::printable;

/// The overall health, which states the worst problem, and its actions; then the other findings.
pub fn health(health: &HealthReport) -> String {
    let word = health.status.to_string().to_uppercase();
    let mut text = format!("{word}: {}.\n", for_people(health.sentence.trim_end_matches('.')));
    let all = &health.findings;
    let mut printed = BTreeSet::new();
    let mut listed = all.iter().filter(|finding| !finding.is_cause_in(all)).peekable();
    if let Some(worst) = listed.next_if(|_| health.status > WellBeing::Ok) {
        text.extend(details(worst, all, &mut printed).into_iter().map(|line| line + "\n"));
    }
    if listed.peek().is_some() {
        text.push('\n');
    }
    for finding in listed {
        let what = match finding.what.split_once(": ") {
            // The alarm sounds for a reason that is above.
            Some((begin, reason)) if printed.contains(reason) => for_people(begin),
            _ => in_short(finding),
        };
        text.push_str(&format!("{}: {what}\n", finding.status));
        text.extend(details(finding, all, &mut printed).into_iter().map(|line| line + "\n"));
    }
    text
}

/// What a finding says, with its object named once.
fn in_short(finding: &Finding) -> String {
    let again = format!(": {} ", finding.subject);
    match finding.what.split_once(&again) {
        Some((begin, end)) if !end.starts_with("of ") => for_people(&format!("{begin}: it {end}")),
        _ => for_people(&finding.what),
    }
}

/// Whether a text contains the reason of a finding, its first clause.
fn has_reason(text: &str, finding: &Finding) -> bool {
    let reason = finding.what.split_once(": ").map(|(_, reason)| reason);
    let clause = reason.and_then(|reason| reason.split(';').next());
    clause.is_some_and(|clause| text.contains(clause))
}

/// The causes of a finding, unless `printed` has them, and then the commands to paste.
fn details<'f>(
    finding: &'f Finding,
    all: &'f [Finding],
    printed: &mut BTreeSet<&'f str>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut commands: Vec<&str> = Vec::new();
    let is_cause = |other: &&Finding| finding.causes.contains(&other.subject);
    let causes: Vec<&Finding> = all.iter().filter(is_cause).collect();
    let own = finding.todo.as_deref().map_or((None, Vec::new()), cause_and_commands);
    let is_known = |text: &str| causes.iter().any(|cause| cause.what.ends_with(text));
    let sentence = own.0.filter(|text| !is_known(text));
    let is_new = own.0.is_some_and(|text| printed.insert(text));
    for cause in &causes {
        let is_named = sentence.is_some_and(|text| has_reason(text, cause));
        if !is_named && printed.insert(&cause.subject) {
            lines.push(format!("    {}", in_short(cause)));
        }
        commands.extend(cause.todo.iter().flat_map(|todo| cause_and_commands(todo).1));
    }
    lines.extend(
        sentence.filter(|_| is_new).map(|sentence| format!("    {}", for_people(sentence))),
    );
    commands.extend(own.1);
    let mut named = BTreeSet::new();
    commands.retain(|command| named.insert(*command));
    lines.extend(commands.iter().map(|command| format!("    To do: {}", printable(command))));
    lines
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

    fn found(subject: &str, what: &str, todo: Option<&str>) -> Finding {
        Finding {
            status: WellBeing::Warning,
            subject: subject.to_owned(),
            what: what.to_owned(),
            todo: todo.map(str::to_owned),
            causes: Vec::new(),
        }
    }

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
            let lines = details(&found("v", "x", todo), &[], &mut BTreeSet::new());
            let lines: String = lines.iter().map(|line| format!("\n{line}")).collect();
            assert_eq!(lines, shown);
        }
    }

    #[test]
    fn a_drive_that_two_volumes_lack_is_one_cause() {
        let reason = "drive b failed: 'v' is degraded";
        let lacks = |volume: &str| Finding {
            causes: vec!["drive b".into()],
            ..found(volume, &format!("{volume} is degraded"), Some(reason))
        };
        let replace = "softroc drive replace v:1 --with NEW-DRIVE";
        let failed = format!("drive b (slot v:1) is failed: {reason}");
        let sounds = format!("the alarm sounds: {reason}");
        let report = HealthReport {
            status: WellBeing::Warning,
            sentence: "volume v is degraded; one more thing needs attention".into(),
            findings: vec![
                lacks("volume v"),
                lacks("volume w"),
                found("drive b", &failed, Some(replace)),
                found("alarm", &sounds, Some("softroc alarm silence")),
            ],
        };
        let shown = format!(
            "WARNING: volume v is degraded; one more thing needs attention.\n    \
             drive b (slot v:1) is failed: it failed: 'v' is degraded\n    To do: {replace}\n\n\
             warning: volume w is degraded\n    To do: {replace}\n\
             warning: the alarm sounds\n    To do: softroc alarm silence\n"
        );
        assert_eq!(health(&report), shown);
    }

    #[test]
    fn a_reason_that_names_the_drives_is_printed_once_in_their_place() {
        let reason = "'v', 'w' cannot be started: drive b of 'v' is missing; connect it";
        let stopped = |volume: &str| Finding {
            causes: vec!["drive b".into()],
            ..found(volume, &format!("{volume} is offline"), Some(reason))
        };
        let missing = "drive b (slot v:1) is missing: drive b of 'v' is missing";
        let report = HealthReport {
            status: WellBeing::Warning,
            sentence: "volume v is offline; one more thing needs attention".into(),
            findings: vec![
                stopped("volume v"),
                stopped("volume w"),
                found("drive b", missing, Some("softroc volume show v")),
            ],
        };
        let todo = "    To do: softroc volume show v\n";
        let shown = format!(
            "WARNING: volume v is offline; one more thing needs attention.\n    {reason}\n{todo}\n\
             warning: volume w is offline\n{todo}"
        );
        assert_eq!(health(&report), shown);
    }
}
