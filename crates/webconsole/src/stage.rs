//! A place of an array, and where things stand with the drive in it: whether it has to be replaced, is being filled, or has all that
//! belongs on it.

use crate::World;
use crate::advice::is_out;
use controller::{DriveInfo, DriveState, Event, TaskInfo, TaskKind, TaskState, VolumeInfo};

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

    pub(crate) fn all(world: &'w World) -> impl Iterator<Item = Place<'w>> {
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

    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.volume.name, self.slot)
    }

    /// What somebody types who means this drive and no other.
    pub(crate) fn proof(&self) -> String {
        self.drive.serial.clone().unwrap_or_else(|| self.drive.name.clone())
    }

    /// How its drive came, if that was a while ago and it has all that belongs on it. (Where nobody has written yet, nothing has to be
    /// filled, and there is no task.)
    fn came_lately(&self, world: &'w World) -> Option<Came<'w>> {
        if self.drive.state != DriveState::Online || self.drive.stale_regions > 0 {
            return None;
        }
        let is_lately = |at_s: u64| at_s + LATELY_S > world.now_unix_s;
        let subject = format!("drive {} ", self.drive.name);
        let has_come = |event: &&Event| {
            CAME.contains(&event.code.as_str())
                && is_lately(event.time_unix_s)
                && self.volume.array_volumes.iter().any(|name| event.concerns(name))
                && event.text.starts_with(&subject)
        };
        if let Some(event) = world.events.iter().rev().find(has_come) {
            let replaced =
                event.text.strip_prefix(&subject).and_then(|rest| rest.strip_prefix("replaced drive "));
            return Some(replaced.map_or(Came::Rebuilt, |rest| instead_of(world, rest)));
        }
        let is_done =
            |task: &&TaskInfo| task.state == TaskState::Done && task.ended_unix_s.is_some_and(is_lately);
        self.fills(world).find(is_done).map(|task| match task.kind {
            TaskKind::Replace => Came::Swapped,
            _ => Came::Rebuilt,
        })
    }

    /// Whether a drive sits in it, or is filled for it.
    fn is_of(&self, drive: &DriveInfo) -> bool {
        drive.slot == u16::try_from(self.slot).ok()
            && drive.volumes.iter().any(|name| self.volume.array_volumes.contains(name))
    }

    /// A drive of it that lacks something of what belongs on it: the one that is in it, or the one that is to take its place.
    fn lacking(&self, world: &'w World) -> Option<&'w DriveInfo> {
        if self.drive.state == DriveState::Rebuilding || self.drive.stale_regions > 0 {
            return Some(self.drive);
        }
        world.drives.iter().find(|drive| drive.state == DriveState::Filling && self.is_of(drive))
    }

    /// Tasks that fill it, the newest first: with what it held, or what the others say that it held.
    pub(crate) fn fills(&self, world: &'w World) -> impl Iterator<Item = &'w TaskInfo> {
        let here: Vec<&String> = world
            .drives
            .iter()
            .filter(|drive| self.is_of(drive))
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

/// What there was in a place of which an event says `OLD of VOLUMES`.
fn instead_of<'w>(world: &'w World, rest: &str) -> Came<'w> {
    let is_meant = |drive: &&DriveInfo| {
        rest.strip_prefix(drive.name.as_str()).is_some_and(|rest| rest.starts_with(" of "))
    };
    // One name may be the beginning of another one.
    let Some(old) = world.drives.iter().filter(is_meant).max_by_key(|drive| drive.name.len()) else {
        return Came::Pulled;
    };
    match old.state {
        DriveState::Missing => Came::Pulled,
        DriveState::Unused | DriveState::Failed | DriveState::Refused if old.volumes.is_empty() => {
            Came::Freed(old)
        }
        // A spare that stood in, or a drive that is used for something else by now: nobody wants it pulled.
        _ => Came::Rebuilt,
    }
}

/// Where things stand.
pub(crate) enum Stage<'w> {
    /// Its volume does not serve: that has to be mended first.
    Unserved,
    /// It works: the new drive is filled from it.
    Works,
    /// It is out: what it held is computed from the others.
    Out,
    /// A drive is being filled.
    Filling(&'w TaskInfo),
    /// A drive lacks something of what belongs on it, and nothing fills it. The last task that did.
    Lacking(&'w DriveInfo, Option<&'w TaskInfo>),
    /// A drive was filled a while ago.
    Filled(Came<'w>),
}

/// How a drive came.
pub(crate) enum Came<'w> {
    /// Into the place of one that was out.
    Rebuilt,
    /// Instead of one that worked, which nobody uses any more.
    Freed(&'w DriveInfo),
    /// Instead of one that worked, which is there no more.
    Pulled,
    /// Instead of one that worked: which one is not known any more.
    Swapped,
}

impl<'w> Stage<'w> {
    /// Of a place. `again`: whatever happened a while ago.
    pub(crate) fn of(world: &'w World, place: &Place<'w>, again: bool) -> Stage<'w> {
        if !place.volume.state.serves() {
            return Stage::Unserved;
        }
        if let Some(task) = place.fills(world).find(|task| !task.state.is_over()) {
            return Stage::Filling(task);
        }
        if is_out(place.drive.state) {
            return Stage::Out;
        }
        if let Some(drive) = place.lacking(world) {
            let ended = |task: &&TaskInfo| task.drive.as_ref() == Some(&drive.name);
            return Stage::Lacking(drive, place.fills(world).find(ended));
        }
        let came = if again { None } else { place.came_lately(world) };
        came.map_or(Stage::Works, Stage::Filled)
    }

    /// Whether another drive can be given.
    pub(crate) fn takes_a_drive(&self) -> bool {
        matches!(self, Stage::Works | Stage::Out)
    }
}
