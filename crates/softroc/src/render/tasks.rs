//! Tasks, schedules and spares as text.

use super::{capacity, date, facts, with_notes};
use crate::output::table;
use crate::progress::seconds;
use controller::{CoverageInfo, Found, HealthInfo, ScheduleInfo, SpareInfo, TaskInfo, TaskState};
use std::time::Duration;
use units::{ByteCount, both_capacities, counted, decimal_capacity};

/// All tasks.
pub fn list(tasks: &[TaskInfo]) -> String {
    if tasks.is_empty() {
        return "No tasks. Start one with 'softroc task start'; rebuilds start automatically."
            .into();
    }
    let rows: Vec<Vec<String>> = tasks
        .iter()
        .map(|task| {
            vec![
                task.task.to_string(),
                task.kind.to_string(),
                task.state.to_string(),
                format!("{} %", task.percent),
                rate(task).unwrap_or_default(),
                eta(task).unwrap_or_default(),
                task.subject.clone(),
                remark(task),
            ]
        })
        .collect();
    table(
        &["task", "what", "state", "done", "rate", "left", "of", ""],
        &rows,
        &[true, false, false, true, true, true, false, false],
    )
}

/// One task.
pub fn one(task: &TaskInfo, notes: &[String]) -> String {
    let mut list = vec![
        ("task", task.task.to_string()),
        ("what", format!("{} of {}", task.kind, task.subject)),
        ("state", task.state.to_string()),
    ];
    list.extend(task.reason.clone().map(|reason| ("reason", reason)));
    list.push(("cause", task.cause.clone()));
    let blocks = format!(
        "{} of {} blocks of 512 bytes ({} %)",
        task.done_blocks, task.total_blocks, task.percent
    );
    list.push(("progress", blocks));
    list.extend(rate(task).map(|rate| ("rate", rate)));
    list.extend(eta(task).map(|eta| ("left", eta)));
    list.extend(found(task).map(|found| ("found", found)));
    let limit = match task.limit_bytes_per_s {
        Some(limit) => format!(", and at most {}/s", ByteCount(limit)),
        None => String::new(),
    };
    list.push(("share", format!("{} % while hosts do I/O{limit}", task.share_percent)));
    list.push(("began", date(task.started_unix_s)));
    list.extend(task.ended_unix_s.map(|ended| ("ended", date(ended))));
    with_notes(facts(&list), notes)
}

/// The state of a task, on one line.
pub fn line(task: &TaskInfo) -> String {
    format!("task {}: {} of {}: {}", task.task, task.kind, task.subject, progress(task))
}

/// The state of a task and its percentage.
pub fn progress(task: &TaskInfo) -> String {
    with_details(format!("{} {} %", task.state, task.percent), task)
}

/// The state of a task, for a bar that shows the percentage itself.
pub fn beside_bar(task: &TaskInfo) -> String {
    with_details(format!("{} {}", task.kind, task.state), task)
}

fn with_details(state: String, task: &TaskInfo) -> String {
    let mut parts = vec![state];
    parts.extend(rate(task));
    parts.extend(eta(task).map(|eta| format!("{eta} left")));
    parts.extend(found(task));
    parts.extend(task.reason.clone());
    parts.join(" · ")
}

fn rate(task: &TaskInfo) -> Option<String> {
    task.rate_mib_s.map(|rate| match rate < 10.0 {
        true => format!("{rate:.1} MiB/s"),
        false => format!("{rate:.0} MiB/s"),
    })
}

fn eta(task: &TaskInfo) -> Option<String> {
    let left = task.eta_s?;
    Some(match left {
        0..3600 => seconds(Duration::from_secs(left)),
        3600..86_400 => format!("{} h {:02} min", left / 3600, left / 60 % 60),
        _ => format!("{} {} h", counted(left / 86_400, "day"), left / 3600 % 24),
    })
}

fn found(task: &TaskInfo) -> Option<String> {
    let Found { mismatches, repaired, unreadable, unrecoverable_bytes, uncompared } = task.found;
    let mut parts = Vec::new();
    let mut add = |count: u64, text: String| {
        if count > 0 {
            parts.push(text);
        }
    };
    let disagree = if mismatches == 1 { "disagrees" } else { "disagree" };
    add(mismatches, format!("{} {disagree}", counted(mismatches, "stripe")));
    add(uncompared, format!("{} not compared", counted(uncompared, "stripe")));
    add(unreadable, format!("{} unreadable", counted(unreadable, "place")));
    add(repaired, format!("{repaired} repaired"));
    add(unrecoverable_bytes, format!("{} lost", counted(unrecoverable_bytes, "byte")));
    for blamed in &task.blamed {
        parts.push(format!("drive {} wrong in {}", blamed.slot, blamed.stripes));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn remark(task: &TaskInfo) -> String {
    let mut parts: Vec<String> = found(task).into_iter().collect();
    parts.extend(task.reason.clone());
    if let Some(ended) = task.ended_unix_s.filter(|_| task.state != TaskState::Failed) {
        parts.push(format!("ended {}", date(ended)));
    }
    parts.join("; ")
}

/// The health data of a drive: names and values.
pub fn health(health: &HealthInfo) -> Vec<(&'static str, String)> {
    let mut told =
        vec![("health", format!("{}, asked {}", health.source, date(health.asked_unix_s)))];
    let mut add = |name, value: Option<String>| told.extend(value.map(|value| (name, value)));
    add("! replace", health.warning.clone().map(|why| format!("it {why}")));
    add("wear", health.wear_percent.map(|wear| format!("{wear} % of its endurance is used")));
    add("spare blocks", health.spare_percent.map(|left| format!("{left} % left")));
    add("media errors", health.media_errors.map(|count| count.to_string()));
    add("reallocated", health.reallocated_sectors.map(|count| counted(count, "sector")));
    add("temperature", health.temperature_c.map(|celsius| format!("{celsius} °C")));
    add("powered on", health.power_on_hours.map(|hours| format!("{hours} h")));
    add("written", health.written_bytes.map(|bytes| decimal_capacity(ByteCount(bytes))));
    told
}

/// The schedules.
pub fn schedules(schedules: &[ScheduleInfo]) -> String {
    let dash = || "-".to_owned();
    let rows: Vec<Vec<String>> = schedules
        .iter()
        .map(|schedule| {
            let every = match schedule.every_days {
                days if days.is_multiple_of(7) => format!("{}w", days / 7),
                days => format!("{days}d"),
            };
            let at = format!("{:02}:{:02} UTC", schedule.at_s / 3600, schedule.at_s / 60 % 60);
            let what = match (schedule.what, schedule.repair) {
                (controller::Scheduled::Check, true) => "check and repair".to_owned(),
                (what, _) => what.to_string(),
            };
            vec![
                what,
                schedule.volume.clone().unwrap_or_else(|| "all drives".into()),
                if schedule.on { "on".into() } else { "off".into() },
                every,
                at,
                schedule.share_percent.map_or_else(dash, |share| format!("{share} %")),
                schedule.next_unix_s.map_or_else(dash, date),
                schedule.last_unix_s.map_or_else(dash, date),
            ]
        })
        .collect();
    table(&["what", "of", "", "every", "at", "rate", "next", "last"], &rows, &[false; 8])
}

/// The spares, and the arrays that they cover.
pub fn spares(spares: &[SpareInfo], coverage: &[CoverageInfo]) -> String {
    let mut text = match spares.is_empty() {
        true => "No spares. Add one with 'softroc spare add'.".into(),
        false => {
            let rows: Vec<Vec<String>> = spares.iter().map(|spare| row(spare).into()).collect();
            table(
                &["spare", "state", "capacity", "kind", "for", "covers"],
                &rows,
                &[false, false, true, false, false, false],
            )
        }
    };
    for array in coverage {
        text.push('\n');
        text.push_str(&covered(array));
    }
    text
}

/// A spare after a command: one line.
pub fn spare(spare: &SpareInfo, notes: &[String]) -> String {
    let [drive, state, capacity, kind, stands_for, covers] = row(spare);
    let covers = if covers == "-" { "nothing".to_owned() } else { covers };
    with_notes(
        format!("Spare {drive}: {state}, {capacity}, {kind}, for {stands_for}, covers {covers}"),
        notes,
    )
}

fn row(spare: &SpareInfo) -> [String; 6] {
    let stands_for = match spare.kind {
        controller::SpareKind::Global => "all arrays".to_owned(),
        controller::SpareKind::Dedicated => spare.dedicated_to.join(", "),
        controller::SpareKind::Enclosure => {
            format!("enclosure {}", spare.enclosure.as_deref().unwrap_or("unknown"))
        }
    };
    let covers = match spare.covers.is_empty() {
        true => "-".to_owned(),
        false => spare.covers.join(", "),
    };
    [
        spare.drive.clone(),
        spare.reason.clone().unwrap_or_else(|| "ready".into()),
        spare
            .size_bytes
            .map_or_else(|| "-".into(), |size| capacity(spare.drive_kind.as_deref(), size)),
        kind(spare.rotational).to_owned(),
        stands_for,
        covers,
    ]
}

fn kind(rotational: bool) -> &'static str {
    if rotational { "rotating" } else { "SSD" }
}

fn covered(array: &CoverageInfo) -> String {
    let of_kind = match array.needs_rotational {
        Some(rotational) => format!(" {}", kind(rotational)),
        None => String::new(),
    };
    let needs = format!("needs {}{of_kind}", both_capacities(ByteCount(array.needs_bytes)));
    let volumes = array.volumes.join(", ");
    match array.covered_by.first() {
        Some(first) => format!("  {volumes} ({needs}): covered by {first}"),
        None => format!("! {volumes} ({needs}): no spare covers it: {}", array.reasons.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bar_shows_the_percentage_and_its_text_the_rest() {
        let task: TaskInfo = serde_json::from_value(json!({
            "task": 7, "kind": "rebuild", "subject": "drive d of 'data'", "volume": "data",
            "drive": "d", "state": "running", "reason": null, "cause": "", "done_blocks": 10,
            "total_blocks": 20, "percent": 50, "rate_mib_s": 42.0, "eta_s": 65, "found": {},
            "blamed": [], "share_percent": 30, "limit_bytes_per_s": null, "started_unix_s": 0,
            "ended_unix_s": null,
        }))
        .unwrap();
        assert_eq!(beside_bar(&task), "rebuild running · 42 MiB/s · 1 min 05 s left");
        assert_eq!(
            line(&task),
            "task 7: rebuild of drive d of 'data': running 50 % · 42 MiB/s · 1 min 05 s left"
        );
    }
}
