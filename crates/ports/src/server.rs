//! The server: listens, limits connections, and assigns them to shards. It runs on shard 0.

use crate::protocol::{Protocol, Wire};
use crate::session::{ConnectionState, Inlet};
use crate::shard::PortMessage;
use crate::{Error, ErrorKind, Result};
use platform::sync::Signal;
use platform::{Address, Env, JoinHandle, Listener, StreamSource, mailbox};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

/// Pause of the acceptor after a transient error (too many open files).
const REST: Duration = Duration::from_secs(1);
/// Time limit for sending the reason to a rejected client.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of rejected clients that receive a reason at a time; others are closed at once.
const REFUSALS: u32 = 16;

/// Addresses and limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Maximum number of open connections, over all addresses and shards: at most
    /// [`MOST_CONNECTIONS`](crate::MOST_CONNECTIONS).
    pub max_connections: u32,
    /// Maximum number of unfinished greetings; for one more, the oldest is closed.
    pub max_greetings: u32,
    /// Allow addresses that other machines can reach.
    pub allow_remote: bool,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions::taking(1024)
    }
}

impl ServerOptions {
    /// Limits the number of connections, on addresses of this machine. Unfinished greetings: an
    /// eighth of it, but at least 32, so that clients that connect together do not displace each
    /// other.
    #[must_use]
    pub fn taking(connections: u32) -> ServerOptions {
        ServerOptions {
            max_connections: connections,
            max_greetings: (connections / 8).max(32),
            allow_remote: false,
        }
    }
}

/// A connection slot of the server; dropping it frees the slot.
pub struct ConnectionSlot {
    number: u64,
    is_greeting: Cell<bool>,
    said: mailbox::Sender<SlotReport>,
}

/// Reports about a slot, each at most once.
enum SlotReport {
    /// The greeting is complete.
    Greeted(u64),
    /// The slot is free.
    Vacated(u64),
}

impl ConnectionSlot {
    /// The number of the slot; numbers rise.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the greeting is unfinished.
    pub(crate) fn is_greeting(&self) -> bool {
        self.is_greeting.get()
    }

    /// Marks the greeting as complete.
    pub(crate) fn greeted(&self) {
        if self.is_greeting.replace(false) {
            let _ = self.said.send(SlotReport::Greeted(self.number));
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // Fails only without a server; the mailbox has space for every slot.
        let _ = self.said.send(SlotReport::Vacated(self.number));
    }
}

struct Shared<P> {
    env: Env,
    shards: Vec<mailbox::Sender<PortMessage>>,
    next: Cell<usize>,
    options: ServerOptions,
    taken: Rc<UsedSlots>,
    next_place: Cell<u64>,
    refusing: Cell<u32>,
    said: mailbox::Sender<SlotReport>,
    closing: Cell<bool>,
    protocol: PhantomData<P>,
}

/// The slots in use.
#[derive(Default)]
struct UsedSlots {
    all: Cell<u32>,
    /// Unfinished greetings, by slot number, with their shard.
    greeting: RefCell<BTreeMap<u64, usize>>,
    changed: Signal,
}

impl UsedSlots {
    /// Counts until no slot can send a report.
    async fn count(self: Rc<Self>, env: Env, mut said: mailbox::Receiver<SlotReport>) {
        while let Some(said) = said.receive().await {
            let (SlotReport::Greeted(number) | SlotReport::Vacated(number)) = said;
            self.greeting.borrow_mut().remove(&number);
            if let SlotReport::Vacated(_) = said {
                self.all.set(self.all.get() - 1);
            }
            self.changed.notify(&env);
        }
    }
}

/// A running server of one protocol.
pub struct Server<P> {
    shared: Rc<Shared<P>>,
    listeners: Vec<Rc<dyn Listener>>,
    acceptors: Vec<JoinHandle<()>>,
}

impl<P: Protocol> Server<P> {
    /// Listens at `addresses` and assigns connections to `shards` in rotation.
    ///
    /// # Errors
    /// As [`Server::listen`].
    pub async fn start(
        env: &Env,
        addresses: &[Address],
        shards: Vec<mailbox::Sender<PortMessage>>,
        options: ServerOptions,
    ) -> Result<Server<P>> {
        let mut server = Server::listen(env, addresses, shards, options).await?;
        server.accept();
        Ok(server)
    }

    /// Listens at `addresses`. New connections wait until [`Server::accept`].
    ///
    /// # Errors
    /// When an address is reachable from other machines without permission, or cannot be listened
    /// at. The server then listens at no address.
    pub async fn listen(
        env: &Env,
        addresses: &[Address],
        shards: Vec<mailbox::Sender<PortMessage>>,
        options: ServerOptions,
    ) -> Result<Server<P>> {
        if let Some(remote) =
            addresses.iter().find(|address| !address.is_local() && !options.allow_remote)
        {
            return Err(Error {
                kind: ErrorKind::Remote,
                context: format!(
                    "'{remote}' can be reached from other machines, which could all use {}; \
                     listen at 127.0.0.1 or a Unix socket, or give --allow-remote",
                    P::NAME
                ),
                source: None,
            });
        }
        let mut listeners = Vec::new();
        for address in addresses {
            let listener = env.world().listen(address).await.map_err(|source| Error {
                kind: ErrorKind::Listen,
                context: format!("{} cannot be served at '{address}'", P::NAME),
                source: Some(Box::new(source)),
            })?;
            listeners.push(listener);
        }
        let (said, hears) = mailbox::mailbox(env, 2 * options.max_connections as usize + 1);
        let taken = Rc::new(UsedSlots::default());
        env.spawn("port places", taken.clone().count(env.clone(), hears));
        let shared = Rc::new(Shared {
            env: env.clone(),
            shards,
            next: Cell::new(0),
            options,
            taken,
            next_place: Cell::new(0),
            refusing: Cell::new(0),
            said,
            closing: Cell::new(false),
            protocol: PhantomData,
        });
        Ok(Server { shared, listeners, acceptors: Vec::new() })
    }

    /// Accepts connections and assigns them to the shards.
    pub fn accept(&mut self) {
        let shared = &self.shared;
        let accept = |listener: &Rc<dyn Listener>| {
            shared.env.spawn("port accept", shared.clone().accept(listener.clone()))
        };
        self.acceptors.extend(self.listeners.iter().map(accept));
    }

    /// The listening addresses, with the ports that the system assigned.
    pub fn addresses(&self) -> Vec<Address> {
        self.listeners.iter().map(|listener| listener.address()).collect()
    }

    /// The number of open connections.
    pub fn connections(&self) -> u32 {
        self.shared.taken.all.get()
    }

    /// Stops listening and closes connections after their outstanding requests. After `limit`, it
    /// closes them at once.
    pub async fn shut_down(self, limit: Duration) {
        let shared = &self.shared;
        shared.closing.set(true);
        self.listeners.iter().for_each(|listener| listener.close());
        for acceptor in self.acceptors {
            acceptor.await;
        }
        drop(self.listeners);
        let (done, mut answers) = mailbox::mailbox(&shared.env, shared.shards.len().max(1));
        for shard in &shared.shards {
            if shard.send(PortMessage::Stop { limit, done: done.clone() }).is_err() {
                tracing::debug!("a shard's {} port has stopped before", P::NAME);
            }
        }
        drop(done);
        while answers.receive().await.is_some() {}
    }
}

impl<P: Protocol> Shared<P> {
    async fn accept(self: Rc<Self>, listener: Rc<dyn Listener>) {
        loop {
            match listener.accept().await {
                Ok(source) if !self.closing.get() => self.deal(source).await,
                _ if self.closing.get() => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(address = %listener.address(), %error, "{}: accepting a \
                        connection failed", P::NAME);
                    self.env.sleep(REST).await;
                }
            }
        }
    }

    /// Passes a connection to the next shard, or rejects it.
    async fn deal(self: &Rc<Self>, source: Box<dyn StreamSource>) {
        let peer = source.peer();
        if !self.has_room().await {
            tracing::warn!(%peer, limit = self.options.max_connections, "{}: connection \
                rejected: too many are open", P::NAME);
            return self.refuse(source);
        }
        let number = self.next_place.get();
        self.next_place.set(number + 1);
        self.taken.all.set(self.taken.all.get() + 1);
        let place =
            ConnectionSlot { number, is_greeting: Cell::new(true), said: self.said.clone() };
        let mut message = PortMessage::Connection { source, place };
        for _ in 0..self.shards.len() {
            let next = self.next.get() % self.shards.len();
            self.next.set(next + 1);
            self.taken.greeting.borrow_mut().insert(number, next);
            match self.shards[next].send(message) {
                Ok(()) => return,
                Err(mailbox::Full(back)) => message = back,
            }
        }
        tracing::warn!(%peer, "{}: connection rejected: every shard is busy", P::NAME);
        if let PortMessage::Connection { source, place } = message {
            drop(place);
            self.refuse(source);
        }
    }

    /// Whether a slot is free, after closing the oldest unfinished greeting if necessary.
    async fn has_room(&self) -> bool {
        let UsedSlots { all, greeting, changed } = &*self.taken;
        loop {
            let greets = greeting.borrow().len() as u64;
            let has_place = all.get() < self.options.max_connections;
            if has_place && greets < u64::from(self.options.max_greetings.max(1)) {
                return true;
            }
            let oldest =
                greeting.borrow().first_key_value().map(|(number, shard)| (*number, *shard));
            let Some((number, shard)) = oldest else { return false };
            if self.shards[shard].send(PortMessage::Displace(number)).is_err() {
                return false;
            }
            changed.wait_until(&self.env, || !greeting.borrow().contains_key(&number)).await;
        }
    }

    /// Lets the protocol reject the client, within a time limit.
    fn refuse(self: &Rc<Self>, source: Box<dyn StreamSource>) {
        if self.refusing.get() >= REFUSALS {
            return;
        }
        let peer = source.peer();
        let Ok(stream) = source.attach(&self.env) else { return };
        self.refusing.set(self.refusing.get() + 1);
        let life = ConnectionState::new(&self.env, stream.clone(), peer);
        let refusal = self.env.spawn("port refusal", async move {
            let mut inlet = Inlet::new(life.stream(), life.clone());
            P::turn_away(&mut Wire { stream: life.stream(), inlet: &mut inlet, life: &life }).await;
        });
        let shared = self.clone();
        self.env.spawn("port refusal limit", async move {
            // Ends with the refusal, or ends it by a shutdown, which returns its receive.
            let mut waited = Duration::ZERO;
            while !refusal.is_finished() && waited < REFUSAL_LIMIT {
                shared.env.sleep(REFUSAL_LIMIT / 10).await;
                waited += REFUSAL_LIMIT / 10;
            }
            stream.shutdown();
            refusal.await;
            shared.refusing.set(shared.refusing.get() - 1);
        });
    }
}
