//! The port on one shard: starts sessions, watches over them, stops them.

use crate::protocol::{Offer, Protocol};
use crate::server::Place;
use crate::session::{self, Entry, Life, SessionOptions};
use platform::sync::{Signal, Taken};
use platform::{BlockTarget, Connection, Env, Host, Hosts, StreamSource, Targets, mailbox};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use units::ByteCount;

/// Connections that a server may take, at most.
pub const MOST_CONNECTIONS: u32 = 4096;

/// Messages to a shard's port that may wait at a time: each connection may be there once to be taken on and once to be cut off, and what ends
/// all of them must have room behind that.
const MAILBOX_ROOM: usize = 2 * MOST_CONNECTIONS as usize + 64;

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
    /// Serve this connection without a greeting.
    Known(Known),
    /// End the connection that has the place of this number, unless its greeting is over.
    Displace(u64),
    /// Take no more connections; let those there are answer what is under way, then close them.
    Stop {
        /// After this long, close them whatever is under way.
        limit: Duration,
        /// Told when all are closed.
        done: mailbox::Sender<()>,
    },
}

/// A connection whose other end knows all that a greeting tells: that of the kernel, which has a disk of a target.
pub struct Known {
    /// The stream.
    pub source: Box<dyn StreamSource>,
    /// The number of the target. If there is none of that number, the connection ends.
    pub target: u64,
    /// The other end may only read.
    pub read_only: bool,
    /// Dropped when the connection has ended, and with it everything that was asked on it.
    pub alive: Arc<()>,
}

/// The mailbox of a shard's port, made on its shard: the sender is for [`Server`](crate::Server).
pub fn port_mailbox(env: &Env) -> (mailbox::Sender<PortMessage>, mailbox::Receiver<PortMessage>) {
    mailbox::mailbox(env, MAILBOX_ROOM)
}

/// A connection, and what its client uses.
pub(crate) struct Guest<T> {
    pub life: Rc<Life>,
    /// Once the greeting is over.
    pub uses: RefCell<Option<Uses<T>>>,
    /// Given back when the session is over. `None`: it has none of the server's.
    pub place: Option<Place>,
}

/// What the client of a connection uses, and how it is known to who asks.
pub(crate) struct Uses<T> {
    pub target: Rc<T>,
    pub host: Arc<Host>,
}

/// What the sessions of a shard share.
pub(crate) struct Port<S: Targets> {
    /// What clients are offered.
    pub offer: Offer<S>,
    pub options: SessionOptions,
    name: &'static str,
    hosts: Hosts,
    guests: RefCell<BTreeMap<u64, Rc<Guest<S::Target>>>>,
    next: Cell<u64>,
    ended: Signal,
    /// Sessions that wait for memory.
    waiting: Cell<u32>,
    stopped: Cell<bool>,
}

/// Serves the connections that come through `messages` until told to stop, or until nobody can tell any more. Who is
/// connected is among `hosts`.
pub async fn serve_shard<P: Protocol, S: Targets>(
    targets: S,
    hosts: Hosts,
    mut messages: mailbox::Receiver<PortMessage>,
    options: SessionOptions,
) {
    let env = targets.env().clone();
    let port = Rc::new(Port {
        offer: Offer {
            targets,
            read_only: options.read_only,
            encryption: options.encryption.clone(),
            access: options.access.clone(),
        },
        options,
        name: P::NAME,
        hosts,
        guests: RefCell::default(),
        next: Cell::new(0),
        ended: Signal::default(),
        waiting: Cell::new(0),
        stopped: Cell::new(false),
    });
    env.spawn("port watch", port.clone().watch());
    loop {
        match messages.receive().await {
            Some(PortMessage::Connection { source, place }) => {
                port.start::<P>(source, Entry::Greets, Some(place), Box::new(()));
            }
            Some(PortMessage::Known(known)) => port.start_known::<P>(known),
            Some(PortMessage::Displace(place)) => port.displace(place),
            Some(PortMessage::Stop { limit, done }) => {
                port.stop(limit).await;
                if done.send(()).is_err() {
                    tracing::debug!("nobody waits for the {} port to stop", P::NAME);
                }
                return;
            }
            None => return port.stop(Duration::ZERO).await,
        }
    }
}

impl<S: Targets> Port<S> {
    pub fn env(&self) -> &Env {
        self.offer.targets.env()
    }

    /// Waits for memory for a payload.
    pub async fn reserve(&self, target: &S::Target, len: ByteCount) -> Taken {
        self.waiting.set(self.waiting.get() + 1);
        let taken = target.reserve_payload(len).await;
        self.waiting.set(self.waiting.get() - 1);
        taken
    }

    fn start_known<P: Protocol>(self: &Rc<Self>, known: Known) {
        let Known { source, target, read_only, alive } = known;
        match self.offer.numbered(target) {
            Some(target) => {
                self.start::<P>(source, Entry::Known { target, read_only }, None, Box::new(alive));
            }
            None => tracing::debug!(peer = %source.peer(), "{}: its target is served no more", self.name),
        }
    }

    /// Starts a session; `held` is dropped when it is over.
    fn start<P: Protocol>(
        self: &Rc<Self>,
        source: Box<dyn StreamSource>,
        entry: Entry<S::Target>,
        place: Option<Place>,
        held: Box<dyn Any>,
    ) {
        let peer = source.peer();
        let stream = match source.attach(self.env()) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%peer, %error, "{}: a connection could not be taken on", self.name);
                return;
            }
        };
        let number = self.next.get();
        self.next.set(number + 1);
        let life = Life::new(self.env(), stream, peer);
        let guest = Rc::new(Guest { life, uses: RefCell::default(), place });
        self.guests.borrow_mut().insert(number, guest.clone());
        let port = self.clone();
        self.env().spawn("port session", async move {
            session::run::<P, S>(port.clone(), guest, entry).await;
            port.guests.borrow_mut().remove(&number);
            drop(held);
            port.ended.notify(port.env());
        });
    }

    /// Makes room for who has just come.
    fn displace(&self, number: u64) {
        let guests = self.guests.borrow();
        let has = |guest: &&Rc<Guest<S::Target>>| {
            guest.place.as_ref().is_some_and(|place| place.number() == number)
        };
        let Some(guest) = guests.values().find(has) else { return };
        if guest.place.as_ref().is_some_and(Place::is_greeting) {
            tracing::debug!(peer = %guest.life.peer, "{}: a client that has not said what it wants makes room", self.name);
            guest.life.cut();
        }
    }

    async fn stop(&self, limit: Duration) {
        self.stopped.set(true);
        let lives = || self.guests.borrow().values().map(|guest| guest.life.clone()).collect::<Vec<_>>();
        lives().iter().for_each(|life| life.stop());
        let all_ended = || self.guests.borrow().is_empty();
        let mut ended = pin!(self.ended.wait_until(self.env(), all_ended));
        let mut time = pin!(self.env().sleep(limit));
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => time.as_mut().poll(context),
        })
        .await;
        let late = lives();
        if !late.is_empty() {
            tracing::warn!(
                connections = late.len(),
                "{}: connections are cut: they did not end in time",
                self.name
            );
        }
        late.iter().for_each(|life| life.cut());
        // What is under way at the drives has time limits of its own.
        self.ended.wait_until(self.env(), all_ended).await;
    }

    /// How a host that was greeted is known from now on.
    pub fn connection(&self, life: &Life, target: &S::Target) -> Connection {
        Connection {
            peer: life.peer.clone(),
            protocol: self.name,
            target: target.number(),
            asked_for: target.name().to_string(),
            since: self.env().now(),
            since_unix_s: self.env().unix_time(),
        }
    }

    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Closes connections of targets that are no longer served, and those that stand still on memory; remembers how
    /// much hosts have done.
    async fn watch(self: Rc<Self>) {
        while !self.stopped.get() {
            self.env().sleep(LOOK_EVERY).await;
            let guests: Vec<_> = self.guests.borrow().values().cloned().collect();
            for guest in guests {
                self.look_at(&guest);
            }
        }
    }

    fn look_at(&self, Guest { life, uses, .. }: &Guest<S::Target>) {
        let now = self.env().now();
        if let Some(Uses { target, host }) = &*uses.borrow() {
            host.look(now);
            if !target.is_served() {
                life.stop();
            }
        }
        let (moved, since) = life.seen.get();
        if !life.holds_memory() || moved != life.moved_bytes.get() {
            life.seen.set((life.moved_bytes.get(), now));
        } else if now.since(since) >= self.options.stall_limit && self.waiting.get() > 0 && !life.is_cut() {
            tracing::warn!(
                peer = %life.peer,
                "{}: a client stands still on memory that others need; it is cut off",
                self.name
            );
            life.cut();
        }
    }
}
