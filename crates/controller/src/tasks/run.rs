//! Executes a task step by step; labels and volumes determine the next step.

use super::next::{DELETED, Next};
use super::steps::StepEnd;
use super::task::{Task, Wish};
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Found, TaskKind, TaskState};
use crate::tasks::Tasks;
use std::rc::Rc;
use std::time::Duration;
use units::counted;

/// The number of restarts of a step whose volume went offline, before the task fails.
const MOST_FRUITLESS: u32 = 100;

const NO_PROGRESS: &str = "the task makes no progress; 'softroc events' shows what its drives \
                           report";

/// The delay before a volume that went offline is looked for again.
pub(super) const SETTLE: Duration = Duration::from_secs(1);

/// The interval of attempts to open a window that a paused task left closed.
const TRY_WINDOW_AGAIN: Duration = Duration::from_secs(60);

/// How long recording the result of a step may take, before the rest is begun again.
const RECORDED: Duration = Duration::from_secs(30);

/// The task's state meanwhile.
const RECORDING: &str = "all data is processed; flushing the drives and recording the result";

impl Tasks {
    /// Starts the worker of a task, unless it has one.
    pub(super) fn take_in_hand(self: &Rc<Self>, task: &Rc<Task>) {
        if task.is_over() || task.in_hand.replace(true) {
            return;
        }
        let (this, task) = (self.clone(), task.clone());
        self.env.spawn("task", async move {
            this.carry_out(&task).await;
            if task.is_over() {
                this.offer_its_volume(&task).await;
            }
            task.in_hand.set(false);
            this.list.touch();
        });
    }

    async fn carry_out(self: &Rc<Self>, task: &Rc<Task>) {
        let mut fruitless = 0;
        let mut failed = None;
        while !self.attention.is_closing() && !task.is_over() {
            match task.wish() {
                Wish::Stop if self.take_back(task).await => {
                    return self.end_task(task, TaskState::Stopped, None);
                }
                Wish::Stop => continue,
                Wish::Pause => {
                    self.stand_still(task, failed.clone()).await;
                    continue;
                }
                Wish::Run => failed = None,
            }
            match self.next_of(task) {
                Next::Done => return self.end_task(task, TaskState::Done, None),
                Next::Moot(why) => return self.end_moot(task, why),
                Next::Wait(why) => {
                    task.stand(&self.env, TaskState::Waiting, Some(why));
                    self.wait_for_turn(task).await;
                }
                Next::Patrol => {
                    task.stand(&self.env, TaskState::Running, None);
                    if self.patrol(task).await == StepEnd::Done {
                        return self.end_task(task, TaskState::Done, None);
                    }
                }
                Next::Reshape(array, volume) => {
                    failed = self.reshape(task, &array, &volume).await.why();
                    // A paused task is kept, since a new one would run instead; a task that is to
                    // stop stops.
                    if let Some(why) = failed.clone().filter(|_| task.wish() == Wish::Run) {
                        return self.give_up(task, why);
                    }
                }
                Next::Watch(left) => self.watch(task, left).await,
                Next::Step(_) if self.is_seen_too_early(task) => self.offer_its_volume(task).await,
                Next::Step(plan) => {
                    task.stand(&self.env, TaskState::Running, None);
                    let before = task.progress().done_bytes;
                    match self.run_step(task, plan).await {
                        StepEnd::Failed(why) => {
                            return match self.next_of(task) {
                                Next::Moot(moot) => self.end_moot(task, moot),
                                _ => self.give_up(task, why),
                            };
                        }
                        StepEnd::Stopped => {}
                        StepEnd::Done => self.step_recorded(task).await,
                        StepEnd::Interrupted => self.env.sleep(SETTLE).await,
                    }
                    fruitless = if task.progress().done_bytes > before { 0 } else { fruitless + 1 };
                    if fruitless > MOST_FRUITLESS {
                        return self.give_up(task, NO_PROGRESS.to_owned());
                    }
                }
            }
        }
    }

    /// Waits while a task is paused. Also returns to retry unfinished work, or when there is new
    /// work to finish: a volume that is served again may have a saved window. Ends the task if
    /// another drive has the slot of the drive it fills. `failed`: the error of its last step.
    async fn stand_still(&self, task: &Rc<Task>, failed: Option<String>) {
        if self.is_gone(task) {
            return self.end_moot(task, DELETED.to_owned());
        }
        if let Some(why) = self.lost_place(task) {
            return self.end_task(task, TaskState::Failed, Some(why));
        }
        // Host writes wait for it, and no other task continues it.
        let unfinished = self.finish_window(task).await;
        let again = unfinished.is_some().then(|| self.env.now() + TRY_WINDOW_AGAIN);
        task.stand(&self.env, TaskState::Paused, unfinished.or(failed));
        let goes_on =
            || task.wish() != Wish::Pause || self.attention.is_closing() || self.is_gone(task);
        let changed = || goes_on() || self.lost_place(task).is_some();
        let signal = self.attention.changed();
        match again {
            Some(until) => drop(crate::signals::wait_or(&self.env, signal, changed, until).await),
            None => {
                signal
                    .wait_until(&self.env, || changed() || self.window_to_finish(task).is_some())
                    .await
            }
        }
    }

    /// Whether a volume that is to be zeroed as a whole is still visible to hosts.
    fn is_seen_too_early(&self, task: &Task) -> bool {
        let volume = self.volume_of_task(task).map(|(_, volume)| volume);
        volume.is_some_and(|volume| !volume.is_hidden() && self.list.hides(volume.uuid()))
    }

    fn volume_of_task(&self, task: &Task) -> Option<(Rc<Array>, Rc<Volume>)> {
        let about = task.about();
        let array = self.arrays.get(about.array?)?;
        let volume = array.volume(about.volume?)?;
        Some((array, volume))
    }

    /// Shows or hides the volume of a task, as its state requires.
    async fn offer_its_volume(self: &Rc<Self>, task: &Task) {
        let Some((array, volume)) = self.volume_of_task(task) else { return };
        if let Err(error) = self.arrays.offer_anew(&array, &volume).await {
            let name = volume.name();
            self.events.report(
                EventCode::VolumeOffline,
                &name,
                &error.message,
                "it is offline",
                error.message.clone(),
            );
        }
    }

    /// The shards work automatically: observes their progress until a change.
    async fn watch(&self, task: &Rc<Task>, left: u64) {
        if task.state() != TaskState::Running {
            task.stand(&self.env, TaskState::Running, None);
        }
        let mut progress = task.progress();
        progress.total_bytes = progress.total_bytes.max(left);
        progress.done_bytes = progress.total_bytes - left;
        task.advance(self.env.now(), progress);
        let changed = || !matches!(self.next_of(task), Next::Watch(now) if now == left);
        let news = || changed() || self.attention.is_closing();
        self.attention.changed().wait_until(&self.env, news).await;
    }

    /// Ends a task whose volume was deleted, or that cannot be done.
    fn end_moot(&self, task: &Rc<Task>, why: String) {
        let state = if self.is_gone(task) { TaskState::Cancelled } else { TaskState::Failed };
        self.end_task(task, state, Some(why));
    }

    /// Records a failure of the task's own work: the reconciler begins it again after a delay.
    fn give_up(&self, task: &Rc<Task>, why: String) {
        task.gave_up.set(Some(self.env.now()));
        task.failures.set(task.failures.get().saturating_add(1));
        self.end_task(task, TaskState::Failed, Some(why));
    }

    /// Waits until a waiting task may continue, or is cancelled.
    async fn wait_for_turn(&self, task: &Rc<Task>) {
        let may_go_on = || {
            let waits = matches!(self.next_of(task), Next::Wait(_));
            !waits || task.wish() != Wish::Run || self.attention.is_closing()
        };
        self.attention.changed().wait_until(&self.env, may_go_on).await;
    }

    /// After a step: waits until its result is recorded in the label.
    async fn step_recorded(&self, task: &Rc<Task>) {
        if matches!(task.kind(), TaskKind::Check | TaskKind::Repair | TaskKind::Init) {
            task.change(&self.env, |record| record.left = Some(Vec::new()));
            return;
        }
        task.stand(&self.env, TaskState::Running, Some(RECORDING.to_owned()));
        let until = self.env.now() + RECORDED;
        let more = || !matches!(self.next_of(task), Next::Step(_));
        crate::signals::wait_or(&self.env, self.attention.changed(), more, until).await;
    }

    /// Records the end of a task and its outcome.
    pub(super) fn end_task(&self, task: &Rc<Task>, state: TaskState, reason: Option<String>) {
        task.stand(&self.env, state, reason.clone());
        let found = self.describe_found(task);
        let (title, subject, cause) = (task.title(), task.event_subject(), task.record().cause);
        let end = match state {
            TaskState::Done => format!("{title} is complete{found}"),
            TaskState::Stopped => format!(
                "{title} was stopped by an operator{found}; to continue, run 'softroc task resume \
                    {}'",
                task.id()
            ),
            TaskState::Cancelled => {
                format!("{title} was cancelled, since its volume was deleted{found}")
            }
            _ => format!(
                "{title} failed: {}{found}",
                reason.as_deref().unwrap_or("it cannot be done")
            ),
        };
        let harmless = state == TaskState::Done && found_nothing(task);
        let effect = format!("task {} is {state}{found}", task.id());
        let code = match state {
            TaskState::Done => EventCode::TaskFound,
            TaskState::Stopped => EventCode::TaskStopped,
            TaskState::Cancelled => EventCode::TaskCancelled,
            _ => EventCode::TaskFailed,
        };
        match harmless {
            // It was reported when it was recorded.
            true if task.kind() == TaskKind::Resync => {}
            true => self.events.report(EventCode::TaskDone, &subject, &cause, &effect, end),
            false => self.events.report(code, &subject, &cause, &effect, end),
        }
        self.attention.look_after();
        self.list.touch();
    }

    /// The findings of a task, for the end of a sentence.
    fn describe_found(&self, task: &Task) -> String {
        let record = task.record();
        let found = record.progress.found;
        let mut told = Vec::new();
        let is_check = matches!(record.kind, TaskKind::Check | TaskKind::Repair);
        let is_whole = record.state == TaskState::Done && found.uncompared == 0;
        match found.mismatches {
            0 if is_check && is_whole => {
                told.push("all redundancy agrees with its data".to_owned())
            }
            0 => {}
            count => told.push(format!("{} did not agree", counted(count, "stripe"))),
        }
        for (slot, stripes) in &record.blamed {
            told.push(format!("drive {slot} had wrong blocks in {stripes} of these stripes"));
        }
        if found.uncompared > 0 {
            told.push(format!("{} could not be compared", counted(found.uncompared, "stripe")));
        }
        if record.kind == TaskKind::Patrol && found.unreadable == 0 {
            told.push("everything could be read".to_owned());
        }
        if found.unreadable > 0 {
            told.push(format!("{} could not be read", counted(found.unreadable, "place")));
        }
        if found.repaired > 0 {
            told.push(format!("{} rewritten", found.repaired));
        }
        if found.unrecoverable_bytes > 0 {
            told.push(format!("{} of data lost", counted(found.unrecoverable_bytes, "byte")));
        }
        if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) }
    }
}

fn found_nothing(task: &Task) -> bool {
    let Found { mismatches, unreadable, unrecoverable_bytes, uncompared, .. } =
        task.progress().found;
    [mismatches, unreadable, unrecoverable_bytes, uncompared] == [0; 4]
}
