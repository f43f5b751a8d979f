//! A new volume: which drives, what each level makes of them and costs, and what it would be before anything is done.

use crate::advice::which;
use crate::overview::survives_of;
use crate::page::Part;
use crate::words::{Query, drive_page, encoded, sentence, shell_word};
use crate::{Viewer, World, deed};
use askama::Template;
use controller::{CreateVolume, DriveInfo, DriveOperations, DriveState, Preview};
use units::{ByteCount, both_capacities, counted};

#[derive(Template)]
#[template(path = "create.html")]
struct Choose {
    drives: Vec<Candidate>,
    level: String,
    beside: Vec<(String, String)>,
}

/// A drive that nobody uses.
struct Candidate {
    name: String,
    link: String,
    is_chosen: bool,
    about: String,
    is_foreign: bool,
}

#[derive(Template)]
#[template(path = "create-levels.html")]
struct Levels {
    drives: String,
    rows: Vec<Row>,
    cannot: Vec<(String, String)>,
}

struct Row {
    level: String,
    link: String,
    is_chosen: bool,
    capacity: String,
    share: String,
    survives: String,
    write: String,
    degraded: String,
}

#[derive(Template)]
#[template(path = "create-result.html")]
struct Outcome {
    level: String,
    facts: Vec<(&'static str, String)>,
    notes: Vec<String>,
    form: Option<String>,
}

/// Drives that a new volume may take.
fn candidates(world: &World) -> impl Iterator<Item = &DriveInfo> {
    world.drives.iter().filter(|drive| drive.state == DriveState::Unused && !drive.read_only)
}

pub(crate) fn parts(world: &World, viewer: &Viewer, back: &str, query: &Query) -> Vec<Part> {
    let asked = query.all("drive");
    let chosen: Vec<&DriveInfo> =
        candidates(world).filter(|drive| asked.contains(&drive.name.as_str())).collect();
    let level = query.get("level").unwrap_or_default();
    let mut parts = vec![Part::new("create", &choose(world, &chosen, level))];
    if chosen.is_empty() {
        return parts;
    }
    parts.push(Part::new("levels", &levels(world, &chosen, level)));
    if let Some(Ok(preview)) = (!level.is_empty()).then(|| preview(level, &chosen)) {
        let mut said: Vec<(&str, &str)> = vec![("level", level)];
        said.extend(chosen.iter().map(|drive| ("drive", drive.name.as_str())));
        let form = deed::form(world, viewer, back, level, "create", &said);
        let facts = facts(level, &chosen, &preview);
        let notes = preview.notes.iter().map(|note| sentence(note)).collect();
        parts.push(Part::new("result", &Outcome { level: level.to_owned(), facts, notes, form }));
    }
    parts
}

fn choose(world: &World, chosen: &[&DriveInfo], level: &str) -> Choose {
    let candidate = |drive: &DriveInfo| {
        let size = drive.size_bytes.map(|size| both_capacities(ByteCount(size)));
        let about: Vec<String> = size.into_iter().chain([which(drive)]).collect();
        Candidate {
            name: drive.name.clone(),
            link: drive_page(&drive.name),
            is_chosen: chosen.iter().any(|one| one.name == drive.name),
            about: about.join(" · "),
            is_foreign: drive.foreign,
        }
    };
    let mut beside: Vec<(String, String)> = Vec::new();
    let mut arrays: Vec<&str> = Vec::new();
    for volume in world.volumes.iter().filter(|volume| volume.array_free_bytes > 0) {
        if arrays.contains(&volume.array.as_str()) {
            continue;
        }
        arrays.push(&volume.array);
        let free = format!(
            "{} are free on each of the {} of '{}'",
            ByteCount(volume.array_free_bytes),
            counted(volume.drives.len(), "drive"),
            volume.name
        );
        let cli = format!(
            "softroc volume create NAME --level {} --array {}",
            volume.level,
            shell_word(&volume.name)
        );
        beside.push((free, cli));
    }
    Choose { drives: candidates(world).map(candidate).collect(), level: level.to_owned(), beside }
}

fn preview(level: &str, chosen: &[&DriveInfo]) -> controller::Result<Preview> {
    controller::preview(&CreateVolume { level: level.to_owned(), ..CreateVolume::default() }, chosen)
}

fn levels(world: &World, chosen: &[&DriveInfo], level: &str) -> Levels {
    let drives: Vec<String> = chosen.iter().map(|drive| format!("drive={}", encoded(&drive.name))).collect();
    let raw: u64 = chosen.iter().filter_map(|drive| drive.size_bytes).sum();
    let (mut rows, mut cannot) = (Vec::new(), Vec::new());
    for name in &world.info.levels {
        match preview(name, chosen) {
            Ok(preview) => rows.push(Row {
                level: name.clone(),
                link: format!("/console/create?{}&level={}#result", drives.join("&"), encoded(name)),
                is_chosen: name == level,
                capacity: ByteCount(preview.capacity_bytes).to_string(),
                share: format!("{} %", u128::from(preview.capacity_bytes) * 100 / u128::from(raw.max(1))),
                survives: survives_of(name, preview.may_lose, preview.may_lose_at_most),
                write: operations(preview.small_write),
                degraded: preview.degraded_read.map_or_else(|| "cannot be read".to_owned(), operations),
            }),
            Err(why) => cannot.push((name.clone(), sentence(&why.message))),
        }
    }
    Levels { drives: counted(chosen.len(), "drive"), rows, cannot }
}

fn operations(operations: DriveOperations) -> String {
    let DriveOperations { reads, writes } = operations;
    match (reads, writes) {
        (reads, 0) => counted(reads, "read"),
        (0, writes) => counted(writes, "write"),
        (reads, writes) => format!("{}, {}", counted(reads, "read"), counted(writes, "write")),
    }
}

fn facts(level: &str, chosen: &[&DriveInfo], preview: &Preview) -> Vec<(&'static str, String)> {
    let names: Vec<&str> = chosen.iter().map(|drive| drive.name.as_str()).collect();
    let mut facts = vec![
        ("Drives, by slot", names.join(", ")),
        ("Hosts can use", ByteCount(preview.capacity_bytes).to_string()),
        ("Drives that may fail", survives_of(level, preview.may_lose, preview.may_lose_at_most)),
        ("Strip", ByteCount(preview.strip_bytes).to_string()),
        ("A write of 4 KiB asks the drives for", operations(preview.small_write)),
    ];
    if preview.spans > 1 {
        facts.push(("Spans", preview.spans.to_string()));
    }
    if let Some(degraded) = preview.degraded_read {
        facts.push(("A read of 4 KiB whose drive has failed", operations(degraded)));
    }
    facts
}
