//! The overview page, for the first look after an alarm.

use crate::advice::{self, Advice};
use crate::lists::{EventList, TaskList};
use crate::page::Part;
use crate::words::{Badge, Moment, drive_page, volume_page};
use crate::{Viewer, World};
use askama::Template;
use controller::{DriveInfo, DriveState, ProtectionState, VolumeInfo, VolumeState};
use units::{ByteCount, both_capacities};

/// Number of recent events.
pub(crate) const EVENTS: usize = 10;

#[derive(Template)]
#[template(path = "drives-out.html")]
struct DrivesOut {
    advice: Advice,
}

#[derive(Template)]
#[template(path = "volumes.html")]
struct Volumes {
    volumes: Vec<VolumeRow>,
}

struct VolumeRow {
    name: String,
    link: String,
    badge: Badge<VolumeState>,
    since: Moment,
    level: String,
    capacity: String,
    survives: String,
    drives: usize,
    hosts: usize,
}

#[derive(Template)]
#[template(path = "bays.html")]
struct Bays {
    enclosures: Vec<(String, Vec<Bay>)>,
}

pub(crate) struct Bay {
    pub(crate) name: String,
    pub(crate) link: String,
    pub(crate) badge: Badge<DriveState>,
    pub(crate) class: &'static str,
    /// Its bay, or a substitute.
    pub(crate) place: String,
    pub(crate) about: String,
}

#[derive(Template)]
#[template(path = "cache.html")]
struct Cache {
    sentence: String,
    ups: Option<String>,
    volumes: Vec<CacheRow>,
}

struct CacheRow {
    name: String,
    link: String,
    mode: String,
    /// The configured mode, if it differs.
    wished: Option<String>,
    reason: String,
    dirty: String,
}

#[derive(Template)]
#[template(path = "last-events.html")]
struct LastEvents {
    list: EventList,
}

pub(crate) fn parts(world: &World, viewer: &Viewer, back: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    // An empty part reserves the position for content that appears later.
    parts.push(match advice::of_all(world) {
        Some(advice) => Part::new("out", &DrivesOut { advice }),
        None => Part::empty("out"),
    });
    let volumes = world.volumes.iter().map(|volume| volume_row(world, volume)).collect();
    parts.push(Part::new("volumes", &Volumes { volumes }));
    parts.push(Part::new("drives", &Bays { enclosures: enclosures(&world.drives) }));
    parts.push(Part::new("tasks", &TaskList::of(world, viewer, back, |_| true)));
    parts.push(Part::new("cache", &cache(world)));
    let list = EventList::of(world, EVENTS, |_| true);
    parts.push(Part::new("events", &LastEvents { list }));
    parts
}

fn volume_row(world: &World, volume: &VolumeInfo) -> VolumeRow {
    VolumeRow {
        name: volume.name.clone(),
        link: volume_page(&volume.name),
        badge: Badge(volume.state),
        since: Moment { at_s: volume.since_unix_s, now_s: world.now_unix_s },
        level: volume.level.clone(),
        capacity: ByteCount(volume.capacity_bytes).to_string(),
        survives: survives(volume),
        drives: volume.drives.len(),
        hosts: volume.hosts.len(),
    }
}

/// The number of drives that may fail.
pub(crate) fn survives(volume: &VolumeInfo) -> String {
    survives_of(&volume.level, volume.may_lose, volume.may_lose_at_most)
}

/// The fault tolerance of a level, at least and at most.
pub(crate) fn survives_of(level: &str, least: u16, most: u16) -> String {
    let is_redundant = !matches!(level, "jbod" | "raid0" | "raid00");
    match (least, most) {
        (0, 0) if !is_redundant => "none: no redundancy".to_owned(),
        (0, 0) => "none".to_owned(),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} (up to {most})"),
    }
}

/// The drives by enclosure, as bays.
fn enclosures(drives: &[DriveInfo]) -> Vec<(String, Vec<Bay>)> {
    let mut enclosures: Vec<(String, Vec<Bay>)> = Vec::new();
    for drive in drives {
        let name = match &drive.enclosure {
            Some(enclosure) => format!("Enclosure {enclosure}"),
            None => "Unknown enclosure".to_owned(),
        };
        match enclosures.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bays)) => bays.push(bay(drive)),
            None => enclosures.push((name, vec![bay(drive)])),
        }
    }
    enclosures
}

pub(crate) fn bay(drive: &DriveInfo) -> Bay {
    let slot =
        drive.slot.zip(drive.volumes.first()).map(|(slot, volume)| format!("{volume}:{slot}"));
    let place: Vec<String> =
        [drive.bay.as_ref().map(|bay| format!("bay {bay}")), slot].into_iter().flatten().collect();
    let size = drive.size_bytes.map(|size| both_capacities(ByteCount(size)));
    let about: Vec<String> = [drive.model.clone(), size].into_iter().flatten().collect();
    Bay {
        name: drive.name.clone(),
        link: drive_page(&drive.name),
        badge: Badge(drive.state),
        class: crate::words::Tone::from(drive.state).class(),
        place: place.join(" · "),
        about: about.join(" · "),
    }
}

/// The protection of dirty data.
fn cache(world: &World) -> Cache {
    let volumes: Vec<CacheRow> = world.volumes.iter().filter_map(cache_row).collect();
    let dirty: u64 = world.volumes.iter().map(|volume| volume.cache.dirty_bytes).sum();
    let pinned: u64 = world.volumes.iter().map(|volume| volume.cache.pinned_bytes).sum();
    let sentence = match (dirty, pinned) {
        (0, _) => "No dirty data: all acknowledged writes are on the drives.".to_owned(),
        (_, 0) => format!("{} of dirty data in memory.", ByteCount(dirty)),
        _ => format!(
            "{} of dirty data in memory; {} of it is preserved for missing drives.",
            ByteCount(dirty),
            ByteCount(pinned)
        ),
    };
    let ups = world.info.ups.as_ref().map(|ups| {
        let sure = matches!(ups.state, ProtectionState::Optimal | ProtectionState::Charging);
        let sign = if sure { "✔" } else { "▲" };
        format!("{sign} UPS {} is {}: {}.", ups.name, ups.state, ups.reason)
    });
    Cache { sentence, ups, volumes }
}

fn cache_row(volume: &VolumeInfo) -> Option<CacheRow> {
    let mode = volume.policies.iter().find(|policy| policy.name == "write-mode")?;
    Some(CacheRow {
        name: volume.name.clone(),
        link: volume_page(&volume.name),
        mode: mode.current.clone(),
        wished: (mode.configured != mode.current).then(|| mode.configured.clone()),
        reason: mode.reason.clone(),
        dirty: ByteCount(volume.cache.dirty_bytes).to_string(),
    })
}
