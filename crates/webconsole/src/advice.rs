//! Drives that have to be dealt with: which one it is, whether it may be pulled, when all is safe again, what it cost hosts, and what to buy.

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

/// What is said of a drive.
struct Advised {
    name: String,
    link: String,
    badge: Badge<DriveState>,
    which: String,
    pull: String,
    safe: Option<String>,
    cost: Option<String>,
    buy: Option<String>,
    /// Where it is replaced, step by step.
    replace: Option<String>,
}

/// Of all drives that have to be dealt with; `None`: there is none.
pub(crate) fn of_all(world: &World) -> Option<Advice> {
    let drives: Vec<Advised> = world
        .drives
        .iter()
        .filter(|drive| needs_attention(drive))
        .map(|drive| advised(world, drive))
        .collect();
    (!drives.is_empty()).then_some(Advice { drives })
}

/// Of one drive.
pub(crate) fn of_one(world: &World, drive: &DriveInfo) -> Advice {
    Advice { drives: vec![advised(world, drive)] }
}

fn needs_attention(drive: &DriveInfo) -> bool {
    is_out(drive.state) || drive.health.as_ref().is_some_and(|health| health.warning.is_some())
}

/// Whether its volumes go on without it.
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

/// The volumes that have a drive.
fn volumes<'w>(world: &'w World, drive: &DriveInfo) -> Vec<&'w VolumeInfo> {
    world.volumes.iter().filter(|volume| drive.volumes.contains(&volume.name)).collect()
}

/// Its place, as commands name it.
fn place(drive: &DriveInfo) -> Option<String> {
    let (slot, volume) = drive.slot.zip(drive.volumes.first())?;
    Some(format!("{volume}:{slot}"))
}

/// By what it is known to somebody who stands before it.
pub(crate) fn which(drive: &DriveInfo) -> String {
    let place = match (&drive.enclosure, &drive.bay) {
        (Some(enclosure), Some(bay)) => Some(format!("enclosure {enclosure}, bay {bay}")),
        (None, Some(bay)) => Some(format!("bay {bay}")),
        (Some(enclosure), None) => Some(format!("enclosure {enclosure}")),
        (None, None) => None,
    };
    let slot = self::place(drive).map(|place| format!("slot {place}"));
    let serial = drive.serial.as_ref().map(|serial| format!("serial {serial}"));
    let parts: Vec<String> = [place, slot, drive.model.clone(), serial].into_iter().flatten().collect();
    match parts.is_empty() {
        true => "It tells neither place nor serial number".to_owned(),
        false => parts.join(" · "),
    }
}

/// Whether it may be pulled.
pub(crate) fn pull(world: &World, drive: &DriveInfo, volumes: &[&VolumeInfo]) -> String {
    // What a volume that does not serve lacks may be on this very drive.
    let stopped = volumes.iter().find(|volume| !volume.state.serves());
    match drive.state {
        // What is on it may be what a volume waits for: nobody here knows.
        DriveState::Refused if volumes.is_empty() => {
            return format!(
                "No: whose it is is not known. Run 'softroc drive show {}'.",
                shell_word(&drive.name)
            );
        }
        DriveState::Missing => {
            return match stopped {
                Some(volume) => format!(
                    "Only to put it, or its cable, in again: '{}' is {}, and may need what is on it.",
                    volume.name, volume.state
                ),
                None => "It does not answer, or is not there. If it is, it may be pulled.".to_owned(),
            };
        }
        DriveState::Foreign => {
            return "Only if the array of another system does without it. Run 'softroc foreign list'."
                .to_owned();
        }
        DriveState::Failed if drive.volumes.is_empty() => return "Yes: no volume uses it.".to_owned(),
        state if is_out(state) => {
            return match stopped {
                Some(volume) => {
                    format!("No: '{}' is {}, and may need what is on it.", volume.name, volume.state)
                }
                None => "Yes: its volumes go on without it.".to_owned(),
            };
        }
        DriveState::Log => return "No: journals of volumes lie on it. Run 'softroc log list'.".to_owned(),
        DriveState::Spare => {
            let ready = world.spares.iter().filter(|spare| spare.ready && spare.drive != drive.name).count();
            return format!("Yes, but {} would be left then.", counted(ready, "hot spare"));
        }
        DriveState::Rebuilding | DriveState::Filling => return "No: it is being filled.".to_owned(),
        _ => {}
    }
    match volumes.iter().min_by_key(|volume| volume.may_lose) {
        None => "Yes: no volume uses it.".to_owned(),
        Some(volume) if volume.may_lose == 0 => {
            format!("No: '{}' survives no further failure.", volume.name)
        }
        Some(volume) => format!(
            "Not without need: '{}' would go on without it, and survive {} after that.",
            volume.name,
            counted(volume.may_lose - 1, "failure")
        ),
    }
}

/// When all is safe again.
fn safe(world: &World, drive: &DriveInfo, volumes: &[&VolumeInfo]) -> String {
    if drive.state == DriveState::Refused && volumes.is_empty() {
        return "That cannot be told: whose it is is not known.".to_owned();
    }
    // One whose place another drive took is of no volume any more: it was of one that is not whole yet, if there is one.
    let degraded = || world.volumes.iter().filter(|volume| volume.state == VolumeState::Degraded).collect();
    let concerned: Vec<&VolumeInfo> = if volumes.is_empty() { degraded() } else { volumes.to_vec() };
    if concerned.is_empty() {
        return "It is: no volume lacks it.".to_owned();
    }
    if let Some(volume) = concerned.iter().find(|volume| !volume.state.serves()) {
        return format!(
            "When '{}' serves again: with the drives that it lacks, or from a backup.",
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
        let is_of =
            |volume: &VolumeInfo| task.volume.as_ref().is_some_and(|of| volume.array_volumes.contains(of));
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
        None if !is_out(drive.state) => "When another drive has taken its place.".to_owned(),
        None if drive.suspension.as_ref().is_some_and(|suspension| suspension.by == SuspendedBy::Operator) => {
            "When an operator resumes it and it has been given what it missed.".to_owned()
        }
        None if drive.state == DriveState::Suspended => {
            "When it answers again and has been given what it missed; where it does not, another drive takes its place.".to_owned()
        }
        None if matches!(drive.state, DriveState::Offline | DriveState::Stale) => {
            "When it is back online and rebuilt, or replaced.".to_owned()
        }
        None => "When a new drive is in its place and rebuilt: nothing does so yet.".to_owned(),
    }
}

/// What it cost hosts.
fn cost(drive: &DriveInfo, volumes: &[&VolumeInfo]) -> String {
    if drive.state == DriveState::Refused && volumes.is_empty() {
        return "That cannot be told.".to_owned();
    }
    let lost: u64 = volumes.iter().map(|volume| volume.lost_bytes).sum();
    let stopped: Vec<&str> =
        volumes.iter().filter(|volume| !volume.state.serves()).map(|volume| volume.name.as_str()).collect();
    let reads = if is_out(drive.state) && !volumes.is_empty() {
        " What it held is computed from the other drives when it is read."
    } else {
        ""
    };
    match (lost, stopped.is_empty()) {
        (0, true) => format!("No data.{reads}"),
        (0, false) => format!("Hosts cannot reach {}.", stopped.join(", ")),
        (lost, _) => format!("{} are lost.", ByteCount(lost)),
    }
}

/// What a drive must be to take its place.
fn buy(world: &World, drive: &DriveInfo, volumes: &[&VolumeInfo]) -> String {
    let needs =
        world.coverage.iter().find(|array| volumes.iter().any(|volume| array.volumes.contains(&volume.name)));
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
        || " as large as it".to_owned(),
        |least| format!(" of at least {}", both_capacities(ByteCount(least))),
    );
    let ready = needs.and_then(|array| array.covered_by.first());
    let spare = ready.map_or_else(String::new, |spare| format!(" Hot spare {spare} would do."));
    format!("{kind}{size}.{spare}")
}

impl Advice {
    /// As a part of a page.
    pub(crate) fn html(&self) -> String {
        rendered(self)
    }
}
