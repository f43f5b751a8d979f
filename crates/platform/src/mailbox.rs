//! Messages from one shard (or a thread outside) to another: bounded, and the only thing shards share.
//!
//! A sender never waits: whoever may send takes a credit first and gets it back with the answer, so that a
//! mailbox of `capacity` messages cannot overflow. [`Full`] is therefore a broken promise of the sender's,
//! or, for threads outside (HTTP), a reason to answer "busy".

use crate::executor::{RemoteWaker, TaskId};
use crate::world::Env;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, mpsc};
use std::task::Poll;

/// No task waits.
const NOBODY: u64 = u64::MAX;

struct Shared {
    /// The task that waits for a message, packed, or [`NOBODY`].
    waiter: AtomicU64,
    waker: RemoteWaker,
}

/// The mailbox is full, or its owner is gone: the message comes back.
#[derive(Debug)]
pub struct Full<T>(pub T);

/// Puts messages in. Clone it for every sender.
pub struct Sender<T> {
    /// `None` only while it is being dropped.
    queue: Option<mpsc::SyncSender<T>>,
    shared: Arc<Shared>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { queue: self.queue.clone(), shared: self.shared.clone() }
    }
}

/// Takes messages out, on its shard.
pub struct Receiver<T> {
    queue: mpsc::Receiver<T>,
    shared: Arc<Shared>,
    env: Env,
}

/// A mailbox of the shard of `env` that holds up to `capacity` messages.
pub fn mailbox<T: Send>(env: &Env, capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::sync_channel(capacity);
    let shared = Arc::new(Shared { waiter: AtomicU64::new(NOBODY), waker: env.executor().remote() });
    (
        Sender { queue: Some(sender), shared: shared.clone() },
        Receiver { queue: receiver, shared, env: env.clone() },
    )
}

impl<T: Send> Sender<T> {
    /// Puts a message in and wakes the owner if it waits.
    ///
    /// # Errors
    /// Gives the message back when the mailbox is full or nobody will ever read it.
    pub fn send(&self, message: T) -> Result<(), Full<T>> {
        let Some(queue) = &self.queue else { return Err(Full(message)) };
        queue.try_send(message).map_err(|error| match error {
            mpsc::TrySendError::Full(message) | mpsc::TrySendError::Disconnected(message) => Full(message),
        })?;
        self.shared.wake_waiter();
        Ok(())
    }
}

impl Shared {
    /// Between putting a message in (or closing) and looking for a waiter, and on the other side between
    /// announcing a waiter and looking for a message, stands a full fence: one of the two sees the other.
    fn wake_waiter(&self) {
        fence(Ordering::SeqCst);
        let waiter = self.waiter.swap(NOBODY, Ordering::AcqRel);
        if waiter != NOBODY {
            self.waker.wake(TaskId::unpack(waiter));
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // This may be the last sender: the owner finds out, but only after the queue is closed.
        drop(self.queue.take());
        self.shared.wake_waiter();
    }
}

impl<T: Send> Receiver<T> {
    /// The next message; `None` when every sender is gone.
    pub async fn receive(&mut self) -> Option<T> {
        poll_fn(|_| {
            match self.queue.try_recv() {
                Ok(message) => return Poll::Ready(Some(message)),
                Err(mpsc::TryRecvError::Disconnected) => return Poll::Ready(None),
                Err(mpsc::TryRecvError::Empty) => {}
            }
            // Announce, then look once more: a message that came in between is not missed.
            let task = self.env.executor().current();
            self.shared.waiter.store(task.pack(), Ordering::Release);
            fence(Ordering::SeqCst);
            match self.queue.try_recv() {
                Ok(message) => Poll::Ready(Some(message)),
                Err(mpsc::TryRecvError::Disconnected) => Poll::Ready(None),
                Err(mpsc::TryRecvError::Empty) => Poll::Pending,
            }
        })
        .await
    }

    /// A message, if one is there.
    pub fn try_receive(&mut self) -> Option<T> {
        self.queue.try_recv().ok()
    }
}
