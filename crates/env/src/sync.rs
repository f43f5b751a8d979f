//! Waiting on one another within a shard: signals, credits, one-time answers.

use crate::executor::TaskId;
use crate::world::Env;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

/// One step of SplitMix64 (Steele, Lea, Flood 2014): the next state and a random number.
pub fn split_mix(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (state, z ^ (z >> 31))
}

/// Wakes everyone who waits whenever something may have changed. Waiters look for themselves.
#[derive(Default)]
pub struct Signal {
    epoch: Cell<u64>,
    waiters: RefCell<Vec<TaskId>>,
}

impl Signal {
    /// Says that something changed.
    pub fn notify(&self, env: &Env) {
        self.epoch.set(self.epoch.get() + 1);
        for task in self.waiters.take() {
            env.executor().wake(task);
        }
    }

    /// Says that something changed for any one of the waiters: the latest, whose memory is warm. False when nobody
    /// waits.
    pub fn notify_one(&self, env: &Env) -> bool {
        self.notify_latest(|task| env.executor().wake(task))
    }

    /// The same, and that waiter [goes on](crate::Executor::go_on) at once.
    pub(crate) fn pass_to_one(&self, env: &Env) -> bool {
        self.notify_latest(|task| env.executor().go_on(task))
    }

    fn notify_latest(&self, tell: impl FnOnce(TaskId)) -> bool {
        self.epoch.set(self.epoch.get() + 1);
        let latest = self.waiters.borrow_mut().pop();
        let is_one = latest.is_some();
        if let Some(task) = latest {
            tell(task);
        }
        is_one
    }

    /// Waits until `condition` holds, looking again after every notice.
    pub async fn wait_until(&self, env: &Env, mut condition: impl FnMut() -> bool) {
        while !condition() {
            let seen = self.epoch.get();
            let mut waiting = false;
            poll_fn(|_| {
                if self.epoch.get() != seen {
                    return Poll::Ready(());
                }
                if !std::mem::replace(&mut waiting, true) {
                    self.waiters.borrow_mut().push(env.executor().current());
                }
                Poll::Pending
            })
            .await;
        }
    }
}

struct CreditsInner {
    env: Env,
    free: Cell<u64>,
    total: u64,
    /// Who waits for how many, first come first served: a large request is not starved by small ones.
    queue: RefCell<VecDeque<(u64, u64, TaskId)>>,
    sequence: Cell<u64>,
}

/// A bounded number of credits that requests take before they start and give back when done.
#[derive(Clone)]
pub struct Credits {
    inner: Rc<CreditsInner>,
}

impl Credits {
    /// `total` credits.
    pub fn new(env: &Env, total: u64) -> Credits {
        Credits {
            inner: Rc::new(CreditsInner {
                env: env.clone(),
                free: Cell::new(total),
                total,
                queue: RefCell::default(),
                sequence: Cell::new(0),
            }),
        }
    }

    /// Takes `count` at once if they are free and nobody waits.
    pub fn try_take(&self, count: u64) -> Option<Taken> {
        let inner = &self.inner;
        let count = count.min(inner.total);
        (inner.queue.borrow().is_empty() && inner.free.get() >= count).then(|| {
            inner.free.set(inner.free.get() - count);
            Taken { inner: inner.clone(), count }
        })
    }

    /// Waits for its turn and for `count` credits. More than there are in total counts as all of them.
    pub async fn take(&self, count: u64) -> Taken {
        if let Some(taken) = self.try_take(count) {
            return taken;
        }
        let inner = self.inner.clone();
        let count = count.min(inner.total);
        let ticket = inner.sequence.get();
        inner.sequence.set(ticket + 1);
        inner.queue.borrow_mut().push_back((ticket, count, inner.env.executor().current()));
        let mut place = Place { inner: inner.clone(), ticket, left: false };
        poll_fn(|_| {
            let mut queue = inner.queue.borrow_mut();
            let first = queue.front().is_some_and(|(first, ..)| *first == ticket);
            if first && inner.free.get() >= count {
                queue.pop_front();
                inner.free.set(inner.free.get() - count);
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        place.left = true;
        let taken = Taken { inner: inner.clone(), count };
        inner.wake_first();
        taken
    }

    /// How many are free.
    pub fn free(&self) -> u64 {
        self.inner.free.get()
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.inner.total
    }
}

impl CreditsInner {
    fn wake_first(&self) {
        if let Some((_, count, task)) = self.queue.borrow().front()
            && self.free.get() >= *count
        {
            self.env.executor().wake(*task);
        }
    }
}

/// A place in the queue, given up if its task is dropped while it waits.
struct Place {
    inner: Rc<CreditsInner>,
    ticket: u64,
    left: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.left {
            self.inner.queue.borrow_mut().retain(|(ticket, ..)| *ticket != self.ticket);
            self.inner.wake_first();
        }
    }
}

/// Credits in use; dropping gives them back.
pub struct Taken {
    inner: Rc<CreditsInner>,
    count: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.inner.free.set(self.inner.free.get() + self.count);
        self.inner.wake_first();
    }
}

struct AnswerCell<T> {
    env: Env,
    value: RefCell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
    sender_gone: Cell<bool>,
}

/// A one-time answer within a shard: the side that gives it and the side that waits.
pub fn answer<T>(env: &Env) -> (Answerer<T>, Answer<T>) {
    let cell = Rc::new(AnswerCell {
        env: env.clone(),
        value: RefCell::new(None),
        waiter: Cell::new(None),
        sender_gone: Cell::new(false),
    });
    (Answerer { cell: cell.clone() }, Answer { cell })
}

/// Gives the answer.
pub struct Answerer<T> {
    cell: Rc<AnswerCell<T>>,
}

impl<T> Answerer<T> {
    /// Gives it.
    pub fn give(self, value: T) {
        *self.cell.value.borrow_mut() = Some(value);
    }
}

impl<T> Drop for Answerer<T> {
    fn drop(&mut self) {
        self.cell.sender_gone.set(true);
        if let Some(task) = self.cell.waiter.take() {
            self.cell.env.executor().wake(task);
        }
    }
}

/// Waits for the answer: `None` if the other side went away without one.
pub struct Answer<T> {
    cell: Rc<AnswerCell<T>>,
}

impl<T> Future for Answer<T> {
    type Output = Option<T>;
    fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.cell.value.borrow_mut().take() {
            return Poll::Ready(Some(value));
        }
        if self.cell.sender_gone.get() {
            return Poll::Ready(None);
        }
        self.cell.waiter.set(Some(self.cell.env.executor().current()));
        Poll::Pending
    }
}
