//! `/cN show ...`.

use super::{events, lists, properties};
use crate::answer::Answer;
use crate::forms::{Moment, unit};
use crate::tree::{Column, Pairs, Table, Value, column, number, pairs, text};
use crate::view::{View, volume_state};
use crate::words::Word;
use crate::{Machine, Program, Surroundings};
use controller::{ScheduleInfo, Scheduled};

/// `/cN show [all|events|...]`.
pub(super) fn answer(
    view: &View,
    words: &[Word],
    around: &Surroundings,
    machine: &mut dyn Machine,
) -> Answer {
    match words.first().map_or("", Word::bare) {
        "" if words.is_empty() => Answer::shown(summary(view, around)),
        "all" if words.len() == 1 => Answer::shown(all(view, around)),
        "events" => events::answer(&words[1..], machine),
        name if words.len() == 1 => properties::answer(view, name, around),
        _ => Answer::unsupported(),
    }
}

/// The state of the controller.
pub(super) fn status(view: &View) -> &'static str {
    let states: Vec<&str> =
        view.volumes().iter().map(|volume| volume_state(volume.volume)).collect();
    match states {
        states if states.contains(&"OfLn") => "Failed",
        states if states.iter().any(|state| *state != "Optl") => "Degraded",
        _ => "Optimal",
    }
}

/// The schedule of patrol reads.
pub(crate) fn patrol(view: &View) -> Option<&ScheduleInfo> {
    view.metrics.schedules.iter().find(|schedule| schedule.what == Scheduled::Patrol)
}

/// The check schedule that is due next.
pub(super) fn check(view: &View) -> Option<&ScheduleInfo> {
    let on = view
        .metrics
        .schedules
        .iter()
        .filter(|schedule| schedule.what == Scheduled::Check && schedule.on);
    on.min_by_key(|schedule| schedule.next_unix_s)
}

/// The driver name by which collectors select their queries.
const DRIVER: &str = "megaraid_sas";

fn summary(view: &View, around: &Surroundings) -> Pairs {
    let info = &view.metrics.controller;
    let now = Moment::of(around.now_unix_s).short();
    let mut data = pairs([
        ("Product Name", text("SoftROC")),
        ("Serial Number", text(&info.serial)),
        ("SAS Address", text("0")),
        ("PCI Address", text("N/A")),
        ("System Time", text(&now)),
        ("Mfg. Date", text("N/A")),
        ("Controller Time", text(now)),
        ("FW Package Build", text(&info.version)),
        ("BIOS Version", text("N/A")),
        ("FW Version", text(&info.version)),
        ("Driver Name", text(DRIVER)),
        ("Driver Version", text(&info.version)),
        ("Current Personality", text("RAID-Mode")),
        ("Host Interface", text("N/A")),
        ("Device Interface", text("N/A")),
    ]);
    data.extend(lists::all(view));
    data.extend(protection_list(around));
    data
}

/// Tools for PercCLI need the battery list even if it is empty.
fn protection_list(around: &Surroundings) -> Option<(String, Value)> {
    const COLUMNS: &[Column] =
        &[column("Model"), column("State"), column("Temp"), column("Mode"), column("MfgDate")];
    (around.program == Program::PercCli)
        .then(|| ("BBU_Info".to_owned(), Value::Table(Table::new(COLUMNS, Vec::new()))))
}

fn all(view: &View, around: &Surroundings) -> Pairs {
    let info = &view.metrics.controller;
    let now = Moment::of(around.now_unix_s).long();
    let basics = pairs([
        ("Controller", number(0)),
        ("Model", text("SoftROC")),
        ("Serial Number", text(&info.serial)),
        ("Current Controller Date/Time", text(&now)),
        ("Current System Date/time", text(now)),
        ("SAS Address", text("0")),
        ("PCI Address", text("N/A")),
        ("Mfg Date", text("N/A")),
    ]);
    let version = pairs([
        ("Firmware Package Build", text(&info.version)),
        ("Firmware Version", text(&info.version)),
        ("Bios Version", text("N/A")),
        ("Driver Name", text(DRIVER)),
        ("Driver Version", text(&info.version)),
    ]);
    let (corrected, uncorrected) = around.memory_errors;
    let status = pairs([
        ("Controller Status", text(status(view))),
        ("Memory Correctable Errors", number(corrected)),
        ("Memory Uncorrectable Errors", number(uncorrected)),
        ("ECC Bucket Count", number(0)),
        (
            "Any Offline VD Cache Preserved",
            text(yes_if(super::properties::preserved(view).next().is_some())),
        ),
        ("BBU Status", text("NA")),
        ("PD Firmware Download in progress", text("No")),
        ("Support PD Firmware Download", text("No")),
        ("Lock Key Assigned", text("No")),
        ("Failed to get lock key on bootup", text("No")),
        ("Bios was not detected during boot", text("No")),
    ]);
    let mut data = pairs([
        ("Basics", Value::Pairs(basics)),
        ("Version", Value::Pairs(version)),
        (
            "Bus",
            Value::Pairs(pairs([
                ("Host Interface", text("N/A")),
                ("Device Interface", text("N/A")),
            ])),
        ),
        ("Status", Value::Pairs(status)),
        ("HwCfg", Value::Pairs(hardware(view, around))),
        ("Policies", Value::Pairs(properties::policies(view))),
        ("Defaults", Value::Pairs(defaults())),
        ("Capabilities", Value::Pairs(capabilities(view))),
        ("Scheduled Tasks", Value::Pairs(scheduled(view))),
    ]);
    data.extend(lists::all(view));
    data.extend(protection_list(around));
    data
}

fn yes_if(yes: bool) -> &'static str {
    if yes { "Yes" } else { "No" }
}

fn hardware(view: &View, around: &Surroundings) -> Pairs {
    let presence = if around.temperature_c.is_some() { "Present" } else { "Absent" };
    let mut data = pairs([
        ("ChipRevision", text("N/A")),
        ("BatteryFRU", text("N/A")),
        ("Backend Port Count", number(view.drives().len())),
        ("BBU", text("Absent")),
        ("Alarm", text(if view.metrics.controller.alarm.on { "On" } else { "Off" })),
        ("Serial Debugger", text("Absent")),
        ("NVRAM Size", text("0KB")),
        ("Flash Size", text("0MB")),
        ("On Board Memory Size", text(format!("{}MB", around.memory_bytes >> 20))),
        ("CacheVault Flash Size", text("N/A")),
        ("TPM", text("Absent")),
        ("Upgrade Key", text("Absent")),
        ("On Board Expander", text("Absent")),
        ("Temperature Sensor for ROC", text(presence)),
        ("Temperature Sensor for Controller", text("Absent")),
    ]);
    let temperature = around.temperature_c.map(number);
    match around.program {
        Program::StorCli => {
            // Debian's collector fails if this is missing or not a number.
            let value = temperature.unwrap_or_else(|| number(0));
            data.push(("ROC temperature(Degree Celsius)".to_owned(), value));
        }
        Program::PercCli => {
            let value = temperature.unwrap_or_else(|| text("N/A"));
            data.push(("Ctrl temperature(Degree Celsius)".to_owned(), value));
        }
    }
    data
}

fn defaults() -> Pairs {
    pairs([
        ("Phy Polarity", number(0)),
        ("Strip Size", text("64 KB")),
        ("Write Policy", text("WT")),
        ("Read Policy", text("No Read Ahead")),
        ("Cache When BBU Bad", text("Off")),
        ("Cached IO", text("Off")),
        ("Disable Online Controller Reset", text("No")),
    ])
}

fn capabilities(view: &View) -> Pairs {
    // Levels with a name in this grammar.
    let known = ["raid0", "raid1", "raid5", "raid6", "raid00", "raid10", "raid50", "raid60"];
    let levels =
        view.metrics.controller.levels.iter().filter(|level| known.contains(&level.as_str()));
    let levels: Vec<String> = levels.map(|level| level.to_ascii_uppercase()).collect();
    pairs([
        ("Supported Drives", text("SAS, SATA, NVMe")),
        ("RAID Level Supported", text(levels.join(", "))),
        ("Enable JBOD", text("No")),
        ("Mix in Enclosure", text("Allowed")),
        ("Mix of SAS/SATA of HDD type in VD", text("Allowed")),
        ("Mix of SAS/SATA of SSD type in VD", text("Allowed")),
        ("Mix of SSD/HDD in VD", text("Allowed")),
        ("SAS Disable", text("No")),
        ("Max Strip Size", text(unit(1 << 20))),
        ("Min Strip Size", text(unit(4096))),
    ])
}

fn scheduled(view: &View) -> Pairs {
    let every = |schedule: Option<&ScheduleInfo>| {
        let on = schedule.filter(|schedule| schedule.on);
        text(on.map_or_else(
            || "NA".to_owned(),
            |schedule| format!("{} hrs", u64::from(schedule.every_days) * 24),
        ))
    };
    let next = |schedule: Option<&ScheduleInfo>| {
        let next =
            schedule.filter(|schedule| schedule.on).and_then(|schedule| schedule.next_unix_s);
        text(next.map_or_else(|| "NA".to_owned(), |next| Moment::of(next).long()))
    };
    let (patrol, check) = (patrol(view), check(view));
    pairs([
        ("Consistency Check Reoccurrence", every(check)),
        ("Next Consistency check launch", next(check)),
        ("Patrol Read Reoccurrence", every(patrol)),
        ("Next Patrol Read launch", next(patrol)),
        ("Battery learn Reoccurrence", text("NA")),
        ("OEMID", text("SoftROC")),
    ])
}
