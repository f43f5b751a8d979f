//! Long flows that move a window over a volume: below it the new world, above it the old, inside it I/O waits.
//!
//! A task is ordered by the controller on every shard, and each shard does the regions it owns ([`Running`]):
//! region by region, ascending, so that drives are read and written in sequence; within a region several stripes at a
//! time ([`walk`]). A stripe is dealt with under its lock, by a plan like any other request. What pace a task
//! keeps beside hosts is decided in one place ([`pace`]).
//!
//! | what | where | in which regions | when a region is finished |
//! | --- | --- | --- | --- |
//! | rebuild | `rebuild.rs` | stale on the drive, and written | the drive is current there |
//! | copy to a drive that is to take another one's place | `copy.rs` | written | it need not be rebuilt there |
//! | resync, background initialisation | `resync.rs`, by the rule in `forced.rs` where drives are missing | unsynced | its redundancy is trusted |
//! | consistency check | `check.rs` | written and synced | |
//! | full initialisation | `init.rs` | all | its redundancy is trusted |
//! | into the distributed spare and back | `relocate.rs` | all; those in the spare | it has changed sides |
//! | repair of what patrol reading found | `mend_range.rs` | where that lies | |

mod check;
mod copy;
mod init;
mod mend_range;
mod pace;
mod rebuild;
mod relocate;
mod resync;
mod running;
mod walk;

pub(crate) use pace::HostActivity;
pub(crate) use resync::resync;
pub(crate) use running::Running;
pub(crate) use walk::stripes;

use crate::messages::{Done, ReportKind};
use crate::shard::{Shard, answer_control};
use crate::task::{TaskId, TaskOrder, TaskPace};
use crate::volume::Volume;
use std::rc::Rc;

/// Begins a task on this shard's regions.
///
/// # Errors
/// One sentence, if it cannot begin.
pub(crate) fn start(volume: &Rc<Volume>, order: TaskOrder) -> Result<(), String> {
    let shard = volume.shard.clone();
    if shard.task(order.task).is_some() {
        return Err(format!("task {} runs already", order.task.0));
    }
    let running = Running::new(volume, order);
    shard.add_task(&running);
    let watcher = shard.watch_hosts();
    let env = shard.env().clone();
    env.spawn("task", async move {
        let outcome = running.run().await;
        drop(watcher);
        running.report_progress().await;
        shard.remove_task(running.id);
        running.ended(shard.env());
        let kind = ReportKind::TaskDone { task: running.id, outcome };
        if let Err(error) = shard.report(running.volume.spec.id, kind).await {
            tracing::debug!(task = running.id.0, "nobody takes note of the end of a task: {error}");
        }
    });
    Ok(())
}

/// Changes how fast a task is; a task that has ended takes no notice.
pub(crate) fn set_pace(shard: &Shard, task: TaskId, pace: TaskPace) {
    if let Some(running) = shard.task(task) {
        running.pace.set(shard.env(), pace);
    }
}

/// Ends a task; one that has ended is ended. Answered when nothing of it is under way any more.
pub(crate) fn stop(shard: &Shard, task: TaskId, done: Done) {
    let Some(running) = shard.task(task) else { return answer_control(&done, Ok(())) };
    running.pace.stop(shard.env());
    let env = shard.env().clone();
    env.clone().spawn("stopping a task", async move {
        running.wait_ended(&env).await;
        answer_control(&done, Ok(()));
    });
}
