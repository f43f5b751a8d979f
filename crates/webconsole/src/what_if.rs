//! Simulated drive failures: lost data, read cost, rebuild time. A calculation only: the controller
//! explains requests as if these drives had failed.

use crate::advice::is_out;
use crate::foreseen::{self, Models, PredictedRate};
use crate::overview::{Bay, bay};
use crate::page::Part;
use crate::words::{Badge, Query, duration, encoded, sentence, shell_word};
use crate::workbench::command_line;
use crate::{Predict, Viewer, World, words};
use askama::Template;
use controller::{
    Command, DriveInfo, DriveState, ErrorKind, Explain, Reply, Result, TaskKind, TaskState,
    VolumeInfo, VolumeState, WellBeing,
};
use std::collections::BTreeMap;
use units::{ByteCount, counted};

/// The size of a host's read.
const SMALL: u64 = 4096;

/// Number of strips that are read one by one, for the cost of a read.
const STRIPS: u64 = 16;

/// Maximum number of stripes of the read that checks for data loss: longer reads are not explained.
const MOST_STRIPES: u64 = 256;

/// Assumed rebuild rate per second before the first rebuild: for a rotating drive, and for an SSD.
const GUESS: (u64, u64) = (120 << 20, 400 << 20);

/// The simulated failures of a volume.
struct Scenario<'w> {
    volume: &'w VolumeInfo,
    /// Slots that fail in the simulation, without those that already have.
    failed: Vec<u16>,
}

impl<'w> Scenario<'w> {
    fn of(world: &'w World, query: &Query) -> Option<Scenario<'w>> {
        let volume = match query.get("of").filter(|name| !name.is_empty()) {
            Some(name) => world.volumes.iter().find(|volume| volume.name == name)?,
            None => world.volumes.first()?,
        };
        let is_in = |slot: &u16| {
            volume.drives.get(usize::from(*slot)).is_some_and(|drive| !is_out(drive.state))
        };
        let mut failed: Vec<u16> =
            query.all("fail").iter().filter_map(|slot| slot.parse().ok()).filter(is_in).collect();
        failed.sort_unstable();
        failed.dedup();
        Some(Scenario { volume, failed })
    }

    /// The volumes on these drives.
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

    /// A read of the largest explained part of a volume.
    fn whole(&self, volume: &VolumeInfo) -> Command {
        self.read(volume, 0, volume.capacity_bytes.min(MOST_STRIPES * volume.strip_bytes))
    }

    /// A small read of each of the first strips.
    fn small(&self) -> Vec<Command> {
        let fits = |offset: &u64| offset + SMALL <= self.volume.capacity_bytes;
        let offsets = (0..STRIPS).map(|strip| strip * self.volume.strip_bytes).take_while(fits);
        offsets.map(|offset| self.read(self.volume, offset, SMALL)).collect()
    }

    /// The number of additional failures for a volume; `None` if it is unknown.
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

/// Whether a drive is in use with incomplete data.
fn is_being_filled(drive: &DriveInfo) -> bool {
    !is_out(drive.state) && drive.stale_regions > 0
}

/// Whether the fault tolerance of a volume already excludes the drives under rebuild: a drive can
/// be complete for one volume of an array and incomplete for another. `None`: unknown.
fn lacks_what_is_filled(volume: &VolumeInfo) -> Option<bool> {
    let filled = volume.drives.iter().filter(|drive| is_being_filled(drive)).count();
    let is_anything_out = volume.drives.iter().any(|drive| is_out(drive.state));
    match volume.state {
        // All its drives are complete.
        VolumeState::Optimal => Some(false),
        _ if volume.array_volumes.len() <= 1 => Some(true),
        // Only this drive can be incomplete.
        _ if filled == 1 && !is_anything_out => Some(true),
        _ => None,
    }
}

/// Whether a level recomputes data from parity, which must then be consistent.
fn has_parity(level: &str) -> bool {
    level.strip_prefix("raid").is_some_and(|number| number.starts_with(['4', '5', '6']))
}

/// The result without additional queries.
enum Outlook {
    /// The volume is offline now.
    IsOut,
    /// Too many failures, for this reason.
    Ends(String),
    /// The volume stays online and tolerates this number of further failures.
    Serves(u16),
    /// Depends on the position of the drives: the plan of a read decides.
    Depends,
    /// Unknown, for this reason.
    Unsure(String),
}

fn outlook(asked: &Scenario<'_>, volume: &VolumeInfo) -> Outlook {
    if !volume.state.serves() {
        return Outlook::IsOut;
    }
    if volume.reshape.is_some() {
        let why = "a reshape is running and changes which drives the volume needs";
        return Outlook::Unsure(why.to_owned());
    }
    let filled: Vec<&DriveInfo> =
        volume.drives.iter().filter(|drive| is_being_filled(drive)).collect();
    let names: Vec<&str> = filled.iter().map(|drive| drive.name.as_str()).collect();
    let lacks = format!("{} is incomplete", names.join(", "));
    let Some(more) = asked.more(volume) else {
        return Outlook::Unsure(format!("{lacks}, and the affected volumes are unknown"));
    };
    // Parity is used only where it is consistent. Without a further failure it is not needed.
    if more > 0 && volume.resync.is_some() && has_parity(&volume.level) {
        return Outlook::Unsure("its parity is not consistent until the resync is done".to_owned());
    }
    if more > volume.may_lose_at_most {
        return Outlook::Ends(match volume.may_lose_at_most {
            0 => "it tolerates no further failure".to_owned(),
            most => format!("it tolerates at most {}", counted(most, "further failure")),
        });
    }
    if more <= volume.may_lose {
        return Outlook::Serves(volume.may_lose - more);
    }
    // The read below covers only the beginning, which may already be rebuilt.
    if !filled.is_empty() && lacks_what_is_filled(volume) != Some(false) {
        return Outlook::Unsure(format!("{lacks} until its rebuild is done"));
    }
    Outlook::Depends
}

/// Additional queries: reads of the volume where the positions decide, and small reads for the cost
/// where hosts may be served.
pub(crate) fn questions(world: &World, query: &Query) -> Vec<Command> {
    let Some(asked) = Scenario::of(world, query).filter(|asked| !asked.failed.is_empty()) else {
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

/// Reduces a result: of a long read only whether it is possible, because its plan is as long as the
/// read.
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
    /// The model selection.
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
    /// Why there is no prediction.
    unpredicted: Option<String>,
    cli: String,
}

/// IOPS now and after the failures.
struct Predicted {
    of: String,
    whole: PredictedRate,
    without: PredictedRate,
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

/// `None`: no such volume.
pub(crate) fn parts(world: &World, viewer: &Viewer, query: &Query) -> Option<Vec<Part>> {
    if world.volumes.is_empty() {
        return Some(vec![Part::new("what-if", &NoVolume {})]);
    }
    let asked = Scenario::of(world, query)?;
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

/// The predictions of the page, if the volume stays online: with all drives, and without the failed
/// ones.
pub(crate) fn predictions(world: &World, query: &Query) -> Vec<Predict> {
    let asked = Scenario::of(world, query).filter(|asked| !asked.failed.is_empty());
    let asked = asked.filter(|asked| matches!(fate(world, asked, asked.volume), Effect::Serves(_)));
    let both = asked.and_then(|asked| both(world, &asked, query)?.ok());
    both.into_iter().flatten().collect()
}

/// `None`: no models selected. Otherwise both predictions, or the reason why there are none.
fn both(
    world: &World,
    asked: &Scenario<'_>,
    query: &Query,
) -> Option<std::result::Result<[Predict; 2], String>> {
    let (models, volume) = (Models::of(world, query)?, asked.volume);
    let whole =
        models.order(world, &volume.level, volume.drives.len(), (volume.spans, volume.strip_bytes));
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

fn lost(world: &World, asked: &Scenario<'_>, query: &Query) -> Lost {
    let slots: Vec<String> = asked.failed.iter().map(ToString::to_string).collect();
    let fates: Vec<(&VolumeInfo, Effect)> =
        asked.volumes(world).map(|volume| (volume, fate(world, asked, volume))).collect();
    let survives = |name: &str| {
        fates.iter().any(|(volume, fate)| volume.name == name && matches!(fate, Effect::Serves(_)))
    };
    let is_served = survives(&asked.volume.name);
    let all_served = fates.iter().all(|(_, fate)| matches!(fate, Effect::Serves(_)));
    let (predicted, unpredicted) = match is_served.then(|| both(world, asked, query)).flatten() {
        Some(Ok(both)) => (Some(predicted(world, both)), None),
        Some(Err(why)) => (None, Some(sentence(&why))),
        None => (None, None),
    };
    Lost {
        taken: format!(
            "{} {}",
            if slots.len() == 1 { "drive" } else { "drives" },
            slots.join(", ")
        ),
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

/// The result for a volume.
enum Effect {
    /// It stays online. The number of further failures that it tolerates, if known.
    Serves(Option<u16>),
    /// It goes offline, for this reason.
    Ends(String),
    /// It is offline now.
    IsOut,
    /// Unknown, for this reason.
    Unknown(String),
}

fn fate(world: &World, asked: &Scenario<'_>, volume: &VolumeInfo) -> Effect {
    let fate = match outlook(asked, volume) {
        Outlook::IsOut => Effect::IsOut,
        Outlook::Ends(why) => Effect::Ends(why),
        Outlook::Unsure(why) => Effect::Unknown(why),
        Outlook::Serves(left) => Effect::Serves(Some(left)),
        Outlook::Depends => match world.answer(&asked.whole(volume)) {
            Some(Ok(_)) => Effect::Serves(None),
            // The read has no plan.
            Some(Err(error)) if error.kind == ErrorKind::Invalid => {
                Effect::Ends(error.message.clone())
            }
            Some(Err(error)) => Effect::Unknown(error.message.clone()),
            None => Effect::Unknown("not available".to_owned()),
        },
    };
    // A refused read overrides the calculated result.
    let is_shown = volume.uuid == asked.volume.uuid && matches!(fate, Effect::Serves(_));
    let small = if is_shown { asked.small() } else { Vec::new() };
    let refused = small.iter().find_map(|question| world.answer(question)?.as_ref().err());
    refused.map_or(fate, |error| Effect::Unknown(error.message.clone()))
}

impl Effect {
    fn said(&self, volume: &VolumeInfo) -> (Badge<WellBeing>, String) {
        let name = &volume.name;
        let size = ByteCount(volume.capacity_bytes);
        match self {
            Effect::Serves(Some(0)) => {
                let said = format!(
                    "'{name}' stays online without data loss. It then tolerates no further failure."
                );
                (Badge(WellBeing::Warning), said)
            }
            Effect::Serves(Some(left)) => (
                Badge(WellBeing::Ok),
                format!(
                    "'{name}' stays online without data loss. It then tolerates {}.",
                    counted(*left, "further failure")
                ),
            ),
            Effect::Serves(None) => (
                Badge(WellBeing::Warning),
                format!(
                    "'{name}' stays online without data loss. Whether it tolerates a further \
                     failure depends on the drive."
                ),
            ),
            Effect::Ends(why) => (
                Badge(WellBeing::Critical),
                format!(
                    "'{name}' goes offline: hosts cannot access its {size} until enough of these \
                     drives return. Without them, the data is lost. {}",
                    sentence(why)
                ),
            ),
            Effect::IsOut => (Badge(WellBeing::Critical), format!("'{name}' is offline now.")),
            Effect::Unknown(why) => (
                Badge(WellBeing::Warning),
                format!("The effect on '{name}' is unknown. {}", sentence(why)),
            ),
        }
    }
}

/// The cost of reads: the plan of each of the first strips.
fn cost(world: &World, asked: &Scenario<'_>) -> Option<Cost> {
    let questions = asked.small();
    let mut by_reads: BTreeMap<u64, u64> = BTreeMap::new();
    let mut dearest: Option<(u64, &str)> = None;
    for question in &questions {
        let Some(Ok(Reply::Explained { text, explanation })) = world.answer(question) else {
            return None;
        };
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
        .map(|(reads, strips)| format!("{strips} need {}", counted(*reads, "drive read")))
        .collect();
    let said = format!(
        "4 KiB reads of the first {}: {}; mean {}.{}.",
        counted(strips, "strip"),
        each.join(", "),
        reads / strips.max(1),
        reads * 10 / strips.max(1) % 10
    );
    Some(Cost { said, picture: dearest.map(|(_, text)| text.to_owned()).unwrap_or_default() })
}

fn rebuild(world: &World, asked: &Scenario<'_>) -> Rebuild {
    let bytes: u64 = asked.volumes(world).map(|volume| volume.member_bytes).sum();
    let seen = world.tasks.iter().find_map(|task| {
        let is_of =
            task.volume.as_ref().is_some_and(|name| asked.volume.array_volumes.contains(name));
        let is_rebuild = matches!(task.kind, TaskKind::Rebuild | TaskKind::Replace) && is_of;
        let took = task.ended_unix_s?.saturating_sub(task.started_unix_s);
        // A rebuild of a few seconds has no meaningful rate.
        (is_rebuild && task.state == TaskState::Done && took >= 10)
            .then(|| (task.task, task.done_blocks * 512 / took))
    });
    let rotates = asked.volume.drives.iter().any(|drive| drive.rotational);
    let (rate, how) = match seen {
        Some((task, rate)) => (rate, format!("the rate of task {task}, {}/s", ByteCount(rate))),
        None => {
            let rate = if rotates { GUESS.0 } else { GUESS.1 };
            let kind = if rotates { "a rotating drive" } else { "a solid-state drive" };
            (
                rate,
                format!("{}/s, an assumption for {kind} before the first rebuild", ByteCount(rate)),
            )
        }
    };
    let share = asked.volume.policies.iter().find(|policy| policy.name == "task-rate");
    let share = share.map(|policy| {
        format!(" With busy hosts it takes longer: it gets {} of the time.", policy.current)
    });
    let each = if asked.failed.len() > 1 { " for each drive" } else { "" };
    Rebuild {
        said: format!(
            "About {}{each} to write {} to the new drive.",
            duration((bytes / rate.max(1)).max(1)),
            ByteCount(bytes)
        ),
        assumed: format!("Assumed rate: {how}.{}", share.unwrap_or_default()),
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
