//! Reshape of a volume, window by window (order of writes: [`engine::Mover`]).
//!
//! Between two windows the task checks whether to continue: commands of operators, a resync with
//! precedence, host load. A saved window is moved before that, since host writes there wait for it.
//! If moving it fails, these writes fail.

use super::run::SETTLE;
use super::steps::StepEnd;
use super::task::{About, Aim, Task, Wish};
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, TaskKind, TaskState};
use crate::tasks::Tasks;
use engine::{Moved, Mover, Step};
use layout::Geometry;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// The longest pause after a window.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The minimum window per drive, if rows allow so little: recording the progress takes time on all
/// drives.
const LEAST: ByteCount = ByteCount(1 << 20);

/// The maximum window per drive while hosts are active.
const MOST_BESIDE_HOSTS: ByteCount = ByteCount(8 << 20);

/// The target duration of a window while hosts are active: requests in the window wait for all of
/// it, others for the drives' work.
const BESIDE_HOSTS: Duration = Duration::from_millis(100);

/// The number of attempts to move a saved window before its waiting host writes fail. An attempt
/// leaves out drives that did not respond before.
const MOST_TRIES: u32 = 3;

impl Tasks {
    /// Begins the reshape of the array's reshaping volume, then those of the queued volumes.
    pub(crate) fn ensure_reshapes(self: &Rc<Self>, array: &Array, cause: &str) {
        if array.cut_off().is_some() {
            return; // It is rolled back.
        }
        let begun = array.moves_now().filter(|volume| volume.is_on_its_way());
        for volume in begun.into_iter().chain(array.followers()) {
            let label = volume.label();
            let to = label.reshape.map(|of| of.to).or(label.follows.map(|of| of.to));
            let about = About { drive: to, ..About::of_volume(array.uuid, volume.uuid()) };
            self.ensure(
                array,
                TaskKind::Reshape,
                about.clone(),
                array.usable_bytes(&volume),
                cause,
            );
            let task = self.list.newest(TaskKind::Reshape, &about).filter(|task| !task.is_over());
            // The recorded target shows later whether the reshape was completed, even if no
            // record of a rollback is left.
            if let (Some(task), Some(aim)) = (task, array.aim_of(&volume).map(|aim| Aim::of(&aim)))
                && task.record().aim.as_ref() != Some(&aim)
            {
                task.change(&self.env, |record| record.aim = Some(aim));
                self.list.touch();
            }
        }
    }

    /// The tasks that reshape volumes of the same array.
    fn of_one_order(&self, task: &Task) -> Vec<Rc<Task>> {
        let is_other = |other: &Rc<Task>| {
            other.kind() == TaskKind::Reshape && other.about().array == task.about().array
        };
        self.list.open().into_iter().filter(is_other).collect()
    }

    /// An operator stops a task. The volumes of one array are reshaped together, and rolled back
    /// together.
    pub(super) fn wish_stop(&self, task: &Rc<Task>) {
        let with =
            if task.kind() == TaskKind::Reshape { self.of_one_order(task) } else { Vec::new() };
        for other in with.iter().chain([task]) {
            other.wish_stop(&self.env);
        }
    }

    /// After an operator's stop: rolls a reshape back; other tasks need no rollback. Returns
    /// whether it is stopped; otherwise it continues.
    pub(super) async fn take_back(&self, task: &Task) -> bool {
        let about = task.about();
        let array = about.array.and_then(|uuid| self.arrays.get(uuid));
        let volume = array.as_ref().zip(about.volume).and_then(|(array, uuid)| array.volume(uuid));
        let (Some(array), Some(volume), TaskKind::Reshape) = (array, volume, task.kind()) else {
            return true;
        };
        if volume.label().follows.is_some() {
            return self.await_taken_back(task, &array, &volume).await;
        }
        if volume.label().reshape.is_none() {
            return true;
        }
        self.leave_order(task, &array, &volume).await
    }

    /// Rolls back all volumes of a command with the leading volume. Returns whether that succeeded;
    /// otherwise all tasks return to their state before the stop.
    async fn leave_order(&self, task: &Task, array: &Rc<Array>, leads: &Rc<Volume>) -> bool {
        let left = self.arrays.leave_reshape(array, leads).await;
        if let Err(error) = &left {
            self.of_one_order(task)
                .iter()
                .for_each(|task| self.goes_on_after_stop(task, &error.message));
        }
        self.attention.look_after();
        left.is_ok()
    }

    /// A stopped task cannot be rolled back, so it returns to its earlier state. The reply to the
    /// stop was sent before that was known, so an event reports it.
    fn goes_on_after_stop(&self, task: &Task, why: &str) {
        if task.wish() != Wish::Stop {
            return;
        }
        task.wish_no_stop(&self.env);
        let (title, id) = (task.title(), task.id());
        let text = format!(
            "{title} was stopped by an operator, and continues: {why}; to try again, run 'softroc \
            task stop {id}'"
        );
        let effect = format!("task {id} is not stopped");
        self.events.report(EventCode::TaskNotStopped, &task.event_subject(), why, &effect, text);
        self.list.touch();
    }

    /// The queued reshape of a volume is rolled back by the task of the leading volume, or not at
    /// all. If that task has failed and waits for its next attempt, no other task does it.
    async fn await_taken_back(&self, task: &Task, array: &Rc<Array>, volume: &Volume) -> bool {
        let is_decided = || {
            let goes_on = task.wish() != Wish::Stop || self.attention.is_closing();
            goes_on || volume.label().follows.is_none() || array.volume(volume.uuid()).is_none()
        };
        let Some(leads) = array.leads() else {
            // The leading reshape is committed or deleted, so it cannot be rolled back.
            self.goes_on_after_stop(
                task,
                "the reshape of another volume of this array is complete, or that volume is \
                 deleted",
            );
            return false;
        };
        let is_of_leads = |other: &Rc<Task>| other.about().volume == Some(leads.uuid());
        if !self.of_one_order(task).iter().any(is_of_leads) {
            return self.leave_order(task, array, &leads).await;
        }
        let has_none = || array.leads().is_none();
        self.attention.changed().wait_until(&self.env, || is_decided() || has_none()).await;
        volume.label().follows.is_none()
    }

    /// Whether a task can be stopped: moved data cannot be moved back.
    pub(super) fn check_can_stop(&self, task: &Task) -> crate::interface::Result<()> {
        let about = task.about();
        let array = about.array.and_then(|uuid| self.arrays.get(uuid));
        let volume = array.as_ref().zip(about.volume).and_then(|(array, uuid)| array.volume(uuid));
        let (Some(array), Some(volume), TaskKind::Reshape) = (array, volume, task.kind()) else {
            return Ok(());
        };
        let follows = volume.label().follows.is_some();
        let first = if follows { array.leads() } else { Some(volume) };
        let at = first.map(|first| first.label().reshape);
        let is_still_there =
            at.is_some_and(|at| at.is_none_or(|at| (at.moved_bytes, at.saved_bytes) == (0, 0)));
        if is_still_there {
            return Ok(());
        }
        let why = match follows {
            true => {
                "belongs to a reshape of several volumes that has moved data and cannot be rolled \
                    back"
            }
            false => "has moved data and cannot be rolled back",
        };
        let (title, id) = (task.title(), task.id());
        let sentence = format!("{title} {why}; to pause it, run 'softroc task pause {id}'");
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Reshapes a volume until all of it is moved, or another step has precedence.
    pub(super) async fn reshape(
        &self,
        task: &Rc<Task>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> StepEnd {
        task.stand(&self.env, TaskState::Running, None);
        if volume.follows()
            && let Err(error) = self.arrays.begin_following(array, volume).await
        {
            return StepEnd::Failed(error.message);
        }
        let end = self.move_on(task, array, volume).await;
        if end == StepEnd::Interrupted {
            self.env.sleep(SETTLE).await;
        }
        end
    }

    async fn move_on(&self, task: &Rc<Task>, array: &Rc<Array>, volume: &Rc<Volume>) -> StepEnd {
        let Some((reshape, moved)) = array.reshape_of(volume) else { return StepEnd::Interrupted };
        let total = reshape.bytes().0;
        let (mut mover, mut tries, mut may_keep) = (Mover::new(reshape, moved), 1, true);
        let (mut began, mut before, mut asked) = (self.env.now(), moved.bytes.0, requests(volume));
        loop {
            if may_keep {
                mover.keep(array.whole_up_to(volume));
            }
            let Some(step) = mover.step() else { break };
            let opened = matches!(step, Step::Open(_));
            if let Err(why) = self.arrays.reshape_step(array, volume, step.clone()).await {
                let recorded = mover.recorded();
                match () {
                    // The range was in sync at the last check; it is now moved like any other.
                    () if matches!(step, Step::Keep(_)) && may_keep => {
                        (mover, may_keep) = (Mover::new(reshape, recorded), false);
                        continue;
                    }
                    () if !volume.is_served() || self.attention.is_closing() => {
                        return StepEnd::Interrupted;
                    }
                    () if !recorded.saved.is_zero()
                        && tries < MOST_TRIES
                        && volume.lost().is_empty() =>
                    {
                        (mover, tries) = (Mover::new(reshape, recorded), tries + 1);
                        continue;
                    }
                    () => return self.leave_window(array, volume, (recorded, step), why).await,
                }
            }
            if opened {
                tries = 1;
                let (at, took) = (mover.recorded().bytes.0, self.env.now().since(began));
                self.advance_to(task, at, total);
                if at < total {
                    self.stand_back(task, (began, at - before), requests(volume) != asked).await;
                }
                if task.wish() != Wish::Run || self.attention.is_closing() {
                    return StepEnd::Stopped;
                }
                if array.is_unsynced_on_its_way(volume) || !volume.is_served() {
                    return StepEnd::Interrupted;
                }
                let moved = reshape.of_each_drive(ByteCount(at - before));
                let in_a_second = task
                    .pace()
                    .limit_bytes_per_s
                    .map_or(u64::MAX, |limit| reshape.of_each_drive(ByteCount(limit.min(total))).0);
                let most = next_window((moved, took), requests(volume) != asked);
                mover.limit(most.min(ByteCount(in_a_second)));
                (began, before, asked) = (self.env.now(), at, requests(volume));
            }
            mover.done();
        }
        self.fill_and_end(task, array, volume).await
    }

    fn advance_to(&self, task: &Task, done_bytes: u64, total_bytes: u64) {
        let mut progress = task.progress();
        (progress.done_bytes, progress.total_bytes) = (done_bytes, total_bytes);
        task.advance(self.env.now(), progress);
        self.list.touch();
    }

    /// Handles a failed step before the next attempt: hosts do not wait for that attempt.
    async fn leave_window(
        &self,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        (recorded, step): (Moved, Step),
        why: String,
    ) -> StepEnd {
        let left = match step {
            // The next attempt repeats this step.
            Step::Close(_) | Step::Save(_) | Step::Write { .. } | Step::Keep(_)
                if recorded.saved.is_zero() =>
            {
                self.arrays.reshape_step(array, volume, Step::Open(recorded.bytes)).await
            }
            // Whether the drives have the failed record is unknown. The window is consistent in
            // both cases, and stays as it is.
            Step::Record(moved) => {
                let is_saved = !recorded.saved.is_zero() || !moved.saved.is_zero();
                self.arrays.leave_window(volume, is_saved).await
            }
            _ => self.arrays.leave_window(volume, !recorded.saved.is_zero()).await,
        };
        StepEnd::Failed(left.err().map_or(why.clone(), |more| format!("{why}; {more}")))
    }

    /// Moves a saved window, and opens a window that a failed step left closed, even for a paused
    /// task. Returns why that failed: a sentence.
    pub(super) async fn finish_window(&self, task: &Rc<Task>) -> Option<String> {
        let (array, volume) = self.window_to_finish(task)?;
        match self.reshape(task, &array, &volume).await {
            StepEnd::Failed(why) => Some(why),
            StepEnd::Interrupted => Some("its volume was stopped; it is retried".to_owned()),
            StepEnd::Done | StepEnd::Stopped => None,
        }
    }

    /// The volume of a task that has a window for which host writes wait or fail, until the reshape
    /// continues.
    pub(super) fn window_to_finish(&self, task: &Task) -> Option<(Rc<Array>, Rc<Volume>)> {
        let about = task.about();
        let array = about
            .array
            .and_then(|uuid| self.arrays.get(uuid))
            .filter(|_| task.kind() == TaskKind::Reshape)?;
        let volume = about.volume.and_then(|uuid| array.volume(uuid))?;
        (volume.is_served() && wants_somebody(&volume)).then_some((array, volume))
    }

    /// After the last window: fills the queued regions, and commits the new layout.
    async fn fill_and_end(
        &self,
        task: &Rc<Task>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> StepEnd {
        let (name, from, moved) = (volume.name(), volume.geometry, array.usable_bytes(volume));
        loop {
            let (began, asked) = (self.env.now(), requests(volume));
            let before = task.progress().done_bytes;
            let (filled, goal) = match self.arrays.fill_some(array, volume).await {
                Ok(filled) => filled,
                Err(_) if !volume.is_served() || self.attention.is_closing() => {
                    return StepEnd::Interrupted;
                }
                Err(why) => return StepEnd::Failed(why),
            };
            self.advance_to(task, moved + filled, moved + goal);
            if filled >= goal {
                match self.arrays.end_reshape(array, volume).await {
                    Ok(None) => continue,
                    Ok(Some(to)) => return self.has_come(&name, (&from, &to.geometry)),
                    Err(why) => return StepEnd::Failed(why),
                }
            }
            let bytes = (moved + filled).saturating_sub(before);
            self.stand_back(task, (began, bytes), requests(volume) != asked).await;
            if task.wish() != Wish::Run || self.attention.is_closing() {
                return StepEnd::Stopped;
            }
            if array.is_unsynced_on_its_way(volume) || !volume.is_served() {
                return StepEnd::Interrupted;
            }
        }
    }

    fn has_come(&self, name: &str, (from, to): (&Geometry, &Geometry)) -> StepEnd {
        let text = format!("'{name}' has its new layout: {to}, instead of {from}");
        let effect = "hosts see the new size when they reconnect; for attached disks see \
                      docs/operate/attach.md";
        self.events.report(EventCode::VolumeReshaped, name, "all data is moved", effect, text);
        StepEnd::Done
    }

    /// Pauses after a window of this duration and size: for active hosts, and for a rate limit.
    async fn stand_back(&self, task: &Task, (began, bytes): (platform::Instant, u64), hosts: bool) {
        let (took, pace) = (self.env.now().since(began), task.pace());
        let share = u32::from(pace.share_percent.clamp(1, 100));
        let for_hosts = if hosts { took * (100 - share) / share } else { Duration::ZERO };
        let whole = pace.limit_bytes_per_s.map_or(Duration::ZERO, |limit| {
            Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64)
        });
        let rest = for_hosts.max(whole.saturating_sub(took)).min(LONGEST_REST);
        let until = self.env.now() + rest;
        let changed = || task.wish() != Wish::Run || self.attention.is_closing();
        crate::signals::wait_or(&self.env, &task.changed, changed, until).await;
    }
}

/// The maximum size of the next window per drive, after a window of this duration. `hosts`: whether
/// hosts were active since it began.
fn next_window((moved, took): (ByteCount, Duration), hosts: bool) -> ByteCount {
    match () {
        // No window has been measured yet.
        () if moved.is_zero() => LEAST,
        () if !hosts => ByteCount(u64::MAX),
        () => {
            let in_time = u128::from(moved.0) * BESIDE_HOSTS.as_nanos() / took.as_nanos().max(1);
            ByteCount(u64::try_from(in_time).unwrap_or(u64::MAX)).clamp(LEAST, MOST_BESIDE_HOSTS)
        }
    }
}

/// Whether a window of a volume is saved and not moved yet.
pub(super) fn has_saved_window(volume: &Volume) -> bool {
    volume.label().reshape.is_some_and(|reshape| reshape.saved_bytes > 0)
}

/// Whether a window of a volume is saved, or was left closed by a failed step: hosts cannot use it
/// normally.
pub(super) fn wants_somebody(volume: &Volume) -> bool {
    has_saved_window(volume) || volume.is_left_closed()
}

/// The number of host requests of a volume.
fn requests(volume: &Volume) -> u64 {
    volume.meter().traffic.done().iter().map(|done| done.completed).sum()
}
