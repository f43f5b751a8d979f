//! A step: one volume's part of a task, on all shards at once.

use super::task::{Pace, Progress, Task, Wish};
use crate::arrays::reports::TaskReports;
use crate::interface::Found;
use crate::signals::wait_on_both;
use crate::tasks::Tasks;
use engine::{
    RegionSet, ShardIndex, ShardMessage, TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace,
    TaskProgress, VolumeId,
};
use layout::Geometry;
use platform::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::DriveIndex;

/// How often the progress of a running task is stored.
const CHECKPOINT: Duration = Duration::from_secs(10);

/// The work of the shards in one step.
pub(crate) struct StepPlan {
    pub volume: VolumeId,
    pub kind: TaskKind,
    /// Regions of the volume that are left; `None`: all relevant ones.
    pub regions: Option<RegionSet>,
    /// The bytes of the task that this step covers.
    pub bytes: u64,
    /// The I/O of the step on the drives.
    pub moved: Moved,
}

/// The ratio of bytes moved on drives, as counted by shards, to bytes of a task. Operators set
/// limits and see rates in bytes of the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moved {
    drives: u64,
    task: u64,
}

impl Moved {
    /// The I/O of a step of that kind: all strips of a stripe, or a read of one drive and a write
    /// of another.
    pub(crate) fn by(kind: TaskKind, geometry: &Geometry) -> Moved {
        let cells = u64::from(geometry.cells_per_stripe());
        match kind {
            // Progress counts bytes of the drive's part of the volume.
            TaskKind::Rebuild { .. } => {
                Moved { drives: cells, task: u64::from(geometry.rows_per_stripe()) }
            }
            TaskKind::Copy { .. } => Moved { drives: 2, task: 1 },
            TaskKind::RepairRange { .. } => Moved { drives: 1, task: 1 },
            // Progress counts bytes that hosts see.
            TaskKind::Check { .. }
            | TaskKind::Initialise { .. }
            | TaskKind::Relocate { .. }
            | TaskKind::Restore { .. } => {
                let data = geometry.stripe_bytes().0 / geometry.strip().bytes().0.max(1);
                Moved { drives: cells, task: data.max(1) }
            }
        }
    }

    fn on_drives(self, bytes: u64) -> u64 {
        let moved = u128::from(bytes) * u128::from(self.drives) / u128::from(self.task);
        u64::try_from(moved).unwrap_or(u64::MAX)
    }
}

/// How a step ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StepEnd {
    /// All shards have finished their part.
    Done,
    /// An operator ended it, or the controller shuts down.
    Stopped,
    /// Its volume is no longer served.
    Interrupted,
    /// It cannot be done: the reason.
    Failed(String),
}

impl StepEnd {
    /// The reason why it cannot be done.
    pub(super) fn why(self) -> Option<String> {
        match self {
            StepEnd::Failed(why) => Some(why),
            StepEnd::Done | StepEnd::Stopped | StepEnd::Interrupted => None,
        }
    }
}

/// The reports of one shard.
#[derive(Default)]
struct Part {
    progress: TaskProgress,
    heard: bool,
    outcome: Option<TaskOutcome>,
}

/// A running step.
pub(crate) struct Step {
    pub(crate) task: Rc<Task>,
    parts: RefCell<Vec<Part>>,
    /// The task's progress when the step began.
    before: Progress,
    bytes: u64,
    moved: Moved,
    volume: VolumeId,
    kind: TaskKind,
    /// Findings on its volume meanwhile, in addition to the shards' counts.
    noted: Cell<Found>,
    stored: Cell<Instant>,
}

impl Step {
    fn new(task: &Rc<Task>, shards: usize, plan: &StepPlan, now: Instant) -> Step {
        Step {
            task: task.clone(),
            parts: RefCell::new(std::iter::repeat_with(Part::default).take(shards).collect()),
            before: task.progress(),
            bytes: plan.bytes,
            moved: plan.moved,
            volume: plan.volume,
            kind: plan.kind,
            noted: Cell::default(),
            stored: Cell::new(now),
        }
    }

    /// The task's progress, from the shards' reports.
    fn standing(&self) -> Progress {
        let parts = self.parts.borrow();
        let (mut found, noted) = (self.before.found, self.noted.get());
        found.unreadable += noted.unreadable;
        found.unrecoverable_bytes += noted.unrecoverable_bytes;
        for Part { progress, .. } in parts.iter() {
            found.mismatches += progress.mismatches;
            found.repaired += progress.repaired;
            found.uncompared += progress.uncompared;
        }
        let sum = |count: fn(&TaskProgress) -> u64| {
            parts.iter().map(|part| u128::from(count(&part.progress))).sum::<u128>()
        };
        let (done, total) = (sum(|p| p.done_stripes), sum(|p| p.total_stripes));
        // A shard without a report may still have any amount of work.
        let known = parts.iter().all(|part| part.heard || part.outcome.is_some()) && total > 0;
        let bytes = if known { u128::from(self.bytes) * done.min(total) / total } else { 0 };
        let bytes = u64::try_from(bytes).unwrap_or(self.bytes);
        Progress {
            done_bytes: self.before.done_bytes + bytes,
            total_bytes: self.before.total_bytes,
            found,
        }
    }

    /// The pace of each unfinished shard: they share the limit.
    fn pace(&self) -> TaskPace {
        let at_it = self.parts.borrow().iter().filter(|part| part.outcome.is_none()).count();
        engine_pace(self.task.pace(), self.task.wish(), at_it, self.moved)
    }

    /// The result, once every shard has finished or one has failed.
    fn end(&self) -> Option<StepEnd> {
        let parts = self.parts.borrow();
        let failed = parts.iter().find_map(|part| match part.outcome {
            Some(TaskOutcome::Failed(error)) => Some(StepEnd::Failed(error.to_string())),
            _ => None,
        });
        if failed.is_some() || parts.iter().any(|part| part.outcome.is_none()) {
            return failed;
        }
        let done = parts.iter().all(|part| part.outcome == Some(TaskOutcome::Done));
        Some(if done { StepEnd::Done } else { StepEnd::Interrupted })
    }
}

/// The pace, for each of this number of shards.
fn engine_pace(pace: Pace, wish: Wish, shards: usize, moved: Moved) -> TaskPace {
    let shards = shards.max(1) as u64;
    TaskPace {
        share_percent: pace.share_percent,
        paused: wish == Wish::Pause,
        max_bytes_per_s: pace
            .limit_bytes_per_s
            .map(|limit| (moved.on_drives(limit) / shards).max(1)),
    }
}

impl Tasks {
    /// Runs a step on the shards, and waits until they finish or an operator ends it.
    pub(super) async fn run_step(&self, task: &Rc<Task>, plan: StepPlan) -> StepEnd {
        let number = self.list.next_step.get();
        self.list.next_step.set(number + 1);
        let step = Rc::new(Step::new(task, self.arrays.shard_count(), &plan, self.env.now()));
        self.list.steps.borrow_mut().insert(number, step.clone());
        let order = TaskOrder {
            volume: plan.volume,
            task: TaskId(number),
            kind: plan.kind,
            regions: plan.regions,
            pace: step.pace(),
        };
        let told = self
            .arrays
            .tell_shards(|done| ShardMessage::StartTask(Box::new(order.clone()), done))
            .await;
        task.in_step.set(true);
        let end = match told {
            Ok(()) => self.watch_step(&step, &order).await,
            Err(why) => StepEnd::Failed(why),
        };
        if end != StepEnd::Done && end != StepEnd::Interrupted {
            // Some shards may have begun although another one could not.
            if let Err(why) =
                self.arrays.tell_shards(|done| ShardMessage::StopTask(order.task, done)).await
            {
                tracing::debug!("{} on a shard: {why}", task.title());
            }
        }
        task.in_step.set(false);
        self.list.steps.borrow_mut().remove(&number);
        let mut progress = step.standing();
        if end == StepEnd::Done {
            progress.done_bytes = step.before.done_bytes + step.bytes;
        }
        task.advance(self.env.now(), progress);
        end
    }

    async fn watch_step(&self, step: &Step, order: &TaskOrder) -> StepEnd {
        let mut told = order.pace;
        // Paused shards do not notice that another drive has taken the slot.
        let is_in_vain =
            || step.task.wish() == Wish::Pause && self.lost_place(&step.task).is_some();
        let stops = || {
            let is_ending = step.task.wish() == Wish::Stop || self.attention.is_closing();
            is_ending || is_in_vain() || self.is_gone(&step.task)
        };
        loop {
            // The end of the step notifies the task, too.
            let news = || step.end().is_some() || stops() || step.pace() != told;
            wait_on_both(&self.env, (&step.task.changed, self.attention.changed()), news).await;
            if let Some(end) = step.end() {
                return end;
            }
            if stops() {
                return StepEnd::Stopped;
            }
            told = step.pace();
            self.arrays.tell_all(|| ShardMessage::SetPace(order.task, told));
        }
    }

    /// Records a progress report of a shard.
    fn step_progress(&self, from: ShardIndex, number: TaskId, progress: TaskProgress) {
        let Some(step) = self.list.steps.borrow().get(&number.0).cloned() else { return };
        let finished = progress.finished.clone();
        if let Some(part) = step.parts.borrow_mut().get_mut(usize::from(from.0)) {
            part.progress = progress;
            part.heard = true;
        }
        let now = self.env.now();
        step.task.advance(now, step.standing());
        self.regions_finished(&step, &finished);
        if now.since(step.stored.get()) >= CHECKPOINT {
            step.stored.set(now);
            self.list.checkpoint();
        }
    }

    /// Records regions that need not be repeated if the task is interrupted.
    fn regions_finished(&self, step: &Step, finished: &RegionSet) {
        if finished.is_empty() {
            return;
        }
        let (task, about) = (&step.task, step.task.about());
        let array = about.array.and_then(|uuid| self.arrays.get(uuid));
        if let (TaskKind::Copy { slot }, Some(array), Some(drive)) = (step.kind, array, about.drive)
        {
            if let Some(volume) = array.volume_served_as(step.volume) {
                self.arrays.regions_copied(
                    &array,
                    volume.uuid(),
                    slot.as_usize(),
                    drive,
                    finished.clone(),
                );
            }
            return;
        }
        task.change(&self.env, |record| {
            if let Some(left) = &mut record.left {
                let regions = RegionSet::from_runs(left.iter().copied()).minus(finished);
                *left = regions.runs().to_vec();
            }
        });
    }

    /// Records a finding on a volume for the tasks that run there: each may be its source.
    fn note_on_steps(&self, volume: VolumeId, find: impl Fn(&mut Found)) {
        for step in self.list.steps.borrow().values().filter(|step| step.volume == volume) {
            let mut noted = step.noted.get();
            find(&mut noted);
            step.noted.set(noted);
        }
    }

    /// Records that a shard has finished its part, or cannot do it.
    fn step_done(&self, from: ShardIndex, number: TaskId, outcome: TaskOutcome) {
        let Some(step) = self.list.steps.borrow().get(&number.0).cloned() else { return };
        if let Some(part) = step.parts.borrow_mut().get_mut(usize::from(from.0)) {
            part.outcome = Some(outcome);
        }
        step.task.changed.notify(&self.env);
    }

    /// Records a mismatch found by a check. Returns its task, and the number of mismatches
    /// attributed to the drive so far.
    fn step_mismatch(&self, number: TaskId, wrong: Option<DriveIndex>) -> Option<(Rc<Task>, u64)> {
        let step = self.list.steps.borrow().get(&number.0).cloned()?;
        let mut times = 0;
        if let Some(drive) = wrong {
            step.task.change(&self.env, |record| {
                let count = record.blamed.entry(drive.0).or_default();
                *count += 1;
                times = *count;
            });
        }
        Some((step.task.clone(), times))
    }
}

impl TaskReports for Tasks {
    fn note(&self, volume: VolumeId, find: &dyn Fn(&mut Found)) {
        self.note_on_steps(volume, find);
    }

    fn mismatch(&self, task: TaskId, wrong: Option<DriveIndex>) {
        self.step_mismatch(task, wrong);
    }

    fn progress(&self, from: ShardIndex, task: TaskId, progress: TaskProgress) {
        self.step_progress(from, task, progress);
    }

    fn done(&self, from: ShardIndex, task: TaskId, outcome: TaskOutcome) {
        self.step_done(from, task, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{TaskKind as Kind, TaskState};
    use layout::{Level, Shape};
    use platform::{IoError, IoErrorKind};
    use units::{ByteCount, DriveCount, StripSize};

    const PLAIN: Moved = Moved { drives: 1, task: 1 };

    fn task() -> Rc<Task> {
        Rc::new(Task::new(super::super::task::Record {
            task: 1,
            kind: Kind::Check,
            about: super::super::task::About::default(),
            names: super::super::task::Names::default(),
            cause: String::new(),
            pace: Pace { share_percent: 30, limit_bytes_per_s: Some(1000) },
            own_pace: false,
            full: false,
            aim: None,
            wish: Wish::Run,
            state: TaskState::Running,
            reason: None,
            progress: Progress { done_bytes: 100, total_bytes: 1100, ..Progress::default() },
            left: None,
            positions: Default::default(),
            blamed: Default::default(),
            started_unix_s: 0,
            ended_unix_s: None,
        }))
    }

    fn step() -> Step {
        let kind = TaskKind::Check { repair: false };
        let plan = StepPlan { volume: VolumeId(1), kind, regions: None, bytes: 500, moved: PLAIN };
        Step::new(&task(), 2, &plan, Instant::default())
    }

    fn tell(step: &Step, shard: usize, done: u64, total: u64) {
        let mut parts = step.parts.borrow_mut();
        parts[shard].progress = TaskProgress {
            done_stripes: done,
            total_stripes: total,
            mismatches: 1,
            ..TaskProgress::default()
        };
        parts[shard].heard = true;
    }

    #[test]
    fn it_goes_on_from_where_the_task_stood_and_never_beyond_its_part() {
        let step = step();
        tell(&step, 0, 9, 10);
        assert_eq!(step.standing().done_bytes, 100, "the other shard may have anything before it");
        tell(&step, 1, 0, 90);
        let standing = step.standing();
        assert_eq!((standing.done_bytes, standing.found.mismatches), (100 + 500 * 9 / 100, 2));
        let lost = Found { unreadable: 1, unrecoverable_bytes: 512, ..Found::default() };
        step.noted.set(lost);
        assert_eq!(
            (step.standing().found.unreadable, step.standing().found.unrecoverable_bytes),
            (1, 512)
        );
        tell(&step, 1, 900, 90);
        assert_eq!(step.standing().done_bytes, 600);
    }

    #[test]
    fn it_ends_when_all_shards_have_or_one_cannot() {
        let step = step();
        let set = |shard: usize, outcome| step.parts.borrow_mut()[shard].outcome = Some(outcome);
        assert_eq!(step.end(), None);
        set(0, TaskOutcome::Done);
        assert_eq!(step.end(), None);
        set(1, TaskOutcome::Stopped);
        assert_eq!(step.end(), Some(StepEnd::Interrupted));
        set(1, TaskOutcome::Done);
        assert_eq!(step.end(), Some(StepEnd::Done));
        step.parts.borrow_mut()[0].outcome = None;
        set(1, TaskOutcome::Failed(IoError::new(IoErrorKind::Gone)));
        assert!(matches!(step.end(), Some(StepEnd::Failed(_))));
    }

    #[test]
    fn a_limit_is_shared_by_the_shards_that_are_at_it() {
        let pace = Pace { share_percent: 30, limit_bytes_per_s: Some(1000) };
        let of = |shards| engine_pace(pace, Wish::Pause, shards, PLAIN);
        assert_eq!((of(4).max_bytes_per_s, of(4).paused), (Some(250), true));
        assert_eq!(of(5000).max_bytes_per_s, Some(1), "nothing at all would never end");
        let step = step();
        assert_eq!(step.pace().max_bytes_per_s, Some(500));
        step.parts.borrow_mut()[1].outcome = Some(TaskOutcome::Done);
        assert_eq!(step.pace().max_bytes_per_s, Some(1000), "the other one has all of it");
    }

    #[test]
    fn a_limit_is_in_bytes_of_the_task_whatever_that_moves_on_drives() {
        let strip = StripSize::KIB_64;
        let geometry =
            Shape::new(Level::Raid6, DriveCount(7)).geometry(strip, ByteCount::GIB).unwrap();
        let pace = Pace { share_percent: 100, limit_bytes_per_s: Some(1000) };
        let on_drives =
            |kind| engine_pace(pace, Wish::Run, 1, Moved::by(kind, &geometry)).max_bytes_per_s;
        // With P and Q, 1000 bytes of the volume are 1400 bytes on drives.
        assert_eq!(on_drives(TaskKind::Check { repair: false }), Some(1400));
        // Each other drive transfers as many bytes as the rebuilt one.
        assert_eq!(on_drives(TaskKind::Rebuild { slot: DriveIndex(1) }), Some(7000));
        assert_eq!(on_drives(TaskKind::Copy { slot: DriveIndex(1) }), Some(2000));
    }
}
