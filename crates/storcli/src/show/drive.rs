//! `/cN/eN/sN show ...`, `/cN/eN show`.

use super::lists::drive_table;
use super::volume::progress;
use crate::answer::Answer;
use crate::codes::{INVALID, NOT_FOUND, WRONG_STATE};
use crate::forms::{size, unit};
use crate::tree::{Column, Pairs, Table, Value, column, left, number, pairs, text, yes_no};
use crate::view::{Pd, View};
use crate::words::{Numbers, Word};
use controller::{Coercion, DriveInfo, SpareKind, TaskKind};

const SHOWN: &str = "Show Drive Information Succeeded.";
const NOT_SHOWN: &str = "Show Drive Information Failed.";

/// Possible operations on a drive.
const OPERATIONS: &[(&str, &str, &[TaskKind])] = &[
    ("rebuild", "Rebuild", &[TaskKind::Rebuild]),
    ("copyback", "Copyback", &[TaskKind::Copyback, TaskKind::Replace]),
    ("initialization", "Initialization", &[]),
    ("erase", "Erase", &[]),
    ("patrolread", "Patrolread", &[TaskKind::Patrol]),
];

/// `/cN/eN/sN show [all|rebuild|...]`.
pub(super) fn answer(
    view: &View,
    enclosures: Option<&Numbers>,
    slots: &Numbers,
    words: &[Word],
) -> Answer {
    let what = match words {
        [] => "",
        [word] if !word.bare().is_empty() => word.bare(),
        _ => return Answer::unsupported(),
    };
    let operation = OPERATIONS.iter().find(|(name, ..)| *name == what);
    if operation.is_none() && !matches!(what, "" | "all" | "smart" | "jbod") {
        return Answer::unsupported();
    }
    let drives = view.drives_of(enclosures, slots);
    let missing = missing_places(view, enclosures, slots);
    if drives.is_empty() {
        return Answer { detailed: missing, ..Answer::failed("No drive found!") };
    }
    let shown = match (operation, what) {
        (Some((_, name, kinds)), _) => operations(view, &drives, name, kinds),
        (None, "smart" | "jbod") => not_shown(&drives, what),
        (None, "all") => {
            let all = drives.iter().flat_map(|pd| details(view, pd)).collect();
            Answer::shown(all).described(SHOWN)
        }
        (None, _) => {
            let table = Value::Table(drive_table(view, &drives));
            Answer::shown(vec![("Drive Information".into(), table)]).described(SHOWN)
        }
    };
    match missing {
        None => shown,
        Some(_) => Answer {
            detailed: missing,
            good: false,
            code: crate::answer::exit_code(NOT_FOUND),
            description: NOT_SHOWN.into(),
            ..shown
        },
    }
}

/// Unsupported: raw SMART data, and pass-through state.
fn not_shown(drives: &[Pd<'_>], what: &str) -> Answer {
    let (name, code) = match what {
        "smart" => ("Smart Info", INVALID),
        _ => ("JBOD", WRONG_STATE),
    };
    let why = |pd: &Pd<'_>| match what {
        "smart" => format!(
            "raw SMART data is not available; run 'softroc drive show {}' for the drive's health",
            pd.drive.name
        ),
        _ => "not a JBOD: pass-through is not supported".to_owned(),
    };
    let row = |pd: &Pd<'_>| vec![text(path(pd)), text("Failure"), number(code), text(why(pd))];
    let table = Table::new(crate::change::OF_DRIVES, drives.iter().map(row).collect());
    Answer {
        detailed: Some(Box::new(table)),
        code: crate::answer::exit_code(code),
        ..Answer::failed(format!("Show Drive {name} Failed."))
    }
}

/// Explicitly listed locations without a drive.
pub(crate) fn missing_places(
    view: &View,
    enclosures: Option<&Numbers>,
    slots: &Numbers,
) -> Option<Box<Table>> {
    const COLUMNS: &[Column] = &[left("Drive"), left("Status"), column("ErrCd"), left("ErrMsg")];
    let named = enclosures.map_or_else(Vec::new, Numbers::named);
    let enclosures: Vec<Option<u32>> =
        if named.is_empty() { vec![None] } else { named.into_iter().map(Some).collect() };
    let drives = view.drives();
    let mut rows = Vec::new();
    for slot in slots.named() {
        for enclosure in &enclosures {
            let is_there = drives.iter().any(|pd| {
                pd.numbers.slot == slot
                    && enclosure.is_none_or(|number| pd.numbers.enclosure == number)
            });
            if !is_there {
                let place = match enclosure {
                    Some(enclosure) => format!("/c0/e{enclosure}/s{slot}"),
                    None => format!("/c0/s{slot}"),
                };
                rows.push(vec![
                    text(place),
                    text("Failure"),
                    number(NOT_FOUND),
                    text("Drive not found"),
                ]);
            }
        }
    }
    (!rows.is_empty()).then(|| Box::new(Table::new(COLUMNS, rows)))
}

/// `/c0/e252/s1`.
pub(crate) fn path(pd: &Pd<'_>) -> String {
    format!("/c0/e{}/s{}", pd.numbers.enclosure, pd.numbers.slot)
}

const PROGRESS: &[Column] =
    &[left("Drive-ID"), left("Progress%"), left("Status"), left("Estimated Time Left")];

fn operations(view: &View, drives: &[Pd<'_>], name: &str, kinds: &[TaskKind]) -> Answer {
    let row = |pd: &Pd<'_>| {
        // A patrol read covers all drives, or one.
        let of_all =
            || view.task(kinds, |task| kinds == [TaskKind::Patrol] && task.drive.is_none());
        let task = view.drive_task(kinds, pd.drive).or_else(of_all);
        let [progress, status, left] = progress(task);
        vec![text(path(pd)), progress, status, left]
    };
    let table = Table::new(PROGRESS, drives.iter().map(row).collect());
    Answer {
        data: crate::answer::Data::List(table),
        ..Answer::done(format!("Show Drive {name} Status Succeeded."))
    }
}

fn details(view: &View, pd: &Pd<'_>) -> Pairs {
    let name = format!("Drive {}", path(pd));
    let inner = pairs([
        (&format!("{name} State"), Value::Pairs(state(pd.drive))),
        (&format!("{name} Device attributes"), Value::Pairs(attributes(pd.drive))),
        (&format!("{name} Policies/Settings"), Value::Pairs(settings(view, pd))),
    ]);
    pairs([
        (&name, Value::Table(drive_table(view, std::slice::from_ref(pd)))),
        (&format!("{name} - Detailed Information"), Value::Pairs(inner)),
    ])
}

/// The counters of a drive. The last one ends the block for text parsers.
fn state(drive: &DriveInfo) -> Pairs {
    let health = drive.health.as_deref();
    let temperature = health.and_then(|health| health.temperature_c).map_or_else(
        || "N/A".to_owned(),
        |celsius| {
            let tenths = i64::from(celsius) * 18 + 320;
            format!(" {celsius}C ({}.{}0 F)", tenths / 10, (tenths % 10).abs())
        },
    );
    let predicted = health.is_some_and(|health| health.predicted_failure == Some(true));
    let suspected = health.is_some_and(|health| health.warning.is_some());
    let media = health.and_then(|health| health.media_errors).unwrap_or(0).max(drive.medium_errors);
    pairs([
        ("Shield Counter", number(0)),
        ("Media Error Count", number(media)),
        ("Other Error Count", number(0)),
        ("Drive Temperature", text(temperature)),
        ("Predictive Failure Count", number(u32::from(suspected))),
        ("S.M.A.R.T alert flagged by drive", yes_no(predicted)),
    ])
}

/// A locally assigned 16-digit name, from the drive's identity.
fn naa_3(drive: &DriveInfo) -> String {
    let identity = drive.identity.as_deref().unwrap_or(&drive.name);
    let hash = identity.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("3{:015x}", hash >> 4)
}

fn attributes(drive: &DriveInfo) -> Pairs {
    let or_dash = |value: &Option<String>| text(value.as_deref().map_or("-", str::trim));
    let bytes = drive.size_bytes.unwrap_or(0);
    let sector = drive.logical_sector_bytes.unwrap_or(512).max(1);
    let sized = |bytes: u64| text(format!("{} [0x{:x} Sectors]", size(bytes), bytes / sector));
    // The size that a new volume uses.
    let coerced = sized(Coercion::default().used_bytes(bytes));
    pairs([
        ("SN", or_dash(&drive.serial)),
        ("Manufacturer Id", text("-")),
        ("Model Number", text(super::lists::model(drive))),
        ("NAND Vendor", text("NA")),
        ("WWN", text(naa_3(drive))),
        ("Firmware Revision", or_dash(&drive.firmware)),
        ("Raw size", sized(bytes)),
        ("Coerced size", coerced),
        ("Non Coerced size", sized(bytes)),
        ("Device Speed", text("Unknown")),
        ("Link Speed", text("Unknown")),
        ("Write Cache", text("N/A")),
        ("Logical Sector Size", text(unit(sector))),
        ("Physical Sector Size", text(unit(drive.physical_sector_bytes.unwrap_or(sector)))),
        ("Connector Name", text(drive.bay.as_deref().unwrap_or("N/A"))),
        ("OS Drive Name", text(&drive.name)),
    ])
}

fn settings(view: &View, pd: &Pd<'_>) -> Pairs {
    let drive = pd.drive;
    let volumes = view.volumes();
    let place = pd.group.zip(drive.slot).map_or_else(
        || "DriveGroup:N/A".to_owned(),
        |(group, slot)| {
            let of_group = volumes.iter().find(|volume| volume.group == group);
            let (spans, drives) = of_group.map_or((1, 1), |volume| {
                (usize::from(volume.volume.spans.max(1)), volume.volume.drives.len())
            });
            let of_span = drives.div_ceil(spans).max(1);
            let (span, row) = (usize::from(slot) / of_span, usize::from(slot) % of_span);
            format!("DriveGroup:{group}, Span:{span}, Row:{row}")
        },
    );
    let spare = view.spare(drive);
    let stands_by = spare.map_or("None", |spare| match spare.kind {
        SpareKind::Global => "Global",
        SpareKind::Dedicated => "Dedicated",
        SpareKind::Enclosure => "Global, enclosure affinity",
    });
    pairs([
        ("Drive position", text(place)),
        ("Enclosure position", text(drive.enclosure.as_deref().unwrap_or("0"))),
        ("Connected Port Number", text("-")),
        ("Sequence Number", number(drive.revision)),
        ("Hotspare", text(stands_by)),
        ("Commissioned Spare", text("No")),
        ("Emergency Spare", text("No")),
        ("Last Predictive Failure Event Sequence Number", number(0)),
        ("Successful diagnostics completion on", text("N/A")),
        ("SED Capable", text("No")),
        ("SED Enabled", text("No")),
        ("Secured", text("No")),
        ("Locked", text("No")),
        ("Needs EKM Attention", text("No")),
        ("PI Eligible", text("No")),
        ("Certified", text("No")),
        ("Wide Port Capable", text("No")),
    ])
}
