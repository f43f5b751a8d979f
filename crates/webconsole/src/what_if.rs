//! What if drives failed: what hosts could not reach, what reads would cost, how long a rebuild would take. It is calculated, and nothing
//! is done: the controller is asked to explain requests with these drives taken for failed.

use crate::advice::is_out;
use crate::foreseen::{self, Foreseen, Models};
use crate::overview::{Bay, bay};
use crate::page::Part;
use crate::words::{Badge, Query, duration, encoded, sentence, shell_word};
use crate::workbench::command_line;
use crate::{Predict, Viewer, World, words};
use askama::Template;
use controller::{
    Command, DriveInfo, DriveState, ErrorKind, Explain, Reply, Result, TaskKind, TaskState, VolumeInfo,
    VolumeState, WellBeing,
};
use std::collections::BTreeMap;
use units::{ByteCount, counted};

/// A read of a host.
const SMALL: u64 = 4096;

/// So many strips are read one by one, to see what a read costs.
const STRIPS: u64 = 16;

/// So many strips are read at once, to see whether all can be: more stripes are not explained.
const MOST_STRIPES: u64 = 256;

/// What a rebuild moves in a second, where none has been seen: a guess for a drive that rotates, and for one that does not.
const GUESS: (u64, u64) = (120 << 20, 400 << 20);

/// What is asked.
struct Asked<'w> {
    volume: &'w VolumeInfo,
    /// Slots that are taken for failed, and are not out already.
    failed: Vec<u16>,
}

impl<'w> Asked<'w> {
    fn of(world: &'w World, query: &Query) -> Option<Asked<'w>> {
        let volume = match query.get("of").filter(|name| !name.is_empty()) {
            Some(name) => world.volumes.iter().find(|volume| volume.name == name)?,
            None => world.volumes.first()?,
        };
        let is_in =
            |slot: &u16| volume.drives.get(usize::from(*slot)).is_some_and(|drive| !is_out(drive.state));
        let mut failed: Vec<u16> =
            query.all("fail").iter().filter_map(|slot| slot.parse().ok()).filter(is_in).collect();
        failed.sort_unstable();
        failed.dedup();
        Some(Asked { volume, failed })
    }

    /// The volumes that lie on these drives.
    fn volumes(&self, world: &'w World) -> impl Iterator<Item = &'w VolumeInfo> {
        let array = &self.volume.array;
        world.volumes.iter().filter(move |volume| volume.array == *array)
    }

    fn read(&self, volume: &VolumeInfo, offset_bytes: u64, size_bytes: u64) -> Command {
        Command::Explain(Explain {
            volume: Some(volume.name.clone()),
            failed: self.failed.clone(),
            operation: "read".to_owned(),
            offset_bytes,
            size_bytes,
            ..Explain::default()
        })
    }

    /// A read of as much of a volume as is explained at once.
    fn whole(&self, volume: &VolumeInfo) -> Command {
        self.read(volume, 0, volume.capacity_bytes.min(MOST_STRIPES * volume.strip_bytes))
    }

    /// A small read of each of the first strips.
    fn small(&self) -> Vec<Command> {
        let fits = |offset: &u64| offset + SMALL <= self.volume.capacity_bytes;
        let offsets = (0..STRIPS).map(|strip| strip * self.volume.strip_bytes).take_while(fits);
        offsets.map(|offset| self.read(self.volume, offset, SMALL)).collect()
    }

    /// How many of them a volume did not do without already; `None` if that cannot be told.
    fn more(&self, volume: &VolumeInfo) -> Option<u16> {
        let (current, behind): (Vec<u16>, Vec<u16>) = self
            .failed
            .iter()
            .partition(|slot| !volume.drives.get(usize::from(**slot)).is_some_and(is_being_filled));
        let count = |slots: usize| u16::try_from(slots).unwrap_or(u16::MAX);
        let all = count(self.failed.len());
        match lacks_what_is_filled(volume) {
            Some(true) => Some(count(current.len())),
            Some(false) => Some(all),
            None => behind.is_empty().then_some(all),
        }
    }
}

/// Whether a drive serves, and does not have all that belongs on it.
fn is_being_filled(drive: &DriveInfo) -> bool {
    !is_out(drive.state) && drive.stale_regions > 0
}

/// Whether a volume does without the drives that are being filled, as far as its numbers of failures go: a drive may have all of one
/// volume while it lacks some of another one of the same array. `None`: that is not told.
fn lacks_what_is_filled(volume: &VolumeInfo) -> Option<bool> {
    let filled = volume.drives.iter().filter(|drive| is_being_filled(drive)).count();
    let is_anything_out = volume.drives.iter().any(|drive| is_out(drive.state));
    match volume.state {
        // It lacks nothing on any drive.
        VolumeState::Optimal => Some(false),
        _ if volume.array_volumes.len() <= 1 => Some(true),
        // Something of it is lacking, and that can be nowhere else.
        _ if filled == 1 && !is_anything_out => Some(true),
        _ => None,
    }
}

/// Whether a level computes what is lost from parity, which has to agree with the data for that.
fn has_parity(level: &str) -> bool {
    level.strip_prefix("raid").is_some_and(|number| number.starts_with(['4', '5', '6']))
}

/// What follows from what is known without asking.
enum Outlook {
    /// It does not serve now.
    IsOut,
    /// These are too many, whichever they are: why.
    Ends(String),
    /// It goes on. So many more may fail then.
    Serves(u16),
    /// It depends on which ones: the plan of a read says it.
    Depends,
    /// Nobody knows: why.
    Unsure(String),
}

fn outlook(asked: &Asked<'_>, volume: &VolumeInfo) -> Outlook {
    if !volume.state.serves() {
        return Outlook::IsOut;
    }
    if volume.reshape.is_some() {
        let why = "it is on its way to another layout, and which drives it needs changes meanwhile";
        return Outlook::Unsure(why.to_owned());
    }
    let filled: Vec<&DriveInfo> = volume.drives.iter().filter(|drive| is_being_filled(drive)).collect();
    let names: Vec<&str> = filled.iter().map(|drive| drive.name.as_str()).collect();
    let lacks = format!("{} does not have all that belongs on it yet", names.join(", "));
    let Some(more) = asked.more(volume) else {
        return Outlook::Unsure(format!("{lacks}, and of which volumes it lacks something is not told"));
    };
    // A strip is computed from parity only where that agrees. Without another failure nothing has to be.
    if more > 0 && volume.resync.is_some() && has_parity(&volume.level) {
        return Outlook::Unsure(
            "its parity does not agree everywhere yet: that is sure when the resync is done".to_owned(),
        );
    }
    if more > volume.may_lose_at_most {
        return Outlook::Ends(match volume.may_lose_at_most {
            0 => "it survives no further failure".to_owned(),
            most => format!("it survives {} at the very most", counted(most, "further failure")),
        });
    }
    if more <= volume.may_lose {
        return Outlook::Serves(volume.may_lose - more);
    }
    // What is read below is the beginning, which may have been filled already, or not.
    if !filled.is_empty() && lacks_what_is_filled(volume) != Some(false) {
        return Outlook::Unsure(format!("{lacks}: that is sure when the rebuild is done"));
    }
    Outlook::Depends
}

/// What has to be asked for the page besides the world: where it depends, whether all can be read; where hosts may be served then, what
/// reads cost.
pub(crate) fn questions(world: &World, query: &Query) -> Vec<Command> {
    let Some(asked) = Asked::of(world, query).filter(|asked| !asked.failed.is_empty()) else {
        return Vec::new();
    };
    let depends = |volume: &&VolumeInfo| matches!(outlook(&asked, volume), Outlook::Depends);
    let whole = asked.volumes(world).filter(depends).map(|volume| asked.whole(volume));
    let mut questions: Vec<Command> = whole.collect();
    if matches!(outlook(&asked, asked.volume), Outlook::Serves(_) | Outlook::Depends) {
        questions.extend(asked.small());
    }
    questions
}

/// Of an answer what the page needs: of a long read that it can be done. How it would be done is as long as the read.
pub(crate) fn kept(question: &Command, answer: Result<Reply>) -> Result<Reply> {
    match (question, answer) {
        (Command::Explain(explain), Ok(Reply::Explained { .. })) if explain.size_bytes > SMALL => {
            Ok(Reply::Explained { text: String::new(), explanation: serde_json::Value::Null })
        }
        (_, answer) => answer,
    }
}

#[derive(Template)]
#[template(path = "what-if.html")]
struct Picture {
    volume: String,
    others: Vec<(String, String)>,
    slots: Vec<Slot>,
    /// What is chosen to predict with.
    models: String,
}

struct Slot {
    number: usize,
    bay: Bay,
    is_out: bool,
    is_taken: bool,
}

#[derive(Template)]
#[template(path = "what-if-lost.html")]
struct Lost {
    taken: String,
    volumes: Vec<(Badge<WellBeing>, String)>,
    cost: Option<Cost>,
    rebuild: Option<Rebuild>,
    predicted: Option<Predicted>,
    /// Why nothing is predicted.
    unpredicted: Option<String>,
    cli: String,
}

/// Requests a second, now and then.
struct Predicted {
    of: String,
    whole: Foreseen,
    without: Foreseen,
    cli: String,
}

struct Cost {
    said: String,
    picture: String,
}

struct Rebuild {
    said: String,
    assumed: String,
}

/// `None`: there is no such volume.
pub(crate) fn parts(world: &World, viewer: &Viewer, query: &Query) -> Option<Vec<Part>> {
    if world.volumes.is_empty() {
        return Some(vec![Part::new("what-if", &NoVolume {})]);
    }
    let asked = Asked::of(world, query)?;
    let slot = |(number, drive): (usize, &DriveInfo)| Slot {
        number,
        bay: bay(drive),
        is_out: is_out(drive.state),
        is_taken: asked.failed.iter().any(|slot| usize::from(*slot) == number),
    };
    let link = |volume: &VolumeInfo| format!("/console/what-if?of={}", encoded(&volume.name));
    let others = world.volumes.iter().filter(|volume| volume.uuid != asked.volume.uuid);
    let picture = Picture {
        volume: asked.volume.name.clone(),
        others: others.map(|volume| (volume.name.clone(), link(volume))).collect(),
        slots: asked.volume.drives.iter().enumerate().map(slot).collect(),
        models: foreseen::form(world, viewer, query),
    };
    let mut parts = vec![Part::new("what-if", &picture)];
    if !asked.failed.is_empty() {
        parts.push(Part::new("lost", &lost(world, &asked, query)));
    }
    Some(parts)
}

/// What is predicted for the page, where the volume goes on: the volume with all its drives, and without those that are out by then.
pub(crate) fn predictions(world: &World, query: &Query) -> Vec<Predict> {
    let asked = Asked::of(world, query).filter(|asked| !asked.failed.is_empty());
    let asked = asked.filter(|asked| matches!(fate(world, asked, asked.volume), Fate::Serves(_)));
    let both = asked.and_then(|asked| both(world, &asked, query)?.ok());
    both.into_iter().flatten().collect()
}

/// `None`: nothing is chosen to predict with. Else both, or why they are not predicted.
fn both(
    world: &World,
    asked: &Asked<'_>,
    query: &Query,
) -> Option<std::result::Result<[Predict; 2], String>> {
    let (models, volume) = (Models::of(world, query)?, asked.volume);
    let whole = models.order(world, &volume.level, volume.drives.len(), (volume.spans, volume.strip_bytes));
    let mut failed: Vec<u16> = asked.failed.iter().copied().chain(foreseen::out(volume)).collect();
    failed.sort_unstable();
    Some(match foreseen::not_of(volume, &failed) {
        Some(why) => Err(why),
        None => Ok([whole.clone(), Predict { failed, ..whole }]),
    })
}

fn predicted(world: &World, [whole, without]: [Predict; 2]) -> Predicted {
    Predicted {
        of: format!(
            "{}, {} of {} × {} behind {}",
            foreseen::load(),
            whole.level,
            whole.drives.0,
            whole.drives.1,
            whole.controller
        ),
        whole: foreseen::of(world, &whole),
        without: foreseen::of(world, &without),
        cli: command_line(&without.words()),
    }
}

#[derive(Template)]
#[template(path = "what-if-none.html")]
struct NoVolume {}

fn lost(world: &World, asked: &Asked<'_>, query: &Query) -> Lost {
    let slots: Vec<String> = asked.failed.iter().map(ToString::to_string).collect();
    let fates: Vec<(&VolumeInfo, Fate)> =
        asked.volumes(world).map(|volume| (volume, fate(world, asked, volume))).collect();
    let survives = |name: &str| {
        fates.iter().any(|(volume, fate)| volume.name == name && matches!(fate, Fate::Serves(_)))
    };
    let is_served = survives(&asked.volume.name);
    let all_served = fates.iter().all(|(_, fate)| matches!(fate, Fate::Serves(_)));
    let (predicted, unpredicted) = match is_served.then(|| both(world, asked, query)).flatten() {
        Some(Ok(both)) => (Some(predicted(world, both)), None),
        Some(Err(why)) => (None, Some(sentence(&why))),
        None => (None, None),
    };
    Lost {
        taken: format!("{} {}", if slots.len() == 1 { "drive" } else { "drives" }, slots.join(", ")),
        volumes: fates.iter().map(|(volume, fate)| fate.said(volume)).collect(),
        cost: is_served.then(|| cost(world, asked)).flatten(),
        predicted,
        unpredicted,
        rebuild: all_served.then(|| rebuild(world, asked)),
        cli: format!(
            "softroc explain --volume {} --failed {} read 4K@0",
            shell_word(&asked.volume.name),
            slots.join(",")
        ),
    }
}

/// What would become of a volume.
enum Fate {
    /// It would go on. How many more may fail then, where that is sure.
    Serves(Option<u16>),
    /// It would not: why.
    Ends(String),
    /// It does not serve now.
    IsOut,
    /// The controller did not say: why.
    Unknown(String),
}

fn fate(world: &World, asked: &Asked<'_>, volume: &VolumeInfo) -> Fate {
    let fate = match outlook(asked, volume) {
        Outlook::IsOut => Fate::IsOut,
        Outlook::Ends(why) => Fate::Ends(why),
        Outlook::Unsure(why) => Fate::Unknown(why),
        Outlook::Serves(left) => Fate::Serves(Some(left)),
        Outlook::Depends => match world.answer(&asked.whole(volume)) {
            Some(Ok(_)) => Fate::Serves(None),
            // No plan reads it then.
            Some(Err(error)) if error.kind == ErrorKind::Invalid => Fate::Ends(error.message.clone()),
            Some(Err(error)) => Fate::Unknown(error.message.clone()),
            None => Fate::Unknown("it was not asked".to_owned()),
        },
    };
    // Numbers say that nothing is lost: a read that is refused all the same says that they are not all there is to know.
    let is_shown = volume.uuid == asked.volume.uuid && matches!(fate, Fate::Serves(_));
    let small = if is_shown { asked.small() } else { Vec::new() };
    let refused = small.iter().find_map(|question| world.answer(question)?.as_ref().err());
    refused.map_or(fate, |error| Fate::Unknown(error.message.clone()))
}

impl Fate {
    fn said(&self, volume: &VolumeInfo) -> (Badge<WellBeing>, String) {
        let name = &volume.name;
        let size = ByteCount(volume.capacity_bytes);
        match self {
            Fate::Serves(Some(0)) => {
                let said =
                    format!("'{name}' goes on, and nothing is lost. It survives no further failure then.");
                (Badge(WellBeing::Warning), said)
            }
            Fate::Serves(Some(left)) => (
                Badge(WellBeing::Ok),
                format!(
                    "'{name}' goes on, and nothing is lost. It survives {} then.",
                    counted(*left, "further failure")
                ),
            ),
            Fate::Serves(None) => (
                Badge(WellBeing::Warning),
                format!(
                    "'{name}' goes on, and nothing is lost. Which drive fails next decides whether it survives that."
                ),
            ),
            Fate::Ends(why) => (
                Badge(WellBeing::Critical),
                format!(
                    "'{name}' ends: hosts reach none of its {size} until enough of these drives are back, and if they do not come back it is lost. {}",
                    sentence(why)
                ),
            ),
            Fate::IsOut => (Badge(WellBeing::Critical), format!("'{name}' does not serve now.")),
            Fate::Unknown(why) => {
                (Badge(WellBeing::Warning), format!("Of '{name}' that is not known. {}", sentence(why)))
            }
        }
    }
}

/// What reads would cost: of each of the first strips, as the controller explains it.
fn cost(world: &World, asked: &Asked<'_>) -> Option<Cost> {
    let questions = asked.small();
    let mut by_reads: BTreeMap<u64, u64> = BTreeMap::new();
    let mut dearest: Option<(u64, &str)> = None;
    for question in &questions {
        let Some(Ok(Reply::Explained { text, explanation })) = world.answer(question) else { return None };
        let reads = explanation["cost"]["reads"].as_u64()?;
        *by_reads.entry(reads).or_default() += 1;
        if dearest.is_none_or(|(most, _)| reads > most) {
            dearest = Some((reads, text));
        }
    }
    let strips: u64 = by_reads.values().sum();
    let reads: u64 = by_reads.iter().map(|(reads, strips)| reads * strips).sum();
    let each: Vec<String> = by_reads
        .iter()
        .map(|(reads, strips)| format!("{strips} take {}", counted(*reads, "drive read")))
        .collect();
    let said = format!(
        "Of reads of 4 KiB at the first {}, {}: {}.{} in the mean.",
        counted(strips, "strip"),
        each.join(", "),
        reads / strips.max(1),
        reads * 10 / strips.max(1) % 10
    );
    Some(Cost { said, picture: dearest.map(|(_, text)| text.to_owned()).unwrap_or_default() })
}

fn rebuild(world: &World, asked: &Asked<'_>) -> Rebuild {
    let bytes: u64 = asked.volumes(world).map(|volume| volume.member_bytes).sum();
    let seen = world.tasks.iter().find_map(|task| {
        let is_of = task.volume.as_ref().is_some_and(|name| asked.volume.array_volumes.contains(name));
        let is_rebuild = matches!(task.kind, TaskKind::Rebuild | TaskKind::Replace) && is_of;
        let took = task.ended_unix_s?.saturating_sub(task.started_unix_s);
        // One that was over within seconds tells nothing of hours.
        (is_rebuild && task.state == TaskState::Done && took >= 10)
            .then(|| (task.task, task.done_blocks * 512 / took))
    });
    let rotates = asked.volume.drives.iter().any(|drive| drive.rotational);
    let (rate, how) = match seen {
        Some((task, rate)) => (rate, format!("as fast as task {task} was, {}/s", ByteCount(rate))),
        None => {
            let rate = if rotates { GUESS.0 } else { GUESS.1 };
            let kind = if rotates { "a rotating drive" } else { "a solid-state drive" };
            (
                rate,
                format!("at {}/s, which is a guess for {kind}: none was rebuilt here yet", ByteCount(rate)),
            )
        }
    };
    let share = asked.volume.policies.iter().find(|policy| policy.name == "task-rate");
    let share = share.map(|policy| {
        format!(" While hosts are busy it takes {} of the time, and longer by that.", policy.current)
    });
    let each = if asked.failed.len() > 1 { " for each drive" } else { "" };
    Rebuild {
        said: format!(
            "About {}{each}: {} are written to the new drive.",
            duration((bytes / rate.max(1)).max(1)),
            ByteCount(bytes)
        ),
        assumed: format!("That is {how}.{}", share.unwrap_or_default()),
    }
}

impl Slot {
    fn class(&self) -> &'static str {
        match (self.is_out, self.is_taken) {
            (true, _) => words::Tone::from(DriveState::Failed).class(),
            (false, true) => words::Tone::Warning.class(),
            (false, false) => self.bay.class,
        }
    }
}
