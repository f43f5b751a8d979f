//! Another drive in the place of one: which one, its light, pull it, the new one, how far it is. The page says where things stand, whoever
//! opens it and whenever: nothing is kept of who has come how far.

use crate::advice::{is_out, pull, which};
use crate::lists::TaskList;
use crate::page::Part;
use crate::stage::{Came, Place, Stage};
use crate::words::{Badge, Tone, drive_page, encoded, sentence, shell_word};
use crate::{Viewer, World, deed};
use askama::Template;
use controller::{
    Command, DriveInfo, DriveState, ForeignDrive, Reply, TaskInfo, TaskKind, TaskState, VolumeInfo,
    VolumeState,
};
use units::{ByteCount, both_capacities};

/// The address of the page for a place.
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
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Done,
    Now,
    Later,
}

impl How {
    fn sign(self) -> &'static str {
        match self {
            How::Done => "✔",
            How::Now => "▶",
            How::Later => "○",
        }
    }

    /// The name of its style.
    fn class(self) -> &'static str {
        match self {
            How::Done => "good",
            How::Now => "now",
            How::Later => "idle",
        }
    }

    fn word(self) -> &'static str {
        match self {
            How::Done => "done",
            How::Now => "now",
            How::Later => "not yet",
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
    /// Why nobody knows what the drives hold.
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

/// What has to be asked for the page besides the world.
pub(crate) fn questions(world: &World, of: &str) -> Vec<Command> {
    let waits = Place::named(world, of).is_some_and(|place| Stage::of(world, &place, true).takes_a_drive());
    let is_asked = waits && candidates(world).next().is_some();
    is_asked.then_some(Command::ForeignList {}).into_iter().collect()
}

/// Where whoever names no place is led: to the first whose drive is out. From then on the page is about that one, whatever fails next.
pub(crate) fn leads(world: &World) -> Option<String> {
    first_out(world).map(|place| replace_page(&place.name()))
}

/// `None`: there is no such place.
pub(crate) fn parts(world: &World, viewer: &Viewer, of: &str, again: bool) -> Option<Vec<Part>> {
    if of.is_empty() {
        return Some(vec![Part::new("others", &Nothing { out: out(world), choose: choose(world, None) })]);
    }
    let place = Place::named(world, of)?;
    // What was asked of a place leads back to it, and to how far it is.
    let back = &replace_page(&place.name());
    let stage = Stage::of(world, &place, again);
    let tasks: Vec<u64> = place.fills(world).map(|task| task.task).collect();
    Some(vec![
        Part::new("replace", &head(world, &place, &stage)),
        match stage {
            Stage::Filling(_) | Stage::Lacking(..) | Stage::Filled(_) => {
                Part::new("tasks", &TaskList::of(world, viewer, back, |task| tasks.contains(&task.task)))
            }
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

/// Places, without the one that the page is about.
fn choose(world: &World, but: Option<&Place<'_>>) -> Choose {
    let is_other = |other: &Place<'_>| but.is_none_or(|place| place.name() != other.name());
    let choice = |place: Place<'_>| Choice {
        name: place.name(),
        class: Tone::from(place.drive.state).class(),
        link: replace_page(&place.name()),
        badge: Badge(place.drive.state),
        which: which(place.drive),
    };
    Choose { places: Place::all(world).filter(is_other).map(choice).collect() }
}

/// The page of no place: what is out is said while it is open, and it becomes the page of none by itself.
#[derive(Template)]
#[template(path = "replace-nothing.html")]
struct Nothing {
    /// The first place that is out, and its page.
    out: Option<(String, String)>,
    choose: Choose,
}

impl Choose {
    fn html(&self) -> String {
        crate::words::rendered(self)
    }
}

/// The first place whose drive is out.
fn first_out(world: &World) -> Option<Place<'_>> {
    Place::all(world).find(|place| is_out(place.drive.state))
}

fn out(world: &World) -> Option<(String, String)> {
    first_out(world).map(|place| (place.name(), replace_page(&place.name())))
}

/// Whether nothing answers in its place any more.
fn is_gone(drive: &DriveInfo) -> bool {
    drive.state == DriveState::Missing || drive.size_bytes.is_none()
}

fn head(world: &World, place: &Place<'_>, stage: &Stage<'_>) -> Head {
    let has_new = candidates(world).next().is_some();
    let again =
        matches!(stage, Stage::Filled(_)).then(|| format!("{}&again=yes", replace_page(&place.name())));
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

/// Where things stand, in words.
fn said(place: &Place<'_>, stage: &Stage<'_>) -> String {
    let volume = place.volume;
    let until = survives(volume);
    match stage {
        Stage::Unserved => format!(
            "'{}' does not serve: it is {}. Another drive in this place does not help: bring back the drives that it lacks. Run 'softroc volume show {}' for which.",
            volume.name,
            volume.state,
            shell_word(&volume.name)
        ),
        Stage::Works => format!(
            "This drive works. The new one is filled from it while hosts go on, and then takes its place: pull this one after that. {until} in the meantime."
        ),
        Stage::Out => format!(
            "This drive is out, and '{}' goes on without it. {until} until a new one is in its place and rebuilt.",
            volume.name
        ),
        Stage::Filling(task) => filling(task),
        Stage::Lacking(drive, task) => {
            format!("{} {until} until it has all that belongs on it.", lacking(drive, *task))
        }
        Stage::Filled(came) => {
            let done = match volume.state {
                VolumeState::Optimal => {
                    "Done: the new drive has all that belongs on it, and the volume is whole."
                }
                _ => "This drive is done: it has all that belongs on it.",
            };
            match came {
                Came::Freed(old) => {
                    format!(
                        "{done} Nobody uses the old one any more. Pull that: {}, {}.",
                        old.name,
                        which(old)
                    )
                }
                Came::Swapped => {
                    format!("{done} Pull the old one: it is among the drives that nobody uses.")
                }
                Came::Rebuilt | Came::Pulled => done.to_owned(),
            }
        }
    }
}

/// Of a task that is not over.
fn filling(task: &TaskInfo) -> String {
    let what = format!("{} is being filled ({} %)", task.subject, task.percent);
    match task.state {
        TaskState::Paused => format!("{what}, but that is paused: nothing goes on until it is resumed."),
        TaskState::Waiting => format!(
            "Nothing is left to do: {what}. It waits, and goes on by itself, also when nobody looks.{}",
            because(task)
        ),
        _ => format!("Nothing is left to do: {what}. This goes on by itself, also when nobody looks."),
    }
}

/// Of a drive that nothing fills. The last task that did.
fn lacking(drive: &DriveInfo, task: Option<&TaskInfo>) -> String {
    let name = &drive.name;
    match task {
        Some(task) if task.state == TaskState::Stopped => format!(
            "{name} is not filled: the {} was stopped at {} %. Nothing goes on until it is resumed.",
            task.kind, task.percent
        ),
        Some(task) if task.state == TaskState::Failed => format!(
            "{name} is not filled: the {} failed at {} %.{} Nothing goes on until it is resumed.",
            task.kind,
            task.percent,
            because(task)
        ),
        _ => format!(
            "{name} is not filled: no task does so at the moment. One begins by itself when it can; 'softroc task list' shows it."
        ),
    }
}

fn because(task: &TaskInfo) -> String {
    task.reason.as_deref().map(|why| format!(" {}", sentence(why))).unwrap_or_default()
}

fn survives(volume: &VolumeInfo) -> String {
    match volume.may_lose {
        0 => format!("'{}' survives no further failure", volume.name),
        left => format!("'{}' survives {}", volume.name, units::counted(left, "further failure")),
    }
}

/// What has to be done; nothing where another drive does not help.
fn steps(place: &Place<'_>, stage: &Stage<'_>, has_new: bool) -> Vec<Step> {
    let is_gone = is_gone(place.drive);
    let done_if = |is: bool, or: How| if is { How::Done } else { or };
    let (texts, hows) = match stage {
        Stage::Unserved => return Vec::new(),
        Stage::Works => {
            let confirm = if has_new { How::Now } else { How::Later };
            (WORKS, [done_if(has_new, How::Now), confirm, How::Later, How::Later])
        }
        Stage::Out => {
            // Where there is another bay, the new drive may come before the old one goes.
            let pull = if has_new { How::Later } else { How::Now };
            let put_in = if is_gone { How::Now } else { How::Later };
            let confirm = if has_new { How::Now } else { How::Later };
            (OUT, [done_if(is_gone, pull), done_if(has_new, put_in), confirm, How::Later])
        }
        Stage::Filling(task) if task.kind == TaskKind::Replace => FILLED_FROM_IT,
        // It is filled to take the place of one that works.
        Stage::Lacking(drive, _) if drive.state == DriveState::Filling => FILLED_FROM_IT,
        Stage::Filling(_) | Stage::Lacking(..) => (OUT, [How::Done, How::Done, How::Done, How::Now]),
        Stage::Filled(Came::Rebuilt) => (OUT, [How::Done; 4]),
        Stage::Filled(Came::Pulled) => (WORKS, [How::Done; 4]),
        Stage::Filled(Came::Freed(_) | Came::Swapped) => (WORKS, [How::Done, How::Done, How::Done, How::Now]),
    };
    texts.into_iter().zip(hows).map(|(text, how)| Step { text, how }).collect()
}

/// What is done where a drive works.
const WORKS: [&str; 4] =
    ["Put the new drive into a free bay", "Confirm", "It is filled", "Pull the old drive"];

/// How far that is while the new drive is filled.
const FILLED_FROM_IT: ([&str; 4], [How; 4]) = (WORKS, [How::Done, How::Done, How::Now, How::Later]);

/// What is done where a drive is out.
const OUT: [&str; 4] = ["Find the drive and pull it", "Put the new drive in", "Confirm", "It is rebuilt"];

fn pull_part(world: &World, viewer: &Viewer, back: &str, place: &Place<'_>, stage: &Stage<'_>) -> Part {
    let volumes: Vec<&VolumeInfo> =
        world.volumes.iter().filter(|volume| volume.array == place.volume.array).collect();
    // Which one is pulled in the end.
    let drive = match stage {
        Stage::Filled(Came::Freed(old)) => old,
        _ => place.drive,
    };
    let (title, said) = match stage {
        Stage::Filling(_) | Stage::Lacking(..) => return Part::empty("pull"),
        Stage::Unserved => ("May it be pulled?", pull(world, drive, &volumes)),
        Stage::Out if is_gone(drive) => ("It is pulled", "Nothing answers in its place any more.".to_owned()),
        Stage::Out => ("Find it and pull it", pull(world, drive, &volumes)),
        Stage::Filled(Came::Freed(old)) => (
            "Find the old drive and pull it",
            format!("{}: {}. {}", old.name, which(old), pull(world, old, &[])),
        ),
        Stage::Filled(_) => ("Its light", "Switch it off if it is still on.".to_owned()),
        Stage::Works => {
            ("Find it", "Light it, to know which one to pull in the end. It is not pulled yet.".to_owned())
        }
    };
    let light = match is_gone(drive) {
        true => Vec::new(),
        false => deed::forms(world, viewer, back, &drive.name, &["locate-on", "locate-off"]),
    };
    // It came back itself, with what it had.
    let back = match drive.state {
        DriveState::Offline | DriveState::Stale => deed::forms(world, viewer, back, &drive.name, &["online"]),
        _ => Vec::new(),
    };
    Part::new("pull", &Pull { title, said, light, back })
}

/// Drives that nobody uses.
fn candidates(world: &World) -> impl Iterator<Item = &DriveInfo> {
    world.drives.iter().filter(|drive| drive.state == DriveState::Unused && !drive.read_only)
}

fn given<'w>(world: &'w World, viewer: &Viewer, back: &str, place: &Place<'w>, stage: &Stage<'w>) -> Given {
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
            form: (!is_small).then(|| deed::form(world, viewer, back, &name, "replace", &said)).flatten(),
        }
    };
    let drives: Vec<New> = candidates(world).map(new).collect();
    let title = match (drives.is_empty(), stage) {
        (true, _) => "Put the new drive in",
        (false, Stage::Works) => "Confirm: this drive instead of one that works",
        (false, _) => "Confirm: this drive into its place",
    };
    Given {
        title,
        unknown: unknown.filter(|_| !drives.is_empty()),
        needs: needs_bytes.map(|needs| both_capacities(ByteCount(needs))),
        drives,
        other: deed::form(world, viewer, back, &name, "replace", &[]),
    }
}

/// What the drives hold that nobody uses, and why that is not known where it is not.
pub(crate) fn found(world: &World) -> (&[ForeignDrive], Option<String>) {
    match world.answer(&Command::ForeignList {}) {
        Some(Ok(Reply::Foreign { drives, .. })) => (drives, None),
        Some(Err(error)) => (&[], Some(sentence(&error.message))),
        _ => (&[], Some("It was not asked.".to_owned())),
    }
}

/// What a drive holds that is not ours.
pub(crate) fn holds(drive: &DriveInfo, found: &[ForeignDrive]) -> Vec<String> {
    match found.iter().find(|one| one.name == drive.name) {
        Some(one) => one.holds.iter().cloned().chain(one.reason.clone()).collect(),
        None => Vec::new(),
    }
}
