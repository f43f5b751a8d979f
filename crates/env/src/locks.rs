//! Stripe locks: many readers or one writer of a stripe, first come, first served.
//!
//! A fixed table of locks, indexed by the stripe's number: taking one allocates nothing. Stripes whose
//! numbers differ by a multiple of the table's size share a lock; they merely wait for one another, and since
//! a piece of a request holds one lock and takes no second, that cannot deadlock.

use crate::executor::TaskId;
use crate::world::Env;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// How a stripe is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// With other readers.
    Shared,
    /// Alone.
    Exclusive,
}

#[derive(Default)]
struct Lock {
    /// -1: held alone; otherwise the number of readers.
    holders: Cell<i32>,
    queue: RefCell<VecDeque<(u64, Mode, TaskId)>>,
}

struct Inner {
    env: Env,
    locks: Vec<Lock>,
    mask: u64,
    tickets: Cell<u64>,
}

/// The locks of the stripes of one shard.
#[derive(Clone)]
pub struct StripeLocks {
    inner: Rc<Inner>,
}

impl StripeLocks {
    /// A table of at least `count` locks (rounded up to a power of two).
    pub fn new(env: &Env, count: usize) -> StripeLocks {
        let count = count.max(1).next_power_of_two();
        StripeLocks {
            inner: Rc::new(Inner {
                env: env.clone(),
                locks: std::iter::repeat_with(Lock::default).take(count).collect(),
                mask: count as u64 - 1,
                tickets: Cell::new(0),
            }),
        }
    }

    /// Takes the lock of `key` at once, if it is free and nobody waits for it.
    pub fn try_lock(&self, key: u64, mode: Mode) -> Option<Guard> {
        let index = (key & self.inner.mask) as usize;
        let lock = &self.inner.locks[index];
        (lock.queue.borrow().is_empty() && lock.admits(mode)).then(|| {
            lock.admit(mode);
            Guard { inner: self.inner.clone(), index, mode }
        })
    }

    /// Waits for the lock of `key`.
    pub async fn lock(&self, key: u64, mode: Mode) -> Guard {
        if let Some(guard) = self.try_lock(key, mode) {
            return guard;
        }
        let inner = &self.inner;
        let index = (key & inner.mask) as usize;
        let lock = &inner.locks[index];
        let ticket = inner.tickets.get();
        inner.tickets.set(ticket + 1);
        lock.queue.borrow_mut().push_back((ticket, mode, inner.env.executor().current()));
        let mut place = Place { inner, index, ticket, left: false };
        poll_fn(|_| {
            let mut queue = lock.queue.borrow_mut();
            if queue.front().is_some_and(|(first, ..)| *first == ticket) && lock.admits(mode) {
                queue.pop_front();
                lock.admit(mode);
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        place.left = true;
        let guard = Guard { inner: inner.clone(), index, mode };
        lock.wake_first(&inner.env);
        guard
    }
}

impl Lock {
    fn admits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Shared => self.holders.get() >= 0,
            Mode::Exclusive => self.holders.get() == 0,
        }
    }

    fn admit(&self, mode: Mode) {
        self.holders.set(match mode {
            Mode::Shared => self.holders.get() + 1,
            Mode::Exclusive => -1,
        });
    }

    fn wake_first(&self, env: &Env) {
        if let Some((_, mode, task)) = self.queue.borrow().front()
            && self.admits(*mode)
        {
            env.executor().wake(*task);
        }
    }
}

/// A place in a queue, given up if its task is dropped while it waits.
struct Place<'a> {
    inner: &'a Inner,
    index: usize,
    ticket: u64,
    left: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.left {
            let lock = &self.inner.locks[self.index];
            lock.queue.borrow_mut().retain(|(ticket, ..)| *ticket != self.ticket);
            lock.wake_first(&self.inner.env);
        }
    }
}

/// A stripe held; dropping lets go.
pub struct Guard {
    inner: Rc<Inner>,
    index: usize,
    mode: Mode,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let lock = &self.inner.locks[self.index];
        lock.holders.set(match self.mode {
            Mode::Shared => lock.holders.get() - 1,
            Mode::Exclusive => 0,
        });
        lock.wake_first(&self.inner.env);
    }
}
