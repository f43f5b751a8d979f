//! Long flows that move a window over a volume: below it the new world, above it the old, inside it I/O waits.

mod resync;

pub(crate) use resync::resync;

use crate::messages::Done;
use crate::shard::{Shard, answer_control};
use crate::task::{TaskId, TaskOrder, TaskPace};
use crate::volume::Volume;
use std::rc::Rc;

/// Begins a task on this shard's lanes.
///
/// # Errors
/// One sentence, if it cannot begin.
pub(crate) fn start(volume: &Rc<Volume>, order: TaskOrder) -> Result<(), String> {
    Err(format!("'{}': a task of the kind {:?} is not supported yet", volume.spec().name, order.kind))
}

/// Changes how fast a task is; a task that has ended takes no notice.
pub(crate) fn set_pace(_shard: &Shard, task: TaskId, pace: TaskPace) {
    tracing::debug!(task = task.0, "no such task to be paced: {pace:?}");
}

/// Ends a task; one that has ended is ended.
pub(crate) fn stop(_shard: &Shard, _task: TaskId, done: Done) {
    answer_control(&done, Ok(()));
}
