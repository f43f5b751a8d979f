//! Ring operations for tasks that wait for the plain result: accepting, connecting, short pauses.

use crate::op::{Memory, Op};
use crate::ring::Ring;
use io_uring::{opcode, squeue, types};
use platform::{Executor, TaskId};
use std::cell::Cell;
use std::future::Future;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The awaited event.
pub(crate) enum WaitFor {
    /// The next connection of a listening socket: the result is its file.
    Connection(Rc<OwnedFd>),
    /// A socket becomes writable: connected, or failed.
    Writable(Rc<OwnedFd>),
    /// A pause.
    Pause(Duration),
}

/// Shared by the slot in the ring and the waiting task.
pub(crate) struct Waiter {
    what: WaitFor,
    result: Cell<Option<i32>>,
    task: Cell<Option<TaskId>>,
}

impl Waiter {
    pub(crate) fn new(what: WaitFor) -> Rc<Waiter> {
        Rc::new(Waiter { what, result: Cell::new(None), task: Cell::new(None) })
    }

    /// Whether there is a result that was not taken.
    pub(crate) fn is_over(&self) -> bool {
        self.result.get().is_some()
    }

    pub(crate) fn entry(&self, memory: &mut Memory) -> squeue::Entry {
        match &self.what {
            WaitFor::Connection(socket) => {
                let fd = types::Fd(socket.as_raw_fd());
                opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            }
            WaitFor::Writable(socket) => {
                opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), libc::POLLOUT as u32).build()
            }
            WaitFor::Pause(duration) => {
                memory.time = types::Timespec::from(*duration);
                opcode::Timeout::new(&raw const memory.time).build()
            }
        }
    }

    pub(crate) fn set(&self, result: i32) {
        self.result.set(Some(result));
    }

    pub(crate) fn finish(&self, executor: &Executor) {
        if self.result.get().is_none() {
            self.result.set(Some(-libc::ECANCELED));
        }
        if let Some(task) = self.task.take() {
            executor.wake(task);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // A connection that arrived after the wait was dropped.
        if let (WaitFor::Connection(_), Some(fd @ 0..)) = (&self.what, self.result.get()) {
            // SAFETY: the kernel returned this file; a waiter that uses it takes the result out
            // first.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

/// Waits for the result: a count or file, or a negative error number. Cancelled when dropped.
pub(crate) struct Wait {
    ring: Rc<Ring>,
    waiter: Rc<Waiter>,
    slot: Option<u32>,
}

impl Ring {
    /// Starts waiting.
    pub(crate) fn wait_for(self: &Rc<Ring>, what: WaitFor) -> Wait {
        let waiter = Waiter::new(what);
        let slot = self.start(Op::Wait(waiter.clone()));
        Wait { ring: self.clone(), waiter, slot }
    }
}

impl Future for Wait {
    type Output = i32;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<i32> {
        match self.waiter.result.take() {
            Some(result) => {
                self.slot = None;
                Poll::Ready(result)
            }
            None => {
                self.waiter.task.set(Some(self.ring.executor().current()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(slot) = self.slot
            && !self.waiter.is_over()
        {
            self.waiter.task.set(None);
            self.ring.cancel(slot);
        }
    }
}
