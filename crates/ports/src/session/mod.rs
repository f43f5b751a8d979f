//! A session: one connection from its greeting to its end, for any protocol.
//!
//! The reader (the session's own task) receives requests with their memory and payload, and hands
//! each to a worker. The protocol executes it in the worker, which queues the reply. The writer
//! sends replies. See [`Session`].

mod connection;
mod inlet;
mod life;
mod requests;
mod transfers;
mod writer;

pub use connection::Session;
pub use inlet::Arrival;
pub(crate) use inlet::Inlet;
pub(crate) use life::ConnectionState;
pub use requests::Refused;

use crate::access::Access;
use crate::encryption::Encryption;
use crate::protocol::{Arrived, Greeted, Protocol, Wire};
use crate::shard::{ClientConnection, Port, Uses};
use connection::{Job, Limits};
use platform::sync::Taken;
use platform::{Buf, BufferPool, Targets, Work};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use units::ByteCount;

/// Permissions and time limits of sessions; equal on all shards.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Clients may only read, even if the target permits writes.
    pub read_only: bool,
    /// The time limit of a greeting.
    pub greeting_limit: Duration,
    /// How long a client may stall while it holds memory that others need.
    pub stall_limit: Duration,
    /// Maximum number of outstanding requests of one connection, at least one.
    pub requests_under_way: u32,
    /// TLS, where the protocol supports it. `None`: no TLS.
    pub encryption: Option<Encryption>,
    /// The access rules. `None`: every client may use all targets.
    pub access: Option<Arc<Access>>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            read_only: false,
            greeting_limit: Duration::from_secs(30),
            stall_limit: Duration::from_secs(30),
            requests_under_way: 256,
            encryption: None,
            access: None,
        }
    }
}

/// Reserved memory of a request's payload, held until its reply was sent or dropped.
pub(crate) struct Memory {
    /// Size, as the session counts it.
    pub bytes: u64,
    _taken: Taken,
}

/// How a session starts.
pub(crate) enum Entry<T> {
    /// With a greeting, in which the client selects its target.
    Greets,
    /// Without a greeting.
    Known { target: Rc<T>, read_only: bool },
}

/// Serves one connection until its end, and releases all its resources.
pub(crate) async fn run<P: Protocol, S: Targets>(
    port: Rc<Port<S>>,
    guest: Rc<ClientConnection<S::Target>>,
    entry: Entry<S::Target>,
) {
    let life = guest.life.clone();
    life.set_reader();
    let mut inlet = Inlet::new(life.stream(), life.clone());
    let greeted = match entry {
        Entry::Greets => greet::<P, S>(&port, &life, &mut inlet).await,
        Entry::Known { target, read_only } => Ok(Some(P::known(&port.offer, target, read_only))),
    };
    if let (Ok(Some(_)), Some(place)) = (&greeted, &guest.place) {
        place.greeted();
    }
    let end = match greeted {
        Ok(Some(greeted)) => transmit(&port, &guest, &mut inlet, greeted).await,
        Ok(None) => "left during the greeting".to_owned(),
        Err(why) => why,
    };
    life.cut();
    inlet.finish(port.env()).await;
    tracing::debug!(peer = %life.peer, end, "{}: connection closed", P::NAME);
}

/// Performs the greeting within its time limit. `None`: the client left; an error: why the port
/// closed the connection.
async fn greet<P: Protocol, S: Targets>(
    port: &Port<S>,
    life: &ConnectionState,
    inlet: &mut Inlet,
) -> Result<Option<Greeted<P, S::Target>>, String> {
    let mut wire = Wire { stream: life.stream(), inlet, life };
    let (outcome, in_time) = within(port, life, P::greet(&mut wire, &port.offer)).await;
    if in_time { outcome } else { Err("the greeting took too long".to_owned()) }
}

/// Waits for a greeting. After its time limit the connection is cut, which ends its receives and
/// sends. The code waits for them: an outstanding operation is never dropped.
async fn within<S: Targets, T>(
    port: &Port<S>,
    life: &ConnectionState,
    greeting: impl Future<Output = T>,
) -> (T, bool) {
    let mut greeting = pin!(greeting);
    let mut limit = pin!(port.env().sleep(port.options.greeting_limit));
    let mut in_time = true;
    poll_fn(|context| {
        if let Poll::Ready(outcome) = greeting.as_mut().poll(context) {
            return Poll::Ready((outcome, in_time));
        }
        if in_time && Pin::new(&mut limit).poll(context).is_ready() {
            in_time = false;
            life.cut();
            return greeting.as_mut().poll(context).map(|outcome| (outcome, false));
        }
        Poll::Pending
    })
    .await
}

/// Receives requests until the connection ends; returns the reason of the end.
async fn transmit<P: Protocol, S: Targets>(
    port: &Rc<Port<S>>,
    guest: &ClientConnection<S::Target>,
    inlet: &mut Inlet,
    greeted: Greeted<P, S::Target>,
) -> String {
    let Greeted { target, protocol, decoder, read_only } = greeted;
    // Dropped at the end of the connection, for any reason.
    let connected = port.hosts().connect(port.connection(&guest.life, &target));
    let host = connected.host();
    *guest.uses.borrow_mut() = Some(Uses { target: target.clone(), host: host.clone() });
    let longest = port.offer.longest_transfer();
    let limits = Limits {
        requests: port.options.requests_under_way.max(1),
        bytes: longest.0.max(port.env().pool().limit().0 / 8),
        longest,
        read_only: read_only || port.offer.is_read_only(&target),
    };
    let session = Session::new(port.env(), target, protocol, &guest.life, host, limits);
    port.env().spawn("port writer", writer::write_replies(session.clone()));
    let end = Reader { port, session: &session, inlet, decoder }.run().await;
    session.drained().await;
    session.end().await;
    let counters = session.counters.get();
    tracing::debug!(peer = %guest.life.peer, ?counters, "{}: connection done", P::NAME);
    end
}

/// Receives requests.
struct Reader<'a, P: Protocol, S: Targets> {
    port: &'a Port<S>,
    session: &'a Rc<Session<P, S::Target>>,
    inlet: &'a mut Inlet,
    decoder: P::Decoder,
}

/// The connection has ended, for this reason.
struct SessionEnd(String);

impl<P: Protocol, S: Targets> Reader<'_, P, S> {
    async fn run(mut self) -> String {
        loop {
            if let Err(SessionEnd(why)) = self.take_all().await {
                return why;
            }
            match self.inlet.receive().await {
                Arrival::Bytes => {}
                Arrival::End => return "the client closed it".to_owned(),
                Arrival::Stopped => return "the server stopped".to_owned(),
            }
        }
    }

    /// Handles all received bytes.
    async fn take_all(&mut self) -> Result<(), SessionEnd> {
        loop {
            let step = self
                .session
                .protocol()
                .decode(&mut self.decoder, self.inlet.bytes())
                .map_err(SessionEnd)?;
            self.inlet.consume(step.consumed);
            match step.arrived {
                None => return Ok(()),
                Some(_) if self.session.life.is_stopping() => {
                    return Err(SessionEnd("the server stopped".to_owned()));
                }
                Some(Arrived::Request { request, payload, memory }) => {
                    self.request(request, payload, memory).await?;
                }
                Some(Arrived::Rejected(reply)) => {
                    self.session.admit(0).await;
                    self.session.count(|counters| counters.rejected += 1);
                    self.session.reply(reply, None);
                }
                Some(Arrived::End(why)) => return Err(SessionEnd(why)),
            }
        }
    }

    async fn request(
        &mut self,
        request: P::Request,
        payload: ByteCount,
        need: ByteCount,
    ) -> Result<(), SessionEnd> {
        assert!(payload <= need, "{}: a payload of {payload} without memory for it", P::NAME);
        if need > self.session.limits.longest {
            return Err(SessionEnd(format!("a request for {need} exceeds the maximum")));
        }
        let memory = self.admit(need).await;
        let mut taken = None;
        if !payload.is_zero() {
            self.inlet.expect_payloads_like(payload);
            let life = &self.session.life;
            life.set_receiving_payload(true);
            let received = self.payload(payload).await;
            life.set_receiving_payload(false);
            let Some(received) = received else {
                self.session.release(1, memory.map_or(0, |memory| memory.bytes));
                return Err(SessionEnd("the client closed it in the middle of a write".to_owned()));
            };
            taken = Some(received.freeze());
        }
        let modelled = self.port.env().charge(Work::HostRequest);
        self.session.start(Job { request, payload: taken, memory, modelled });
        Ok(())
    }

    /// Waits for the connection's limits, then for memory.
    async fn admit(&mut self, need: ByteCount) -> Option<Memory> {
        if need.is_zero() {
            self.session.admit(0).await;
            return None;
        }
        let bytes = BufferPool::block_size(need).0;
        self.session.admit(bytes).await;
        Some(Memory { bytes, _taken: self.port.reserve(self.session.target(), need).await })
    }

    /// Receives a payload into its reserved memory. `None`: the stream ended first.
    async fn payload(&mut self, len: ByteCount) -> Option<Buf> {
        let mut buf = self.port.env().pool().take_reserved(len);
        let here = self.inlet.bytes().len().min(len.as_usize());
        buf.bytes_mut()[..here].copy_from_slice(&self.inlet.bytes()[..here]);
        self.inlet.consume(here);
        if here < len.as_usize() {
            buf = self.inlet.receive_into(buf, here).await?;
        }
        Some(buf)
    }
}
