//! Credits: a bounded resource that requests take before they start, and return at completion.
//!
//! Users of the same credits each have a [reserved share](Parts).
//!
//! # Invariants
//! - Within one user, requests are served in order: small requests do not starve a large one.
//! - A user that exceeds its share waits for users that asked earlier, if they stay within an equal
//!   share.

use crate::parts::Parts;
use crate::waiter::TaskId;
use crate::world::Env;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::Poll;

/// The state that all users share.
struct Pool {
    env: Env,
    parts: RefCell<Parts>,
    /// Indexed by user number.
    users: RefCell<Vec<Weak<User>>>,
    sequence: Cell<u64>,
    /// The number of waiting requests, of all users.
    waiting: Cell<usize>,
}

struct User {
    pool: Rc<Pool>,
    number: u32,
    /// The waiting requests and their credits.
    queue: RefCell<VecDeque<Waiting>>,
}

#[derive(Clone, Copy)]
struct Waiting {
    ticket: u64,
    count: u64,
    task: TaskId,
}

/// A user's handle to a bounded number of credits. Clones are the same user.
#[derive(Clone)]
pub struct Credits {
    user: Rc<User>,
}

impl Credits {
    /// `total` credits, and a first user without a reserved share.
    pub fn new(env: &Env, total: u64) -> Credits {
        let pool = Pool {
            env: env.clone(),
            parts: RefCell::new(Parts::new(total)),
            users: RefCell::default(),
            sequence: Cell::new(0),
            waiting: Cell::new(0),
        };
        Credits { user: User::of(&Rc::new(pool)) }
    }

    /// Adds a user of the same credits. It has a reserved share until its last clone is dropped.
    #[must_use]
    pub fn join(&self) -> Credits {
        let user = User::of(&self.user.pool);
        user.pool.parts.borrow_mut().join(user.number);
        Credits { user }
    }

    /// Takes `count` credits at once, if they are free and no earlier request has priority.
    pub fn try_take(&self, count: u64) -> Option<Taken> {
        let (user, pool) = (&self.user, &self.user.pool);
        let count = count.min(self.total());
        let is_free = user.queue.borrow().is_empty() && pool.may_take(user, count, u64::MAX);
        is_free.then(|| Taken::of(user, count))
    }

    /// Waits in order for `count` credits. A `count` above the total means all credits.
    pub async fn take(&self, count: u64) -> Taken {
        if let Some(taken) = self.try_take(count) {
            return taken;
        }
        let (user, pool) = (&self.user, &self.user.pool);
        let count = count.min(self.total());
        let ticket = pool.sequence.get();
        pool.sequence.set(ticket + 1);
        let mut place =
            QueueEntry::last(user, Waiting { ticket, count, task: pool.env.executor().current() });
        poll_fn(|_| {
            let first = user.queue.borrow().front().is_some_and(|first| first.ticket == ticket);
            if first && pool.may_take(user, count, ticket) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        let taken = Taken::of(user, count);
        place.leave();
        pool.wake();
        taken
    }

    /// The number of free credits.
    pub fn free(&self) -> u64 {
        self.user.pool.parts.borrow().free()
    }

    /// The total number of credits.
    pub fn total(&self) -> u64 {
        self.user.pool.parts.borrow().total()
    }
}

impl User {
    fn of(pool: &Rc<Pool>) -> Rc<User> {
        let mut users = pool.users.borrow_mut();
        let number = users.iter().position(|user| user.strong_count() == 0).unwrap_or(users.len());
        let user =
            Rc::new(User { pool: pool.clone(), number: number as u32, queue: RefCell::default() });
        match users.get_mut(number) {
            Some(place) => *place = Rc::downgrade(&user),
            None => users.push(Rc::downgrade(&user)),
        }
        drop(users);
        user
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.pool.parts.borrow_mut().leave(self.number);
        self.pool.wake();
    }
}

impl Pool {
    /// Whether `user`, which waits since `ticket`, may take `count` credits now.
    fn may_take(&self, user: &User, count: u64, ticket: u64) -> bool {
        let parts = self.parts.borrow();
        if !parts.may_take(user.number, count) {
            return false;
        }
        let is_own = parts.is_own(user.number, count);
        if is_own || self.waiting.get() == 0 {
            return true;
        }
        let users = self.users.borrow();
        let others =
            users.iter().filter_map(Weak::upgrade).filter(|other| other.number != user.number);
        let is_first = |other: Rc<User>| {
            let first = other.queue.borrow().front().copied();
            first.is_some_and(|first| {
                first.ticket < ticket && parts.is_modest(other.number, first.count)
            })
        };
        !others.into_iter().any(is_first)
    }

    /// Wakes the waiting requests that may continue.
    fn wake(&self) {
        if self.waiting.get() == 0 {
            return;
        }
        let users: Vec<Rc<User>> = self.users.borrow().iter().filter_map(Weak::upgrade).collect();
        for user in users {
            let first = user.queue.borrow().front().copied();
            if let Some(first) = first
                && self.may_take(&user, first.count, first.ticket)
            {
                self.env.executor().wake(first.task);
            }
        }
    }
}

/// An entry in a user's queue, removed if its task is dropped while it waits.
struct QueueEntry<'a> {
    user: &'a Rc<User>,
    ticket: u64,
    has_left: bool,
}

impl<'a> QueueEntry<'a> {
    fn last(user: &'a Rc<User>, waiting: Waiting) -> QueueEntry<'a> {
        user.queue.borrow_mut().push_back(waiting);
        user.pool.waiting.set(user.pool.waiting.get() + 1);
        QueueEntry { user, ticket: waiting.ticket, has_left: false }
    }

    fn leave(&mut self) {
        self.has_left = true;
        self.user.queue.borrow_mut().retain(|waiting| waiting.ticket != self.ticket);
        self.user.pool.waiting.set(self.user.pool.waiting.get() - 1);
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        if !self.has_left {
            self.leave();
            self.user.pool.wake();
        }
    }
}

/// Credits in use; dropping returns them.
pub struct Taken {
    user: Rc<User>,
    count: u64,
}

impl Taken {
    fn of(user: &Rc<User>, count: u64) -> Taken {
        user.pool.parts.borrow_mut().take(user.number, count);
        Taken { user: user.clone(), count }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let pool = &self.user.pool;
        pool.parts.borrow_mut().give(self.user.number, self.count);
        pool.wake();
    }
}
