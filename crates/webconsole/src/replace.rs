//! The replacement of a drive in steps: identify, locate, remove, insert, confirm, rebuild. The
//! page is a function of the current state; it stores no progress.

use crate::advice::{is_out, pull, which};
use crate::lists::TaskList;
use crate::page::Part;
use crate::stage::{ArraySlot, Replacement, Stage};
use crate::words::{Badge, Tone, drive_page, encoded, sentence, shell_word};
use crate::{Viewer, World, deed};
use askama::Template;
use controller::{
    Command, DriveInfo, DriveState, ForeignDrive, Reply, TaskInfo, TaskKind, TaskState, VolumeInfo,
    VolumeState,
};
use units::{ByteCount, both_capacities};

/// The address of the page for a slot.
pub(crate) fn replace_page(place: &str) -> String {
    format!("/console/replace?of={}", encoded(place))
}

#[derive(Template)]
#[template(path = "replace-choose.html")]
struct Choose {
    places: Vec<Choice>,
}

struct Choice {
    name: String,
    class: &'static str,
    link: String,
    badge: Badge<DriveState>,
    which: String,
}

#[derive(Template)]
#[template(path = "replace.html")]
struct Head {
    place: String,
    badge: Badge<DriveState>,
    drive: String,
    link: String,
    which: String,
    said: String,
    reason: Option<String>,
    steps: Vec<Step>,
    again: Option<String>,
}

struct Step {
    text: &'static str,
    how: StepState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StepState {
    Done,
    Now,
    Later,
}

impl StepState {
    fn sign(self) -> &'static str {
        match self {
            StepState::Done => "✔",
            StepState::Now => "▶",
            StepState::Later => "○",
        }
    }

    /// The CSS class.
    fn class(self) -> &'static str {
        match self {
            StepState::Done => "good",
            StepState::Now => "now",
            StepState::Later => "idle",
        }
    }

    fn word(self) -> &'static str {
        match self {
            StepState::Done => "done",
            StepState::Now => "now",
            StepState::Later => "later",
        }
    }
}

#[derive(Template)]
#[template(path = "replace-pull.html")]
struct Pull {
    title: &'static str,
    said: String,
    light: Vec<String>,
    back: Vec<String>,
}

#[derive(Template)]
#[template(path = "replace-given.html")]
struct Given {
    title: &'static str,
    needs: Option<String>,
    /// Why the content of the drives is unknown.
    unknown: Option<String>,
    drives: Vec<New>,
    other: Option<String>,
}

struct New {
    name: String,
    link: String,
    which: String,
    about: String,
    holds: Vec<String>,
    form: Option<String>,
}

/// Additional queries of the page.
pub(crate) fn questions(world: &World, of: &str) -> Vec<Command> {
    let waits = ArraySlot::named(world, of)
        .is_some_and(|place| Stage::of(world, &place, true).takes_a_drive());
    let is_asked = waits && candidates(world).next().is_some();
    is_asked.then_some(Command::ForeignList {}).into_iter().collect()
}

/// The redirection of a page without a slot: the first slot whose drive has failed or is missing.
/// The page then stays with that slot.
pub(crate) fn leads(world: &World) -> Option<String> {
    first_out(world).map(|place| replace_page(&place.name()))
}

/// `None`: no such slot.
pub(crate) fn parts(world: &World, viewer: &Viewer, of: &str, again: bool) -> Option<Vec<Part>> {
    if of.is_empty() {
        return Some(vec![Part::new(
            "others",
            &Nothing { out: out(world), choose: choose(world, None) },
        )]);
    }
    let place = ArraySlot::named(world, of)?;
    // After an action, the page returns to the slot and its progress.
    let back = &replace_page(&place.name());
    let stage = Stage::of(world, &place, again);
    let tasks: Vec<u64> = place.fills(world).map(|task| task.task).collect();
    Some(vec![
        Part::new("replace", &head(world, &place, &stage)),
        match stage {
            Stage::Filling(_) | Stage::Lacking(..) | Stage::Filled(_) => Part::new(
                "tasks",
                &TaskList::of(world, viewer, back, |task| tasks.contains(&task.task)),
            ),
            Stage::Works | Stage::Out | Stage::Unserved => Part::empty("tasks"),
        },
        pull_part(world, viewer, back, &place, &stage),
        match stage.takes_a_drive() {
            true => Part::new("given", &given(world, viewer, back, &place, &stage)),
            false => Part::empty("given"),
        },
        Part::new("others", &choose(world, Some(&place))),
    ])
}

/// Slots, without the one of the page.
fn choose(world: &World, but: Option<&ArraySlot<'_>>) -> Choose {
    let is_other = |other: &ArraySlot<'_>| but.is_none_or(|place| place.name() != other.name());
    let choice = |place: ArraySlot<'_>| Choice {
        name: place.name(),
        class: Tone::from(place.drive.state).class(),
        link: replace_page(&place.name()),
        badge: Badge(place.drive.state),
        which: which(place.drive),
    };
    Choose { places: ArraySlot::all(world).filter(is_other).map(choice).collect() }
}

/// The page without a slot: it shows a failed drive as soon as there is one.
#[derive(Template)]
#[template(path = "replace-nothing.html")]
struct Nothing {
    /// The first slot whose drive has failed or is missing, and its page.
    out: Option<(String, String)>,
    choose: Choose,
}

impl Choose {
    fn html(&self) -> String {
        crate::words::rendered(self)
    }
}

/// The first slot whose drive has failed or is missing.
fn first_out(world: &World) -> Option<ArraySlot<'_>> {
    ArraySlot::all(world).find(|place| is_out(place.drive.state))
}

fn out(world: &World) -> Option<(String, String)> {
    first_out(world).map(|place| (place.name(), replace_page(&place.name())))
}

/// Whether the drive does not respond.
fn is_gone(drive: &DriveInfo) -> bool {
    drive.state == DriveState::Missing || drive.size_bytes.is_none()
}

fn head(world: &World, place: &ArraySlot<'_>, stage: &Stage<'_>) -> Head {
    let has_new = candidates(world).next().is_some();
    let again = matches!(stage, Stage::Filled(_))
        .then(|| format!("{}&again=yes", replace_page(&place.name())));
    Head {
        place: place.name(),
        badge: Badge(place.drive.state),
        drive: place.drive.name.clone(),
        link: drive_page(&place.drive.name),
        which: which(place.drive),
        said: said(place, stage),
        reason: place.drive.reason.as_deref().map(sentence),
        steps: steps(place, stage, has_new),
        again,
    }
}

/// A description of the state.
fn said(place: &ArraySlot<'_>, stage: &Stage<'_>) -> String {
    let volume = place.volume;
    let until = survives(volume);
    match stage {
        Stage::Unserved => format!(
            "'{}' is not available: it is {}. A new drive does not help. Reconnect the missing \
             drives; 'softroc volume show {}' lists them.",
            volume.name,
            volume.state,
            shell_word(&volume.name)
        ),
        Stage::Works => format!(
            "This drive works. Its data is copied to the new drive while hosts continue. Remove \
             it after the copy. {until} in the meantime."
        ),
        Stage::Out => format!(
            "This drive is failed or missing; '{}' runs without it. {until} until a new drive is \
                rebuilt.",
            volume.name
        ),
        Stage::Filling(task) => filling(task),
        Stage::Lacking(drive, task) => {
            format!("{} {until} until its data is complete.", lacking(drive, *task))
        }
        Stage::Filled(came) => {
            let done = match volume.state {
                VolumeState::Optimal => {
                    "Done: the new drive is complete, and the volume is optimal."
                }
                _ => "The data of this drive is complete.",
            };
            match came {
                Replacement::Freed(old) => {
                    format!(
                        "{done} Remove the old drive, which is unused now: {}, {}.",
                        old.name,
                        which(old)
                    )
                }
                Replacement::Swapped => {
                    format!("{done} Remove the old drive; it is among the unused drives.")
                }
                Replacement::Rebuilt | Replacement::Pulled => done.to_owned(),
            }
        }
    }
}

/// For a running task.
fn filling(task: &TaskInfo) -> String {
    let what = format!("{} is being rebuilt or copied ({} %)", task.subject, task.percent);
    match task.state {
        TaskState::Paused => format!("{what}, but the task is paused. Resume it to continue."),
        TaskState::Waiting => {
            format!(
                "No action needed: {what}. The task waits and continues automatically.{}",
                because(task)
            )
        }
        _ => format!("No action needed: {what}. The task continues automatically."),
    }
}

/// For an incomplete drive without a running task. The last task that worked on it.
fn lacking(drive: &DriveInfo, task: Option<&TaskInfo>) -> String {
    let name = &drive.name;
    match task {
        Some(task) if task.state == TaskState::Stopped => format!(
            "{name} is incomplete: the {} was stopped at {} %. Resume the task to continue.",
            task.kind, task.percent
        ),
        Some(task) if task.state == TaskState::Failed => format!(
            "{name} is incomplete: the {} failed at {} %.{} Resume the task to continue.",
            task.kind,
            task.percent,
            because(task)
        ),
        _ => format!(
            "{name} is incomplete, and no task runs. A task starts automatically when possible; \
             see 'softroc task list'."
        ),
    }
}

fn because(task: &TaskInfo) -> String {
    task.reason.as_deref().map(|why| format!(" {}", sentence(why))).unwrap_or_default()
}

fn survives(volume: &VolumeInfo) -> String {
    match volume.may_lose {
        0 => format!("'{}' tolerates no further failure", volume.name),
        left => format!("'{}' tolerates {}", volume.name, units::counted(left, "further failure")),
    }
}

/// The steps; none if a new drive does not help.
fn steps(place: &ArraySlot<'_>, stage: &Stage<'_>, has_new: bool) -> Vec<Step> {
    let is_gone = is_gone(place.drive);
    let done_if = |is: bool, or: StepState| if is { StepState::Done } else { or };
    let (texts, hows) = match stage {
        Stage::Unserved => return Vec::new(),
        Stage::Works => {
            let confirm = if has_new { StepState::Now } else { StepState::Later };
            (WORKS, [done_if(has_new, StepState::Now), confirm, StepState::Later, StepState::Later])
        }
        Stage::Out => {
            // With a free bay, the new drive can be inserted before the old one is removed.
            let pull = if has_new { StepState::Later } else { StepState::Now };
            let put_in = if is_gone { StepState::Now } else { StepState::Later };
            let confirm = if has_new { StepState::Now } else { StepState::Later };
            (OUT, [done_if(is_gone, pull), done_if(has_new, put_in), confirm, StepState::Later])
        }
        Stage::Filling(task) if task.kind == TaskKind::Replace => FILLED_FROM_IT,
        // It will replace a working drive.
        Stage::Lacking(drive, _) if drive.state == DriveState::Filling => FILLED_FROM_IT,
        Stage::Filling(_) | Stage::Lacking(..) => {
            (OUT, [StepState::Done, StepState::Done, StepState::Done, StepState::Now])
        }
        Stage::Filled(Replacement::Rebuilt) => (OUT, [StepState::Done; 4]),
        Stage::Filled(Replacement::Pulled) => (WORKS, [StepState::Done; 4]),
        Stage::Filled(Replacement::Freed(_) | Replacement::Swapped) => {
            (WORKS, [StepState::Done, StepState::Done, StepState::Done, StepState::Now])
        }
    };
    texts.into_iter().zip(hows).map(|(text, how)| Step { text, how }).collect()
}

/// The steps for a working drive.
const WORKS: [&str; 4] =
    ["Insert the new drive into a free bay", "Confirm", "Copy", "Remove the old drive"];

/// The progress during the copy.
const FILLED_FROM_IT: ([&str; 4], [StepState; 4]) =
    (WORKS, [StepState::Done, StepState::Done, StepState::Now, StepState::Later]);

/// The steps for a failed or missing drive.
const OUT: [&str; 4] =
    ["Locate and remove the drive", "Insert the new drive", "Confirm", "Rebuild"];

fn pull_part(
    world: &World,
    viewer: &Viewer,
    back: &str,
    place: &ArraySlot<'_>,
    stage: &Stage<'_>,
) -> Part {
    let volumes: Vec<&VolumeInfo> =
        world.volumes.iter().filter(|volume| volume.array == place.volume.array).collect();
    // The drive to remove at the end.
    let drive = match stage {
        Stage::Filled(Replacement::Freed(old)) => old,
        _ => place.drive,
    };
    let (title, said) = match stage {
        Stage::Filling(_) | Stage::Lacking(..) => return Part::empty("pull"),
        Stage::Unserved => ("Safe to remove", pull(world, drive, &volumes)),
        Stage::Out if is_gone(drive) => {
            ("Drive removed", "The drive does not respond any more.".to_owned())
        }
        Stage::Out => ("Locate and remove the drive", pull(world, drive, &volumes)),
        Stage::Filled(Replacement::Freed(old)) => (
            "Locate and remove the old drive",
            format!("{}: {}. {}", old.name, which(old), pull(world, old, &[])),
        ),
        Stage::Filled(_) => ("Locate light", "Switch it off if it is still on.".to_owned()),
        Stage::Works => (
            "Locate the drive",
            "Switch its light on to identify it. Do not remove it yet.".to_owned(),
        ),
    };
    let light = match is_gone(drive) {
        true => Vec::new(),
        false => deed::forms(world, viewer, back, &drive.name, &["locate-on", "locate-off"]),
    };
    // The original drive is back with its data.
    let back = match drive.state {
        DriveState::Offline | DriveState::Stale => {
            deed::forms(world, viewer, back, &drive.name, &["online"])
        }
        _ => Vec::new(),
    };
    Part::new("pull", &Pull { title, said, light, back })
}

/// Unused drives.
fn candidates(world: &World) -> impl Iterator<Item = &DriveInfo> {
    world.drives.iter().filter(|drive| drive.state == DriveState::Unused && !drive.read_only)
}

fn given<'w>(
    world: &'w World,
    viewer: &Viewer,
    back: &str,
    place: &ArraySlot<'w>,
    stage: &Stage<'w>,
) -> Given {
    let coverage = world.coverage.iter().find(|array| array.volumes.contains(&place.volume.name));
    let needs_bytes = coverage.map(|array| array.needs_bytes);
    let name = place.name();
    let (found, unknown) = found(world);
    let new = |drive: &DriveInfo| {
        let is_small = needs_bytes.zip(drive.size_bytes).is_some_and(|(needs, has)| has < needs);
        let size = drive.size_bytes.map(|size| both_capacities(ByteCount(size)));
        let mut about: Vec<String> = size.into_iter().collect();
        if is_small {
            about.push("▲ too small".to_owned());
        }
        let said = [("with", drive.name.as_str())];
        New {
            name: drive.name.clone(),
            link: drive_page(&drive.name),
            which: which(drive),
            about: about.join(", "),
            holds: holds(drive, found),
            form: (!is_small)
                .then(|| deed::form(world, viewer, back, &name, "replace", &said))
                .flatten(),
        }
    };
    let drives: Vec<New> = candidates(world).map(new).collect();
    let title = match (drives.is_empty(), stage) {
        (true, _) => "Insert the new drive",
        (false, Stage::Works) => "Confirm: replace a working drive by this drive",
        (false, _) => "Confirm: use this drive",
    };
    Given {
        title,
        unknown: unknown.filter(|_| !drives.is_empty()),
        needs: needs_bytes.map(|needs| both_capacities(ByteCount(needs))),
        drives,
        other: deed::form(world, viewer, back, &name, "replace", &[]),
    }
}

/// The content of unused drives, or why it is unknown.
pub(crate) fn found(world: &World) -> (&[ForeignDrive], Option<String>) {
    match world.answer(&Command::ForeignList {}) {
        Some(Ok(Reply::Foreign { drives, .. })) => (drives, None),
        Some(Err(error)) => (&[], Some(sentence(&error.message))),
        _ => (&[], Some("Not available.".to_owned())),
    }
}

/// Foreign content of a drive.
pub(crate) fn holds(drive: &DriveInfo, found: &[ForeignDrive]) -> Vec<String> {
    match found.iter().find(|one| one.name == drive.name) {
        Some(one) => one.holds.iter().cloned().chain(one.reason.clone()).collect(),
        None => Vec::new(),
    }
}
