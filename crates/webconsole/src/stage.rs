//! A slot of an array, and the state of its drive: working, to be replaced, being rebuilt, or
//! complete.

use crate::World;
use crate::advice::is_out;
use controller::{DriveInfo, DriveState, Event, TaskInfo, TaskKind, TaskState, VolumeInfo};

/// How long a completed replacement is reported.
const LATELY_S: u64 = 24 * 3600;

/// Events of a drive that takes a slot.
const CAME: [&str; 2] = ["drive.takes-slot", "drive.replaced"];

/// A slot of an array.
pub(crate) struct ArraySlot<'w> {
    pub(crate) volume: &'w VolumeInfo,
    slot: usize,
    /// The drive in the slot, or the missing one.
    pub(crate) drive: &'w DriveInfo,
}

impl<'w> ArraySlot<'w> {
    /// Parses `VOLUME:SLOT`.
    pub(crate) fn named(world: &'w World, text: &str) -> Option<ArraySlot<'w>> {
        let (name, slot) = text.rsplit_once(':')?;
        let volume = world.volumes.iter().find(|volume| volume.name == name)?;
        let slot: usize = slot.parse().ok()?;
        Some(ArraySlot { volume, slot, drive: volume.drives.get(slot)? })
    }

    pub(crate) fn all(world: &'w World) -> impl Iterator<Item = ArraySlot<'w>> {
        // Volumes of one array share the drives: the first listed volume represents them.
        let is_first = |volume: &&VolumeInfo| {
            world
                .volumes
                .iter()
                .find(|other| other.array == volume.array)
                .is_some_and(|first| first.uuid == volume.uuid)
        };
        world.volumes.iter().filter(is_first).flat_map(|volume| {
            volume.drives.iter().enumerate().map(move |(slot, drive)| ArraySlot {
                volume,
                slot,
                drive,
            })
        })
    }

    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.volume.name, self.slot)
    }

    /// The confirmation that identifies this drive.
    pub(crate) fn proof(&self) -> String {
        self.drive.serial.clone().unwrap_or_else(|| self.drive.name.clone())
    }

    /// How the drive was inserted, if that was recent and its data is complete. (An array without
    /// data needs no rebuild, so there is no task.)
    fn came_lately(&self, world: &'w World) -> Option<Replacement<'w>> {
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
            let replaced = event
                .text
                .strip_prefix(&subject)
                .and_then(|rest| rest.strip_prefix("replaced drive "));
            return Some(replaced.map_or(Replacement::Rebuilt, |rest| instead_of(world, rest)));
        }
        let is_done = |task: &&TaskInfo| {
            task.state == TaskState::Done && task.ended_unix_s.is_some_and(is_lately)
        };
        self.fills(world).find(is_done).map(|task| match task.kind {
            TaskKind::Replace => Replacement::Swapped,
            _ => Replacement::Rebuilt,
        })
    }

    /// Whether a drive is in the slot, or is prepared for it.
    fn is_of(&self, drive: &DriveInfo) -> bool {
        drive.slot == u16::try_from(self.slot).ok()
            && drive.volumes.iter().any(|name| self.volume.array_volumes.contains(name))
    }

    /// The incomplete drive of the slot: the current one, or its replacement.
    fn lacking(&self, world: &'w World) -> Option<&'w DriveInfo> {
        if self.drive.state == DriveState::Rebuilding || self.drive.stale_regions > 0 {
            return Some(self.drive);
        }
        world.drives.iter().find(|drive| drive.state == DriveState::Filling && self.is_of(drive))
    }

    /// Tasks that write the slot's data, newest first: by copy or by rebuild.
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

/// The previous drive of a slot, from an event `OLD of VOLUMES`.
fn instead_of<'w>(world: &'w World, rest: &str) -> Replacement<'w> {
    let is_meant = |drive: &&DriveInfo| {
        rest.strip_prefix(drive.name.as_str()).is_some_and(|rest| rest.starts_with(" of "))
    };
    // One name may be a prefix of another.
    let Some(old) = world.drives.iter().filter(is_meant).max_by_key(|drive| drive.name.len())
    else {
        return Replacement::Pulled;
    };
    match old.state {
        DriveState::Missing => Replacement::Pulled,
        DriveState::Unused | DriveState::Failed | DriveState::Refused if old.volumes.is_empty() => {
            Replacement::Freed(old)
        }
        // A released hot spare, or a drive in other use: it stays.
        _ => Replacement::Rebuilt,
    }
}

/// The state of a slot.
pub(crate) enum Stage<'w> {
    /// Its volume is offline and must be recovered first.
    Unserved,
    /// The drive works: its replacement is copied from it.
    Works,
    /// The drive is failed or missing: its data is computed from the others.
    Out,
    /// A drive is being rebuilt or copied.
    Filling(&'w TaskInfo),
    /// A drive is incomplete, and no task completes it. The last task that worked on it.
    Lacking(&'w DriveInfo, Option<&'w TaskInfo>),
    /// The data of a new drive was completed recently.
    Filled(Replacement<'w>),
}

/// How a new drive was inserted.
pub(crate) enum Replacement<'w> {
    /// It replaced a failed or missing drive.
    Rebuilt,
    /// It replaced a working drive, which is unused now.
    Freed(&'w DriveInfo),
    /// It replaced a working drive, which was removed.
    Pulled,
    /// It replaced a working drive that is not known any more.
    Swapped,
}

impl<'w> Stage<'w> {
    /// The state of a slot. `again`: ignore a recent replacement.
    pub(crate) fn of(world: &'w World, place: &ArraySlot<'w>, again: bool) -> Stage<'w> {
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

    /// Whether a new drive can be assigned.
    pub(crate) fn takes_a_drive(&self) -> bool {
        matches!(self, Stage::Works | Stage::Out)
    }
}
