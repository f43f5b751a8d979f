//! `/cN show NAME`: one property, in the format of `set NAME=...`.

use super::controller::{check, patrol};
use crate::Surroundings;
use crate::answer::Answer;
use crate::forms::{Moment, size};
use crate::tree::{Column, Pairs, Table, Value, column, left, number, pairs, text};
use crate::view::{Vd, View, policy};
use controller::{ScheduleInfo, TaskKind, TaskState};

const PROPERTIES: &[Column] = &[left("Ctrl_Prop"), left("Value")];

/// Properties and their values.
pub(crate) fn of_controller<'a>(properties: impl IntoIterator<Item = (&'a str, String)>) -> Answer {
    let rows = properties.into_iter().map(|(name, value)| vec![text(name), text(value)]).collect();
    let table = Table::new(PROPERTIES, rows);
    Answer::shown(vec![("Controller Properties".into(), Value::Table(table))])
}

fn on_off(on: bool) -> String {
    if on { "ON" } else { "OFF" }.to_owned()
}

/// A property by its name.
pub(super) fn answer(view: &View, name: &str, around: &Surroundings) -> Answer {
    let rate = || format!("{}%", share(view));
    match name {
        "time" => of_controller([("Time", Moment::of(around.now_unix_s).sorted())]),
        "alarm" => of_controller([("Alarm", on_off(view.metrics.controller.alarm.on))]),
        "rebuildrate" => of_controller([("Rebuildrate", rate())]),
        "bgirate" => of_controller([("BGI Rate", rate())]),
        "reconrate" => of_controller([("Reconrate", rate())]),
        "ccrate" => of_controller([("CC Rate", scheduled_share(view, check(view)))]),
        "prrate" => of_controller([("Patrol Read Rate", scheduled_share(view, patrol(view)))]),
        "autorebuild" => of_controller([("AutoRebuild", "ON".into())]),
        "copyback" => of_controller([("Copyback", on_off(has_policy(view, "copyback")))]),
        "eghs" | "eghs-state" => of_controller([("EmergencyGHS", on_off(emergency_spares(view)))]),
        "jbod" => of_controller([("JBOD", "OFF".into())]),
        "foreignautoimport" => of_controller([("ForeignAutoImport", "OFF".into())]),
        "ctrlcount" => Answer::shown(pairs([("Controller Count", number(1))])),
        "personality" => of_controller([("Current Personality", "RAID-Mode".into())]),
        "temperature" => match around.temperature_c {
            Some(celsius) => {
                of_controller([("ROC temperature(Degree Celsius)", celsius.to_string())])
            }
            None => Answer::refused("Temperature", "no sensor", crate::codes::NO_HARDWARE),
        },
        "bootdrive" => of_controller([("BootDrive", "No Boot Drive".into())]),
        "patrolread" | "pr" => patrol_read(view),
        "cc" | "consistencycheck" => consistency_check(view),
        "preservedcache" => preserved_cache(view),
        "freespace" => free_space(view),
        _ => Answer::unsupported(),
    }
}

/// The task rate of the first array.
fn share(view: &View) -> String {
    let first = view.volumes().into_iter().next();
    let share = first.and_then(|volume| policy(volume.volume, "task-rate"));
    share.map_or_else(
        || "30".to_owned(),
        |(_, current)| current.trim_end_matches(['%', ' ']).to_owned(),
    )
}

fn scheduled_share(view: &View, schedule: Option<&ScheduleInfo>) -> String {
    let own = schedule.and_then(|schedule| schedule.share_percent);
    own.map_or_else(|| format!("{}%", share(view)), |share| format!("{share}%"))
}

/// Whether every array has a policy enabled.
fn has_policy(view: &View, name: &str) -> bool {
    let volumes = view.volumes();
    let is_on =
        |volume: &Vd<'_>| policy(volume.volume, name).is_some_and(|(_, current)| current == "on");
    !volumes.is_empty() && volumes.iter().all(is_on)
}

/// Whether emergency spares are enabled.
pub(super) fn emergency_spares(view: &View) -> bool {
    has_policy(view, "emergency-spare")
}

/// Policies of a controller.
pub(super) fn policies(view: &View) -> Pairs {
    let rate = format!("{} %", share(view));
    pairs([
        ("Predictive Fail Poll Interval", text("300 sec")),
        ("Rebuild Rate", text(&rate)),
        ("Check Consistency Rate", text(scheduled_share(view, check(view)))),
        ("Patrol Read Rate", text(scheduled_share(view, patrol(view)))),
        ("Background Initialization Rate", text(rate)),
        ("Auto Rebuild", text("On")),
        ("Copyback", text(if has_policy(view, "copyback") { "On" } else { "Off" })),
        ("Use disk activity for locate", text("No")),
        ("Maintain PD Fail History", text("Yes")),
    ])
}

/// The state of tasks of these kinds.
fn standing(view: &View, kinds: &[TaskKind]) -> String {
    match view.task(kinds, |_| true) {
        None => "Stopped".into(),
        Some(task) if task.state == TaskState::Paused => "Paused".into(),
        Some(task) => format!("Active {}%", task.percent),
    }
}

fn next_time(schedule: Option<&ScheduleInfo>) -> String {
    let next = schedule.filter(|schedule| schedule.on).and_then(|schedule| schedule.next_unix_s);
    next.map_or_else(|| "NA".to_owned(), |next| Moment::of(next).long())
}

fn patrol_read(view: &View) -> Answer {
    let schedule = patrol(view);
    let on = schedule.is_some_and(|schedule| schedule.on);
    let hours = schedule.map_or(0, |schedule| u64::from(schedule.every_days) * 24);
    of_controller([
        ("PR Mode", if on { "Auto" } else { "Manual" }.into()),
        ("PR Execution Delay", format!("{hours} hours")),
        ("PR iterations completed", completed(view, &[TaskKind::Patrol]).to_string()),
        ("PR Next Start time", next_time(schedule)),
        ("PR on SSD", "Enabled".into()),
        ("PR Current State", standing(view, &[TaskKind::Patrol])),
        ("PR Excluded VDs", "None".into()),
        ("PR MaxConcurrentPd", view.drives().len().to_string()),
    ])
}

/// The number of completed tasks of these kinds, as far as they are known.
fn completed(view: &View, kinds: &[TaskKind]) -> usize {
    view.metrics
        .tasks
        .iter()
        .filter(|task| kinds.contains(&task.kind) && task.state == TaskState::Done)
        .count()
}

fn consistency_check(view: &View) -> Answer {
    let schedule = check(view);
    let hours = schedule.map_or(0, |schedule| u64::from(schedule.every_days) * 24);
    let volumes = view.volumes();
    let done = completed(view, &[TaskKind::Check, TaskKind::Repair]);
    of_controller([
        ("CC Operation Mode", if schedule.is_some() { "Concurrent" } else { "Disabled" }.into()),
        ("CC Execution Delay", hours.to_string()),
        ("CC Next Starttime", next_time(schedule)),
        ("CC Current State", standing(view, &[TaskKind::Check, TaskKind::Repair])),
        ("CC Number of iterations", done.to_string()),
        ("CC Number of VD completed", done.to_string()),
        ("CC Excluded VDs", excluded(view, &volumes)),
    ])
}

/// Volumes without a check schedule.
fn excluded(view: &View, volumes: &[Vd<'_>]) -> String {
    let not: Vec<String> = volumes
        .iter()
        .filter(|volume| !view.is_checked(volume.volume))
        .map(|volume| volume.number.to_string())
        .collect();
    if not.is_empty() { "None".to_owned() } else { not.join(",") }
}

/// Volumes with preserved cache.
pub(crate) fn preserved(view: &View) -> impl Iterator<Item = Vd<'_>> {
    let has = |volume: &Vd<'_>| {
        volume.volume.cache.pinned_bytes > 0
            || volume.volume.cache.dirty_bytes > 0 && !volume.volume.state.serves()
    };
    view.volumes().into_iter().filter(has)
}

fn preserved_cache(view: &View) -> Answer {
    const COLUMNS: &[Column] = &[column("VD"), left("State")];
    let state = |volume: &Vd<'_>| if volume.volume.state.serves() { "Pinned" } else { "Offline" };
    let rows: Vec<Vec<Value>> =
        preserved(view).map(|volume| vec![number(volume.number), text(state(&volume))]).collect();
    if rows.is_empty() {
        return of_controller([(
            "Preserved Cache",
            "No Virtual Drive has Preserved Cache Data.".into(),
        )]);
    }
    Answer::shown(vec![("Preserved Cache".into(), Value::Table(Table::new(COLUMNS, rows)))])
}

/// Free space of groups, and unused drives.
pub(super) fn free_space_table(view: &View) -> Table {
    const COLUMNS: &[Column] =
        &[column("DG"), left("Arr"), left("Row"), left("EID:Slot"), left("DID"), left("Size")];
    let dash = || text("-");
    let groups = view.groups();
    let of_groups = groups.iter().filter_map(|group| {
        let free = group.first().filter(|first| first.volume.array_free_bytes > 0)?;
        let drives = free.volume.drives.len() as u64;
        let bytes = free.volume.array_free_bytes.saturating_mul(drives);
        Some(vec![number(free.group), number(0), dash(), dash(), dash(), text(size(bytes))])
    });
    Table::new(COLUMNS, of_groups.collect())
}

fn free_space(view: &View) -> Answer {
    let mut data = pairs([("Total Disk Groups", number(view.groups().len()))]);
    data.push(("FREE SPACE DETAILS".into(), Value::Table(free_space_table(view))));
    Answer::shown(data)
}
