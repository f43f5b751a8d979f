//! What if drives failed: what hosts could not reach, what reads would cost, how long a rebuild would take. It is calculated, and nothing
//! is done: the controller is asked to explain requests with these drives taken for failed.

use crate::advice::is_out;
use crate::overview::{Bay, bay};
use crate::page::Part;
use crate::words::{Badge, Query, duration, encoded, sentence, shell_word};
use crate::{World, words};
use askama::Template;
use controller::{Command, DriveState, Explain, Reply, TaskKind, TaskState, VolumeInfo, WellBeing};
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
}

/// What has to be asked for the page besides the world.
pub(crate) fn questions(world: &World, query: &Query) -> Vec<Command> {
    let Some(asked) = Asked::of(world, query).filter(|asked| !asked.failed.is_empty()) else {
        return Vec::new();
    };
    let mut questions: Vec<Command> = asked.volumes(world).map(|volume| asked.whole(volume)).collect();
    questions.extend(asked.small());
    questions
}

#[derive(Template)]
#[template(path = "what-if.html")]
struct Picture {
    volume: String,
    others: Vec<(String, String)>,
    slots: Vec<Slot>,
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
pub(crate) fn parts(world: &World, query: &Query) -> Option<Vec<Part>> {
    if world.volumes.is_empty() {
        return Some(vec![Part::new("what-if", &NoVolume {})]);
    }
    let asked = Asked::of(world, query)?;
    let slot = |(number, drive): (usize, &controller::DriveInfo)| Slot {
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
    };
    let mut parts = vec![Part::new("what-if", &picture)];
    if !asked.failed.is_empty() {
        parts.push(Part::new("lost", &lost(world, &asked)));
    }
    Some(parts)
}

#[derive(Template)]
#[template(path = "what-if-none.html")]
struct NoVolume {}

fn lost(world: &World, asked: &Asked<'_>) -> Lost {
    let slots: Vec<String> = asked.failed.iter().map(ToString::to_string).collect();
    let fates: Vec<(&VolumeInfo, Fate)> =
        asked.volumes(world).map(|volume| (volume, fate(world, asked, volume))).collect();
    let survives = |name: &str| {
        fates.iter().any(|(volume, fate)| volume.name == name && matches!(fate, Fate::Serves(_)))
    };
    let is_served = survives(&asked.volume.name);
    let all_served = fates.iter().all(|(_, fate)| matches!(fate, Fate::Serves(_)));
    Lost {
        taken: format!("{} {}", if slots.len() == 1 { "drive" } else { "drives" }, slots.join(", ")),
        volumes: fates.iter().map(|(volume, fate)| fate.said(volume)).collect(),
        cost: is_served.then(|| cost(world, asked)).flatten(),
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
    let more = u16::try_from(asked.failed.len()).unwrap_or(u16::MAX);
    if !volume.state.serves() {
        return Fate::IsOut;
    }
    if more > volume.may_lose_at_most {
        let sentence = match volume.may_lose_at_most {
            0 => "it survives no further failure".to_owned(),
            most => format!("it survives {} at the very most", counted(most, "further failure")),
        };
        return Fate::Ends(sentence);
    }
    if more <= volume.may_lose {
        return Fate::Serves(Some(volume.may_lose - more));
    }
    // It depends on which ones: whether what they held can be read says it.
    match world.answer(&asked.whole(volume)) {
        Some(Ok(_)) => Fate::Serves(None),
        Some(Err(error)) => Fate::Ends(error.message.clone()),
        None => Fate::Unknown("it was not asked".to_owned()),
    }
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
