//! Synchronisation within a shard: signals and one-time answers.

pub use crate::credits::{Credits, Taken};
pub use crate::split_mix::split_mix;
use crate::waiter::TaskId;
use crate::world::Env;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

/// Wakes all waiters when something may have changed. Waiters check their own condition.
#[derive(Default)]
pub struct Signal {
    epoch: Cell<u64>,
    waiters: RefCell<Vec<TaskId>>,
}

impl Signal {
    /// Notifies all waiters.
    pub fn notify(&self, env: &Env) {
        self.epoch.set(self.epoch.get() + 1);
        for task in self.waiters.take() {
            env.executor().wake(task);
        }
    }

    /// Notifies one waiter: the latest, whose memory is in the processor's cache. False if there is
    /// none.
    pub fn notify_one(&self, env: &Env) -> bool {
        self.notify_latest(|task| env.executor().wake(task))
    }

    /// The same, and that waiter [continues](crate::Executor::go_on) at once.
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

    /// Waits until `condition` holds, and checks it after every notification.
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

struct AnswerCell<T> {
    env: Env,
    value: RefCell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
    sender_gone: Cell<bool>,
}

/// A one-time answer within a shard: the answering side and the waiting side.
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

/// Waits for the answer: `None` if the answering side was dropped without one.
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
