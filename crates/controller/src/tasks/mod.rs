//! Background tasks: rebuilds, copies, resyncs, checks, patrol reads.
//!
//! **Owns** the tasks, the schedules, and the steps on shards ([`TaskList`]; stored in
//! `tasks.json`).
//!
//! **Invariants.** A task's number is used once. A task is executed by one worker at a time. The
//! next step of a task is always derived from labels and volumes, never remembered.
//!
//! **Callers**: `reconcile` begins missing tasks, `policy` changes the pace, `commands` queries and
//! controls tasks. The module uses `arrays` to reach volumes and shards, and receives shards'
//! reports on its steps.
//!
//! # Responsibilities
//! Labels determine the work, not tasks: stale regions are rebuilt, a drive being filled is copied
//! to, unsynced regions are resynced. The *reconciler* (`reconcile/reconciler.rs`) checks all
//! arrays after each change, and begins missing tasks. A task interrupted by a restart or an
//! offline volume continues from the state in the labels.
//!
//! The state store (`tasks.json`) holds the tasks' numbers, operators' settings, the progress of
//! checks and patrol reads, and results. Losing it costs repeated work and history.
//!
//! | file | content |
//! | --- | --- |
//! | `task.rs` | a task: state and progress |
//! | `rate.rs` | throughput |
//! | `steps.rs` | one volume's part of a task, on all shards |
//! | `next.rs` | the next step of a task, derived from labels |
//! | `run.rs` | execution of a task, step by step |
//! | `store.rs` | persistence |
//! | `asked.rs`, `plans.rs` | operators' commands for tasks and schedules |
//! | `begin.rs` | automatic tasks |
//! | `due.rs`, `schedule.rs` | scheduled tasks |
//! | `patrol.rs` | patrol reads |
//! | `reshape.rs` | reshapes |
//! | `list.rs` | the list of tasks |

mod asked;
mod begin;
mod due;
mod list;
mod next;
mod patrol;
mod plans;
mod rate;
mod reshape;
mod run;
mod schedule;
mod steps;
mod store;
mod task;

pub(crate) use asked::check_share;
pub(crate) use list::TaskList;
pub(crate) use next::regions_bytes;
pub(crate) use task::About;

use crate::arrays::Arrays;
use crate::events::Events;
use crate::interface::{TaskInfo, TaskKind};
use crate::inventory::Inventory;
use crate::signals::Attention;
use platform::Env;
use std::rc::Rc;

/// The module's dependencies.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) arrays: Rc<Arrays>,
    pub(crate) attention: Rc<Attention>,
}

/// Background tasks and their workers.
pub(crate) struct Tasks {
    env: Env,
    events: Rc<Events>,
    inventory: Rc<Inventory>,
    arrays: Rc<Arrays>,
    attention: Rc<Attention>,
    list: Rc<TaskList>,
}

impl Tasks {
    pub(crate) fn new(env: &Env, list: Rc<TaskList>, needs: Needs) -> Rc<Tasks> {
        let Needs { events, inventory, arrays, attention } = needs;
        Rc::new(Tasks { env: env.clone(), events, inventory, arrays, attention, list })
    }

    /// For display: open tasks first, then ended tasks, newest first.
    pub(crate) fn infos(&self) -> Vec<TaskInfo> {
        self.list.infos()
    }

    /// Whether a task of that kind and subject exists or existed.
    pub(crate) fn is_known(&self, kind: TaskKind, about: &About) -> bool {
        self.list.newest(kind, about).is_some()
    }

    /// Starts the workers of all open tasks.
    pub(crate) fn take_all_in_hand(self: &Rc<Self>) {
        self.list.open().iter().for_each(|task| self.take_in_hand(task));
    }

    /// Loads the stored tasks: see [`TaskList::load`].
    pub(crate) async fn load(&self) {
        self.list.load().await;
    }

    /// Stores changes, until [`Tasks::close`].
    pub(crate) async fn write(&self) {
        self.list.write().await;
    }

    /// Ends the execution of tasks, waits until it has ended and all is stored, and ends the
    /// storing.
    pub(crate) async fn close(&self) {
        self.list.close().await;
    }
}
