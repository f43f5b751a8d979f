//! The server: listens, counts connections, and deals them to the shards. It lives on shard 0.

use super::session::send_all;
use super::shard::PortMessage;
use crate::{Error, ErrorKind, Result};
use ::nbd::ServerHandshake;
use env::{Address, Buf, Env, JoinHandle, Listener, Stream, StreamSource, mailbox};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// How long an acceptor rests after an error that may pass (too many open files).
const REST: Duration = Duration::from_secs(1);
/// How long a client that is turned away may take to hear why.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// Clients that are turned away politely at a time; more are just closed.
const REFUSALS: u32 = 16;

/// What a server listens for and how much it takes on.
#[derive(Clone, Copy, Debug)]
pub struct NbdServerOptions {
    /// Connections open at a time, on all addresses and shards together.
    pub max_connections: u32,
    /// Listen where other machines can connect. NBD here has neither encryption nor authentication.
    pub allow_remote: bool,
}

impl Default for NbdServerOptions {
    fn default() -> NbdServerOptions {
        NbdServerOptions { max_connections: 128, allow_remote: false }
    }
}

/// One of the connections that the server takes on; dropping it makes room for another.
pub struct Place {
    vacated: mailbox::Sender<()>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Without a server there is nobody to count; with one, its mailbox has room for every place.
        let _ = self.vacated.send(());
    }
}

struct Shared {
    env: Env,
    shards: Vec<mailbox::Sender<PortMessage>>,
    next: Cell<usize>,
    max_connections: u32,
    open: Rc<Cell<u32>>,
    refusing: Cell<u32>,
    vacated: mailbox::Sender<()>,
    closing: Cell<bool>,
}

/// A running server.
pub struct NbdServer {
    shared: Rc<Shared>,
    listeners: Vec<Rc<dyn Listener>>,
    acceptors: Vec<JoinHandle<()>>,
}

impl NbdServer {
    /// Listens at `addresses` and deals connections to `shards` in turn.
    ///
    /// # Errors
    /// When an address is beyond this machine and that is not allowed, or cannot be listened at: then at none.
    pub async fn start(
        env: &Env,
        addresses: &[Address],
        shards: Vec<mailbox::Sender<PortMessage>>,
        options: NbdServerOptions,
    ) -> Result<NbdServer> {
        if let Some(remote) = addresses.iter().find(|address| !address.is_local() && !options.allow_remote) {
            return Err(Error {
                kind: ErrorKind::Remote,
                context: format!(
                    "'{remote}' can be reached from other machines, and NBD is served without encryption and \
                     passwords; listen at 127.0.0.1 or a Unix socket, or give --allow-remote"
                ),
                source: None,
            });
        }
        let mut listeners = Vec::new();
        for address in addresses {
            let listener = env.world().listen(address).await.map_err(|source| Error {
                kind: ErrorKind::Listen,
                context: format!("NBD cannot be served at '{address}'"),
                source: Some(Box::new(source)),
            })?;
            listeners.push(listener);
        }
        let (vacated, mut vacancies) = mailbox::mailbox(env, options.max_connections as usize + 1);
        let open = Rc::new(Cell::new(0));
        let counted = open.clone();
        env.spawn("nbd places", async move {
            while vacancies.receive().await.is_some() {
                counted.set(counted.get() - 1);
            }
        });
        let shared = Rc::new(Shared {
            env: env.clone(),
            shards,
            next: Cell::new(0),
            max_connections: options.max_connections,
            open,
            refusing: Cell::new(0),
            vacated,
            closing: Cell::new(false),
        });
        let accept =
            |listener: &Rc<dyn Listener>| env.spawn("nbd accept", shared.clone().accept(listener.clone()));
        let acceptors = listeners.iter().map(accept).collect();
        Ok(NbdServer { shared, listeners, acceptors })
    }

    /// Where it listens, with the ports that were chosen for it.
    pub fn addresses(&self) -> Vec<Address> {
        self.listeners.iter().map(|listener| listener.address()).collect()
    }

    /// How many connections are open.
    pub fn connections(&self) -> u32 {
        self.shared.open.get()
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
                tracing::debug!("a shard's NBD port has stopped before");
            }
        }
        drop(done);
        while answers.receive().await.is_some() {}
    }
}

impl Shared {
    async fn accept(self: Rc<Self>, listener: Rc<dyn Listener>) {
        loop {
            match listener.accept().await {
                Ok(source) if !self.closing.get() => self.deal(source),
                _ if self.closing.get() => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(address = %listener.address(), %error, "an NBD connection was not accepted");
                    self.env.sleep(REST).await;
                }
            }
        }
    }

    /// Gives a connection to the next shard, or turns it away.
    fn deal(self: &Rc<Self>, source: Box<dyn StreamSource>) {
        let peer = source.peer();
        if self.open.get() >= self.max_connections {
            tracing::warn!(%peer, limit = self.max_connections, "an NBD connection is turned away: too many are open");
            return self.refuse(source);
        }
        self.open.set(self.open.get() + 1);
        let place = Place { vacated: self.vacated.clone() };
        let mut message = PortMessage::Connection { source, place };
        for _ in 0..self.shards.len() {
            let next = self.next.get() % self.shards.len();
            self.next.set(next + 1);
            match self.shards[next].send(message) {
                Ok(()) => return,
                Err(mailbox::Full(back)) => message = back,
            }
        }
        tracing::warn!(%peer, "an NBD connection is turned away: every shard is busy");
        if let PortMessage::Connection { source, place } = message {
            drop(place);
            self.refuse(source);
        }
    }

    /// Answers whatever the client asks for with a refusal, for a short while.
    fn refuse(self: &Rc<Self>, source: Box<dyn StreamSource>) {
        if self.refusing.get() >= REFUSALS {
            return;
        }
        let Ok(stream) = source.attach(&self.env) else { return };
        self.refusing.set(self.refusing.get() + 1);
        let refusal = self.env.spawn("nbd refusal", refuse(stream.clone()));
        let shared = self.clone();
        self.env.spawn("nbd refusal limit", async move {
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

async fn refuse(stream: Rc<dyn Stream>) {
    let mut output = Vec::new();
    let mut handshake = ServerHandshake::start(&mut output);
    handshake.shut_down();
    let mut buf = Buf::unpooled(ByteCount(4096));
    loop {
        if !send_all(&*stream, &mut output).await {
            return;
        }
        let mut outcome = stream.receive(buf).await;
        let (Ok(count @ 1..), Some(back)) = (outcome.result, outcome.buffers.pop()) else { return };
        buf = back;
        let mut input = &buf.bytes()[..count as usize];
        while !input.is_empty() {
            match handshake.receive(input, &NoExports, &mut output) {
                Ok(step) if step.event.is_none() => input = &input[step.consumed..],
                _ => return,
            }
        }
    }
}

struct NoExports;

impl ::nbd::Exports for NoExports {
    fn list(&self) -> Vec<::nbd::ExportEntry> {
        Vec::new()
    }
    fn find(&self, _: &str) -> Option<::nbd::ExportInfo> {
        None
    }
}
