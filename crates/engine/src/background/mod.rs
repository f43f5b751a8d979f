//! Background tasks.
//!
//! The controller starts a task on every shard, and each shard processes the regions it owns
//! ([`Running`]): in ascending order, so that drives are accessed sequentially; several stripes of
//! a region at a time ([`walk`]), and consecutive stripes together. A task locks and plans a stripe
//! like any request. [`pace`] sets its speed beside host I/O.
//!
//! | task | where | in which regions | result of a finished region |
//! | --- | --- | --- | --- |
//! | rebuild | `rebuild.rs` | stale on the drive, and written | the drive is current there |
//! | copy to a replacement drive | `copy.rs` | written | no rebuild needed there |
//! | resync | `resync.rs`, by the rule in `forced.rs` where drives are missing | unsynced | its redundancy is trusted |
//! | consistency check | `check.rs` | written and synced | |
//! | background initialisation | `initialise.rs` | not initialised | it is initialised |
//! | full initialisation | `init.rs` | all | its redundancy is trusted |
//! | into the distributed spare and back | `relocate.rs` | all; those in the spare | it has changed sides |
//! | reshape: to another layout, window by window | `reshape.rs` | all, of both layouts | |
//! | repair of blocks that a patrol read found | `mend_range.rs` | those with the blocks | |

mod check;
mod copy;
mod init;
mod initialise;
mod mend_range;
mod pace;
mod rebuild;
mod relocate;
mod reshape;
mod resync;
mod running;
mod walk;

pub(crate) use initialise::initialise_rest;
pub(crate) use reshape::reshape;
pub(crate) use resync::resync;
pub(crate) use running::Running;

use crate::host::Volume;
use crate::messages::{Done, ReportKind, answer_control};
use crate::shard::Resources;
use crate::task::{TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace};
use crate::volume::VolumeId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The tasks that run on a shard.
#[derive(Default)]
pub(crate) struct Tasks {
    running: RefCell<BTreeMap<TaskId, Rc<Running>>>,
}

impl Tasks {
    /// Begins a task on this shard's regions.
    ///
    /// # Errors
    /// A message, if it cannot begin.
    pub(crate) fn start(
        self: &Rc<Self>,
        volume: &Rc<Volume>,
        order: TaskOrder,
    ) -> Result<(), String> {
        if self.running.borrow().contains_key(&order.task) {
            return Err(format!("task {} runs already", order.task.0));
        }
        let shard = volume.shard.clone();
        let TaskOrder { task, kind, regions, pace, .. } = order;
        let running = Running::new(volume.recovery(), task, regions, pace);
        self.running.borrow_mut().insert(running.id, running.clone());
        let (tasks, watcher, volume) = (self.clone(), shard.watch_hosts(), volume.clone());
        let env = shard.env().clone();
        env.spawn("task", async move {
            let outcome = running.outcome(run(&running, kind, &volume).await);
            drop((watcher, volume));
            running.report_progress().await;
            tasks.running.borrow_mut().remove(&running.id);
            running.ended(shard.env());
            let kind = ReportKind::TaskDone { task: running.id, outcome };
            if let Err(error) = shard.report(running.volume.spec.id, kind).await {
                tracing::debug!(task = running.id.0, "the end of a task was not reported: {error}");
            }
        });
        Ok(())
    }

    fn get(&self, task: TaskId) -> Option<Rc<Running>> {
        self.running.borrow().get(&task).cloned()
    }

    /// Changes the speed of a task; no effect on a task that has ended.
    pub(crate) fn set_pace(&self, shard: &Resources, task: TaskId, pace: TaskPace) {
        if let Some(running) = self.get(task) {
            running.pace.set(shard.env(), pace);
        }
    }

    /// Stops a task; no effect if it has ended. Acknowledged when no work of it is in progress.
    pub(crate) fn stop(&self, shard: &Resources, task: TaskId, done: Done) {
        let Some(running) = self.get(task) else { return answer_control(&done, Ok(())) };
        running.pace.stop(shard.env());
        let env = shard.env().clone();
        env.clone().spawn("stopping a task", async move {
            running.wait_ended(&env).await;
            answer_control(&done, Ok(()));
        });
    }

    /// Stops all tasks of a volume.
    pub(crate) fn stop_all_of(&self, shard: &Resources, volume: VolumeId) {
        let tasks = self.running.borrow();
        let of_volume = tasks.values().filter(|task| task.volume.spec.id == volume);
        of_volume.for_each(|task| task.pace.stop(shard.env()));
    }

    /// Drops all tasks: their shard is gone.
    pub(crate) fn forget_all(&self) {
        drop(self.running.take());
    }
}

/// Executes an order. Writes that act like host writes go through `host`.
async fn run(task: &Rc<Running>, kind: TaskKind, host: &Rc<Volume>) -> TaskOutcome {
    match kind {
        TaskKind::Rebuild { slot } => rebuild::rebuild(task, slot).await,
        TaskKind::Copy { slot } => copy::copy(task, slot).await,
        TaskKind::Check { repair } => check::check(task, repair).await,
        TaskKind::Initialise { full } => init::initialise(task, host, full).await,
        TaskKind::Relocate { slot } => relocate::relocate(task, slot, true).await,
        TaskKind::Restore { slot } => relocate::relocate(task, slot, false).await,
        TaskKind::RepairRange { slot, range } => mend_range::mend_range(task, slot, range).await,
    }
}
