//! Volumes as text: the list, the result of a command, the short view for a terminal, and the
//! complete view.

use super::{date, disks, drive_table, facts, hosts, provisional_mark, reshape, with_notes};
use crate::output::table;
use controller::{
    Policy, TaskInfo, TaskState, VolumeInfo, VolumeState, WriteMode, default_policies,
};
use layout::Level;
use units::{ByteCount, counted};

/// The policy of write acknowledgements.
const WRITE_MODE: &str = "write-mode";

/// The policy that sets the next ones.
const PRESET: &str = "preset";

/// The policy of stripes whose write a crash interrupts.
const WRITE_HOLE: &str = "write-hole";

/// The policy of the drives' own caches.
const DRIVE_CACHE: &str = "drive-cache";

/// Policies that are results, not settings.
const DERIVED: &[&str] = &["fast-path"];

/// The policies that a preset sets.
const OF_PRESET: &[&str] = &["read-mode", WRITE_MODE, "cache-mode", DRIVE_CACHE];

/// All volumes, a line each.
pub(super) fn list(volumes: &[VolumeInfo]) -> String {
    let row = |volume: &VolumeInfo| {
        let progress = match (volume.resync, volume.initialisation) {
            (Some(resync), _) => format!("resync {} %", resync.percent),
            (None, Some(initialised)) => format!("initialising {} %", initialised.percent),
            (None, None) => String::new(),
        };
        vec![
            volume.name.clone(),
            volume.state.to_string(),
            level(volume),
            volume.drives.len().to_string(),
            ByteCount(volume.strip_bytes).to_string(),
            ByteCount(volume.capacity_bytes).to_string(),
            short_write_mode(volume),
            volume.hosts.len().to_string(),
            progress,
        ]
    };
    let rows: Vec<Vec<String>> = volumes.iter().map(row).collect();
    table(
        &["volume", "state", "level", "drives", "strip", "capacity", "writes", "hosts", ""],
        &rows,
        &[false, false, false, true, true, true, false, true],
    )
}

/// A volume after a command, in two lines, with its reasons and notes.
pub(super) fn changed(volume: &VolumeInfo, notes: &[String]) -> String {
    let capacity = ByteCount(volume.capacity_bytes);
    let mut text = format!(
        "Volume {}: {}, {} on {}, {capacity}.",
        volume.name,
        volume.state,
        level(volume),
        counted(volume.drives.len(), "drive")
    );
    for reason in &volume.reasons {
        text.push_str(&format!("\n! {reason}"));
    }
    text.push_str(&format!("\nDetails: softroc volume show {}", volume.name));
    with_notes(text, notes)
}

/// The view that fits a terminal. `tasks`: those of the controller.
pub fn short(volume: &VolumeInfo, tasks: &[TaskInfo]) -> String {
    let mut list = vec![
        ("volume", volume.name.clone()),
        ("state", volume.state.to_string()),
        ("health", health(volume)),
        ("level", shape(volume)),
        ("capacity", capacity(volume)),
        ("survives", survives(volume)),
        ("cache", cache(volume)),
    ];
    list.extend(volume.reshape.as_ref().map(|way| ("reshape", reshape::progress(way))));
    let own = |task: &&TaskInfo| {
        let is_of = |name: &String| *name == volume.name || volume.array_volumes.contains(name);
        task.ended_unix_s.is_none()
            && task.state != TaskState::Failed
            && task.volume.as_ref().is_some_and(is_of)
    };
    for task in tasks.iter().filter(own) {
        let line = format!("{} {} {}", task.kind, bar(task.percent), super::tasks::progress(task));
        list.push(("task", format!("{}: {line}", task.task)));
    }
    let shares = volume.array_volumes.len().saturating_sub(1);
    list.extend(
        (shares > 0).then(|| ("array", format!("shared with {}", counted(shares, "other volume")))),
    );
    list.extend(volume.disk.as_ref().map(|disk| ("disk", disks::of_volume(disk))));
    list.extend(policies(volume).map(|policies| ("policies", policies)));
    list.extend(not_in_force(volume).map(|reason| ("note", reason)));
    let mut text = facts(&list);
    push_reasons_and_tables(&mut text, volume);
    text
}

/// The complete view.
pub fn full(volume: &VolumeInfo) -> String {
    let mut list = vec![
        ("volume", volume.name.clone()),
        ("state", format!("{} since {}", volume.state, date(volume.since_unix_s))),
        ("health", health(volume)),
        ("level", level(volume)),
        ("strip", ByteCount(volume.strip_bytes).to_string()),
    ];
    list.extend(volume.arrangement.clone().map(|arrangement| ("layout", arrangement)));
    list.extend((volume.spans > 1).then(|| ("spans", volume.spans.to_string())));
    list.extend((volume.copies > 1).then(|| ("copies", volume.copies.to_string())));
    list.push(("capacity", capacity(volume)));
    list.push(("sector", sectors(volume)));
    list.push(("survives", survives(volume)));
    list.push(("array", array_of(volume)));
    let numbers = volume.number.zip(volume.group);
    let mark = provisional_mark(volume.provisional);
    list.extend(
        numbers.map(|(number, group)| ("numbers", format!("volume {number}, array {group}{mark}"))),
    );
    list.extend(volume.reshape.as_ref().map(|way| ("reshape", reshape::progress(way))));
    for (what, progress) in [("resync", &volume.resync), ("initialisation", &volume.initialisation)]
    {
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
    list.extend(uses_cache(volume).then(|| ("cache", cache_counters(volume))));
    list.extend(volume.disk.as_ref().map(|disk| ("disk", disks::of_volume(disk))));
    list.extend(volume.last_seen_unix_s.map(|seen| ("last seen", date(seen))));
    list.push(("created", date(volume.created_unix_s)));
    list.push(("uuid", volume.uuid.clone()));
    let mut text = facts(&list);
    push_reasons_and_tables(&mut text, volume);
    text
}

fn push_reasons_and_tables(text: &mut String, volume: &VolumeInfo) {
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
}

/// The level as people write it: `RAID 6`.
fn level(volume: &VolumeInfo) -> String {
    volume
        .level
        .parse::<Level>()
        .map_or_else(|_| volume.level.clone(), |level| level.row().title.to_owned())
}

/// The health of a volume in one line.
fn health(volume: &VolumeInfo) -> String {
    if volume.lost_bytes > 0 {
        return format!("{} cannot be read", ByteCount(volume.lost_bytes));
    }
    let regions = |progress: &controller::Progress| {
        format!("{} of {} left", progress.regions_left, counted(progress.regions, "region"))
    };
    match (volume.state, &volume.resync, &volume.initialisation) {
        (VolumeState::Optimal, Some(resync), _) => {
            format!("resyncing, {} % ({})", resync.percent, regions(resync))
        }
        (VolumeState::Optimal, None, Some(of)) => {
            format!("initialising, {} %; usable and redundant now", of.percent)
        }
        (VolumeState::Optimal, None, None) => "all drives online, redundancy complete".to_owned(),
        (state, _, _) if state.serves() => {
            "redundancy is reduced; hosts can read and write".to_owned()
        }
        _ => "hosts cannot read or write".to_owned(),
    }
}

/// Level, layout and drives, in a line.
fn shape(volume: &VolumeInfo) -> String {
    let mut parts = vec![level(volume), counted(volume.drives.len(), "drive")];
    parts.extend((volume.spans > 1).then(|| counted(volume.spans, "span")));
    parts.extend((volume.copies > 1).then(|| format!("{} copies", volume.copies)));
    parts.push(format!("strip {}", ByteCount(volume.strip_bytes)));
    parts.extend(volume.arrangement.clone());
    parts.join(", ")
}

fn capacity(volume: &VolumeInfo) -> String {
    let raw = volume.member_bytes.saturating_mul(volume.drives.len() as u64);
    format!("{} usable of {} raw", ByteCount(volume.capacity_bytes), ByteCount(raw))
}

fn survives(volume: &VolumeInfo) -> String {
    match (volume.may_lose, volume.may_lose_at_most) {
        (least, most) if least == most => {
            format!("the failure of {}", counted(least, "more drive"))
        }
        (least, most) => format!("the failure of {}; up to {most}", counted(least, "more drive")),
    }
}

/// The cache in a line: mode, dirty data, and which writes survive a power cut.
fn cache(volume: &VolumeInfo) -> String {
    let Some(mode) = write_mode(volume) else { return "none".to_owned() };
    let drives_keep =
        volume.policies.iter().any(|policy| policy.name == DRIVE_CACHE && policy.current == "off");
    let loss = if mode.current == WriteMode::LoggedWriteBack.name() {
        "acknowledged writes survive a power cut"
    } else if mode.current == WriteMode::AlwaysWriteBack.name() {
        "a power cut loses recent writes, flushed ones too"
    } else if mode.current == WriteMode::WriteThrough.name() && drives_keep {
        "acknowledged writes survive a power cut"
    } else {
        "flushed writes survive a power cut"
    };
    let configured = match mode.current == mode.configured {
        true => String::new(),
        false => format!(" (configured: {})", mode.configured),
    };
    let dirty = match uses_cache(volume) {
        true => format!(", {} dirty", ByteCount(volume.cache.dirty_bytes)),
        false => String::new(),
    };
    let preserved = match ByteCount(volume.cache.pinned_bytes) {
        ByteCount::ZERO => String::new(),
        preserved => format!(" ({preserved} preserved)"),
    };
    format!("{}{configured}{dirty}{preserved}; {loss}", mode.current)
}

/// Policies that are not the defaults, or not in force. `None`: all are.
fn policies(volume: &VolumeInfo) -> Option<String> {
    let defaults = default_policies(volume.drives.iter().map(|drive| drive.name.as_str()));
    let has_preset =
        volume.policies.iter().any(|policy| policy.name == PRESET && policy.configured != "none");
    let shown = |policy: &&Policy| {
        let is_default = defaults
            .iter()
            .any(|(name, value)| *name == policy.name && *value == policy.configured);
        let is_implied = has_preset && OF_PRESET.contains(&policy.name.as_str());
        // Without parity there is no write hole.
        let has_parity = volume.level.parse::<Level>().is_ok_and(Level::has_parity);
        let is_setting =
            !DERIVED.contains(&policy.name.as_str()) && (has_parity || policy.name != WRITE_HOLE);
        is_setting && !is_default && !is_implied && (policy.name != PRESET || has_preset)
    };
    let list: Vec<String> = volume
        .policies
        .iter()
        .filter(shown)
        .map(|policy| format!("{} {}", policy.name, policy.configured))
        .collect();
    (!list.is_empty()).then(|| list.join(", "))
}

/// Settings that are not in effect, with the reason. The caches of the drives are theirs.
fn not_in_force(volume: &VolumeInfo) -> impl Iterator<Item = String> {
    let settings = volume.policies.iter().filter(|policy| policy.name != DRIVE_CACHE);
    settings
        .filter(|policy| policy.configured != policy.current)
        .map(|policy| format!("{} is {}: {}", policy.name, policy.current, policy.reason))
}

/// A bar of 20 characters.
fn bar(percent: u8) -> String {
    let done = usize::from(percent.min(100)) / 5;
    format!("[{}{}]", "=".repeat(done), " ".repeat(20 - done))
}

/// The logical sector that hosts see, and the physical one if that is another.
fn sectors(volume: &VolumeInfo) -> String {
    let (logical, physical) =
        (ByteCount(volume.sector_bytes), ByteCount(volume.physical_sector_bytes));
    if physical <= logical { logical.to_string() } else { format!("{logical} on {physical}") }
}

fn write_mode(volume: &VolumeInfo) -> Option<&Policy> {
    volume.policies.iter().find(|policy| policy.name == WRITE_MODE)
}

/// Whether the cache has, or may get, something of a volume.
fn uses_cache(volume: &VolumeInfo) -> bool {
    let through = |mode: &str| mode == WriteMode::WriteThrough.name();
    let is_used = write_mode(volume)
        .is_some_and(|mode| !through(&mode.current) || !through(&mode.configured));
    is_used || volume.cache.dirty_bytes > 0 || volume.cache.clean_bytes > 0
}

fn cache_counters(volume: &VolumeInfo) -> String {
    let cache = &volume.cache;
    let preserved = match ByteCount(cache.pinned_bytes) {
        ByteCount::ZERO => String::new(),
        preserved => format!(" ({preserved} preserved)"),
    };
    let reads = match ByteCount(cache.clean_bytes + cache.ahead_used_bytes) {
        ByteCount::ZERO => String::new(),
        _ => format!("; {} read cache", ByteCount(cache.clean_bytes)),
    };
    let log = if cache.flushes_to_log { "; flushed to the log" } else { "" };
    format!(
        "{} dirty{preserved}; {} acknowledged from the cache, {}, {}{log}{reads}",
        ByteCount(cache.dirty_bytes),
        counted(cache.absorbed, "write"),
        counted(cache.hits, "read hit"),
        counted(cache.destages, "destage")
    )
}

/// Shortened for a table.
fn short_write_mode(volume: &VolumeInfo) -> String {
    match write_mode(volume) {
        None => "-".to_owned(),
        Some(mode) if mode.current == mode.configured => mode.current.clone(),
        Some(mode) => format!("{} (not {})", mode.current, mode.configured),
    }
}

/// The volume's extent on its drives, and the other volumes of its array.
fn array_of(volume: &VolumeInfo) -> String {
    let others: Vec<&str> = volume
        .array_volumes
        .iter()
        .map(String::as_str)
        .filter(|name| *name != volume.name)
        .collect();
    let others = match others.len() {
        0 => String::new(),
        1..=4 => format!(", with {}", others.join(", ")),
        more => format!(", with {more} other volumes"),
    };
    let (start, len) = (ByteCount(volume.data_start_bytes), ByteCount(volume.member_bytes));
    let free = ByteCount(volume.array_free_bytes);
    format!(
        "{len} at {start} of each of {}{others}; {free} free",
        counted(volume.drives.len(), "drive")
    )
}
