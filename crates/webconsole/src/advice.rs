//! Recommendations for drives: identity, safe removal, redundancy, effect on hosts, replacement.

use crate::World;
use crate::replace::replace_page;
use crate::words::{Badge, drive_page, duration, rendered, shell_word};
use askama::Template;
use controller::{DriveInfo, DriveState, SuspendedBy, TaskInfo, TaskKind, VolumeInfo, VolumeState};
use units::{ByteCount, both_capacities, counted};

#[derive(Template)]
#[template(path = "advice.html")]
pub(crate) struct Advice {
    drives: Vec<Advised>,
}

/// The recommendations for a drive.
struct Advised {
    name: String,
    link: String,
    badge: Badge<DriveState>,
    which: String,
    pull: String,
    safe: Option<String>,
    cost: Option<String>,
    buy: Option<String>,
    /// The page for its replacement.
    replace: Option<String>,
}

/// For all drives that need attention; `None`: there are none.
pub(crate) fn of_all(world: &World) -> Option<Advice> {
    let drives: Vec<Advised> = world
        .drives
        .iter()
        .filter(|drive| needs_attention(drive))
        .map(|drive| advised(world, drive))
        .collect();
    (!drives.is_empty()).then_some(Advice { drives })
}

/// For one drive.
pub(crate) fn of_one(world: &World, drive: &DriveInfo) -> Advice {
    Advice { drives: vec![advised(world, drive)] }
}

fn needs_attention(drive: &DriveInfo) -> bool {
    is_out(drive.state) || drive.health.as_ref().is_some_and(|health| health.warning.is_some())
}

/// Whether volumes run without the drive.
pub(crate) fn is_out(state: DriveState) -> bool {
    match state {
        DriveState::Failed
        | DriveState::Offline
        | DriveState::Suspended
        | DriveState::Missing
        | DriveState::Stale
        | DriveState::Refused => true,
        DriveState::Online
        | DriveState::Unused
        | DriveState::Rebuilding
        | DriveState::Filling
        | DriveState::Spare
        | DriveState::Foreign
        | DriveState::Log => false,
    }
}

fn advised(world: &World, drive: &DriveInfo) -> Advised {
    let volumes = volumes(world, drive);
    let is_concerned = needs_attention(drive);
    Advised {
        name: drive.name.clone(),
        link: drive_page(&drive.name),
        badge: Badge(drive.state),
        which: which(drive),
        pull: pull(world, drive, &volumes),
        safe: is_concerned.then(|| safe(world, drive, &volumes)),
        cost: is_concerned.then(|| cost(drive, &volumes)),
        buy: is_concerned.then(|| buy(world, drive, &volumes)),
        replace: place(drive).filter(|_| is_concerned).map(|place| replace_page(&place)),
    }
}

/// The volumes on a drive.
fn volumes<'w>(world: &'w World, drive: &DriveInfo) -> Vec<&'w VolumeInfo> {
    world.volumes.iter().filter(|volume| drive.volumes.contains(&volume.name)).collect()
}

/// Its slot, as commands name it.
fn place(drive: &DriveInfo) -> Option<String> {
    let (slot, volume) = drive.slot.zip(drive.volumes.first())?;
    Some(format!("{volume}:{slot}"))
}

/// The identification of a drive for a person at the enclosure.
pub(crate) fn which(drive: &DriveInfo) -> String {
    let place = match (&drive.enclosure, &drive.bay) {
        (Some(enclosure), Some(bay)) => Some(format!("enclosure {enclosure}, bay {bay}")),
        (None, Some(bay)) => Some(format!("bay {bay}")),
        (Some(enclosure), None) => Some(format!("enclosure {enclosure}")),
        (None, None) => None,
    };
    let slot = self::place(drive).map(|place| format!("slot {place}"));
    let serial = drive.serial.as_ref().map(|serial| format!("serial {serial}"));
    let parts: Vec<String> =
        [place, slot, drive.model.clone(), serial].into_iter().flatten().collect();
    match parts.is_empty() {
        true => "Neither location nor serial number is known".to_owned(),
        false => parts.join(" · "),
    }
}

fn other_ready_spares(world: &World, drive: &DriveInfo) -> usize {
    world.spares.iter().filter(|spare| spare.ready && spare.drive != drive.name).count()
}

/// Whether the drive can be removed.
pub(crate) fn pull(world: &World, drive: &DriveInfo, volumes: &[&VolumeInfo]) -> String {
    // An offline volume may need the data of this drive.
    let stopped = volumes.iter().find(|volume| !volume.state.serves());
    match drive.state {
        // A volume may wait for the data of this drive.
        DriveState::Refused if volumes.is_empty() => {
            return format!(
                "No: it is unknown which volume needs it. Run 'softroc drive show {}'.",
                shell_word(&drive.name)
            );
        }
        DriveState::Missing => {
            return match stopped {
                Some(volume) => format!(
                    "Only to reconnect it: '{}' is {} and may need its data.",
                    volume.name, volume.state
                ),
                None => "Yes, if it is present. It does not respond.".to_owned(),
            };
        }
        DriveState::Foreign => {
            return "Only if its array on another system does not need it. Run 'softroc foreign \
                list'."
                .to_owned();
        }
        DriveState::Failed if drive.volumes.is_empty() => {
            return "Yes: no volume uses it.".to_owned();
        }
        state if is_out(state) => {
            return match stopped {
                Some(volume) => {
                    format!("No: '{}' is {} and may need its data.", volume.name, volume.state)
                }
                None => "Yes: its volumes run without it.".to_owned(),
            };
        }
        DriveState::Log => {
            return "No: it holds journals of volumes. Run 'softroc log list'.".to_owned();
        }
        DriveState::Spare => {
            let ready = other_ready_spares(world, drive);
            return format!("Yes, but only {} would remain.", counted(ready, "hot spare"));
        }
        DriveState::Rebuilding | DriveState::Filling => {
            return "No: its data is being rebuilt or copied.".to_owned();
        }
        _ => {}
    }
    match volumes.iter().min_by_key(|volume| volume.may_lose) {
        None => "Yes: no volume uses it.".to_owned(),
        Some(volume) if volume.may_lose == 0 => {
            format!("No: '{}' tolerates no further failure.", volume.name)
        }
        Some(volume) => format!(
            "Only if necessary: '{}' would run degraded and tolerate {} after that.",
            volume.name,
            counted(volume.may_lose - 1, "failure")
        ),
    }
}

/// When full redundancy is restored.
fn safe(world: &World, drive: &DriveInfo, volumes: &[&VolumeInfo]) -> String {
    if drive.state == DriveState::Refused && volumes.is_empty() {
        return "Unknown: no volume is known for this drive.".to_owned();
    }
    // A drive whose slot was taken by another belongs to no volume; a degraded volume may be its
    // former one.
    let degraded =
        || world.volumes.iter().filter(|volume| volume.state == VolumeState::Degraded).collect();
    let concerned: Vec<&VolumeInfo> =
        if volumes.is_empty() { degraded() } else { volumes.to_vec() };
    if concerned.is_empty() {
        return "Already: no volume needs this drive.".to_owned();
    }
    if let Some(volume) = concerned.iter().find(|volume| !volume.state.serves()) {
        return format!(
            "When '{}' is online again: reconnect its missing drives, or restore a backup.",
            volume.name
        );
    }
    let fills = |task: &&TaskInfo| {
        let is_fill = matches!(
            task.kind,
            TaskKind::Rebuild
                | TaskKind::Relocate
                | TaskKind::Restore
                | TaskKind::Replace
                | TaskKind::Copyback
        );
        let is_of = |volume: &VolumeInfo| {
            task.volume.as_ref().is_some_and(|of| volume.array_volumes.contains(of))
        };
        is_fill && !task.state.is_over() && concerned.iter().any(|volume| is_of(volume))
    };
    match world.tasks.iter().find(fills) {
        Some(task) => {
            let left = task.eta_s.map_or_else(
                || format!("it is {}", task.state),
                |left| format!("about {} left", duration(left)),
            );
            format!("When the {} is done: {} %, {left}.", task.kind, task.percent)
        }
        None if !is_out(drive.state) => "When another drive has replaced it.".to_owned(),
        None if drive
            .suspension
            .as_ref()
            .is_some_and(|suspension| suspension.by == SuspendedBy::Operator) =>
        {
            "After an operator resumes it and its stale regions are rebuilt.".to_owned()
        }
        None if drive.state == DriveState::Suspended => {
            "When it responds again and its stale regions are rebuilt, or after its replacement."
                .to_owned()
        }
        None if matches!(drive.state, DriveState::Offline | DriveState::Stale) => {
            "When it is online and rebuilt, or replaced.".to_owned()
        }
        None => {
            "When a new drive has replaced it and is rebuilt. No rebuild is running.".to_owned()
        }
    }
}

/// The effect on hosts.
fn cost(drive: &DriveInfo, volumes: &[&VolumeInfo]) -> String {
    if drive.state == DriveState::Refused && volumes.is_empty() {
        return "Unknown.".to_owned();
    }
    let lost: u64 = volumes.iter().map(|volume| volume.lost_bytes).sum();
    let stopped: Vec<&str> = volumes
        .iter()
        .filter(|volume| !volume.state.serves())
        .map(|volume| volume.name.as_str())
        .collect();
    let reads = if is_out(drive.state) && !volumes.is_empty() {
        " Reads recompute its data from the other drives."
    } else {
        ""
    };
    match (lost, stopped.is_empty()) {
        (0, true) => format!("No data.{reads}"),
        (0, false) => format!("Hosts cannot access {}.", stopped.join(", ")),
        (lost, _) => format!("{} are lost.", ByteCount(lost)),
    }
}

/// The requirements for a replacement drive.
fn buy(world: &World, drive: &DriveInfo, volumes: &[&VolumeInfo]) -> String {
    let needs = world
        .coverage
        .iter()
        .find(|array| volumes.iter().any(|volume| array.volumes.contains(&volume.name)));
    let (least, rotates) = match needs {
        Some(array) => (Some(array.needs_bytes), array.needs_rotational),
        None => (drive.size_bytes, Some(drive.rotational)),
    };
    let kind = match rotates {
        Some(true) => "A rotating drive",
        Some(false) => "A solid-state drive",
        None => "A drive",
    };
    let size = least.map_or_else(
        || " of the same size".to_owned(),
        |least| format!(" of at least {}", both_capacities(ByteCount(least))),
    );
    let ready = needs.and_then(|array| array.covered_by.first());
    let spare = ready.map_or_else(String::new, |spare| format!(" Hot spare {spare} is suitable."));
    format!("{kind}{size}.{spare}")
}

impl Advice {
    /// The HTML of the part.
    pub(crate) fn html(&self) -> String {
        rendered(self)
    }
}
