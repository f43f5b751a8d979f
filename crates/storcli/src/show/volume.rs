//! `/cN/vN show ...`.

use super::lists::{drive_table, volume_table};
use crate::Machine;
use crate::answer::{Answer, OTHER};
use crate::change::{Refusal, ask};
use crate::codes::NOT_FOUND;
use crate::forms::{Moment, size, time_left, unit};
use crate::tree::{Column, Pairs, Table, Value, column, left, number, pairs, right, text, yes_no};
use crate::view::{Pd, Vd, View, policy};
use crate::words::{Numbers, Word};
use controller::{Command, Reply, ReshapeVolume, TaskInfo, TaskKind, TaskState, VolumeInfo};

/// `/cN/vN show [all|init|cc|...]`.
pub(super) fn answer(
    view: &View,
    numbers: &Numbers,
    words: &[Word],
    machine: &mut dyn Machine,
) -> Answer {
    let volumes = view.volumes_of(numbers);
    let what = match words {
        [] => "",
        [word] => word.bare(),
        _ => return Answer::unsupported(),
    };
    let is_known =
        matches!(what, "" | "all" | "autobgi" | "expansion") || operation_kinds(what).is_some();
    if !is_known || words.len() == 1 && what.is_empty() {
        return Answer::unsupported();
    }
    if volumes.is_empty() {
        return match numbers {
            Numbers::All => Answer::done("No VD's have been configured."),
            Numbers::These(_) => missing(numbers),
        };
    }
    match what {
        "" => Answer::shown(vec![(
            "Virtual Drives".into(),
            Value::Table(volume_table(view, &volumes)),
        )]),
        "all" => Answer::shown(volumes.iter().flat_map(|volume| details(view, volume)).collect()),
        "autobgi" => {
            const COLUMNS: &[Column] = &[column("VD"), left("AutoBGI")];
            let rows =
                volumes.iter().map(|volume| vec![number(volume.number), text("On")]).collect();
            Answer::shown(vec![(
                "VD Operation Status".into(),
                Value::Table(Table::new(COLUMNS, rows)),
            )])
        }
        "expansion" => expansion(view, &volumes, machine),
        operation => operations(view, &volumes, operation),
    }
}

const EXPANSION: &[Column] = &[
    column("VD"),
    right("Size"),
    left("OCE"),
    right("NoArrExp"),
    right("WithArrExp"),
    left("Status"),
];

const EXPANSION_LEGEND: &str = "OCE - Online Capacity Expansion | WithArrExp - With Array Expansion
VD=Virtual Drive | NoArrExp - Without Array Expansion";

/// By how much volumes can grow on their drives. Additional space of larger drives is always used.
fn expansion(view: &View, volumes: &[Vd<'_>], machine: &mut dyn Machine) -> Answer {
    let mut rows = Vec::new();
    for vd in volumes {
        let moves = view.volume_task(&[TaskKind::Reshape], vd.volume).is_some();
        // A volume that cannot be expanded now has no space.
        let room = if moves { 0 } else { room_to_grow(vd, machine).unwrap_or(0) };
        let by = || if room > 0 { text(size(room)) } else { text("-") };
        rows.push(vec![
            number(vd.number),
            text(size(vd.volume.capacity_bytes)),
            text(if room > 0 { "Y" } else { "N" }),
            by(),
            by(),
            text(if moves { "In progress" } else { "-" }),
        ]);
    }
    let table = Table { legend: EXPANSION_LEGEND, ..Table::new(EXPANSION, rows) };
    Answer::shown(vec![("EXPANSION INFORMATION".into(), Value::Table(table))])
}

/// By how much a volume can grow on its drives.
pub(crate) fn room_to_grow(vd: &Vd<'_>, machine: &mut dyn Machine) -> Result<u64, Refusal> {
    let all =
        ReshapeVolume { volume: vd.volume.uuid.clone(), dry_run: true, ..ReshapeVolume::default() };
    match ask(machine, Command::VolumeReshape(all))? {
        Reply::Reshape { reshape, .. } => {
            Ok(reshape.to.capacity_bytes.saturating_sub(reshape.from.capacity_bytes))
        }
        _ => Err(Refusal::new(OTHER, "the controller sent an unexpected reply; see its log")),
    }
}

/// The reply when none of these volumes exists.
pub(crate) fn missing(numbers: &Numbers) -> Answer {
    const COLUMNS: &[Column] = &[column("VD"), left("Status"), column("ErrCd"), left("ErrMsg")];
    let row = |volume: u32| {
        vec![number(volume), text("Failed"), number(NOT_FOUND), text("VD doesn't exist")]
    };
    let rows: Vec<Vec<Value>> = numbers.named().into_iter().map(row).collect();
    Answer {
        detailed: (!rows.is_empty()).then(|| Box::new(Table::new(COLUMNS, rows))),
        code: crate::answer::exit_code(NOT_FOUND),
        ..Answer::failed("No VD's have been configured.")
    }
}

/// The task kinds of an operation; empty for one that is never in progress.
pub(crate) fn operation_kinds(operation: &str) -> Option<(&'static str, &'static [TaskKind])> {
    Some(match operation {
        "init" => ("INIT", &[TaskKind::Init]),
        "cc" | "consistencycheck" => ("CC", &[TaskKind::Check, TaskKind::Repair]),
        "bgi" => ("BGI", &[TaskKind::Resync]),
        "migrate" => ("Migrate", &[TaskKind::Reshape]),
        "erase" => ("ERASE", &[]),
        _ => return None,
    })
}

const OPERATIONS: &[Column] = &[
    column("VD"),
    left("Operation"),
    left("Progress%"),
    left("Status"),
    left("Estimated Time Left"),
];

fn operations(view: &View, volumes: &[Vd<'_>], operation: &str) -> Answer {
    let Some((name, kinds)) = operation_kinds(operation) else { return Answer::unsupported() };
    let row = |volume: &Vd<'_>| {
        let task = view.volume_task(kinds, volume.volume);
        let [progress, status, left] = match volume.volume.initialisation {
            Some(done) if kinds.contains(&TaskKind::Resync) && task.is_none() => {
                [number(done.percent), text("In progress"), text("-")]
            }
            _ => progress(task),
        };
        vec![number(volume.number), text(name), progress, status, left]
    };
    let table = Table::new(OPERATIONS, volumes.iter().map(row).collect());
    Answer::shown(vec![("VD Operation Status".into(), Value::Table(table))])
}

/// Progress, state and remaining time of a task.
pub(super) fn progress(task: Option<&TaskInfo>) -> [Value; 3] {
    let Some(task) = task else { return [text("-"), text("Not in progress"), text("-")] };
    let status = if task.state == TaskState::Paused { "Paused" } else { "In progress" };
    [number(task.percent), text(status), text(time_left(task.eta_s))]
}

fn details(view: &View, vd: &Vd<'_>) -> Pairs {
    let volume = vd.volume;
    let drives: Vec<Pd<'_>> =
        volume.drives.iter().filter_map(|drive| view.numbered(drive)).collect();
    pairs([
        (
            &format!("/c0/v{}", vd.number),
            Value::Table(volume_table(view, std::slice::from_ref(vd))),
        ),
        (&format!("PDs for VD {}", vd.number), Value::Table(drive_table(view, &drives))),
        (&format!("VD{} Properties", vd.number), Value::Pairs(properties(view, volume))),
    ])
}

fn properties(view: &View, volume: &VolumeInfo) -> Pairs {
    let spans = volume.spans.max(1);
    let created = Moment::of(volume.created_unix_s);
    let mode = policy(volume, "write-mode").map_or("write-through", |(configured, _)| configured);
    let drive_cache =
        match policy(volume, "drive-cache").map_or("unchanged", |(configured, _)| configured) {
            "on" => "Enabled",
            "off" => "Disabled",
            _ => "Disk's Default",
        };
    let emulation = match policy(volume, "sector").map_or("default", |(configured, _)| configured) {
        "512n" => "disable",
        "512e" => "force",
        other => other,
    };
    pairs([
        ("Strip Size", text(unit(volume.strip_bytes))),
        ("Number of Blocks", number(volume.capacity_bytes / volume.sector_bytes.max(1))),
        ("VD has Emulated PD", text("No")),
        ("Span Depth", number(spans)),
        ("Number of Drives Per Span", number(volume.drives.len() / usize::from(spans))),
        ("Write Cache(initial setting)", text(written_out(mode))),
        ("Disk Cache Policy", text(drive_cache)),
        ("Encryption", text("None")),
        ("Data Protection", text("None")),
        ("Active Operations", text(active(view, volume))),
        ("Exposed to OS", yes_no(volume.state.serves())),
        ("OS Drive Name", text("N/A")),
        ("Creation Date", text(created.date())),
        ("Creation Time", text(created.half_day())),
        ("Emulation type", text(emulation)),
        ("Is LD Ready for OS Requests", yes_no(volume.state.serves())),
        ("SCSI NAA Id", text(naa_6(&volume.uuid))),
        ("Unmap Enabled", text("Yes")),
    ])
}

fn written_out(mode: &str) -> &'static str {
    match mode {
        "write-back" | "logged-write-back" => "WriteBack",
        "always-write-back" => "AlwaysWriteBack",
        _ => "WriteThrough",
    }
}

/// The active operations of a volume.
fn active(view: &View, volume: &VolumeInfo) -> String {
    let names = [
        ("Initialization", &[TaskKind::Init][..]),
        ("Consistency Check", &[TaskKind::Check, TaskKind::Repair]),
        ("Background Initialization", &[TaskKind::Resync]),
        ("Reconstruction", &[TaskKind::Reshape]),
    ];
    let initialising =
        volume.initialisation.map(|done| format!("Background Initialization ({}%)", done.percent));
    let running = names.into_iter().filter_map(|(name, kinds)| {
        let task = view.volume_task(kinds, volume)?;
        Some(format!("{name} ({}%)", task.percent))
    });
    let running: Vec<String> = running.chain(initialising).collect();
    if running.is_empty() { "None".to_owned() } else { running.join(", ") }
}

/// A locally assigned 32-digit name, from a UUID.
fn naa_6(uuid: &str) -> String {
    let digits: String = uuid.chars().filter(char::is_ascii_hexdigit).take(31).collect();
    format!("3{digits}")
}
