//! The list of tasks and their records.

use super::steps::Step;
use super::store::{self, CheckPlan, PatrolPlan};
use super::task::{About, Names, Pace, Progress, Record, Task, Wish};
use crate::events::Events;
use crate::interface::{TaskInfo, TaskKind, TaskState};
use crate::signals::Attention;
use ondisk::Uuid;
use platform::Env;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The maximum number of ended tasks in the list ...
const MOST_ENDED: usize = 100;

/// ... and how long they stay.
const ENDED_FOR_S: u64 = 30 * 86_400;

/// The tasks of this controller.
pub(crate) struct TaskList {
    pub(super) env: Env,
    pub(super) attention: Rc<Attention>,
    pub(super) events: Rc<Events>,
    /// By number.
    pub(super) list: RefCell<BTreeMap<u64, Rc<Task>>>,
    pub(super) next: Cell<u64>,
    /// The steps that run on shards, by the number that shards know.
    pub(super) steps: RefCell<BTreeMap<u64, Rc<Step>>>,
    pub(super) next_step: Cell<u64>,
    pub(super) patrol: RefCell<PatrolPlan>,
    /// By the volume's UUID.
    pub(super) checks: RefCell<BTreeMap<Uuid, CheckPlan>>,
    pub(super) store: store::Store,
}

/// The parameters of a new task.
pub(crate) struct NewTask {
    pub kind: TaskKind,
    pub about: About,
    pub names: Names,
    pub cause: String,
    pub(super) pace: Pace,
    /// Whether an operator chose the pace.
    pub(super) own_pace: bool,
}

impl TaskList {
    pub(crate) fn new(env: &Env, attention: &Rc<Attention>, events: &Rc<Events>) -> Rc<TaskList> {
        Rc::new(TaskList {
            env: env.clone(),
            attention: attention.clone(),
            events: events.clone(),
            list: RefCell::default(),
            next: Cell::new(1),
            steps: RefCell::default(),
            next_step: Cell::new(1),
            patrol: RefCell::new(PatrolPlan::usual(env.unix_time())),
            checks: RefCell::default(),
            store: store::Store::new(env),
        })
    }

    /// Adds a task.
    pub(crate) fn add(&self, new: NewTask) -> Rc<Task> {
        let id = self.next.get();
        self.next.set(id + 1);
        let task = Rc::new(Task::new(Record {
            task: id,
            kind: new.kind,
            about: new.about,
            names: new.names,
            cause: new.cause,
            pace: new.pace,
            own_pace: new.own_pace,
            full: false,
            aim: None,
            wish: Wish::Run,
            state: TaskState::Waiting,
            reason: None,
            progress: Progress::default(),
            left: None,
            positions: BTreeMap::new(),
            blamed: BTreeMap::new(),
            started_unix_s: self.env.unix_time(),
            ended_unix_s: None,
        }));
        self.list.borrow_mut().insert(id, task.clone());
        self.touch();
        task
    }

    pub(crate) fn find(&self, id: u64) -> Option<Rc<Task>> {
        self.list.borrow().get(&id).cloned()
    }

    /// All tasks, by number.
    pub(crate) fn all(&self) -> Vec<Rc<Task>> {
        self.list.borrow().values().cloned().collect()
    }

    /// The tasks that have not ended.
    pub(crate) fn open(&self) -> Vec<Rc<Task>> {
        self.list.borrow().values().filter(|task| !task.is_over()).cloned().collect()
    }

    /// The newest task of that kind and subject.
    pub(super) fn newest(&self, kind: TaskKind, about: &About) -> Option<Rc<Task>> {
        let list = self.list.borrow();
        list.values().rev().find(|task| task.kind() == kind && task.about() == *about).cloned()
    }

    /// Whether a volume is hidden from hosts, because all of it is being zeroed.
    pub(crate) fn hides(&self, volume: Uuid) -> bool {
        let zeroes = |task: &Rc<Task>| {
            let record = task.record();
            record.kind == TaskKind::Init && record.full && record.about.volume == Some(volume)
        };
        self.open().iter().any(zeroes)
    }

    /// For display: open tasks first, then ended tasks, newest first.
    pub(crate) fn infos(&self) -> Vec<TaskInfo> {
        let now = self.env.now();
        let mut infos: Vec<TaskInfo> = self.all().iter().map(|task| task.info(now)).collect();
        infos.sort_by_key(|info| match info.state.is_over() {
            false => (false, info.task),
            true => (true, u64::MAX - info.task),
        });
        infos
    }

    /// Notifies of a change that must be stored, or that lets another task begin.
    pub(super) fn touch(&self) {
        self.forget_old();
        self.store.dirty.set(true);
        self.attention.notify();
    }

    /// Removes tasks that ended long ago, or exceed the limit.
    fn forget_old(&self) {
        let now = self.env.unix_time();
        let mut list = self.list.borrow_mut();
        let ended = list.values().filter(|task| task.is_over()).count();
        let mut too_many = ended.saturating_sub(MOST_ENDED);
        list.retain(|_, task| {
            let Some(at) = task.record().ended_unix_s else { return true };
            let goes = too_many > 0 || at.saturating_add(ENDED_FOR_S) < now;
            too_many = too_many.saturating_sub(usize::from(goes));
            !goes
        });
    }
}
