//! Commands of operators: start, pause, resume, stop and pace tasks; schedules.

use super::list::NewTask;
use super::task::{About, Names, Pace, Task, Wish};
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{
    Error, ErrorKind, Reply, Result, SetTask, StartTask, Startable, TaskKind, TaskState,
};
use crate::tasks::Tasks;
use std::rc::Rc;
use units::counted;

/// The cause of tasks that an operator started.
const OPERATOR: &str = "an operator started it";

pub(super) fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

pub(super) fn invalid(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, sentence)
}

/// Checks that a share is within its limits.
///
/// # Errors
/// If it is not.
pub(crate) fn check_share(percent: Option<u8>) -> Result<()> {
    match percent {
        Some(percent) if !(1..=100).contains(&percent) => {
            Err(invalid(format!("a rate of {percent} % is not possible; choose 1 to 100 percent")))
        }
        _ => Ok(()),
    }
}

impl Tasks {
    pub(crate) fn find_task(&self, task: u64) -> Result<Rc<Task>> {
        self.list.find(task).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("there is no task {task}; 'softroc task list' lists them"),
            )
        })
    }

    pub(crate) fn task_reply(&self, task: &Task, notes: Vec<String>) -> Reply {
        Reply::Task { task: Box::new(task.info(self.env.now())), notes }
    }

    /// Executes a command about tasks, and replies once it is stored. If nothing can be stored, the
    /// command is refused and nothing changes.
    pub(crate) async fn stored(&self, order: impl FnOnce() -> Result<Reply>) -> Result<Reply> {
        self.list.store_now().await?;
        let reply = order()?;
        self.list.store_now().await.map(|()| reply)
    }

    /// The same for a command that pauses work, which takes effect at once. If it cannot be stored,
    /// the reply says how long it lasts.
    pub(crate) async fn stored_after(
        &self,
        order: impl FnOnce() -> Result<Reply>,
    ) -> Result<Reply> {
        let reply = order()?;
        let lasting = self.list.store_now().await;
        lasting.map(|()| reply).map_err(|error| {
            let sentence = format!(
                "the task waits until the controller restarts, and then continues: {}",
                error.message
            );
            Error::new(error.kind, sentence)
        })
    }

    /// `task start`.
    pub(crate) fn start_task(&self, start: &StartTask) -> Result<Reply> {
        check_share(start.share_percent)?;
        if start.disconnect_hosts && !start.what.is_init() {
            return Err(invalid(
                "only an initialisation disconnects hosts; leave 'disconnect_hosts' out",
            ));
        }
        let task = match start.what {
            Startable::Check | Startable::Repair => self.start_check(start)?,
            Startable::InitFull | Startable::InitFast => self.new_init(start)?,
            Startable::Patrol => self.start_patrol(start)?,
            Startable::Rebuild => self.start_rebuild(start)?,
        };
        self.list.touch();
        self.attention.look_after();
        Ok(self.task_reply(&task, Vec::new()))
    }

    fn start_check(&self, start: &StartTask) -> Result<Rc<Task>> {
        let Some(name) = &start.volume else {
            return Err(invalid("a check needs a volume; name it"));
        };
        if !start.drives.is_empty() {
            return Err(invalid("a check is for a volume, not for drives; leave them out"));
        }
        let (array, volume) = self.arrays.find_volume(name)?;
        let kind = if start.what == Startable::Repair { TaskKind::Repair } else { TaskKind::Check };
        let pace = Pace {
            share_percent: start.share_percent.unwrap_or(array.label().policy.task_share_percent),
            limit_bytes_per_s: start.limit_bytes_per_s.filter(|limit| *limit > 0),
        };
        self.new_check(&array, &volume, kind, pace, start.share_percent.is_some(), OPERATOR)
    }

    /// Creates a check of a volume.
    ///
    /// # Errors
    /// When the volume has no redundancy, or a check is running.
    pub(super) fn new_check(
        &self,
        array: &Array,
        volume: &Volume,
        kind: TaskKind,
        pace: Pace,
        own_pace: bool,
        cause: &str,
    ) -> Result<Rc<Task>> {
        let name = volume.name();
        if !volume.is_redundant() {
            return Err(wrong(format!(
                "'{name}' is {}: it has no redundancy to check",
                volume.label().level.title()
            )));
        }
        let about = About::of_volume(array.uuid, volume.uuid());
        let open = |kind| self.list.newest(kind, &about).filter(|task| !task.is_over());
        if let Some(task) = open(TaskKind::Check).or_else(|| open(TaskKind::Repair)) {
            return Err(wrong(format!(
                "{} is {} already, as task {}; first run 'softroc task stop {}'",
                task.title(),
                task.state(),
                task.id(),
                task.id()
            )));
        }
        let names = Names { subject: format!("'{name}'"), volume: Some(name), drive: None };
        let task =
            self.list.add(NewTask { kind, about, names, cause: cause.to_owned(), pace, own_pace });
        let regions = volume.regions().len() as u32;
        task.change(&self.env, |record| {
            record.progress.total_bytes = volume.label().capacity_bytes;
            record.left = Some(vec![[0, regions]]);
        });
        self.report_begun(&task);
        Ok(task)
    }

    /// `task start init`: refused while hosts use the volume, unless they may be disconnected.
    pub(crate) async fn start_init(&self, start: &StartTask) -> Result<Reply> {
        check_share(start.share_percent)?;
        let (array, volume) = self.volume_to_zero(start)?;
        let is_full = start.what == Startable::InitFull;
        if !start.disconnect_hosts {
            let (name, how) = (volume.name(), if is_full { "full" } else { "fast" });
            let insisting = format!("softroc task start init {name} --{how} --disconnect-hosts");
            self.arrays.check_unused(&volume, &insisting).await?;
        } else if !is_full {
            // A volume that is zeroed as a whole is hidden from hosts anyway.
            self.arrays.disconnect(&array, &volume).await?;
        }
        self.stored(|| self.start_task(start)).await
    }

    /// The volume of an initialisation.
    ///
    /// # Errors
    /// When none is named, or another task of the volume has to end first.
    fn volume_to_zero(&self, start: &StartTask) -> Result<(Rc<Array>, Rc<Volume>)> {
        let Some(name) = &start.volume else {
            return Err(invalid("an initialisation needs a volume; name it"));
        };
        if !start.drives.is_empty() {
            return Err(invalid(
                "an initialisation is for a volume, not for drives; leave them out",
            ));
        }
        let (array, volume) = self.arrays.find_volume(name)?;
        let about = About::of_volume(array.uuid, volume.uuid());
        let open = |task: &Rc<Task>| {
            !task.is_over() && task.about() == about && task.kind() != TaskKind::Resync
        };
        if let Some(task) = self.list.all().into_iter().find(open) {
            return Err(wrong(format!("{} (task {}) must end first", task.title(), task.id())));
        }
        Ok((array, volume))
    }

    fn new_init(&self, start: &StartTask) -> Result<Rc<Task>> {
        let (array, volume) = self.volume_to_zero(start)?;
        let about = About::of_volume(array.uuid, volume.uuid());
        let name = volume.name();
        let task = self.list.add(NewTask {
            kind: TaskKind::Init,
            about,
            names: Names { subject: format!("'{name}'"), volume: Some(name), drive: None },
            cause: OPERATOR.to_owned(),
            pace: Pace {
                share_percent: start
                    .share_percent
                    .unwrap_or(array.label().policy.task_share_percent),
                limit_bytes_per_s: start.limit_bytes_per_s.filter(|limit| *limit > 0),
            },
            own_pace: start.share_percent.is_some(),
        });
        let regions = volume.regions().len() as u32;
        task.change(&self.env, |record| {
            record.full = start.what == Startable::InitFull;
            record.progress.total_bytes = volume.label().capacity_bytes;
            record.left = Some(vec![[0, regions]]);
        });
        self.report_begun(&task);
        Ok(task)
    }

    fn start_patrol(&self, start: &StartTask) -> Result<Rc<Task>> {
        if start.volume.is_some() {
            return Err(invalid(
                "a patrol read is for drives, not for a volume; name drives, or none for all",
            ));
        }
        let plan = self.list.patrol.borrow().clone();
        let pace = Pace {
            share_percent: start.share_percent.unwrap_or(plan.share_percent),
            limit_bytes_per_s: start
                .limit_bytes_per_s
                .or(plan.limit_bytes_per_s)
                .filter(|limit| *limit > 0),
        };
        self.new_patrol(&start.drives, pace, OPERATOR)
    }

    /// Creates a patrol read of these drives; of all if none are named.
    ///
    /// # Errors
    /// When there are no drives, a name is unknown, or a patrol read is running.
    pub(super) fn new_patrol(
        &self,
        drives: &[String],
        pace: Pace,
        cause: &str,
    ) -> Result<Rc<Task>> {
        let open = self.list.open().into_iter().find(|task| task.kind() == TaskKind::Patrol);
        if let Some(task) = open {
            return Err(wrong(format!(
                "{} is {} already, as task {}; first run 'softroc task stop {}'",
                task.title(),
                task.state(),
                task.id(),
                task.id()
            )));
        }
        let mut chosen = Vec::new();
        for name in drives {
            let drive = self.arrays.find_drive(name)?;
            if !drive.has_medium() {
                let sentence = format!(
                    "drive {name} has no medium to read, or cannot be opened; leave it out"
                );
                return Err(wrong(sentence));
            }
            chosen.push(drive);
        }
        if drives.is_empty() {
            chosen = self.inventory.patrolled();
        }
        if chosen.is_empty() {
            return Err(wrong(
                "there are no drives with a medium to read; first run 'softroc drive add'",
            ));
        }
        let size = |drive: &Rc<crate::inventory::Drive>| {
            drive.access().map_or(0, |access| access.info().size.0)
        };
        let total: u64 = chosen.iter().map(size).sum();
        let subject = match chosen.as_slice() {
            [drive] => format!("drive {}", drive.name),
            several => format!("{} drives", several.len()),
        };
        let drive = (chosen.len() == 1).then(|| chosen[0].name.clone());
        let names = Names { subject, volume: None, drive };
        let task = self.list.add(NewTask {
            kind: TaskKind::Patrol,
            about: About::default(),
            names,
            cause: cause.to_owned(),
            pace,
            own_pace: true,
        });
        task.change(&self.env, |record| {
            record.progress.total_bytes = total;
            record.positions = chosen.iter().map(|drive| (drive.name.clone(), 0)).collect();
        });
        self.report_begun(&task);
        Ok(task)
    }

    fn start_rebuild(&self, start: &StartTask) -> Result<Rc<Task>> {
        let [drive] = start.drives.as_slice() else {
            return Err(invalid("a rebuild needs a drive; give VOLUME:SLOT or its path"));
        };
        let found = self.arrays.find_drive(drive)?;
        let newest = self.list.all().into_iter().rev().find(|task| {
            let names = task.record().names;
            matches!(task.kind(), TaskKind::Rebuild | TaskKind::Copyback | TaskKind::Replace)
                && names.drive.as_ref() == Some(&found.name)
        });
        let Some(task) = newest else {
            return Err(wrong(format!(
                "drive {drive} needs no rebuild; to use a drive again, run 'softroc drive online', \
                to replace it, run 'softroc drive replace'"
            )));
        };
        if !task.is_over() {
            return Err(wrong(format!(
                "{} is {} already, as task {}",
                task.title(),
                task.state(),
                task.id()
            )));
        }
        self.reopen(&task)?;
        if start.share_percent.is_some() || start.limit_bytes_per_s.is_some() {
            self.set_pace(&task, start.share_percent, start.limit_bytes_per_s);
        }
        Ok(task)
    }

    /// Continues a stopped or failed task.
    pub(super) fn reopen(&self, task: &Rc<Task>) -> Result<()> {
        let (title, id) = (task.title(), task.id());
        if task.state() == TaskState::Done {
            return Err(wrong(format!("{title} (task {id}) is done; start a new one")));
        }
        if let Some(other) =
            self.list.newest(task.kind(), &task.about()).filter(|other| !other.is_over())
        {
            return Err(wrong(format!("{title} is running already, as task {}", other.id())));
        }
        task.gave_up.set(None);
        task.change(&self.env, |record| {
            (record.wish, record.state, record.reason) = (Wish::Run, TaskState::Waiting, None);
            record.ended_unix_s = None;
        });
        Ok(())
    }

    /// Finds a task that an operator can control.
    ///
    /// # Errors
    /// If there is none of that number, or it is automatic.
    fn find_steered(&self, id: u64) -> Result<Rc<Task>> {
        let task = self.find_task(id)?;
        match task.kind() {
            TaskKind::Resync => Err(wrong(format!(
                "{} (task {id}) cannot be paused, stopped or paced: {}",
                task.title(),
                self.why_resync(&task)
            ))),
            _ => Ok(task),
        }
    }

    /// What depends on a resync.
    fn why_resync(&self, task: &Task) -> String {
        let About { array, volume, .. } = task.about();
        let array = self.arrays.all().into_iter().find(|of| Some(of.uuid) == array);
        let found = array.and_then(|array| Some((array.volume(volume?)?, array)));
        let Some((volume, array)) = found else {
            return "redundancy is incomplete until its end".to_owned();
        };
        match array.tolerance(&volume).more().at_least.0 {
            0 => format!(
                "until the task ends, the failure of a drive of '{}' loses data",
                volume.name()
            ),
            more => format!(
                "until the task ends, redundancy of '{}' is incomplete: it survives {} now",
                volume.name(),
                counted(more, "more drive")
            ),
        }
    }

    /// `task pause`.
    pub(crate) fn pause_task(&self, id: u64) -> Result<Reply> {
        let task = self.find_steered(id)?;
        let title = task.title();
        match (task.is_over(), task.wish()) {
            (true, _) => {
                return Err(wrong(format!(
                    "{title} (task {id}) has ended; it is {}",
                    task.state()
                )));
            }
            (false, Wish::Pause) => {
                return Err(wrong(format!("{title} (task {id}) is paused already")));
            }
            (false, _) => {}
        }
        task.change(&self.env, |record| {
            (record.wish, record.state, record.reason) = (Wish::Pause, TaskState::Paused, None);
        });
        let text = format!(
            "{title} was paused by an operator; to continue, run 'softroc task resume {id}'"
        );
        self.steered(
            EventCode::TaskPaused,
            &task,
            "an operator paused it",
            &format!("task {id} is paused"),
            text,
        )
    }

    /// `task resume`.
    pub(crate) fn resume_task(&self, id: u64) -> Result<Reply> {
        let task = self.find_task(id)?;
        let title = task.title();
        if task.is_over() {
            self.reopen(&task)?;
        } else if task.wish() == Wish::Run {
            return Err(wrong(format!(
                "{title} (task {id}) is {}; there is nothing to resume",
                task.state()
            )));
        } else {
            let state = if task.in_step.get() { TaskState::Running } else { TaskState::Waiting };
            task.change(&self.env, |record| (record.wish, record.state) = (Wish::Run, state));
        }
        let text = format!("an operator resumed {title}");
        self.steered(
            EventCode::TaskResumed,
            &task,
            "an operator resumed it",
            &format!("task {id} continues"),
            text,
        )
    }

    /// Reports that a task pauses or continues, and notifies the reconciler.
    fn steered(
        &self,
        code: EventCode,
        task: &Task,
        cause: &str,
        effect: &str,
        text: String,
    ) -> Result<Reply> {
        self.events.report(code, &task.event_subject(), cause, effect, text);
        self.attention.look_after();
        self.changed(task, Vec::new())
    }

    /// The reply to a change of a task: its new state.
    fn changed(&self, task: &Task, notes: Vec<String>) -> Result<Reply> {
        self.list.touch();
        Ok(self.task_reply(task, notes))
    }

    /// `task stop`.
    pub(crate) fn stop_task(&self, id: u64) -> Result<Reply> {
        let task = self.find_steered(id)?;
        if task.is_over() {
            return Err(wrong(format!(
                "{} (task {id}) has ended; it is {}",
                task.title(),
                task.state()
            )));
        }
        self.check_can_stop(&task)?;
        let mut notes = Vec::new();
        match task.kind() {
            TaskKind::Rebuild | TaskKind::Relocate => notes.push(format!(
                "redundancy is reduced while the task is stopped; to continue, run 'softroc task \
                 resume {id}'"
            )),
            TaskKind::Copyback | TaskKind::Replace => {
                notes.push(format!(
                    "the old drive stays online; to continue, run 'softroc task resume {id}'"
                ));
            }
            _ => {}
        }
        self.wish_stop(&task);
        if !task.in_hand.get() {
            self.end_task(&task, TaskState::Stopped, None);
        }
        self.changed(&task, notes)
    }

    /// `task set`.
    pub(crate) fn set_task(&self, set: &SetTask) -> Result<Reply> {
        check_share(set.share_percent)?;
        let task = self.find_steered(set.task)?;
        if task.is_over() {
            return Err(wrong(format!("{} (task {}) has ended", task.title(), set.task)));
        }
        if set.share_percent.is_none() && set.limit_bytes_per_s.is_none() {
            return Err(invalid("there is nothing to change; use --rate or --limit"));
        }
        self.set_pace(&task, set.share_percent, set.limit_bytes_per_s);
        self.changed(&task, Vec::new())
    }

    fn set_pace(&self, task: &Task, share_percent: Option<u8>, limit_bytes_per_s: Option<u64>) {
        task.change(&self.env, |record| {
            record.own_pace |= share_percent.is_some();
            record.pace.share_percent = share_percent.unwrap_or(record.pace.share_percent);
            if let Some(limit) = limit_bytes_per_s {
                record.pace.limit_bytes_per_s = (limit > 0).then_some(limit);
            }
        });
    }

    /// Reports that a task has begun, with its cause.
    pub(super) fn report_begun(&self, task: &Task) {
        let (title, cause) = (task.title(), task.record().cause);
        let text = format!("{title} begins, as task {}: {cause}", task.id());
        self.events.report(
            EventCode::TaskBegun,
            &task.event_subject(),
            &cause,
            &format!("{title} begins"),
            text,
        );
    }
}
