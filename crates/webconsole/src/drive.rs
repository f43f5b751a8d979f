//! The page of a drive.

use crate::advice::{self, Advice};
use crate::lists::{EventList, TaskList};
use crate::page::Part;
use crate::volume::{ActionForms, History};
use crate::words::{Moment, sentence, volume_page};
use crate::{Viewer, World, deed};
use askama::Template;
use controller::{DriveInfo, DriveState, Event, HealthInfo};
use units::{ByteCount, both_capacities};

/// Maximum number of events on the page.
const EVENTS: usize = 20;

#[derive(Template)]
#[template(path = "drive.html")]
struct Head {
    name: String,
    reason: Option<String>,
    advice: Advice,
    /// Names and page addresses.
    volumes: Vec<(String, String)>,
    facts: Vec<(&'static str, String)>,
}

#[derive(Template)]
#[template(path = "health.html")]
struct Health {
    warning: Option<String>,
    source: Option<(String, Moment)>,
    facts: Vec<(&'static str, String)>,
}

/// `None`: no such drive.
pub(crate) fn parts(world: &World, viewer: &Viewer, back: &str, name: &str) -> Option<Vec<Part>> {
    let drive = world.drives.iter().find(|drive| drive.name == name)?;
    let head = Head {
        name: drive.name.clone(),
        reason: drive.reason.as_deref().map(sentence),
        advice: advice::of_one(world, drive),
        volumes: drive.volumes.iter().map(|volume| (volume.clone(), volume_page(volume))).collect(),
        facts: facts(drive),
    };
    let is_of = |event: &Event| event.concerns(&drive.name);
    Some(vec![
        Part::new("drive", &head),
        Part::new("health", &health(world, drive)),
        Part::new(
            "tasks",
            &TaskList::of(world, viewer, back, |task| task.drive.as_ref() == Some(&drive.name)),
        ),
        Part::new(
            "deeds",
            &ActionForms { deeds: deed::forms(world, viewer, back, &drive.name, &verbs(drive)) },
        ),
        Part::new("events", &History { list: EventList::of(world, EVENTS, is_of) }),
    ])
}

fn facts(drive: &DriveInfo) -> Vec<(&'static str, String)> {
    let text = |value: &Option<String>| value.clone();
    let bytes = |value: Option<u64>| value.map(|value| ByteCount(value).to_string());
    let facts = [
        ("Model", text(&drive.model)),
        ("Serial number", text(&drive.serial)),
        ("Firmware", text(&drive.firmware)),
        ("Enclosure", text(&drive.enclosure)),
        ("Bay", text(&drive.bay)),
        ("Slot in its array", drive.slot.map(|slot| slot.to_string())),
        (
            "Number",
            drive.numbers.map(|numbers| {
                format!(
                    "enclosure {}, slot {}, device {}",
                    numbers.enclosure, numbers.slot, numbers.device
                )
            }),
        ),
        ("Capacity", drive.size_bytes.map(|size| both_capacities(ByteCount(size)))),
        ("Free", bytes(drive.free_bytes)),
        (
            "Kind",
            drive.kind.as_ref().map(|kind| {
                format!("{kind}, {}", if drive.rotational { "rotating" } else { "not rotating" })
            }),
        ),
        (
            "Sectors",
            drive.logical_sector_bytes.zip(drive.physical_sector_bytes).map(
                |(logical, physical)| {
                    format!("{} logical, {} physical", ByteCount(logical), ByteCount(physical))
                },
            ),
        ),
        ("UUID of its label", text(&drive.uuid)),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn health(world: &World, drive: &DriveInfo) -> Health {
    let mut facts = vec![("Medium errors since the start", drive.medium_errors.to_string())];
    if drive.suspensions > 0 {
        facts.push(("Suspensions since the start", drive.suspensions.to_string()));
    }
    if drive.stale_regions > 0 {
        facts.push(("Stale regions", drive.stale_regions.to_string()));
    }
    let told = drive.health.as_deref();
    facts.extend(told.map(figures).unwrap_or_default());
    Health {
        warning: told
            .and_then(|health| health.warning.as_ref())
            .map(|warning| format!("It {}.", warning.trim_end_matches('.'))),
        source: told.map(|health| {
            (health.source.clone(), Moment { at_s: health.asked_unix_s, now_s: world.now_unix_s })
        }),
        facts,
    }
}

fn figures(health: &HealthInfo) -> Vec<(&'static str, String)> {
    let percent = |value: Option<u8>| value.map(|value| format!("{value} %"));
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let figures = [
        (
            "Failure predicted",
            health.predicted_failure.map(|is| if is { "▲ yes" } else { "no" }.to_owned()),
        ),
        ("Worn", percent(health.wear_percent)),
        ("Spare blocks left", percent(health.spare_percent)),
        ("Medium errors (lifetime)", number(health.media_errors)),
        ("Reallocated sectors", number(health.reallocated_sectors)),
        ("Temperature", health.temperature_c.map(|degrees| format!("{degrees} °C"))),
        ("Power-on hours", number(health.power_on_hours)),
        ("Written (lifetime)", health.written_bytes.map(|bytes| ByteCount(bytes).to_string())),
    ];
    figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn verbs(drive: &DriveInfo) -> Vec<&'static str> {
    let mut verbs = vec!["locate-on", "locate-off"];
    verbs.extend::<&[&str]>(match drive.state {
        DriveState::Offline | DriveState::Stale => &["online"],
        DriveState::Suspended => &["resume"],
        DriveState::Failed if drive.volumes.is_empty() => &["clear-failed", "forget"],
        DriveState::Unused => &["spare-add", "forget"],
        DriveState::Foreign => &["forget"],
        DriveState::Spare => &["spare-remove"],
        // A failed drive in a slot is replaced, not reused.
        DriveState::Failed
        | DriveState::Missing
        | DriveState::Online
        | DriveState::Rebuilding
        | DriveState::Filling
        | DriveState::Log
        | DriveState::Refused => &[],
    });
    verbs
}
