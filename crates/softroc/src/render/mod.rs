//! The controller's replies as text.

pub mod access;
mod audit;
pub mod config;
mod disks;
mod drives;
mod foreign;
mod hosts;
mod logs;
mod memories;
pub mod notify;
mod reshape;
pub mod tasks;
pub mod volume;
pub mod watch;

use crate::output::{self, table};
use controller::{ControllerInfo, DriveInfo, DriveNumbers, Event, Reply, Severity, TaskInfo};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use std::borrow::Cow;
use units::{ByteCount, both_capacities, counted, decimal_capacity, printable};

/// Any reply. Each text in it is kept on one line, so that embedded line ends cannot forge lines.
pub fn reply(reply: &Reply) -> String {
    text_of(&on_one_line(reply))
}

/// The reply of a command that takes a drive out of service. A drive is offline even if it misses
/// writes already.
pub fn taken_out(reply: &Reply) -> String {
    let mut shown = reply.clone();
    if let Reply::Drive { drive, .. } = &mut shown
        && drive.state == controller::DriveState::Stale
    {
        drive.state = controller::DriveState::Offline;
    }
    self::reply(&shown)
}

/// The reply of a `show` command: a volume in short, or with `all` in full; a drive with all facts.
pub fn shown(reply: &Reply, tasks: &[TaskInfo], all: bool) -> String {
    match &*on_one_line(reply) {
        Reply::Volume { volume, notes } if all => with_notes(volume::full(volume), notes),
        Reply::Volume { volume, notes } => with_notes(volume::short(volume, tasks), notes),
        Reply::Drive { drive, notes, .. } => with_notes(one_drive(drive), notes),
        other => text_of(other),
    }
}

/// The reply with safe texts and local times. Only an explanation has several lines.
fn on_one_line(reply: &Reply) -> Cow<'_, Reply> {
    if matches!(reply, Reply::Explained { .. }) {
        return Cow::Borrowed(reply);
    }
    let escaped =
        serde_json::to_value(reply).ok().and_then(|mut value| escape(&mut value).then_some(value));
    let escaped = escaped.and_then(|value| serde_json::from_value(value).ok());
    escaped.map_or(Cow::Borrowed(reply), Cow::Owned)
}

/// Escapes unprintable characters in all texts, and shows their times as local ones; returns
/// whether there were any.
fn escape(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let shown = for_people(text);
            let is_other = shown != *text;
            *text = shown;
            is_other
        }
        Value::Array(all) => all.iter_mut().fold(false, |found, one| escape(one) | found),
        Value::Object(fields) => fields.values_mut().fold(false, |found, one| escape(one) | found),
        _ => false,
    }
}

fn text_of(reply: &Reply) -> String {
    match reply {
        Reply::Done { notes } => with_notes("Done.".into(), notes),
        Reply::Drive { drive, notes, .. } => with_notes(drive_line(drive), notes),
        Reply::Drives { drives } if drives.is_empty() => {
            "No drives. Register drives with 'softroc drive add DRIVE', or create a file drive \
                with 'softroc drive add FILE --create SIZE'."
                .into()
        }
        Reply::Drives { drives } => drive_table(drives, true),
        Reply::Volume { volume, notes } => volume::changed(volume, notes),
        Reply::Volumes { volumes } if volumes.is_empty() => {
            "No volumes. Create one with 'softroc volume create'.".into()
        }
        Reply::Volumes { volumes } => volume::list(volumes),
        Reply::Events { events } if events.is_empty() => "No events.".into(),
        Reply::Events { events: list } => events(list),
        Reply::Audit { orders } => audit::list(orders),
        Reply::Explained { text, .. } => text.clone(),
        Reply::Task { task, notes } => tasks::one(task, notes),
        Reply::Tasks { tasks } => tasks::list(tasks),
        Reply::Schedules { schedules } => tasks::schedules(schedules),
        Reply::Spare { spare, notes } => tasks::spare(spare, notes),
        Reply::Spares { spares, coverage } => tasks::spares(spares, coverage),
        Reply::Logs { logs, notes } => logs::list(logs, notes),
        Reply::Memories { memories } => memories::list(memories),
        Reply::Disk { disk, notes } => with_notes(disks::one(disk), notes),
        Reply::Reshape { reshape, notes } => reshape::one(reshape, notes),
        Reply::Disks { disks } => disks::list(disks),
        Reply::Foreign { volumes, drives } => foreign::list(volumes, drives),
        Reply::Imported { volumes, notes } => foreign::imported(volumes, notes),
        Reply::Info { info } => controller_facts(info),
        Reply::Alarm { alarm } => watch::alarm(alarm),
        Reply::Health { health } => watch::health(health),
        // The other metrics are for programs.
        Reply::Metrics { metrics } => controller_facts(&metrics.controller),
        Reply::Counters { counters } => format!(
            "there are counters of {} and {}; --json prints them",
            counted(counters.volumes.len(), "volume"),
            counted(counters.drives.len(), "drive")
        ),
    }
}

fn with_notes(mut text: String, notes: &[String]) -> String {
    for note in notes {
        text.push_str("\nNote: ");
        text.push_str(note);
    }
    text
}

/// Names and values, one per line, with the values in one column, within the terminal's width.
pub fn facts(facts: &[(&str, String)]) -> String {
    facts_within(facts, output::width().map(usize::from))
}

/// The least width of a column of values that is wrapped.
const NARROWEST: usize = 20;

fn facts_within(facts: &[(&str, String)], columns: Option<usize>) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let room =
        columns.map_or(usize::MAX, |columns| columns.saturating_sub(width + 2).max(NARROWEST));
    let line = |(name, value): &(&str, String)| {
        let lines = output::wrapped(value, room);
        format!("{name:width$}  {}", lines.join(&format!("\n{:width$}  ", "")))
    };
    facts.iter().map(line).collect::<Vec<String>>().join("\n")
}

fn one_drive(drive: &DriveInfo) -> String {
    let mut list = vec![("drive", drive.name.clone()), ("state", drive.state.to_string())];
    let mut add = |name, value: Option<String>| list.extend(value.map(|value| (name, value)));
    add("reason", drive.reason.clone());
    add("volumes", (!drive.volumes.is_empty()).then(|| drive.volumes.join(" ")));
    add("slot", drive.slot.map(|slot| slot.to_string()));
    let numbers = |numbers: DriveNumbers| {
        let DriveNumbers { enclosure, slot, device, provisional } = numbers;
        format!(
            "enclosure {enclosure}, slot {slot}, device {device}{}",
            provisional_mark(provisional)
        )
    };
    add("numbers", drive.numbers.map(numbers));
    let both = |size| match is_made_of_bytes(drive.kind.as_deref()) {
        true => ByteCount(size).to_string(),
        false => both_capacities(ByteCount(size)),
    };
    add("capacity", drive.size_bytes.map(both));
    let grown =
        |size| format!("{}, not used yet: run 'softroc drive rescan {}'", both(size), drive.name);
    add("grown to", drive.grown_to_bytes.map(grown));
    add("free", drive.free_bytes.map(|bytes| ByteCount(bytes).to_string()));
    add("stale regions", (drive.stale_regions > 0).then(|| drive.stale_regions.to_string()));
    add("kind", drive.kind.clone());
    add("rotates", drive.rotational.then(|| "yes".into()));
    add("sector", drive.logical_sector_bytes.map(|bytes| ByteCount(bytes).to_string()));
    add("enclosure", drive.enclosure.clone());
    add("bay", drive.bay.clone());
    for (name, value) in drive.health.iter().flat_map(|health| tasks::health(health)) {
        add(name, Some(value));
    }
    add("medium errors", (drive.medium_errors > 0).then(|| drive.medium_errors.to_string()));
    add("suspensions", (drive.suspensions > 0).then(|| drive.suspensions.to_string()));
    add("suspended", drive.suspension.as_ref().map(drives::suspension));
    add("time limits", drive.work.as_ref().and_then(|work| drives::limits(&work.limits)));
    add("uuid", drive.uuid.clone());
    add("identity", drive.identity.clone());
    let work = drive.work.iter().filter_map(|work| drives::work(work));
    [facts(&list)].into_iter().chain(work).collect::<Vec<String>>().join("\n")
}

/// A drive after a command: one line, and the reason of a problem.
fn drive_line(drive: &DriveInfo) -> String {
    let mut parts = vec![drive.state.to_string()];
    parts.extend(drive.slot.map(|slot| format!("slot {slot} of {}", drive.volumes.join(", "))));
    parts.extend(drive.size_bytes.map(|size| capacity(drive.kind.as_deref(), size)));
    parts.extend(drive.kind.clone());
    let reason = drive.reason.as_ref().map(|reason| format!("\n! {reason}")).unwrap_or_default();
    format!("Drive {}: {}{reason}", drive.name, parts.join(", "))
}

/// Whether a drive has only a size in bytes and no nominal capacity: a file, memory.
fn is_made_of_bytes(kind: Option<&str>) -> bool {
    matches!(kind, Some("file" | "memory"))
}

/// The size of a drive of this kind: a capacity in decimal units, a file's size in binary ones.
pub fn capacity(kind: Option<&str>, size: u64) -> String {
    if is_made_of_bytes(kind) {
        ByteCount(size).to_string()
    } else {
        decimal_capacity(ByteCount(size))
    }
}

fn drive_table(drives: &[DriveInfo], with_volume: bool) -> String {
    let dash = || "-".to_owned();
    let rows: Vec<Vec<String>> = drives
        .iter()
        .map(|drive| {
            let mut row = vec![drive.slot.map_or_else(dash, |slot| slot.to_string())];
            if with_volume {
                row.insert(0, volumes_of(drive));
            }
            row.push(drive.state.to_string());
            row.push(
                drive.size_bytes.map_or_else(dash, |size| capacity(drive.kind.as_deref(), size)),
            );
            row.push(drive.kind.clone().unwrap_or_else(dash));
            row.push(drive.name.clone());
            row.push(drive.reason.clone().unwrap_or_default());
            row
        })
        .collect();
    let mut headers = vec!["slot", "state", "capacity", "kind", "drive", ""];
    let mut numeric = vec![true, false, true, false, false, false];
    if with_volume {
        headers.insert(0, "volumes");
        numeric.insert(0, false);
    }
    table(&headers, &rows, &numeric)
}

/// The volumes on a drive, shortened for a table.
fn volumes_of(drive: &DriveInfo) -> String {
    match &drive.volumes[..] {
        [] => "-".to_owned(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} +{}", others.len()),
    }
}

/// The suffix of provisional numbers.
fn provisional_mark(is_provisional: bool) -> &'static str {
    if is_provisional { " (provisional: see 'softroc health')" } else { "" }
}

fn controller_facts(info: &ControllerInfo) -> String {
    let mut list = vec![
        (
            "controller",
            format!("softroc {}, running since {}", info.version, date(info.started_unix_s)),
        ),
        ("serial", info.serial.clone()),
        ("shards", info.shards.to_string()),
        (
            "volumes",
            format!(
                "{} optimal, {} degraded, {} offline, {} missing",
                info.volumes_optimal,
                info.volumes_degraded,
                info.volumes_offline,
                info.volumes_missing
            ),
        ),
        ("drives", info.drives.to_string()),
        ("hosts", info.hosts.to_string()),
        ("write cache", write_cache(info)),
        ("levels", info.levels.join(" ")),
    ];
    if !info.awaited.is_empty() {
        list.push(("starting", format!("waits for {}", info.awaited.join(", "))));
    }
    list.extend(info.ups.as_ref().map(|ups| {
        ("ups", format!("{} since {}: {}", ups.state, date(ups.since_unix_s), ups.reason))
    }));
    facts(&list)
}

/// The memory of the write cache.
fn write_cache(info: &ControllerInfo) -> String {
    match (ByteCount(info.cache_bytes), ByteCount(info.cache_reserved_bytes)) {
        (ByteCount::ZERO, _) => "none".to_owned(),
        (size, reserved) => format!("up to {size}, {reserved} reserved"),
    }
}

/// Events, one per line.
pub fn events(events: &[Event]) -> String {
    let lines: Vec<String> = events
        .iter()
        .map(|event| {
            let mark = match event.severity {
                Severity::Info => ' ',
                Severity::Warning => '!',
                Severity::Critical => '‼',
                Severity::Fatal => '✖',
            };
            let code = if event.code.is_empty() { "-" } else { &event.code };
            let by =
                event.by.as_ref().map(ToString::to_string).filter(|by| !event.text.contains(by));
            let by = by.map_or_else(String::new, |by| format!(" (by {by})"));
            let line = format!(
                "{:>6} {} {mark} {code:<24} {}{by}",
                event.number,
                date(event.time_unix_s),
                event.text
            );
            for_people(&line)
        })
        .collect();
    lines.join("\n")
}

/// A time in the local zone (`TZ`, or the system's): `2026-11-20 13:14:56 +01:00`. Without an
/// offset: `2026-11-20 12:14:56 UTC`.
pub fn date(unix_s: u64) -> String {
    date_in(unix_s, TimeZone::system())
}

fn date_in(unix_s: u64, zone: TimeZone) -> String {
    // A time after the year 9999, from another machine, has no local form.
    let Some(time) =
        i64::try_from(unix_s).ok().and_then(|unix_s| Timestamp::from_second(unix_s).ok())
    else {
        return units::utc(unix_s);
    };
    let time = time.to_zoned_datetime(zone);
    let form = if time.offset().is_zero() { "%F %T UTC" } else { "%F %T %:z" };
    time.strftime(form).to_string()
}

/// A text of the controller without unprintable characters. Its times are UTC (RFC 3339), and
/// become local ones.
pub fn for_people(text: &str) -> String {
    with_times_in(&printable(text), TimeZone::system())
}

fn with_times_in(text: &str, zone: TimeZone) -> String {
    const LAST: usize = "2026-11-20T12:14:56Z".len() - 1;
    let (mut shown, mut done) = (String::new(), 0);
    for (end, _) in text.match_indices('Z') {
        // A time in a name, which has no space before it, is left alone.
        let is_word = |start: &usize| {
            text[..*start].ends_with([' ', '('])
                && !text[end + 1..].starts_with(['.', '-', '_', '/'])
        };
        let start =
            end.checked_sub(LAST).filter(|start| *start >= done && text.is_char_boundary(*start));
        let start = start.filter(is_word);
        let time = start.and_then(|start| text.get(start..=end)?.parse::<Timestamp>().ok());
        if let (Some(start), Some(time)) = (start, time)
            && let Ok(unix_s) = u64::try_from(time.as_second())
        {
            shown.push_str(&text[done..start]);
            shown.push_str(&date_in(unix_s, zone.clone()));
            done = end + 1;
        }
    }
    shown + &text[done..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_wrapped_in_their_column() {
        let list = [("state", "optimal".to_owned()), ("cache", "write-back, 0 B dirty".to_owned())];
        assert_eq!(facts_within(&list, None), "state  optimal\ncache  write-back, 0 B dirty");
        let long = [("a", "one two three four five six".to_owned())];
        assert_eq!(facts_within(&long, Some(10)), "a  one two three four\n   five six");
    }

    #[test]
    fn dates_are_local_and_name_their_zone() {
        let winter = 1_795_176_896;
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        for (unix_s, zone, text) in [
            (0, &TimeZone::UTC, "1970-01-01 00:00:00 UTC"),
            (951_782_400, &TimeZone::UTC, "2000-02-29 00:00:00 UTC"),
            (winter, &berlin, "2026-11-20 13:14:56 +01:00"),
            (winter - 180 * 86_400, &berlin, "2026-05-24 14:14:56 +02:00"),
            (253_402_300_800, &berlin, "10000-01-01T00:00:00Z"),
        ] {
            assert_eq!(date_in(unix_s, zone.clone()), text);
        }
        for (text, shown) in [
            ("it failed at 2026-11-20T12:14:56Z", "it failed at 2026-11-20 13:14:56 +01:00"),
            ("ZZ 2026-13-20T12:14:56Z and so on, Z", "ZZ 2026-13-20T12:14:56Z and so on, Z"),
            (
                "ä2026-11-20T12:14:56Z.img (2026-11-20T12:14:57Z)",
                "ä2026-11-20T12:14:56Z.img (2026-11-20 13:14:57 +01:00)",
            ),
        ] {
            assert_eq!(with_times_in(text, berlin.clone()), shown);
        }
    }
}
