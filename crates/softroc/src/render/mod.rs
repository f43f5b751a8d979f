//! The controller's answers as text.

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
pub mod watch;

use crate::output::table;
use controller::{ControllerInfo, DriveInfo, DriveNumbers, Event, Policy, Reply, Severity, VolumeInfo};
use serde_json::Value;
use std::borrow::Cow;
use units::{ByteCount, both_capacities, counted, decimal_capacity, printable};

/// Any answer. Each text in it is on one line: one that holds a line end must not look like two.
pub fn reply(reply: &Reply) -> String {
    text_of(&on_one_line(reply))
}

/// The answer with texts that are safe to show. An explanation is made of lines.
fn on_one_line(reply: &Reply) -> Cow<'_, Reply> {
    if matches!(reply, Reply::Explained { .. }) {
        return Cow::Borrowed(reply);
    }
    let escaped = serde_json::to_value(reply).ok().and_then(|mut value| escape(&mut value).then_some(value));
    let escaped = escaped.and_then(|value| serde_json::from_value(value).ok());
    escaped.map_or(Cow::Borrowed(reply), Cow::Owned)
}

/// Escapes what is unprintable in all texts; whether there was something.
fn escape(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match printable(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(safe) => {
                *text = safe;
                true
            }
        },
        Value::Array(all) => all.iter_mut().fold(false, |found, one| escape(one) | found),
        Value::Object(fields) => fields.values_mut().fold(false, |found, one| escape(one) | found),
        _ => false,
    }
}

fn text_of(reply: &Reply) -> String {
    match reply {
        Reply::Done { notes } => with_notes("Done.".into(), notes),
        Reply::Drive { drive, notes, .. } => with_notes(one_drive(drive), notes),
        Reply::Drives { drives } if drives.is_empty() => {
            "No drives. Register drives with 'softroc drive add DRIVE', or create a file drive with 'softroc drive add FILE --create SIZE'.".into()
        }
        Reply::Drives { drives } => drive_table(drives, true),
        Reply::Volume { volume, notes } => with_notes(one_volume(volume), notes),
        Reply::Volumes { volumes } if volumes.is_empty() => {
            "No volumes. Create one with 'softroc volume create'.".into()
        }
        Reply::Volumes { volumes } => volume_table(volumes),
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
        // What else it tells is for programs.
        Reply::Metrics { metrics } => controller_facts(&metrics.controller),
        Reply::Counters { counters } => format!(
            "{} and {} are counted; --json has the counters",
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

/// Names and values, one a line, the values in one column.
pub fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = facts.iter().map(|(name, value)| format!("{name:width$}  {value}")).collect();
    lines.join("\n")
}

fn one_drive(drive: &DriveInfo) -> String {
    let mut list = vec![("drive", drive.name.clone()), ("state", drive.state.to_string())];
    let mut add = |name, value: Option<String>| list.extend(value.map(|value| (name, value)));
    add("reason", drive.reason.clone());
    add("volumes", (!drive.volumes.is_empty()).then(|| drive.volumes.join(" ")));
    add("slot", drive.slot.map(|slot| slot.to_string()));
    let numbers = |numbers: DriveNumbers| {
        let DriveNumbers { enclosure, slot, device, provisional } = numbers;
        format!("enclosure {enclosure}, slot {slot}, device {device}{}", provisional_mark(provisional))
    };
    add("numbers", drive.numbers.map(numbers));
    let both = |size| match is_made_of_bytes(drive) {
        true => ByteCount(size).to_string(),
        false => both_capacities(ByteCount(size)),
    };
    add("capacity", drive.size_bytes.map(both));
    let grown = |size| format!("{}, not used yet: run 'softroc drive rescan {}'", both(size), drive.name);
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

/// Whether it has no nominal capacity, but just a size: a file, memory.
fn is_made_of_bytes(drive: &DriveInfo) -> bool {
    matches!(drive.kind.as_deref(), Some("file" | "memory"))
}

/// A drive's capacity as its label says it; a file's size in binary.
fn capacity(drive: &DriveInfo, size: u64) -> String {
    if is_made_of_bytes(drive) { ByteCount(size).to_string() } else { decimal_capacity(ByteCount(size)) }
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
            row.push(drive.size_bytes.map_or_else(dash, |size| capacity(drive, size)));
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

/// The volumes on a drive, as a table has room for.
fn volumes_of(drive: &DriveInfo) -> String {
    match &drive.volumes[..] {
        [] => "-".to_owned(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} +{}", others.len()),
    }
}

fn volume_table(volumes: &[VolumeInfo]) -> String {
    let rows: Vec<Vec<String>> = volumes
        .iter()
        .map(|volume| {
            let resync = match (volume.resync, volume.initialisation) {
                (Some(resync), _) => format!("resync {} %", resync.percent),
                (None, Some(initialised)) => format!("initialising {} %", initialised.percent),
                (None, None) => String::new(),
            };
            vec![
                volume.name.clone(),
                volume.state.to_string(),
                volume.level.clone(),
                volume.drives.len().to_string(),
                ByteCount(volume.strip_bytes).to_string(),
                ByteCount(volume.capacity_bytes).to_string(),
                short_write_mode(volume),
                volume.hosts.len().to_string(),
                resync,
            ]
        })
        .collect();
    table(
        &["volume", "state", "level", "drives", "strip", "capacity", "writes", "hosts", ""],
        &rows,
        &[false, false, false, true, true, true, false, true],
    )
}

/// The logical sector that hosts are told of, and the physical one if that is another.
fn sectors(volume: &VolumeInfo) -> String {
    let (logical, physical) = (ByteCount(volume.sector_bytes), ByteCount(volume.physical_sector_bytes));
    if physical <= logical { logical.to_string() } else { format!("{logical} on {physical}") }
}

fn one_volume(volume: &VolumeInfo) -> String {
    let mut list = vec![
        ("volume", volume.name.clone()),
        ("state", format!("{} since {}", volume.state, date(volume.since_unix_s))),
        ("level", volume.level.clone()),
        ("strip", ByteCount(volume.strip_bytes).to_string()),
    ];
    list.extend(volume.arrangement.clone().map(|arrangement| ("layout", arrangement)));
    list.extend((volume.spans > 1).then(|| ("spans", volume.spans.to_string())));
    list.extend((volume.copies > 1).then(|| ("copies", volume.copies.to_string())));
    list.push(("capacity", ByteCount(volume.capacity_bytes).to_string()));
    list.push(("sector", sectors(volume)));
    list.push(("may lose", may_lose(volume)));
    if volume.lost_bytes > 0 {
        list.push(("lost", format!("{} cannot be read", ByteCount(volume.lost_bytes))));
    }
    list.push(("array", array_of(volume)));
    let numbers = volume.number.zip(volume.group);
    let mark = provisional_mark(volume.provisional);
    list.extend(numbers.map(|(number, group)| ("numbers", format!("volume {number}, array {group}{mark}"))));
    list.extend(volume.reshape.as_ref().map(|way| ("reshape", reshape::progress(way))));
    for (what, progress) in [("resync", &volume.resync), ("initialisation", &volume.initialisation)] {
        let text = |progress: &controller::Progress| {
            let regions = counted(progress.regions, "region");
            format!("{} % ({} of {regions} left)", progress.percent, progress.regions_left)
        };
        list.extend(progress.as_ref().map(|progress| (what, text(progress))));
    }
    for policy in &volume.policies {
        let mut text = policy.current.clone();
        if policy.configured != policy.current {
            text.push_str(&format!(" (configured: {})", policy.configured));
        }
        if policy.name == WRITE_MODE {
            text.push_str(&format!(" since {}", date(policy.since_unix_s)));
        }
        list.push((policy.name.as_str(), format!("{text}: {}", policy.reason)));
    }
    list.extend(uses_cache(volume).then(|| ("cache", cache_of(volume))));
    list.extend(volume.disk.as_ref().map(|disk| ("disk", disks::of_volume(disk))));
    list.extend(volume.last_seen_unix_s.map(|seen| ("last seen", date(seen))));
    list.push(("created", date(volume.created_unix_s)));
    list.push(("uuid", volume.uuid.clone()));
    let mut text = facts(&list);
    for reason in &volume.reasons {
        text.push_str("\n! ");
        text.push_str(reason);
    }
    text.push_str("\n\n");
    text.push_str(&drive_table(&volume.drives, false));
    if !volume.hosts.is_empty() {
        text.push_str("\n\n");
        text.push_str(&hosts::table(volume));
    }
    text
}

/// The policy that says when writes are answered.
const WRITE_MODE: &str = "write-mode";

fn write_mode(volume: &VolumeInfo) -> Option<&Policy> {
    volume.policies.iter().find(|policy| policy.name == WRITE_MODE)
}

/// Whether the cache has, or may get, something of a volume.
fn uses_cache(volume: &VolumeInfo) -> bool {
    let through = |mode: &str| mode == controller::WriteMode::WriteThrough.name();
    let is_used =
        write_mode(volume).is_some_and(|mode| !through(&mode.current) || !through(&mode.configured));
    is_used || volume.cache.dirty_bytes > 0 || volume.cache.clean_bytes > 0
}

fn cache_of(volume: &VolumeInfo) -> String {
    let cache = &volume.cache;
    let pinned = match ByteCount(cache.pinned_bytes) {
        ByteCount::ZERO => String::new(),
        pinned => format!(" ({pinned} pinned)"),
    };
    let reads = match ByteCount(cache.clean_bytes + cache.ahead_used_bytes) {
        ByteCount::ZERO => String::new(),
        _ => format!("; {} kept of reads", ByteCount(cache.clean_bytes)),
    };
    let log = if cache.flushes_to_log { "; flushed to the log" } else { "" };
    format!(
        "{} dirty{pinned}; {} absorbed, {}, {}{log}{reads}",
        ByteCount(cache.dirty_bytes),
        counted(cache.absorbed, "write"),
        counted(cache.hits, "read hit"),
        counted(cache.destages, "destage")
    )
}

/// As a table has room for.
fn short_write_mode(volume: &VolumeInfo) -> String {
    match write_mode(volume) {
        None => "-".to_owned(),
        Some(mode) if mode.current == mode.configured => mode.current.clone(),
        Some(mode) => format!("{} (not {})", mode.current, mode.configured),
    }
}

fn may_lose(volume: &VolumeInfo) -> String {
    match (volume.may_lose, volume.may_lose_at_most) {
        (least, most) if least == most => counted(least, "more drive"),
        (least, most) => {
            format!("any {}; {most} in the best case", counted(least, "more drive"))
        }
    }
}

/// The volume's place on its drives, and its neighbours.
fn array_of(volume: &VolumeInfo) -> String {
    let beside: Vec<&str> =
        volume.array_volumes.iter().map(String::as_str).filter(|name| *name != volume.name).collect();
    let beside = match beside.len() {
        0 => String::new(),
        1..=4 => format!(", beside {}", beside.join(", ")),
        more => format!(", beside {more} other volumes"),
    };
    let (start, len) = (ByteCount(volume.data_start_bytes), ByteCount(volume.member_bytes));
    let free = ByteCount(volume.array_free_bytes);
    format!("{len} at {start} of each of {}{beside}; {free} free", counted(volume.drives.len(), "drive"))
}

/// Behind numbers that may have been others before.
fn provisional_mark(is_provisional: bool) -> &'static str {
    if is_provisional { " (provisional: see 'softroc health')" } else { "" }
}

fn controller_facts(info: &ControllerInfo) -> String {
    let mut list = vec![
        ("controller", format!("softroc {}, running since {}", info.version, date(info.started_unix_s))),
        ("serial", info.serial.clone()),
        ("shards", info.shards.to_string()),
        (
            "volumes",
            format!(
                "{} optimal, {} degraded, {} offline, {} missing",
                info.volumes_optimal, info.volumes_degraded, info.volumes_offline, info.volumes_missing
            ),
        ),
        ("drives", info.drives.to_string()),
        ("hosts", info.hosts.to_string()),
        ("levels", info.levels.join(" ")),
    ];
    if !info.awaited.is_empty() {
        list.push(("starting", format!("waits for {}", info.awaited.join(", "))));
    }
    list.extend(
        info.ups
            .as_ref()
            .map(|ups| ("ups", format!("{} since {}: {}", ups.state, date(ups.since_unix_s), ups.reason))),
    );
    facts(&list)
}

/// Events, a line each.
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
            let by = event.by.as_ref().map(ToString::to_string).filter(|by| !event.text.contains(by));
            let by = by.map_or_else(String::new, |by| format!(" (by {by})"));
            let line = format!(
                "{:>6} {} {mark} {code:<24} {}{by}",
                event.number,
                date(event.time_unix_s),
                event.text
            );
            printable(&line).into_owned()
        })
        .collect();
    lines.join("\n")
}

/// A date in UTC: `2026-11-20 12:34:56Z`. (Days to civil dates: Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms".)
pub fn date(unix_s: u64) -> String {
    let (days, rest) = (unix_s / 86_400, unix_s % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_795_176_896, "2026-11-20 12:14:56Z"),
            (4_107_542_399, "2100-02-28 23:59:59Z"),
        ] {
            assert_eq!(date(unix_s), text);
        }
    }
}
