//! Operations in flight: each has a slot from its start until the drive returns it.
//!
//! # Fault model and invariants
//! - A drive returns every operation exactly once, at any time, in any order, possibly long after
//!   it timed out for its waiter. A [`Completion`] that is dropped unreturned completes with
//!   [`IoErrorKind::Gone`]: a drive that loses an operation cannot hang its waiter.
//! - An operation's buffers stay with it until the drive returns it, even without a waiter: late
//!   data never reaches memory that is in use again.
//! - An operation without a task ([`OnReturn`]) is reported once: returned, or late. A later result
//!   of the drive is dropped.
//! - An [`Io`] that is dropped before it finished panics: a forgotten I/O is a defect,
//!   [`Io::abandon`] a decision. It does not panic while its executor is killed or the thread
//!   panics.

use crate::error::{IoError, IoErrorKind};
use crate::executor::Executor;
use crate::op_table::Notice;
use crate::outcome::IoOutcome;
use crate::oversight::{Oversight, Terms};
use crate::traffic::Metered;
use crate::waiter::{OnReturn, Waiter};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

/// The receiver of a request's outcome, which takes no task.
pub enum Receiver {
    /// The waiter of an operation of a drive.
    Completion(Completion),
    /// This one, with this token.
    OnReturn(Rc<dyn OnReturn>, u32),
}

impl Receiver {
    /// Delivers the outcome.
    pub fn complete(self, outcome: IoOutcome) {
        match self {
            Receiver::Completion(completion) => completion.complete(outcome),
            Receiver::OnReturn(whom, token) => whom.returned(token, outcome),
        }
    }
}

/// The drive's side of an operation: completes it exactly once.
pub struct Completion {
    executor: Weak<Executor>,
    index: u32,
    /// Counts the operations that the drive still has, late ones included.
    oversight: Option<Rc<Oversight>>,
    metered: Option<Metered>,
    returned: bool,
}

impl Completion {
    /// The drive's side of a new operation.
    #[inline]
    pub(crate) fn start(executor: &Rc<Executor>, waiter: Waiter, terms: Terms) -> Completion {
        let index = executor.ops.start(waiter, &terms);
        let Terms { oversight, metered, .. } = terms;
        if let Some(oversight) = &oversight {
            oversight.outstanding.set(oversight.outstanding.get() + 1);
        }
        Completion { executor: Rc::downgrade(executor), index, oversight, metered, returned: false }
    }

    /// The drive is about to receive a queued operation: its time limit starts now.
    pub(crate) fn begin(&mut self, terms: Terms) {
        if let Some(executor) = self.executor.upgrade() {
            executor.ops.begin(self.index, &terms);
        }
        self.metered = terms.metered;
    }

    /// Completes the operation for its waiter.
    pub fn complete(mut self, outcome: IoOutcome) {
        self.finish(outcome);
    }

    /// Whether the operation has a waiter: not once it timed out, was abandoned or [failed
    /// early](Self::fail_early).
    pub fn is_awaited(&self) -> bool {
        self.executor.upgrade().is_some_and(|executor| executor.ops.is_awaited(self.index))
    }

    /// The time until the operation times out. `None` without a waiter: see
    /// [`is_awaited`](Self::is_awaited).
    pub fn time_left(&self) -> Option<Duration> {
        let executor = self.executor.upgrade()?;
        executor.ops.time_left(self.index, executor.tick())
    }

    /// Fails the operation for its waiter while the drive still has it: it may still take effect.
    /// It counts as outstanding until it is completed.
    pub fn fail_early(&self, error: IoError) {
        if let Some(executor) = self.executor.upgrade() {
            executor.ops.fail_early(self.index, error).notify(|task| executor.wake(task), error);
        }
    }

    fn finish(&mut self, outcome: IoOutcome) {
        self.returned = true;
        if let Some(oversight) = &self.oversight {
            oversight.outstanding.set(oversight.outstanding.get() - 1);
        }
        let Some(executor) = self.executor.upgrade() else { return };
        if let Some(metered) = self.metered.take() {
            metered.end(executor.tick(), &outcome.result);
        }
        let (notified, in_time, starter) = executor.ops.complete(self.index, outcome);
        starter.into_iter().for_each(|starter| executor.wake(starter));
        if let Some(oversight) = in_time {
            oversight.tell();
        }
        match notified {
            Notice::None => {}
            Notice::Task(task) => executor.wake(task),
            Notice::OnReturn(whom, token, outcome) => whom.returned(token, outcome),
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if !self.returned {
            self.finish(IoOutcome::failed(IoError::new(IoErrorKind::Gone)));
        }
    }
}

/// The waiter's side of an operation in flight. Awaiting it gives the [`IoOutcome`].
#[must_use = "an operation in flight must be awaited or abandoned"]
pub struct Io {
    executor: Rc<Executor>,
    index: u32,
    finished: bool,
}

impl Io {
    /// A new operation: the waiter's side and the drive's side.
    pub(crate) fn start(executor: &Rc<Executor>, terms: Terms) -> (Io, Completion) {
        let completion = Completion::start(executor, Waiter::None, terms);
        (Io { executor: executor.clone(), index: completion.index, finished: false }, completion)
    }

    /// Stops waiting deliberately: the operation continues, and its buffers return to the pool when
    /// it completes.
    pub fn abandon(mut self) {
        self.finished = true;
        self.executor.ops.abandon(self.index);
    }
}

impl Future for Io {
    type Output = IoOutcome;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoOutcome> {
        assert!(!self.finished, "polled after it finished");
        let executor = &self.executor;
        let outcome = executor.ops.poll(self.index, || executor.current(), || executor.may_go_on());
        self.finished = outcome.is_ready();
        outcome
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.executor.ops.abandon(self.index);
        if !self.executor.ops.killed.get() && !std::thread::panicking() {
            panic!("an operation in flight was dropped; await it or abandon it");
        }
    }
}
