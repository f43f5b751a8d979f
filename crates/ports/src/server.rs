//! The server: listens, counts connections, and deals them to the shards. It lives on shard 0.

use crate::protocol::{Protocol, Wire};
use crate::session::{Inlet, Life};
use crate::shard::PortMessage;
use crate::{Error, ErrorKind, Result};
use platform::sync::Signal;
use platform::{Address, Env, JoinHandle, Listener, StreamSource, mailbox};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

/// How long an acceptor rests after an error that may pass (too many open files).
const REST: Duration = Duration::from_secs(1);
/// How long a client that is turned away may take to hear why.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// Clients that are turned away politely at a time; more are just closed.
const REFUSALS: u32 = 16;

/// What a server listens for and how much it takes on.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Connections open at a time, on all addresses and shards together: at most [`MOST_CONNECTIONS`](crate::MOST_CONNECTIONS).
    pub max_connections: u32,
    /// Of these, clients that have not yet said what they want: for one more, the oldest of them is cut off.
    pub max_greetings: u32,
    /// Listen where other machines can connect.
    pub allow_remote: bool,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions::taking(1024)
    }
}

impl ServerOptions {
    /// Takes so many connections, on addresses of this machine. An eighth of them may be about to say what they want, or 32: machines that
    /// start together do not cut one another off.
    #[must_use]
    pub fn taking(connections: u32) -> ServerOptions {
        ServerOptions {
            max_connections: connections,
            max_greetings: (connections / 8).max(32),
            allow_remote: false,
        }
    }
}

/// One of the connections that the server takes on; dropping it makes room for another.
pub struct Place {
    number: u64,
    is_greeting: Cell<bool>,
    said: mailbox::Sender<Said>,
}

/// What the server hears of a place, at most once each.
enum Said {
    /// Its client has been greeted.
    Greeted(u64),
    /// It is free.
    Vacated(u64),
}

impl Place {
    /// Its number; later ones have higher numbers.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether its client has not been greeted yet.
    pub(crate) fn is_greeting(&self) -> bool {
        self.is_greeting.get()
    }

    /// Its client has been greeted.
    pub(crate) fn greeted(&self) {
        if self.is_greeting.replace(false) {
            let _ = self.said.send(Said::Greeted(self.number));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Without a server there is nobody to count; with one, its mailbox has room for every place.
        let _ = self.said.send(Said::Vacated(self.number));
    }
}

struct Shared<P> {
    env: Env,
    shards: Vec<mailbox::Sender<PortMessage>>,
    next: Cell<usize>,
    options: ServerOptions,
    taken: Rc<Taken>,
    next_place: Cell<u64>,
    refusing: Cell<u32>,
    said: mailbox::Sender<Said>,
    closing: Cell<bool>,
    protocol: PhantomData<P>,
}

/// The places that are taken.
#[derive(Default)]
struct Taken {
    all: Cell<u32>,
    /// Those whose clients have not been greeted, by number, with the shard that has them.
    greeting: RefCell<BTreeMap<u64, usize>>,
    changed: Signal,
}

impl Taken {
    /// Counts until nobody can say anything any more.
    async fn count(self: Rc<Self>, env: Env, mut said: mailbox::Receiver<Said>) {
        while let Some(said) = said.receive().await {
            let (Said::Greeted(number) | Said::Vacated(number)) = said;
            self.greeting.borrow_mut().remove(&number);
            if let Said::Vacated(_) = said {
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
    /// Listens at `addresses` and deals connections to `shards` in turn.
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

    /// Listens at `addresses`, and accepts nobody yet: who connects waits until [`Server::accept`].
    ///
    /// # Errors
    /// When an address is beyond this machine and that is not allowed, or cannot be listened at: then at none.
    pub async fn listen(
        env: &Env,
        addresses: &[Address],
        shards: Vec<mailbox::Sender<PortMessage>>,
        options: ServerOptions,
    ) -> Result<Server<P>> {
        if let Some(remote) = addresses.iter().find(|address| !address.is_local() && !options.allow_remote) {
            return Err(Error {
                kind: ErrorKind::Remote,
                context: format!(
                    "'{remote}' can be reached from other machines, and whoever reaches it can use {}; listen at \
                     127.0.0.1 or a Unix socket, or give --allow-remote",
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
        let taken = Rc::new(Taken::default());
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

    /// Begins to accept connections, and to deal them to the shards.
    pub fn accept(&mut self) {
        let shared = &self.shared;
        let accept = |listener: &Rc<dyn Listener>| {
            shared.env.spawn("port accept", shared.clone().accept(listener.clone()))
        };
        self.acceptors.extend(self.listeners.iter().map(accept));
    }

    /// Where it listens, with the ports that were chosen for it.
    pub fn addresses(&self) -> Vec<Address> {
        self.listeners.iter().map(|listener| listener.address()).collect()
    }

    /// How many connections are open.
    pub fn connections(&self) -> u32 {
        self.shared.taken.all.get()
    }

    /// Stops listening, lets every connection answer what is under way, and closes it; after `limit`, whatever
    /// is under way.
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
                    tracing::warn!(address = %listener.address(), %error, "{}: a connection was not accepted", P::NAME);
                    self.env.sleep(REST).await;
                }
            }
        }
    }

    /// Gives a connection to the next shard, or turns it away.
    async fn deal(self: &Rc<Self>, source: Box<dyn StreamSource>) {
        let peer = source.peer();
        if !self.has_room().await {
            tracing::warn!(%peer, limit = self.options.max_connections, "{}: a connection is turned away: too many are open", P::NAME);
            return self.refuse(source);
        }
        let number = self.next_place.get();
        self.next_place.set(number + 1);
        self.taken.all.set(self.taken.all.get() + 1);
        let place = Place { number, is_greeting: Cell::new(true), said: self.said.clone() };
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
        tracing::warn!(%peer, "{}: a connection is turned away: every shard is busy", P::NAME);
        if let PortMessage::Connection { source, place } = message {
            drop(place);
            self.refuse(source);
        }
    }

    /// Whether there is a place for one more client, if need be that of the one that has been silent for longest.
    async fn has_room(&self) -> bool {
        let Taken { all, greeting, changed } = &*self.taken;
        loop {
            let greets = greeting.borrow().len() as u64;
            let has_place = all.get() < self.options.max_connections;
            if has_place && greets < u64::from(self.options.max_greetings.max(1)) {
                return true;
            }
            let oldest = greeting.borrow().first_key_value().map(|(number, shard)| (*number, *shard));
            let Some((number, shard)) = oldest else { return false };
            if self.shards[shard].send(PortMessage::Displace(number)).is_err() {
                return false;
            }
            changed.wait_until(&self.env, || !greeting.borrow().contains_key(&number)).await;
        }
    }

    /// Has the protocol say that there is no room, for a short while.
    fn refuse(self: &Rc<Self>, source: Box<dyn StreamSource>) {
        if self.refusing.get() >= REFUSALS {
            return;
        }
        let peer = source.peer();
        let Ok(stream) = source.attach(&self.env) else { return };
        self.refusing.set(self.refusing.get() + 1);
        let life = Life::new(&self.env, stream.clone(), peer);
        let refusal = self.env.spawn("port refusal", async move {
            let mut inlet = Inlet::new(life.stream(), life.clone());
            P::turn_away(&mut Wire { stream: life.stream(), inlet: &mut inlet, life: &life }).await;
        });
        let shared = self.clone();
        self.env.spawn("port refusal limit", async move {
            // Ends with the refusal, or ends it: a shutdown returns its receive.
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
