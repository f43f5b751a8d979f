//! Another drive in the place of one: which one, its light, pull it, the new one, how far it is. The page says where things stand, whoever
//! opens it and whenever: nothing is kept of who has come how far.

use crate::advice::{is_out, pull, which};
use crate::lists::TaskList;
use crate::page::Part;
use crate::words::{Badge, Tone, drive_page, encoded, sentence};
use crate::{Viewer, World, deed};
use askama::Template;
use controller::{
    Command, DriveInfo, DriveState, Event, ForeignDrive, Reply, TaskInfo, TaskKind, TaskState, VolumeInfo,
    VolumeState,
};
use units::{ByteCount, both_capacities};

/// For so long after a drive was filled the page says that it is.
const LATELY_S: u64 = 24 * 3600;

/// Events that tell of a drive that took a place.
const CAME: [&str; 2] = ["drive.takes-slot", "drive.replaced"];

/// A place of an array.
pub(crate) struct Place<'w> {
    pub(crate) volume: &'w VolumeInfo,
    slot: usize,
    /// What is in it, or should be.
    pub(crate) drive: &'w DriveInfo,
}

impl<'w> Place<'w> {
    /// By `VOLUME:SLOT`.
    pub(crate) fn named(world: &'w World, text: &str) -> Option<Place<'w>> {
        let (name, slot) = text.rsplit_once(':')?;
        let volume = world.volumes.iter().find(|volume| volume.name == name)?;
        let slot: usize = slot.parse().ok()?;
        Some(Place { volume, slot, drive: volume.drives.get(slot)? })
    }

    fn all(world: &'w World) -> impl Iterator<Item = Place<'w>> {
        // Volumes of one array have the same drives: the first that is listed speaks for all.
        let is_first = |volume: &&VolumeInfo| {
            world
                .volumes
                .iter()
                .find(|other| other.array == volume.array)
                .is_some_and(|first| first.uuid == volume.uuid)
        };
        world.volumes.iter().filter(is_first).flat_map(|volume| {
            volume.drives.iter().enumerate().map(move |(slot, drive)| Place { volume, slot, drive })
        })
    }

    fn name(&self) -> String {
        format!("{}:{}", self.volume.name, self.slot)
    }

    /// What somebody types who means this drive and no other.
    pub(crate) fn proof(&self) -> String {
        self.drive.serial.clone().unwrap_or_else(|| self.drive.name.clone())
    }

    /// Whether its drive came a while ago. (Where nobody has written yet, nothing has to be filled, and there is no task.)
    fn was_filled_lately(&self, world: &World) -> bool {
        let is_lately = |at_s: u64| at_s + LATELY_S > world.now_unix_s;
        let is_done =
            |task: &TaskInfo| task.state == TaskState::Done && task.ended_unix_s.is_some_and(is_lately);
        let names = |text: &str| text.split_whitespace().any(|word| word == self.drive.name);
        let has_come = |event: &Event| {
            CAME.contains(&event.code.as_str())
                && is_lately(event.time_unix_s)
                && self.volume.array_volumes.contains(&event.subject)
                && names(&event.text)
        };
        self.fills(world).any(is_done) || world.events.iter().any(has_come)
    }

    /// Tasks that fill it, the newest first: with what it held, or what the others say that it held.
    fn fills(&self, world: &'w World) -> impl Iterator<Item = &'w TaskInfo> {
        let slot = u16::try_from(self.slot).ok();
        let volume = self.volume;
        let sits_here = move |drive: &DriveInfo| {
            drive.slot == slot && drive.volumes.iter().any(|name| volume.array_volumes.contains(name))
        };
        let here: Vec<&String> = world
            .drives
            .iter()
            .filter(|drive| sits_here(drive))
            .map(|drive| &drive.name)
            .chain([&self.drive.name])
            .collect();
        world.tasks.iter().filter(move |task| {
            let fills = matches!(
                task.kind,
                TaskKind::Rebuild | TaskKind::Replace | TaskKind::Copyback | TaskKind::Restore
            );
            fills && task.drive.as_ref().is_some_and(|drive| here.contains(&drive))
        })
    }
}

/// The address of the page for a place.
pub(crate) fn replace_page(place: &str) -> String {
    format!("/console/replace?of={}", encoded(place))
}

/// Where things stand.
enum Stage<'w> {
    /// It works: the new drive is filled from it.
    Works,
    /// It is out: what it held is computed from the others.
    Out,
    /// A drive is being filled.
    Filling(&'w TaskInfo),
    /// A drive was filled a while ago.
    Filled,
}

impl<'w> Stage<'w> {
    fn of(world: &'w World, place: &Place<'w>, again: bool) -> Stage<'w> {
        if let Some(task) = place.fills(world).find(|task| !task.state.is_over()) {
            return Stage::Filling(task);
        }
        if is_out(place.drive.state) {
            return Stage::Out;
        }
        match !again && place.was_filled_lately(world) {
            true => Stage::Filled,
            false => Stage::Works,
        }
    }

    fn takes_a_drive(&self) -> bool {
        matches!(self, Stage::Works | Stage::Out)
    }
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
    let place = Place::named(world, of).or_else(|| first_out(world));
    let waits = place.is_some_and(|place| Stage::of(world, &place, true).takes_a_drive());
    let is_asked = waits && candidates(world).next().is_some();
    is_asked.then_some(Command::ForeignList {}).into_iter().collect()
}

/// `None`: there is no such place.
pub(crate) fn parts(world: &World, viewer: &Viewer, back: &str, of: &str, again: bool) -> Option<Vec<Part>> {
    let place = match of {
        "" => first_out(world),
        of => Some(Place::named(world, of)?),
    };
    let mut parts = Vec::new();
    if let Some(place) = &place {
        let stage = Stage::of(world, place, again);
        parts.push(Part::new("replace", &head(world, place, &stage)));
        let tasks: Vec<u64> = place.fills(world).map(|task| task.task).collect();
        parts.push(match stage {
            Stage::Filling(_) | Stage::Filled => {
                Part::new("tasks", &TaskList::of(world, viewer, back, |task| tasks.contains(&task.task)))
            }
            Stage::Works | Stage::Out => Part::empty("tasks"),
        });
        parts.push(pull_part(world, viewer, back, place, &stage));
        parts.push(match stage.takes_a_drive() {
            true => Part::new("given", &given(world, viewer, back, place, &stage)),
            false => Part::empty("given"),
        });
    }
    let is_other = |other: &Place<'_>| place.as_ref().is_none_or(|place| place.name() != other.name());
    let choice = |place: Place<'_>| Choice {
        name: place.name(),
        class: Tone::from(place.drive.state).class(),
        link: replace_page(&place.name()),
        badge: Badge(place.drive.state),
        which: which(place.drive),
    };
    let places: Vec<Choice> = Place::all(world).filter(is_other).map(choice).collect();
    let choose = Choose { places };
    parts.push(match place.is_some() {
        true => Part::new("others", &choose),
        false => Part::new("others", &Nothing { choose }),
    });
    Some(parts)
}

#[derive(Template)]
#[template(path = "replace-nothing.html")]
struct Nothing {
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

/// Whether nothing answers in its place any more.
fn is_gone(drive: &DriveInfo) -> bool {
    drive.state == DriveState::Missing || drive.size_bytes.is_none()
}

fn head(world: &World, place: &Place<'_>, stage: &Stage<'_>) -> Head {
    let has_new = candidates(world).next().is_some();
    let said = match stage {
        Stage::Works => format!(
            "This drive works. The new one is filled from it while hosts go on, and then takes its place: pull this one after that. {} in the meantime.",
            survives(place.volume)
        ),
        Stage::Out => format!(
            "This drive is out, and its volumes go on without it. {} until a new one is in its place and rebuilt.",
            survives(place.volume)
        ),
        Stage::Filling(task) => format!(
            "Nothing is left to do: {} is being filled ({} %). This goes on by itself, also when nobody looks.",
            task.subject, task.percent
        ),
        Stage::Filled if place.volume.state == VolumeState::Optimal => {
            "Done: the new drive has all that belongs on it, and the volume is whole.".to_owned()
        }
        Stage::Filled => "This drive is done: it has all that belongs on it.".to_owned(),
    };
    let again = matches!(stage, Stage::Filled).then(|| format!("{}&again=yes", replace_page(&place.name())));
    Head {
        place: place.name(),
        badge: Badge(place.drive.state),
        drive: place.drive.name.clone(),
        link: drive_page(&place.drive.name),
        which: which(place.drive),
        said,
        reason: place.drive.reason.as_deref().map(sentence),
        steps: steps(stage, is_gone(place.drive), has_new),
        again,
    }
}

fn survives(volume: &VolumeInfo) -> String {
    match volume.may_lose {
        0 => format!("'{}' survives no further failure", volume.name),
        left => format!("'{}' survives {}", volume.name, units::counted(left, "further failure")),
    }
}

fn steps(stage: &Stage<'_>, is_gone: bool, has_new: bool) -> Vec<Step> {
    let done_if = |is: bool, or: How| if is { How::Done } else { or };
    let (texts, hows) = match stage {
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
        Stage::Filling(task) if task.kind == TaskKind::Replace => {
            (WORKS, [How::Done, How::Done, How::Now, How::Later])
        }
        Stage::Filling(_) => (OUT, [How::Done, How::Done, How::Done, How::Now]),
        Stage::Filled => (OUT, [How::Done; 4]),
    };
    texts.into_iter().zip(hows).map(|(text, how)| Step { text, how }).collect()
}

/// What is done where a drive works.
const WORKS: [&str; 4] =
    ["Put the new drive into a free bay", "Confirm", "It is filled", "Pull the old drive"];

/// What is done where a drive is out.
const OUT: [&str; 4] = ["Find the drive and pull it", "Put the new drive in", "Confirm", "It is rebuilt"];

fn pull_part(world: &World, viewer: &Viewer, back: &str, place: &Place<'_>, stage: &Stage<'_>) -> Part {
    let drive = place.drive;
    if matches!(stage, Stage::Filling(_)) {
        return Part::empty("pull");
    }
    let volumes: Vec<&VolumeInfo> =
        world.volumes.iter().filter(|volume| volume.array == place.volume.array).collect();
    let (title, said) = match stage {
        Stage::Out if is_gone(drive) => ("It is pulled", "Nothing answers in its place any more.".to_owned()),
        Stage::Out => ("Find it and pull it", pull(world, drive, &volumes)),
        Stage::Filled => ("Its light", "Switch it off if it is still on.".to_owned()),
        _ => ("Find it", "Light it, to know which one to pull in the end. It is not pulled yet.".to_owned()),
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
    let found: &[ForeignDrive] = match world.answer(&Command::ForeignList {}) {
        Some(Ok(Reply::Foreign { drives, .. })) => drives,
        _ => &[],
    };
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
        needs: needs_bytes.map(|needs| both_capacities(ByteCount(needs))),
        drives,
        other: deed::form(world, viewer, back, &name, "replace", &[]),
    }
}

/// What a drive holds that is not ours.
fn holds(drive: &DriveInfo, found: &[ForeignDrive]) -> Vec<String> {
    match found.iter().find(|one| one.name == drive.name) {
        Some(one) => one.holds.iter().cloned().chain(one.reason.clone()).collect(),
        None if drive.foreign => vec!["a volume of another system".to_owned()],
        None => Vec::new(),
    }
}
