//! Background tasks: rebuilds, copies, resyncs, checks, patrols, as the controller keeps them.
//!
//! # Who decides what
//! That something has to be done is told by labels, not by tasks: stale regions are rebuilt, a drive that is being
//! filled is copied to, unsynced regions are resynced. The *tender* (`tend.rs`) looks at all arrays whenever something
//! changed, and begins what is missing; so a task that was interrupted, by a restart or because its volume was not
//! served for a while, is begun again where labels say that it stands.
//!
//! What is kept of tasks themselves (`tasks.json` in the state store) is their numbers, what operators wished of
//! them, how far checks and patrols are, and how they ended. Losing it costs work that is done again, and history.
//!
//! | where | what |
//! | --- | --- |
//! | `task.rs` | a task: how it stands, how far it is |
//! | `rate.rs` | how fast |
//! | `steps.rs` | one volume's part of a task, on all shards |
//! | `next.rs` | what a task has to do next, as labels tell |
//! | `run.rs` | carrying a task out, step by step |
//! | `store.rs` | what is kept over restarts |
//! | `asked.rs` | what operators ask for |
//! | `begin.rs` | what nobody asked for |

mod asked;
mod begin;
mod next;
pub(crate) mod patrol;
mod rate;
mod run;
pub(crate) mod schedule;
mod steps;
mod store;
mod task;

pub(crate) use asked::check_share;
pub(crate) use next::{Next, regions_bytes};
pub(crate) use steps::{Step, StepEnd, StepPlan};
pub(crate) use store::{CheckPlan, PatrolPlan};
pub(crate) use task::{About, Names, Pace, Progress, Record, Task, Wish};

use crate::{TaskInfo, TaskKind, TaskState};
use env::Env;
use env::sync::Signal;
use ondisk::Uuid;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Tasks that have ended stay listed, so many of them at most ...
const MOST_ENDED: usize = 100;

/// ... and so long.
const ENDED_FOR_S: u64 = 30 * 86_400;

/// The tasks of this controller.
pub(crate) struct Tasks {
    env: Env,
    /// By number.
    list: RefCell<BTreeMap<u64, Rc<Task>>>,
    next: Cell<u64>,
    /// What shards are busy with, by the number they know.
    steps: RefCell<BTreeMap<u64, Rc<Step>>>,
    next_step: Cell<u64>,
    pub(crate) patrol: RefCell<PatrolPlan>,
    /// By the volume's UUID.
    pub(crate) checks: RefCell<BTreeMap<Uuid, CheckPlan>>,
    /// Notified when there may be something to begin, or to store.
    pub(crate) changed: Signal,
    store: store::Store,
}

/// What a new task is to be.
pub(crate) struct NewTask {
    pub kind: TaskKind,
    pub about: About,
    pub names: Names,
    pub cause: String,
    pub pace: Pace,
    /// Whether an operator chose the pace.
    pub own_pace: bool,
}

impl Tasks {
    pub(crate) fn new(env: &Env) -> Tasks {
        Tasks {
            env: env.clone(),
            list: RefCell::default(),
            next: Cell::new(1),
            steps: RefCell::default(),
            next_step: Cell::new(1),
            patrol: RefCell::new(PatrolPlan::usual(env.unix_time())),
            checks: RefCell::default(),
            changed: Signal::default(),
            store: store::Store::default(),
        }
    }

    /// A task that is to begin.
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

    /// All of them, by number.
    pub(crate) fn all(&self) -> Vec<Rc<Task>> {
        self.list.borrow().values().cloned().collect()
    }

    /// Those that have not ended.
    pub(crate) fn open(&self) -> Vec<Rc<Task>> {
        self.list.borrow().values().filter(|task| !task.is_over()).cloned().collect()
    }

    /// The newest task of that kind about that.
    pub(crate) fn newest(&self, kind: TaskKind, about: &About) -> Option<Rc<Task>> {
        let list = self.list.borrow();
        list.values().rev().find(|task| task.kind() == kind && task.about() == *about).cloned()
    }

    /// Whether hosts may not see a volume: all of it is being zeroed.
    pub(crate) fn hides(&self, volume: Uuid) -> bool {
        let zeroes = |task: &Rc<Task>| {
            let record = task.record();
            record.kind == TaskKind::Init && record.full && record.about.volume == Some(volume)
        };
        self.open().iter().any(zeroes)
    }

    /// For people: those that go on first, then those that ended, the newest first.
    pub(crate) fn infos(&self) -> Vec<TaskInfo> {
        let now = self.env.now();
        let mut infos: Vec<TaskInfo> = self.all().iter().map(|task| task.info(now)).collect();
        infos.sort_by_key(|info| match info.state.is_over() {
            false => (false, info.task),
            true => (true, u64::MAX - info.task),
        });
        infos
    }

    /// Something changed that is to be stored, or that lets another task begin.
    pub(crate) fn touch(&self) {
        self.forget_old();
        self.store.dirty.set(true);
        self.changed.notify(&self.env);
    }

    /// Tasks that ended long ago, or before many others.
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
