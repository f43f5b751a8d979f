//! The port on one shard: starts sessions, watches over them, stops them.

use super::SessionOptions;
use super::connection::Life;
use super::server::Place;
use super::session;
use engine::Shard;
use env::sync::{Signal, Taken};
use env::{Env, StreamSource, mailbox};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use units::ByteCount;

/// Messages to a shard's port that may wait at a time: connections that were accepted and not yet taken on.
const MAILBOX_ROOM: usize = 1024;

/// How often sessions are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the server says to a shard's port.
pub enum PortMessage {
    /// Serve this connection.
    Connection {
        /// The stream.
        source: Box<dyn StreamSource>,
        /// Counts the connection; dropped when it ends.
        place: Place,
    },
    /// Take no more connections; let those there are answer what is under way, then close them.
    Stop {
        /// After this long, close them whatever is under way.
        limit: Duration,
        /// Told when all are closed.
        done: mailbox::Sender<()>,
    },
}

/// The mailbox of a shard's port, made on its shard: the sender is for [`NbdServer`](super::NbdServer).
pub fn port_mailbox(env: &Env) -> (mailbox::Sender<PortMessage>, mailbox::Receiver<PortMessage>) {
    mailbox::mailbox(env, MAILBOX_ROOM)
}

/// What the sessions of a shard share.
pub(super) struct Port {
    pub shard: Shard,
    pub options: SessionOptions,
    lives: RefCell<BTreeMap<u64, Rc<Life>>>,
    next: Cell<u64>,
    ended: Signal,
    /// Sessions that wait for memory.
    waiting: Cell<u32>,
    stopped: Cell<bool>,
}

/// Serves the connections that come through `messages` until told to stop, or until nobody can tell any more.
pub async fn serve_shard(
    shard: Shard,
    mut messages: mailbox::Receiver<PortMessage>,
    options: SessionOptions,
) {
    let env = shard.env().clone();
    let port = Rc::new(Port {
        shard,
        options,
        lives: RefCell::default(),
        next: Cell::new(0),
        ended: Signal::default(),
        waiting: Cell::new(0),
        stopped: Cell::new(false),
    });
    env.spawn("nbd watch", port.clone().watch());
    loop {
        match messages.receive().await {
            Some(PortMessage::Connection { source, place }) => port.start(source, place),
            Some(PortMessage::Stop { limit, done }) => {
                port.stop(limit).await;
                if done.send(()).is_err() {
                    tracing::debug!("nobody waits for the NBD port to stop");
                }
                return;
            }
            None => return port.stop(Duration::ZERO).await,
        }
    }
}

impl Port {
    pub fn env(&self) -> &Env {
        self.shard.env()
    }

    /// Waits for memory for a payload.
    pub async fn reserve(&self, len: ByteCount) -> Taken {
        self.waiting.set(self.waiting.get() + 1);
        let taken = self.shard.reserve_payload(len).await;
        self.waiting.set(self.waiting.get() - 1);
        taken
    }

    fn start(self: &Rc<Self>, source: Box<dyn StreamSource>, place: Place) {
        let peer = source.peer();
        let stream = match source.attach(self.env()) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%peer, %error, "an NBD connection could not be taken on");
                return;
            }
        };
        let number = self.next.get();
        self.next.set(number + 1);
        let life = Life::new(self.env(), stream.clone(), peer);
        self.lives.borrow_mut().insert(number, life.clone());
        let port = self.clone();
        self.env().spawn("nbd session", async move {
            session::run(port.clone(), stream, life).await;
            port.lives.borrow_mut().remove(&number);
            drop(place);
            port.ended.notify(port.env());
        });
    }

    async fn stop(&self, limit: Duration) {
        self.stopped.set(true);
        let lives = || self.lives.borrow().values().cloned().collect::<Vec<_>>();
        lives().iter().for_each(|life| life.stop());
        let all_ended = || self.lives.borrow().is_empty();
        let mut ended = pin!(self.ended.wait_until(self.env(), all_ended));
        let mut time = pin!(self.env().sleep(limit));
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => time.as_mut().poll(context),
        })
        .await;
        let late = lives();
        if !late.is_empty() {
            tracing::warn!(connections = late.len(), "NBD connections are cut: they did not end in time");
        }
        late.iter().for_each(|life| life.cut());
        // What is under way at the drives has time limits of its own.
        self.ended.wait_until(self.env(), all_ended).await;
    }

    /// Closes connections of volumes that are no longer served, and those that stand still on memory.
    async fn watch(self: Rc<Self>) {
        while !self.stopped.get() {
            self.env().sleep(LOOK_EVERY).await;
            let lives: Vec<_> = self.lives.borrow().values().cloned().collect();
            for life in lives {
                self.look_at(&life);
            }
        }
    }

    fn look_at(&self, life: &Life) {
        if let Some(volume) = life.volume.get()
            && self.shard.volume(volume).is_none()
        {
            life.stop();
        }
        let now = self.env().now();
        let (moved, since) = life.seen.get();
        if !life.holds_memory() || moved != life.moved_bytes.get() {
            life.seen.set((life.moved_bytes.get(), now));
        } else if now.since(since) >= self.options.stall_limit && self.waiting.get() > 0 && !life.is_cut() {
            tracing::warn!(peer = %life.peer, "an NBD client stands still on memory that others need; it is cut off");
            life.cut();
        }
    }
}
