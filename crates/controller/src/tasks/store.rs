//! Persistence of tasks and schedules: `tasks.json` in the state store.

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

/// The file of tasks and schedules.
const FILE: StateFile<Kept> = StateFile::json("tasks.json", "the list of tasks and schedules");

/// The minimum delay between two stores.
const PAUSE: Duration = Duration::from_secs(2);

/// The delay before a failed store is retried.
const STORE_AGAIN: Duration = Duration::from_secs(20);

/// The schedule of the patrol read over all drives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatrolPlan {
    pub schedule: Schedule,
    pub share_percent: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// The schedule of a volume's check.
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

/// A time at night.
const TWO_O_CLOCK_S: u32 = 2 * 3600;

/// The default share of a patrol read.
const PATROL_SHARE_PERCENT: u8 = 30;

impl PatrolPlan {
    /// The default: every week.
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
    /// The default: off; every four weeks once it is switched on.
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
    /// No task is running any more: the next store is the last.
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

/// The file content.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The number of the next task; numbers are not reused.
    next: u64,
    tasks: Vec<Record>,
    patrol: PatrolPlan,
    checks: BTreeMap<Uuid, CheckPlan>,
}

impl TaskList {
    /// Loads the stored tasks and schedules.
    pub(crate) async fn load(&self) {
        let lost = "checks and patrols have their default schedules, tasks recorded in labels \
            restart, and task numbers start at 1";
        let Some(kept) = self.events.load_state(&FILE, lost).await.value else { return };
        let after = kept.tasks.iter().map(|record| record.task + 1).max().unwrap_or(1);
        self.next.set(kept.next.max(after));
        *self.patrol.borrow_mut() = kept.patrol;
        *self.checks.borrow_mut() = kept.checks;
        let begun = kept.tasks.into_iter().map(|mut record| {
            if !record.state.is_over() {
                // Its worker ended with the process: the reconciler starts a new one.
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

    /// Stores changes, until [`TaskList::close`].
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
                // No further attempt follows at shutdown.
                self.store.dirty.set(false);
            }
            self.store.writing.set(false);
            self.attention.notify();
            let pause = self.env.now() + if stored.is_ok() { PAUSE } else { STORE_AGAIN };
            wait_or(&self.env, self.attention.changed(), || self.attention.is_closing(), pause)
                .await;
        }
    }

    /// Stores everything.
    ///
    /// # Errors
    /// If the store fails; it is retried later.
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
    /// If the store fails; the schedules are unchanged.
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

    /// Marks the progress of tasks for the next store; the reconciler is not notified.
    pub(super) fn checkpoint(&self) {
        self.store.dirty.set(true);
        self.attention.notify();
    }

    /// Ends the execution of tasks, waits until it has ended and all is stored, and ends the
    /// storing.
    pub(crate) async fn close(&self) {
        self.attention.close();
        self.all().iter().for_each(|task| task.changed.notify(&self.env));
        // Repairs within a patrol read are not in the list.
        self.steps.borrow().values().for_each(|step| step.task.changed.notify(&self.env));
        let in_hand = || self.all().iter().any(|task| task.in_hand.get());
        self.attention.changed().wait_until(&self.env, || !in_hand()).await;
        // Only now: a task that ends notifies the storing task, which must still run.
        self.store.ending.set(true);
        self.checkpoint();
        let stored = || !self.store.dirty.get() && !self.store.writing.get();
        self.attention.changed().wait_until(&self.env, stored).await;
    }
}
