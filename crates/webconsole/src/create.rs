//! The create page: drives, levels with their costs, and a summary before the volume is created.

use crate::advice::which;
use crate::foreseen::{self, Models, PredictedRate};
use crate::overview::survives_of;
use crate::page::Part;
use crate::replace::{found, holds};
use crate::words::{Query, drive_page, encoded, sentence, shell_word};
use crate::workbench::command_line;
use crate::{Predict, Viewer, World, deed};
use askama::Template;
use controller::{Command, CreateVolume, DriveInfo, DriveOperations, DriveState, Preview};
use units::{ByteCount, both_capacities, counted};

#[derive(Template)]
#[template(path = "create.html")]
struct Choose {
    drives: Vec<Candidate>,
    /// Why the content of the drives is unknown.
    unknown: Option<String>,
    level: String,
    models: String,
    beside: Vec<(String, String)>,
}

/// An unused drive.
struct Candidate {
    name: String,
    link: String,
    is_chosen: bool,
    about: String,
    holds: Vec<String>,
}

#[derive(Template)]
#[template(path = "create-levels.html")]
struct Levels {
    drives: String,
    rows: Vec<Row>,
    cannot: Vec<(String, String)>,
    /// The subject of the predictions, if there are any.
    predicted: Option<String>,
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
    predicted: Option<PredictedRate>,
}

#[derive(Template)]
#[template(path = "create-result.html")]
struct Outcome {
    level: String,
    facts: Vec<(&'static str, String)>,
    notes: Vec<String>,
    /// The command line of the prediction.
    predict: Option<String>,
    form: Option<String>,
}

/// The predictions of the page: one per possible level.
pub(crate) fn predictions(world: &World, query: &Query) -> Vec<Predict> {
    let Some(models) = Models::of(world, query) else { return Vec::new() };
    let chosen = chosen(world, query);
    let of_level = |level: &String| {
        let preview = preview(level, &chosen).ok()?;
        Some(order(&models, world, level, chosen.len(), &preview))
    };
    if chosen.is_empty() {
        Vec::new()
    } else {
        world.info.levels.iter().filter_map(of_level).collect()
    }
}

/// The prediction of a level on this number of drives.
fn order(
    models: &Models<'_>,
    world: &World,
    level: &str,
    drives: usize,
    preview: &Preview,
) -> Predict {
    models.order(world, level, drives, (preview.spans, preview.strip_bytes))
}

fn chosen<'w>(world: &'w World, query: &Query) -> Vec<&'w DriveInfo> {
    let asked = query.all("drive");
    candidates(world).filter(|drive| asked.contains(&drive.name.as_str())).collect()
}

/// Additional queries: the content of unused drives.
pub(crate) fn questions(world: &World) -> Vec<Command> {
    candidates(world).next().map(|_| Command::ForeignList {}).into_iter().collect()
}

/// Drives that a new volume can use.
fn candidates(world: &World) -> impl Iterator<Item = &DriveInfo> {
    world.drives.iter().filter(|drive| drive.state == DriveState::Unused && !drive.read_only)
}

pub(crate) fn parts(world: &World, viewer: &Viewer, back: &str, query: &Query) -> Vec<Part> {
    let chosen = chosen(world, query);
    let level = query.get("level").unwrap_or_default();
    let models = Models::of(world, query);
    let mut parts = vec![Part::new("create", &choose(world, viewer, query, &chosen))];
    if chosen.is_empty() {
        return parts;
    }
    parts.push(Part::new("levels", &levels(world, &chosen, level, models.as_ref())));
    if let Some(Ok(preview)) = (!level.is_empty()).then(|| preview(level, &chosen)) {
        let mut said: Vec<(&str, &str)> = vec![("level", level)];
        said.extend(chosen.iter().map(|drive| ("drive", drive.name.as_str())));
        let form = deed::form(world, viewer, back, level, "create", &said);
        let facts = facts(level, &chosen, &preview);
        let notes = preview.notes.iter().map(|note| sentence(note)).collect();
        let order = models.map(|models| order(&models, world, level, chosen.len(), &preview));
        let predict = order.map(|order| command_line(&order.words()));
        parts.push(Part::new(
            "result",
            &Outcome { level: level.to_owned(), facts, notes, predict, form },
        ));
    }
    parts
}

fn choose(world: &World, viewer: &Viewer, query: &Query, chosen: &[&DriveInfo]) -> Choose {
    let (found, unknown) = found(world);
    let candidate = |drive: &DriveInfo| {
        let size = drive.size_bytes.map(|size| both_capacities(ByteCount(size)));
        let about: Vec<String> = size.into_iter().chain([which(drive)]).collect();
        Candidate {
            name: drive.name.clone(),
            link: drive_page(&drive.name),
            is_chosen: chosen.iter().any(|one| one.name == drive.name),
            about: about.join(" · "),
            holds: holds(drive, found),
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
            "{} free on each of the {} of '{}'",
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
    let drives: Vec<Candidate> = candidates(world).map(candidate).collect();
    Choose {
        unknown: unknown.filter(|_| !drives.is_empty()),
        drives,
        level: query.get("level").unwrap_or_default().to_owned(),
        models: foreseen::form(world, viewer, query),
        beside,
    }
}

fn preview(level: &str, chosen: &[&DriveInfo]) -> controller::Result<Preview> {
    controller::preview(
        &CreateVolume { level: level.to_owned(), ..CreateVolume::default() },
        chosen,
    )
}

fn levels(
    world: &World,
    chosen: &[&DriveInfo],
    level: &str,
    models: Option<&Models<'_>>,
) -> Levels {
    let mut said: Vec<String> =
        chosen.iter().map(|drive| format!("drive={}", encoded(&drive.name))).collect();
    if let Some(models) = models {
        said.push(format!(
            "controller={}&model={}",
            encoded(models.controller),
            encoded(models.drive)
        ));
    }
    let raw: u64 = chosen.iter().filter_map(|drive| drive.size_bytes).sum();
    let (mut rows, mut cannot) = (Vec::new(), Vec::new());
    for name in &world.info.levels {
        match preview(name, chosen) {
            Ok(preview) => rows.push(Row {
                level: name.clone(),
                link: format!("/console/create?{}&level={}#result", said.join("&"), encoded(name)),
                is_chosen: name == level,
                capacity: ByteCount(preview.capacity_bytes).to_string(),
                share: format!(
                    "{} %",
                    u128::from(preview.capacity_bytes) * 100 / u128::from(raw.max(1))
                ),
                survives: survives_of(name, preview.may_lose, preview.may_lose_at_most),
                write: operations(preview.small_write),
                predicted: models.map(|models| {
                    foreseen::of(world, &order(models, world, name, chosen.len(), &preview))
                }),
                degraded: preview
                    .degraded_read
                    .map_or_else(|| "not possible".to_owned(), operations),
            }),
            Err(why) => cannot.push((name.clone(), sentence(&why.message))),
        }
    }
    let predicted = models.map(|models| {
        format!(
            "{} on {} × {} behind {}",
            foreseen::load(),
            chosen.len(),
            models.drive,
            models.controller
        )
    });
    Levels { drives: counted(chosen.len(), "drive"), rows, cannot, predicted }
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
        ("Usable capacity", ByteCount(preview.capacity_bytes).to_string()),
        (
            "Fault tolerance (drives)",
            survives_of(level, preview.may_lose, preview.may_lose_at_most),
        ),
        ("Strip", ByteCount(preview.strip_bytes).to_string()),
        ("4 KiB write", operations(preview.small_write)),
    ];
    if preview.spans > 1 {
        facts.push(("Spans", preview.spans.to_string()));
    }
    if let Some(degraded) = preview.degraded_read {
        facts.push(("Degraded 4 KiB read", operations(degraded)));
    }
    facts
}
