//! The next step of a task, derived from the current labels and volumes.

use super::reshape::has_saved_window;
use super::steps::{Moved, StepPlan};
use super::task::{Aim, Task};
use crate::arrays::array::{Array, set_of};
use crate::arrays::volume::Volume;
use crate::interface::{TaskKind, TaskState};
use crate::tasks::Tasks;
use engine::{RegionSet, TaskKind as ShardTask};
use ondisk::{Member, Runs};
use std::rc::Rc;
use units::DriveIndex;

/// The next step of a task.
pub(crate) enum Next {
    /// The task is complete.
    Done,
    /// The task has become unnecessary: the reason.
    Moot(String),
    /// The task has to wait: for what.
    Wait(String),
    /// Read drives.
    Patrol,
    /// Reshape a volume of an array.
    Reshape(Rc<Array>, Rc<Volume>),
    /// Observe the progress: the shards work automatically. The bytes that are left.
    Watch(u64),
    /// Run this step on the shards.
    Step(StepPlan),
}

/// The reason why a task ends when its volume or array is deleted.
pub(super) const DELETED: &str = "its volume was deleted";

/// The order of tasks that concern the same drives.
fn precedence(kind: TaskKind) -> u8 {
    match kind {
        TaskKind::Rebuild | TaskKind::Relocate => 0,
        TaskKind::Resync => 1,
        TaskKind::Restore | TaskKind::Copyback | TaskKind::Replace => 2,
        TaskKind::Init => 3,
        TaskKind::Check | TaskKind::Repair => 4,
        TaskKind::Patrol => 5,
        TaskKind::Reshape => 1,
    }
}

impl Tasks {
    /// Determines the next step of a task.
    pub(super) fn next_of(&self, task: &Rc<Task>) -> Next {
        if task.kind() == TaskKind::Patrol {
            return Next::Patrol;
        }
        let about = task.about();
        let Some(array) = about.array.and_then(|uuid| self.arrays.get(uuid)) else {
            return Next::Moot(DELETED.to_owned());
        };
        let waits = match task.kind() {
            TaskKind::Reshape | TaskKind::Resync => false,
            TaskKind::Rebuild => !array.waits_for_drives(),
            _ => true,
        };
        if let Some(volume) = array.on_its_way().filter(|_| waits) {
            return Next::Wait(format!("the reshape of '{}' goes first", volume.name()));
        }
        let next = match task.kind() {
            TaskKind::Reshape => return next_of_reshape(task, &array),
            TaskKind::Rebuild | TaskKind::Copyback | TaskKind::Replace => {
                self.next_on_drive(task, &array)
            }
            _ => match about.volume.and_then(|uuid| array.volume(uuid)) {
                Some(volume) => next_on_volume(task, &array, &volume),
                None => Next::Moot(DELETED.to_owned()),
            },
        };
        match next {
            Next::Step(plan) => match self.first_before(task) {
                Some(other) => {
                    Next::Wait(format!("{} (task {}) goes first", other.title(), other.id()))
                }
                None => Next::Step(plan),
            },
            other => other,
        }
    }

    /// Whether the volume of a task was deleted.
    pub(super) fn is_gone(&self, task: &Task) -> bool {
        let about = task.about();
        let Some(array) = about.array else { return false };
        let array = self.arrays.get(array);
        array.is_none_or(|array| about.volume.is_some_and(|volume| array.volume(volume).is_none()))
    }

    /// A running task of the same array that has precedence.
    fn first_before(&self, task: &Rc<Task>) -> Option<Rc<Task>> {
        let (array, mine) = (task.about().array, (precedence(task.kind()), task.id()));
        let busy = |other: &Rc<Task>| {
            let goes_on = matches!(other.state(), TaskState::Running | TaskState::Waiting);
            other.id() != task.id() && goes_on && other.about().array == array
        };
        let first = |other: &Rc<Task>| (precedence(other.kind()), other.id()) < mine;
        self.list.open().into_iter().find(|other| busy(other) && first(other))
    }

    /// For a task that fills a drive: why it has ended, if another drive has its slot. A drive that
    /// is only failed or offline, or whose array is missing, may return.
    pub(super) fn lost_place(&self, task: &Rc<Task>) -> Option<String> {
        if !matches!(task.kind(), TaskKind::Rebuild | TaskKind::Copyback | TaskKind::Replace) {
            return None;
        }
        let about = task.about();
        let label = self.arrays.get(about.array?)?.label();
        let member = label.member.get(usize::from(about.slot?))?;
        match place_of(member, about.drive, task.kind() != TaskKind::Rebuild) {
            Err(Next::Moot(why)) => Some(why),
            _ => None,
        }
    }

    fn next_on_drive(&self, task: &Rc<Task>, array: &Rc<Array>) -> Next {
        let about = task.about();
        let slot = usize::from(about.slot.unwrap_or(u16::MAX));
        let label = array.label();
        let Some(member) = label.member.get(slot) else {
            return Next::Moot("its slot no longer exists".to_owned());
        };
        let is_filled = task.kind() != TaskKind::Rebuild;
        let left = match regions_left(array, member, about.drive, is_filled) {
            Ok(left) => array.of_slot(slot, left),
            Err(next) => return next,
        };
        if left.is_empty() {
            if !is_filled {
                return Next::Done;
            }
            self.arrays.note_full_replacement(array);
            return Next::Wait(
                "the copy is being recorded, and the drive takes the slot".to_owned(),
            );
        }
        let drive = DriveIndex(about.slot.unwrap_or_default());
        let kind = if is_filled {
            ShardTask::Copy { slot: drive }
        } else {
            ShardTask::Rebuild { slot: drive }
        };
        let mut not_served = Vec::new();
        for volume in array.volumes() {
            let regions = volume.own_regions(&left);
            match volume.id() {
                _ if regions.is_empty() => {}
                Some(id) => {
                    let bytes = regions_bytes(&volume, regions.len(), volume.label().member_bytes);
                    let moved = Moved::by(kind, &volume.geometry);
                    return Next::Step(StepPlan {
                        volume: id,
                        kind,
                        regions: Some(regions),
                        bytes,
                        moved,
                    });
                }
                None => not_served.push(format!("'{}'", volume.name())),
            }
        }
        Next::Wait(format!("{} must be started first", not_served.join(", ")))
    }
}

/// Whether the reshape of a volume can continue.
fn next_of_reshape(task: &Task, array: &Rc<Array>) -> Next {
    let (about, aim) = (task.about(), task.record().aim);
    let Some(volume) = about.volume.and_then(|uuid| array.volume(uuid)) else {
        return Next::Moot(DELETED.to_owned());
    };
    let label = volume.label();
    let to = label.reshape.as_ref().map(|of| of.to).or(label.follows.as_ref().map(|of| of.to));
    let held_up = || array.held_up(&volume);
    let others =
        || array.moves_now().filter(|now| now.uuid() != volume.uuid()).map(|other| other.name());
    match () {
        () if to.is_none() && volume.was_taken_back(about.drive) => Next::Moot(
            "a drive that it needs was out of service at a start before any data moved, and the \
            reshape was rolled back; repeat the command when the drive works"
                .to_owned(),
        ),
        // The start that rolled it back may be over, so only the volume shows it.
        () if to.is_none() && aim.is_some_and(|aim| aim != Aim::of(&volume.geometry)) => Next::Moot(
            "the reshape was rolled back before any data moved; repeat the command when the drives \
             that it needs work"
                .to_owned(),
        ),
        // Stopping the task rolls back a reshape that has moved nothing; otherwise the reshape is
        // complete.
        () if to.is_none() || about.drive != to => Next::Done,
        () if !volume.is_served() => {
            Next::Wait(format!("'{}' must be started first", volume.name()))
        }
        () if array.cut_off().is_some() => {
            Next::Wait("an interrupted reshape is rolled back first".to_owned())
        }
        () if others().is_some() => {
            Next::Wait(format!("the reshape of '{}' goes first", others().unwrap_or_default()))
        }
        () if held_up().is_some() => Next::Wait(held_up().unwrap_or_default()),
        // With a saved window, moving it does not change which stripes are in use.
        () if array.is_unsynced_on_its_way(&volume) && !has_saved_window(&volume) => {
            Next::Wait(format!("the resync of '{}' goes first", volume.name()))
        }
        () => Next::Reshape(array.clone(), volume),
    }
}

/// Regions of the array that a task on a member drive has left.
fn regions_left(
    array: &Array,
    member: &Member,
    drive: Option<ondisk::Uuid>,
    is_filled: bool,
) -> Result<RegionSet, Next> {
    let stale = place_of(member, drive, is_filled)?;
    if !is_filled && !member.is_online() {
        return Err(Next::Moot(format!("drive {} is out of service", member.name)));
    }
    Ok(array.left(stale))
}

/// The stale regions of a task's drive, as a member or as a replacement being filled. If it is
/// neither: the consequence for the task.
fn place_of(member: &Member, drive: Option<ondisk::Uuid>, is_filled: bool) -> Result<&Runs, Next> {
    let is_it = |uuid: ondisk::Uuid| drive == Some(uuid);
    match &member.replacement {
        Some(replacement) if is_filled && is_it(replacement.uuid) => Ok(&replacement.stale),
        _ if is_filled && is_it(member.uuid) => Err(Next::Done),
        _ if is_filled => Err(Next::Moot("the replacement drive failed".to_owned())),
        _ if !is_it(member.uuid) => Err(Next::Moot("another drive has taken the slot".to_owned())),
        _ => Ok(&member.stale),
    }
}

fn next_on_volume(task: &Task, array: &Array, volume: &Rc<Volume>) -> Next {
    let record = task.record();
    let Some(id) = volume.id() else {
        return Next::Wait(format!("'{}' must be started first", volume.name()));
    };
    let capacity = volume.label().capacity_bytes;
    let all = volume.regions().len() as u32;
    let slot = DriveIndex(record.about.slot.unwrap_or_default());
    let step = |kind, regions: Option<RegionSet>| {
        let count = regions.as_ref().map_or(all, RegionSet::len);
        let bytes = regions_bytes(volume, count, capacity);
        Next::Step(StepPlan {
            volume: id,
            kind,
            regions,
            bytes,
            moved: Moved::by(kind, &volume.geometry),
        })
    };
    match record.kind {
        TaskKind::Check | TaskKind::Repair => {
            let left = record.left.map(RegionSet::from_runs);
            let incomplete = array.out_of(volume).union(&array.behind(volume));
            match left {
                Some(left) if left.is_empty() => Next::Done,
                _ if !incomplete.is_empty() => Next::Wait(format!(
                    "'{}' is degraded: there is nothing to compare with",
                    volume.name()
                )),
                left => step(ShardTask::Check { repair: record.kind == TaskKind::Repair }, left),
            }
        }
        TaskKind::Resync => {
            let regions = volume.own_regions(&array.unsynced_regions());
            let distrusted = !array.distrusted(volume).is_empty();
            let stuck = volume.has_parity() && !array.out_of(volume).is_empty() && distrusted;
            match regions.is_empty() {
                true => Next::Done,
                false if stuck => Next::Wait(format!(
                    "'{}' is degraded: a drive that it needs is out of service",
                    volume.name()
                )),
                false => Next::Watch(regions_bytes(volume, regions.len(), capacity)),
            }
        }
        TaskKind::Init => match record.left.map(RegionSet::from_runs) {
            Some(left) if left.is_empty() => Next::Done,
            left => step(ShardTask::Initialise { full: record.full }, left),
        },
        TaskKind::Relocate | TaskKind::Restore => {
            next_of_spread(array, volume, record.kind, slot, step)
        }
        _ => Next::Moot("this kind of task has no volume".to_owned()),
    }
}

/// The next step for a distributed spare: regions to take in, or to give back.
fn next_of_spread(
    array: &Array,
    volume: &Volume,
    kind: TaskKind,
    slot: DriveIndex,
    step: impl Fn(ShardTask, Option<RegionSet>) -> Next,
) -> Next {
    let moved = match volume.label().relocated {
        Some(moved) if moved.slot == slot.0 => volume.own_regions(&set_of(&moved.regions)),
        Some(_) => {
            return Next::Moot(
                "the distributed spare holds the content of another drive".to_owned(),
            );
        }
        None => RegionSet::EMPTY,
    };
    let is_out = array.out().contains(slot);
    let left = match kind {
        TaskKind::Relocate => RegionSet::first(volume.regions().len() as u32).minus(&moved),
        _ => moved,
    };
    match kind {
        _ if left.is_empty() => Next::Done,
        TaskKind::Relocate if !is_out => Next::Moot("a drive has taken the slot".to_owned()),
        TaskKind::Relocate => step(ShardTask::Relocate { slot }, Some(left)),
        _ if is_out => Next::Moot("the drive is out of service".to_owned()),
        _ => step(ShardTask::Restore { slot }, Some(left)),
    }
}

/// The share of `whole`, which all regions of a volume make up, for this number of regions.
pub(crate) fn regions_bytes(volume: &Volume, regions: u32, whole: u64) -> u64 {
    let all = volume.regions().len().max(1) as u128;
    u64::try_from(u128::from(whole) * u128::from(regions) / all).unwrap_or(whole)
}
