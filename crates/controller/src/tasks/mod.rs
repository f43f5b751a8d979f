//! The room of background tasks: rebuilds, copies, resyncs, checks, patrols.
//!
//! **Owns** the tasks, the schedules, and what shards are busy with ([`TaskList`]; over restarts `tasks.json`).
//!
//! **Invariants.** A task's number is used once. A task is carried out by one worker at a time. What a task has to
//! do next is read from labels and volumes every time, never remembered.
//!
//! **Who may call it**: `reconcile` begins what is missing, `policy` changes the pace, `commands` asks and steers. It
//! uses `arrays` to reach volumes and shards, and takes what shards report of its steps.
//!
//! # Who decides what
//! That something has to be done is told by labels, not by tasks: stale regions are rebuilt, a drive that is being
//! filled is copied to, unsynced regions are resynced. The *reconciler* (`reconcile/reconciler.rs`) looks at all arrays whenever something
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
//! | `asked.rs`, `plans.rs` | what operators ask for: of tasks, of schedules |
//! | `begin.rs` | what nobody asked for |
//! | `due.rs`, `schedule.rs` | what is due by its schedule |
//! | `patrol.rs` | drives read from end to end |
//! | `reshape.rs` | volumes moved to another layout |
//! | `list.rs` | the tasks that there are |

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

/// What the room needs of others.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) arrays: Rc<Arrays>,
    pub(crate) attention: Rc<Attention>,
}

/// Background tasks, and who carries them out.
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

    /// For people: those that go on first, then those that ended, the newest first.
    pub(crate) fn infos(&self) -> Vec<TaskInfo> {
        self.list.infos()
    }

    /// Whether there has been a task of that kind about that.
    pub(crate) fn is_known(&self, kind: TaskKind, about: &About) -> bool {
        self.list.newest(kind, about).is_some()
    }

    /// Has all tasks that have not ended carried out.
    pub(crate) fn take_all_in_hand(self: &Rc<Self>) {
        self.list.open().iter().for_each(|task| self.take_in_hand(task));
    }

    /// Takes in what was kept: see [`TaskList::load`].
    pub(crate) async fn load(&self) {
        self.list.load().await;
    }

    /// Stores what changes, until [`Tasks::close`].
    pub(crate) async fn write(&self) {
        self.list.write().await;
    }

    /// Ends the carrying out of tasks, waits until it has ended and everything is stored, and ends the storing.
    pub(crate) async fn close(&self) {
        self.list.close().await;
    }
}
