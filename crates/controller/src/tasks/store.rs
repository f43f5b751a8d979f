//! What is kept of tasks and schedules over restarts: `tasks.json` in the state store.

use super::list::TaskList;
use super::task::{Record, Task, Wish};
use crate::interface::{Result, TaskState};
use crate::signals::wait_or;
use crate::statefile::StateFile;
use crate::tasks::schedule::Schedule;
use ondisk::Uuid;
use platform::Env;
use platform::sync::Credits;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Where it is kept.
const FILE: StateFile<Kept> = StateFile::json("tasks.json", "the list of tasks and schedules");

/// No more often than this.
const PAUSE: Duration = Duration::from_secs(2);

/// How long until what could not be stored is stored again.
const STORE_AGAIN: Duration = Duration::from_secs(20);

/// The patrol over all drives, as scheduled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatrolPlan {
    pub schedule: Schedule,
    pub share_percent: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// The check of a volume, as scheduled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckPlan {
    pub schedule: Schedule,
    pub repair: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// At night, in much of the world.
const TWO_O_CLOCK_S: u32 = 2 * 3600;

/// The usual share of a patrol.
const PATROL_SHARE_PERCENT: u8 = 30;

impl PatrolPlan {
    /// Unless told otherwise: every week.
    pub(super) fn usual(now_unix_s: u64) -> PatrolPlan {
        let schedule = Schedule {
            on: true,
            every_days: 7,
            at_s: TWO_O_CLOCK_S,
            set_unix_s: now_unix_s,
            last_unix_s: None,
        };
        PatrolPlan { schedule, share_percent: PATROL_SHARE_PERCENT, limit_bytes_per_s: None }
    }
}

impl CheckPlan {
    /// Unless told otherwise: never; and every four weeks once it is switched on.
    pub(super) fn usual(now_unix_s: u64) -> CheckPlan {
        let schedule = Schedule {
            on: false,
            every_days: 28,
            at_s: TWO_O_CLOCK_S,
            set_unix_s: now_unix_s,
            last_unix_s: None,
        };
        CheckPlan { schedule, repair: false, share_percent: None, limit_bytes_per_s: None }
    }
}

/// The state of storing.
pub(super) struct Store {
    pub dirty: Cell<bool>,
    writing: Cell<bool>,
    /// Nothing is under way any more either: what is dirty now is the last to be stored.
    ending: Cell<bool>,
    /// The lock of the file: an older list must not be stored over a newer one.
    lock: Credits,
}

impl Store {
    pub(super) fn new(env: &Env) -> Store {
        let lock = Credits::new(env, 1);
        Store { dirty: Cell::default(), writing: Cell::default(), ending: Cell::default(), lock }
    }
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The number of the next task: none is used twice.
    next: u64,
    tasks: Vec<Record>,
    patrol: PatrolPlan,
    checks: BTreeMap<Uuid, CheckPlan>,
}

impl TaskList {
    /// Takes in what was kept.
    pub(crate) async fn load(&self) {
        let lost = "checks and patrols are scheduled as at first, tasks that labels know begin again, and tasks are numbered anew";
        let Some(kept) = self.events.load_state(&FILE, lost).await.value else { return };
        let after = kept.tasks.iter().map(|record| record.task + 1).max().unwrap_or(1);
        self.next.set(kept.next.max(after));
        *self.patrol.borrow_mut() = kept.patrol;
        *self.checks.borrow_mut() = kept.checks;
        let begun = kept.tasks.into_iter().map(|mut record| {
            if !record.state.is_over() {
                // Whoever did it is gone with the process: the reconciler takes it up again.
                record.state = match record.wish {
                    Wish::Pause => TaskState::Paused,
                    Wish::Run | Wish::Stop => TaskState::Waiting,
                };
                record.reason = None;
            }
            (record.task, Rc::new(Task::new(record)))
        });
        self.list.borrow_mut().extend(begun);
    }

    fn kept(&self) -> Kept {
        Kept {
            next: self.next.get(),
            tasks: self.all().iter().map(|task| task.record()).collect(),
            patrol: self.patrol.borrow().clone(),
            checks: self.checks.borrow().clone(),
        }
    }

    /// Stores what changes, until [`TaskList::close`].
    pub(crate) async fn write(&self) {
        loop {
            let waiting = || self.store.dirty.get() || self.store.ending.get();
            self.attention.changed().wait_until(&self.env, waiting).await;
            if !self.store.dirty.replace(false) {
                return;
            }
            self.store.writing.set(true);
            let stored = self.store_now().await;
            if stored.is_err() && self.store.ending.get() {
                // There is nobody left who would try again.
                self.store.dirty.set(false);
            }
            self.store.writing.set(false);
            self.attention.notify();
            let pause = self.env.now() + if stored.is_ok() { PAUSE } else { STORE_AGAIN };
            wait_or(&self.env, self.attention.changed(), || self.attention.is_closing(), pause).await;
        }
    }

    /// Stores all there is.
    ///
    /// # Errors
    /// When that cannot be stored: then it is tried again.
    pub(super) async fn store_now(&self) -> Result<()> {
        let _lock = self.store.lock.take(1).await;
        self.store.dirty.set(false);
        let stored = self.events.store_state(&FILE, &self.kept()).await;
        if stored.is_err() {
            self.store.dirty.set(true);
        }
        stored
    }

    /// Changes schedules: durable first, then in effect.
    ///
    /// # Errors
    /// When that cannot be stored: then they are as before.
    pub(super) async fn change_plans(
        &self,
        change: impl Fn(&mut PatrolPlan, &mut BTreeMap<Uuid, CheckPlan>),
    ) -> Result<()> {
        let _lock = self.store.lock.take(1).await;
        let mut next = self.kept();
        change(&mut next.patrol, &mut next.checks);
        self.events.store_state(&FILE, &next).await?;
        change(&mut self.patrol.borrow_mut(), &mut self.checks.borrow_mut());
        Ok(())
    }

    /// How far tasks are is worth storing, without anybody having to look.
    pub(super) fn checkpoint(&self) {
        self.store.dirty.set(true);
        self.attention.notify();
    }

    /// Ends the carrying out of tasks, waits until it has ended and everything is stored, and ends the storing.
    pub(crate) async fn close(&self) {
        self.attention.close();
        self.all().iter().for_each(|task| task.changed.notify(&self.env));
        // A part of a task is none of them.
        self.steps.borrow().values().for_each(|step| step.task.changed.notify(&self.env));
        let in_hand = || self.all().iter().any(|task| task.in_hand.get());
        self.attention.changed().wait_until(&self.env, || !in_hand()).await;
        // Only now: a task that ends tells so, and who stores has to be there to hear it.
        self.store.ending.set(true);
        self.checkpoint();
        let stored = || !self.store.dirty.get() && !self.store.writing.get();
        self.attention.changed().wait_until(&self.env, stored).await;
    }
}
