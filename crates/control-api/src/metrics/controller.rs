//! The controller, its tasks, spares and events.

use super::text::{Kind, Labels, Page};
use super::{Named, column, named};
use controller::{MetricsInfo, ProtectionState, SpareKind, TaskInfo, TaskKind, TaskState};

pub(super) fn write(page: &mut Page, metrics: &MetricsInfo) {
    let of = &metrics.controller;
    let version = Labels::of("version", &of.version);
    page.family("softroc_build_info", Kind::Gauge, "Version; always 1.").series(&version, 1);
    let mut gauge =
        |name, help: &str, value: u64| page.family(name, Kind::Gauge, help).value(value);
    gauge("softroc_start_time_seconds", "When the controller was started.", of.started_unix_s);
    gauge("softroc_shards", "Threads that serve I/O.", of.shards.into());
    gauge("softroc_host_connections", "Connections of hosts.", of.hosts.into());
    gauge("softroc_alarm_on", "Whether the alarm is enabled.", of.alarm.on.into());
    gauge("softroc_alarm_sounding", "Whether the alarm sounds.", of.alarm.sounds.into());
    let help = "Whether the monitored UPS is in that state; absent without a UPS.";
    let mut family = page.family("softroc_ups_state", Kind::Gauge, help);
    if let Some(ups) = &of.ups {
        let all = ProtectionState::ALL.map(|state| state.to_string());
        let labels = Labels::of("ups", &ups.name);
        family.states(&labels, "state", all.iter().map(String::as_str), &ups.state.to_string());
    }
    let help = "Events since the controller was started.";
    let mut family = page.family("softroc_events_total", Kind::Counter, help);
    for event in &metrics.events {
        let labels = Labels::of("code", &event.code).with("severity", &event.severity.to_string());
        family.series(&labels, event.count);
    }
    tasks(page, metrics);
    spares(page, metrics);
}

fn tasks(page: &mut Page, metrics: &MetricsInfo) {
    let open: Vec<TaskInfo> =
        metrics.tasks.iter().filter(|task| !task.state.is_over()).cloned().collect();
    let with_kind = |row: Named<'_, TaskInfo>| {
        let task = &metrics.tasks.iter().find(|task| task.task == row.what.task)?;
        Some(Named { labels: row.labels.with("task", &task.kind.to_string()), what: *task })
    };
    let subjects = named(&open, "subject", |task| &task.subject);
    let rows: Vec<Named<'_, TaskInfo>> = subjects.into_iter().filter_map(with_kind).collect();
    let help = "Whether an active task is in that state.";
    let mut family = page.family("softroc_task_state", Kind::Gauge, help);
    let all =
        [TaskState::Running, TaskState::Paused, TaskState::Waiting].map(|state| state.to_string());
    for Named { labels, what } in &rows {
        family.states(labels, "state", all.iter().map(String::as_str), &what.state.to_string());
    }
    let help = "Progress of an active task, 0 to 1.";
    column(page, "softroc_task_progress_ratio", Kind::Gauge, help, &rows, |task| {
        (task.total_blocks > 0).then(|| task.done_blocks as f64 / task.total_blocks as f64)
    });
    let help = "Rate of a running task.";
    column(page, "softroc_task_rate_bytes_per_second", Kind::Gauge, help, &rows, |task| {
        task.rate_mib_s.map(|rate| rate * f64::from(1 << 20))
    });
    let help = "Estimated remaining time of a running task.";
    column(page, "softroc_task_eta_seconds", Kind::Gauge, help, &rows, |task| task.eta_s);
    let done = |task: &&TaskInfo| task.kind == TaskKind::Patrol && task.state == TaskState::Done;
    let last = metrics.tasks.iter().filter(done).filter_map(|task| task.ended_unix_s).max();
    let help =
        "End of the latest known patrol read; the newest 100 tasks of the last 30 days are known.";
    let mut family = page.family("softroc_last_patrol_timestamp_seconds", Kind::Gauge, help);
    last.into_iter().for_each(|last| family.value(last));
}

fn spares(page: &mut Page, metrics: &MetricsInfo) {
    for (name, help, only_ready) in [
        ("softroc_spares", "Hot spares.", false),
        ("softroc_spares_ready", "Hot spares that are ready to replace a drive.", true),
    ] {
        let mut family = page.family(name, Kind::Gauge, help);
        for kind in [SpareKind::Global, SpareKind::Dedicated, SpareKind::Enclosure] {
            let counts = metrics.spares.iter().filter(|spare| spare.kind == kind);
            let count = counts.filter(|spare| spare.ready || !only_ready).count();
            family.series(&Labels::of("kind", &kind.to_string()), count);
        }
    }
}
