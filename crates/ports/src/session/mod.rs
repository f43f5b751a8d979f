//! A session: one connection from its greeting to its end, whatever it speaks.
//!
//! The reader (the session's own task) takes requests in, with the memory and the payload that they need, and hands each to
//! a worker; a worker has the protocol carry it out and queues the reply; the writer sends replies. See [`Session`].

mod connection;
mod inlet;
mod life;
mod requests;
mod writer;

pub use connection::Session;
pub use inlet::Arrival;
pub(crate) use inlet::Inlet;
pub(crate) use life::Life;
pub use requests::Refused;

use crate::access::Access;
use crate::encryption::Encryption;
use crate::protocol::{Arrived, Greeted, Protocol, Wire};
use crate::shard::{Guest, Port, Uses};
use connection::{Job, Limits};
use platform::sync::Taken;
use platform::{Buf, BufferPool, Targets};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use units::ByteCount;

/// What sessions may do and how long they may take; the same on every shard.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Clients may change nothing, whatever the target would allow.
    pub read_only: bool,
    /// How long a greeting may take altogether.
    pub greeting_limit: Duration,
    /// How long a client may stand still while it holds memory that others wait for.
    pub stall_limit: Duration,
    /// How many requests of one connection may be under way, at least one.
    pub requests_under_way: u32,
    /// TLS, where the protocol has it. `None`: there is none.
    pub encryption: Option<Encryption>,
    /// Who may use what. `None`: everybody everything.
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

/// Memory that was reserved for a request's payload; held until its reply was sent or dropped.
pub(crate) struct Memory {
    /// As the session counts them.
    pub bytes: u64,
    _taken: Taken,
}

/// How a session begins.
pub(crate) enum Entry<T> {
    /// With a greeting, in which the client names its target.
    Greets,
    /// With requests.
    Known { target: Rc<T>, read_only: bool },
}

/// Serves one connection until it ends; everything it held has been given back then.
pub(crate) async fn run<P: Protocol, S: Targets>(
    port: Rc<Port<S>>,
    guest: Rc<Guest<S::Target>>,
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

/// The greeting, within its time limit. `None`: the client left; an error: why it was left.
async fn greet<P: Protocol, S: Targets>(
    port: &Port<S>,
    life: &Life,
    inlet: &mut Inlet,
) -> Result<Option<Greeted<P, S::Target>>, String> {
    let mut wire = Wire { stream: life.stream(), inlet, life };
    let (outcome, in_time) = within(port, life, P::greet(&mut wire, &port.offer)).await;
    if in_time { outcome } else { Err("the greeting took too long".to_owned()) }
}

/// Waits for a greeting. When its time is up the connection is cut, which ends its receives and sends; they
/// are waited for, because an operation in flight is never dropped.
async fn within<S: Targets, T>(port: &Port<S>, life: &Life, greeting: impl Future<Output = T>) -> (T, bool) {
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

/// Takes requests in until the connection is over; says how it ended.
async fn transmit<P: Protocol, S: Targets>(
    port: &Rc<Port<S>>,
    guest: &Guest<S::Target>,
    inlet: &mut Inlet,
    greeted: Greeted<P, S::Target>,
) -> String {
    let Greeted { target, protocol, decoder, read_only } = greeted;
    // Until the connection is over, whatever ends it.
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
    tracing::debug!(peer = %guest.life.peer, counters = ?session.counters.get(), "{}: connection done", P::NAME);
    end
}

/// Takes requests in.
struct Reader<'a, P: Protocol, S: Targets> {
    port: &'a Port<S>,
    session: &'a Rc<Session<P, S::Target>>,
    inlet: &'a mut Inlet,
    decoder: P::Decoder,
}

/// The connection is over, and why.
struct Over(String);

impl<P: Protocol, S: Targets> Reader<'_, P, S> {
    async fn run(mut self) -> String {
        loop {
            if let Err(Over(why)) = self.take_all().await {
                return why;
            }
            match self.inlet.receive().await {
                Arrival::Bytes => {}
                Arrival::End => return "the client closed it".to_owned(),
                Arrival::Stopped => return "the server stopped".to_owned(),
            }
        }
    }

    /// Everything that has been received.
    async fn take_all(&mut self) -> Result<(), Over> {
        loop {
            let step = self.session.protocol().decode(&mut self.decoder, self.inlet.bytes()).map_err(Over)?;
            self.inlet.consume(step.consumed);
            match step.arrived {
                None => return Ok(()),
                Some(_) if self.session.life.is_stopping() => {
                    return Err(Over("the server stopped".to_owned()));
                }
                Some(Arrived::Request { request, payload, memory }) => {
                    self.request(request, payload, memory).await?;
                }
                Some(Arrived::Rejected(reply)) => {
                    self.session.admit(0).await;
                    self.session.count(|counters| counters.rejected += 1);
                    self.session.reply(reply, None);
                }
                Some(Arrived::End(why)) => return Err(Over(why)),
            }
        }
    }

    async fn request(
        &mut self,
        request: P::Request,
        payload: ByteCount,
        need: ByteCount,
    ) -> Result<(), Over> {
        assert!(payload <= need, "{}: a payload of {payload} without memory for it", P::NAME);
        if need > self.session.limits.longest {
            return Err(Over(format!("a request for {need}: more than is offered")));
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
                return Err(Over("the client closed it in the middle of a write".to_owned()));
            };
            taken = Some(received.freeze());
        }
        self.session.start(Job { request, payload: taken, memory });
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

    /// Takes a payload off the stream; its memory has been reserved. `None`: the stream ended first.
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
