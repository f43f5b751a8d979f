//! Bounded messages from a shard, or an external thread, to a shard.
//!
//! A sender never waits: it takes a credit first, which returns with the answer, so that a mailbox
//! of `capacity` messages cannot overflow. [`Full`] is therefore a defect of the sender, or, for
//! external threads (HTTP), a reason to answer "busy".

use crate::executor::RemoteWaker;
use crate::waiter::TaskId;
use crate::world::Env;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, mpsc};
use std::task::Poll;

/// No task waits.
const NO_TASK: u64 = u64::MAX;

struct Shared {
    /// The task that waits for a message, packed, or [`NO_TASK`].
    waiter: AtomicU64,
    waker: RemoteWaker,
}

/// The mailbox is full, or its receiver is dropped: returns the message.
#[derive(Debug)]
pub struct Full<T>(pub T);

/// The sending end. Each sender has a clone.
pub struct Sender<T> {
    /// `None` only during the drop.
    queue: Option<mpsc::SyncSender<T>>,
    shared: Arc<Shared>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { queue: self.queue.clone(), shared: self.shared.clone() }
    }
}

/// The receiving end, on its shard.
pub struct Receiver<T> {
    queue: mpsc::Receiver<T>,
    shared: Arc<Shared>,
    env: Env,
}

/// A mailbox of the shard of `env` that holds up to `capacity` messages.
pub fn mailbox<T: Send>(env: &Env, capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::sync_channel(capacity);
    let shared =
        Arc::new(Shared { waiter: AtomicU64::new(NO_TASK), waker: env.executor().remote() });
    (
        Sender { queue: Some(sender), shared: shared.clone() },
        Receiver { queue: receiver, shared, env: env.clone() },
    )
}

impl<T: Send> Sender<T> {
    /// Sends a message, and wakes the receiver if it waits.
    ///
    /// # Errors
    /// Returns the message if the mailbox is full or the receiver is dropped.
    pub fn send(&self, message: T) -> Result<(), Full<T>> {
        let Some(queue) = &self.queue else { return Err(Full(message)) };
        queue.try_send(message).map_err(|error| match error {
            mpsc::TrySendError::Full(message) | mpsc::TrySendError::Disconnected(message) => {
                Full(message)
            }
        })?;
        self.shared.wake_waiter();
        Ok(())
    }
}

impl Shared {
    /// A full fence on both sides: between sending (or closing) and the check for a waiter here,
    /// and between announcing a waiter and the check for a message there. So one of the two sees
    /// the other.
    fn wake_waiter(&self) {
        fence(Ordering::SeqCst);
        let waiter = self.waiter.swap(NO_TASK, Ordering::AcqRel);
        if waiter != NO_TASK {
            self.waker.wake(TaskId::unpack(waiter));
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The receiver learns of the last sender's end, but only after the queue is closed.
        drop(self.queue.take());
        self.shared.wake_waiter();
    }
}

impl<T: Send> Receiver<T> {
    /// Waits for the next message; `None` when every sender is dropped.
    pub async fn receive(&mut self) -> Option<T> {
        poll_fn(|_| {
            match self.queue.try_recv() {
                Ok(message) => return Poll::Ready(Some(message)),
                Err(mpsc::TryRecvError::Disconnected) => return Poll::Ready(None),
                Err(mpsc::TryRecvError::Empty) => {}
            }
            // Announce the waiter, then check again, so that no message in between is missed.
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

    /// Takes a message, if there is one.
    pub fn try_receive(&mut self) -> Option<T> {
        self.queue.try_recv().ok()
    }
}
