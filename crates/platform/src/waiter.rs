//! The waiters for outcomes of operations: tasks, and receivers without a task.

use crate::error::IoError;
use crate::outcome::IoOutcome;
use std::rc::Rc;

/// A task of one executor. Waking a task that has ended does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn unpack(packed: u64) -> TaskId {
        TaskId { index: packed as u32, generation: (packed >> 32) as u32 }
    }
}

/// Receives the results of operations that have no waiting task.
///
/// One of its functions is called once per operation. The caller is the drive, in the middle of its
/// work, or the executor, when the time limit has passed. So the implementation starts no
/// operation, and borrows nothing that a drive or a task may hold borrowed. It may wake tasks.
pub trait OnReturn {
    /// Reports the outcome of the operation that was started with `token`.
    fn returned(&self, token: u32, outcome: IoOutcome);

    /// The process is killed, and no outcome will come: drops the request of `token`.
    fn forgotten(&self, token: u32);
}

/// The waiter of an operation in flight.
#[derive(Default)]
pub(crate) enum Waiter {
    /// No task has polled yet.
    #[default]
    None,
    /// The task that polled last.
    Task(TaskId),
    /// A receiver without a task.
    OnReturn(Rc<dyn OnReturn>, u32),
}

impl Waiter {
    /// Reports the failure of an operation that the drive still has.
    pub(crate) fn notify(self, wake: impl FnOnce(TaskId), error: IoError) {
        match self {
            Waiter::None => {}
            Waiter::Task(task) => wake(task),
            Waiter::OnReturn(whom, token) => whom.returned(token, IoOutcome::failed(error)),
        }
    }
}
