//! A volume moved to another layout, window by window ([`engine::Mover`] has the order).
//!
//! Between two windows the task looks whether it is to go on: wishes, a resync that has to come first, hosts beside which it goes slower.
//! A window that is saved is moved before any of that: hosts that write there wait for it. When that cannot be done, they are told so.

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

/// The longest that the task stands back after a window.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// What of each drive is moved at a time at least, where rows allow so little: all drives take time to record that it is.
const LEAST: ByteCount = ByteCount(1 << 20);

/// The most beside hosts.
const MOST_BESIDE_HOSTS: ByteCount = ByteCount(8 << 20);

/// How long it is to take beside hosts: those that ask for the window wait for all of it, and others for what drives have to do for it.
const BESIDE_HOSTS: Duration = Duration::from_millis(100);

/// How often a window that is saved is tried in a row before hosts that write there are told that nobody goes on: what drives did not answer
/// is done without them the next time.
const MOST_TRIES: u32 = 3;

impl Tasks {
    /// The volume of an array that is on its way is moved on, and those that follow it after that.
    pub(crate) fn ensure_reshapes(self: &Rc<Self>, array: &Array, cause: &str) {
        if array.cut_off().is_some() {
            return; // It is taken back.
        }
        let begun = array.moves_now().filter(|volume| volume.is_on_its_way());
        for volume in begun.into_iter().chain(array.followers()) {
            let label = volume.label();
            let to = label.reshape.map(|of| of.to).or(label.follows.map(|of| of.to));
            let about = About { drive: to, ..About::of_volume(array.uuid, volume.uuid()) };
            self.ensure(array, TaskKind::Reshape, about.clone(), array.usable_bytes(&volume), cause);
            let task = self.list.newest(TaskKind::Reshape, &about).filter(|task| !task.is_over());
            // Whether it has come there may have to be told when nobody remembers that the way was taken back.
            if let (Some(task), Some(aim)) = (task, array.aim_of(&volume).map(|aim| Aim::of(&aim)))
                && task.record().aim.as_ref() != Some(&aim)
            {
                task.change(&self.env, |record| record.aim = Some(aim));
                self.list.touch();
            }
        }
    }

    /// The tasks that move volumes of the array of one that does.
    fn of_one_order(&self, task: &Task) -> Vec<Rc<Task>> {
        let is_other =
            |other: &Rc<Task>| other.kind() == TaskKind::Reshape && other.about().array == task.about().array;
        self.list.open().into_iter().filter(is_other).collect()
    }

    /// An operator stops a task. Volumes of one array move together, and what is to be taken back of one is taken back of all.
    pub(super) fn wish_stop(&self, task: &Rc<Task>) {
        let with = if task.kind() == TaskKind::Reshape { self.of_one_order(task) } else { Vec::new() };
        for other in with.iter().chain([task]) {
            other.wish_stop(&self.env);
        }
    }

    /// An operator has stopped a task. What it did of a move is taken back; nothing is to be taken back of any other.
    /// Whether it is stopped: otherwise it goes on.
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

    /// All of an order is taken back with the volume that leads. Whether it is: otherwise all of its tasks are as they were before the stop.
    async fn leave_order(&self, task: &Task, array: &Rc<Array>, leads: &Rc<Volume>) -> bool {
        let left = self.arrays.leave_reshape(array, leads).await;
        if let Err(error) = &left {
            self.of_one_order(task).iter().for_each(|task| self.goes_on_after_stop(task, &error.message));
        }
        self.attention.look_after();
        left.is_ok()
    }

    /// A task that an operator stopped cannot be taken back: it is as it was before that. Whoever stopped it was answered when that was not known, and hears of it.
    fn goes_on_after_stop(&self, task: &Task, why: &str) {
        if task.wish() != Wish::Stop {
            return;
        }
        task.wish_no_stop(&self.env);
        let (title, id) = (task.title(), task.id());
        let text = format!(
            "{title} was stopped by an operator, and goes on as it was before: {why}; to try it again, run 'softroc task stop {id}'"
        );
        let effect = format!("task {id} is not stopped");
        self.events.report(EventCode::TaskNotStopped, &task.event_subject(), why, &effect, text);
        self.list.touch();
    }

    /// What is ahead of a volume that follows others is taken back by the task of the one that leads, or is not. Where that task has failed, and rests
    /// before it is begun again, nobody else does it.
    async fn await_taken_back(&self, task: &Task, array: &Rc<Array>, volume: &Volume) -> bool {
        let is_decided = || {
            let goes_on = task.wish() != Wish::Stop || self.attention.is_closing();
            goes_on || volume.label().follows.is_none() || array.volume(volume.uuid()).is_none()
        };
        let Some(leads) = array.leads() else {
            // What it was followed to stays.
            self.goes_on_after_stop(task, "the volume that goes first has come to its layout, or is gone");
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

    /// Whether a task can be stopped: what has moved to another layout does not come back.
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
            true => "belongs to an order of which something has moved or is gone, which does not come back",
            false => "has moved a part of it, which does not come back",
        };
        let (title, id) = (task.title(), task.id());
        let sentence = format!("{title} {why}; to have it stand still, run 'softroc task pause {id}'");
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Moves a volume on until all of it is moved, or something else is to be done first.
    pub(super) async fn reshape(&self, task: &Rc<Task>, array: &Rc<Array>, volume: &Rc<Volume>) -> StepEnd {
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
                    // It was whole when it was looked at last: what is there is moved as anything else is.
                    () if matches!(step, Step::Keep(_)) && may_keep => {
                        (mover, may_keep) = (Mover::new(reshape, recorded), false);
                        continue;
                    }
                    () if !volume.is_served() || self.attention.is_closing() => return StepEnd::Interrupted,
                    () if !recorded.saved.is_zero() && tries < MOST_TRIES && volume.lost().is_empty() => {
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

    /// A step has failed, and nobody goes on before the next attempt: hosts do not wait for that.
    async fn leave_window(
        &self,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        (recorded, step): (Moved, Step),
        why: String,
    ) -> StepEnd {
        let left = match step {
            // The next attempt begins with this step as well.
            Step::Close(_) | Step::Save(_) | Step::Write { .. } | Step::Keep(_)
                if recorded.saved.is_zero() =>
            {
                self.arrays.reshape_step(array, volume, Step::Open(recorded.bytes)).await
            }
            // What the drives have of a record that failed, nobody knows: the window is whole by either, and stays as it is.
            Step::Record(moved) => {
                let is_saved = !recorded.saved.is_zero() || !moved.saved.is_zero();
                self.arrays.leave_window(volume, is_saved).await
            }
            _ => self.arrays.leave_window(volume, !recorded.saved.is_zero()).await,
        };
        StepEnd::Failed(left.err().map_or(why.clone(), |more| format!("{why}; {more}")))
    }

    /// A window that is saved is moved, and one that a step that failed has left closed is opened, also by a task that stands still otherwise.
    /// Why it could not be: a sentence.
    pub(super) async fn finish_window(&self, task: &Rc<Task>) -> Option<String> {
        let (array, volume) = self.window_to_finish(task)?;
        match self.reshape(task, &array, &volume).await {
            StepEnd::Failed(why) => Some(why),
            StepEnd::Interrupted => Some("the volume went away under it; it is tried again".to_owned()),
            StepEnd::Done | StepEnd::Stopped => None,
        }
    }

    /// The volume of a task that has a window for which hosts wait, or to which they cannot write, until somebody goes on with it.
    pub(super) fn window_to_finish(&self, task: &Task) -> Option<(Rc<Array>, Rc<Volume>)> {
        let about = task.about();
        let array = about
            .array
            .and_then(|uuid| self.arrays.get(uuid))
            .filter(|_| task.kind() == TaskKind::Reshape)?;
        let volume = about.volume.and_then(|uuid| array.volume(uuid))?;
        (volume.is_served() && wants_somebody(&volume)).then_some((array, volume))
    }

    /// All is moved: fills what follows it, and has the volume come to its layout.
    async fn fill_and_end(&self, task: &Rc<Task>, array: &Rc<Array>, volume: &Rc<Volume>) -> StepEnd {
        let (name, from, moved) = (volume.name(), volume.geometry, array.usable_bytes(volume));
        loop {
            let (began, asked) = (self.env.now(), requests(volume));
            let before = task.progress().done_bytes;
            let (filled, goal) = match self.arrays.fill_some(array, volume).await {
                Ok(filled) => filled,
                Err(_) if !volume.is_served() || self.attention.is_closing() => return StepEnd::Interrupted,
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
        let text = format!("'{name}' has come to its new layout: {to}, which was {from}");
        let effect = "hosts see its size when they connect again, and disks of this machine as docs/operate/attach.md says";
        self.events.report(EventCode::VolumeReshaped, name, "all of it is moved", effect, text);
        StepEnd::Done
    }

    /// Stands back after a window that took so long for so many bytes: for hosts, if they asked for anything, and for a limit.
    async fn stand_back(&self, task: &Task, (began, bytes): (platform::Instant, u64), hosts: bool) {
        let (took, pace) = (self.env.now().since(began), task.pace());
        let share = u32::from(pace.share_percent.clamp(1, 100));
        let for_hosts = if hosts { took * (100 - share) / share } else { Duration::ZERO };
        let whole = pace
            .limit_bytes_per_s
            .map_or(Duration::ZERO, |limit| Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64));
        let rest = for_hosts.max(whole.saturating_sub(took)).min(LONGEST_REST);
        let until = self.env.now() + rest;
        let changed = || task.wish() != Wish::Run || self.attention.is_closing();
        crate::signals::wait_or(&self.env, &task.changed, changed, until).await;
    }
}

/// What of each drive is moved next at most, after a window that took so long. `hosts`: whether hosts have asked for anything since it began.
fn next_window((moved, took): (ByteCount, Duration), hosts: bool) -> ByteCount {
    match () {
        // Nobody knows yet.
        () if moved.is_zero() => LEAST,
        () if !hosts => ByteCount(u64::MAX),
        () => {
            let in_time = u128::from(moved.0) * BESIDE_HOSTS.as_nanos() / took.as_nanos().max(1);
            ByteCount(u64::try_from(in_time).unwrap_or(u64::MAX)).clamp(LEAST, MOST_BESIDE_HOSTS)
        }
    }
}

/// Whether a window of a volume is saved, and not moved yet.
pub(super) fn has_saved_window(volume: &Volume) -> bool {
    volume.label().reshape.is_some_and(|reshape| reshape.saved_bytes > 0)
}

/// Whether a window of a volume is saved, or left closed by a step that failed: hosts cannot use it as any other.
pub(super) fn wants_somebody(volume: &Volume) -> bool {
    has_saved_window(volume) || volume.is_left_closed()
}

/// How many requests hosts have made of a volume.
fn requests(volume: &Volume) -> u64 {
    volume.meter().traffic.done().iter().map(|done| done.completed).sum()
}
