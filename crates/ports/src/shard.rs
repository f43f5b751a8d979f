//! The port on one shard: starts, monitors and stops sessions.

use crate::protocol::{Offer, Protocol};
use crate::server::ConnectionSlot;
use crate::session::{self, ConnectionState, Entry, SessionOptions};
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

/// Maximum number of connections of a server.
pub const MOST_CONNECTIONS: u32 = 4096;

/// Capacity of a port's mailbox: two messages per connection (start, displace), and space for the
/// message that stops the port.
const MAILBOX_ROOM: usize = 2 * MOST_CONNECTIONS as usize + 64;

/// The interval of the session checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Messages from the server to a shard's port.
pub enum PortMessage {
    /// Serve this connection.
    Connection {
        /// The stream.
        source: Box<dyn StreamSource>,
        /// Counts the connection; dropped when it ends.
        place: ConnectionSlot,
    },
    /// Serve this connection without a greeting.
    Known(Known),
    /// End the connection in the slot of this number, unless its greeting is complete.
    Displace(u64),
    /// Accept no more connections. Close the open ones after their outstanding requests.
    Stop {
        /// After this time, close them at once.
        limit: Duration,
        /// Notified when all are closed.
        done: mailbox::Sender<()>,
    },
}

/// A connection without a greeting: the kernel's, for a disk that is attached here.
pub struct Known {
    /// The stream.
    pub source: Box<dyn StreamSource>,
    /// The number of the target. If there is no such target, the connection ends.
    pub target: u64,
    /// The client may only read.
    pub read_only: bool,
    /// Dropped after the connection and all its requests have ended.
    pub alive: Arc<()>,
}

/// Creates the mailbox of a shard's port, on its shard. [`Server`](crate::Server) gets the sender.
pub fn port_mailbox(env: &Env) -> (mailbox::Sender<PortMessage>, mailbox::Receiver<PortMessage>) {
    mailbox::mailbox(env, MAILBOX_ROOM)
}

/// A connection and the target of its client.
pub(crate) struct ClientConnection<T> {
    pub life: Rc<ConnectionState>,
    /// Set when the greeting is complete.
    pub uses: RefCell<Option<Uses<T>>>,
    /// Released at the end of the session. `None`: the connection takes no slot of the server.
    pub place: Option<ConnectionSlot>,
}

/// The target of a client, and its entry in the list of hosts.
pub(crate) struct Uses<T> {
    pub target: Rc<T>,
    pub host: Arc<Host>,
}

/// What the sessions of a shard share.
pub(crate) struct Port<S: Targets> {
    /// The targets that clients are offered.
    pub offer: Offer<S>,
    pub options: SessionOptions,
    name: &'static str,
    hosts: Hosts,
    guests: RefCell<BTreeMap<u64, Rc<ClientConnection<S::Target>>>>,
    next: Cell<u64>,
    ended: Signal,
    /// Number of sessions that wait for memory.
    waiting: Cell<u32>,
    stopped: Cell<bool>,
}

/// Serves connections from `messages` until a stop message, or until all senders are dropped.
/// Connected clients are listed in `hosts`.
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
                    tracing::debug!("the receiver of the {} port's stop report is gone", P::NAME);
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
            None => {
                tracing::debug!(peer = %source.peer(), "{}: its target is no longer \
                    served", self.name)
            }
        }
    }

    /// Starts a session; drops `held` at its end.
    fn start<P: Protocol>(
        self: &Rc<Self>,
        source: Box<dyn StreamSource>,
        entry: Entry<S::Target>,
        place: Option<ConnectionSlot>,
        held: Box<dyn Any>,
    ) {
        let peer = source.peer();
        let stream = match source.attach(self.env()) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%peer, %error, "{}: starting a connection failed", self.name);
                return;
            }
        };
        let number = self.next.get();
        self.next.set(number + 1);
        let life = ConnectionState::new(self.env(), stream, peer);
        let guest = Rc::new(ClientConnection { life, uses: RefCell::default(), place });
        self.guests.borrow_mut().insert(number, guest.clone());
        let port = self.clone();
        self.env().spawn("port session", async move {
            session::run::<P, S>(port.clone(), guest, entry).await;
            port.guests.borrow_mut().remove(&number);
            drop(held);
            port.ended.notify(port.env());
        });
    }

    /// Closes an unfinished greeting for a new client.
    fn displace(&self, number: u64) {
        let guests = self.guests.borrow();
        let has = |guest: &&Rc<ClientConnection<S::Target>>| {
            guest.place.as_ref().is_some_and(|place| place.number() == number)
        };
        let Some(guest) = guests.values().find(has) else { return };
        if guest.place.as_ref().is_some_and(ConnectionSlot::is_greeting) {
            tracing::debug!(peer = %guest.life.peer, "{}: an unfinished greeting is closed for a \
                new client", self.name);
            guest.life.cut();
        }
    }

    async fn stop(&self, limit: Duration) {
        self.stopped.set(true);
        let lives =
            || self.guests.borrow().values().map(|guest| guest.life.clone()).collect::<Vec<_>>();
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
                "{}: connections are closed: they exceeded the time limit",
                self.name
            );
        }
        late.iter().for_each(|life| life.cut());
        // Requests at the drives have time limits of their own.
        self.ended.wait_until(self.env(), all_ended).await;
    }

    /// The entry of a greeted host in the list of hosts.
    pub fn connection(&self, life: &ConnectionState, target: &S::Target) -> Connection {
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

    /// Closes connections whose target is no longer served and clients that stall on memory;
    /// updates the hosts' statistics.
    async fn watch(self: Rc<Self>) {
        while !self.stopped.get() {
            self.env().sleep(LOOK_EVERY).await;
            let guests: Vec<_> = self.guests.borrow().values().cloned().collect();
            for guest in guests {
                self.look_at(&guest);
            }
        }
    }

    fn look_at(&self, ClientConnection { life, uses, .. }: &ClientConnection<S::Target>) {
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
        } else if now.since(since) >= self.options.stall_limit
            && self.waiting.get() > 0
            && !life.is_cut()
        {
            tracing::warn!(
                peer = %life.peer,
                "{}: a client stalls on memory that others need; it is disconnected",
                self.name
            );
            life.cut();
        }
    }
}
