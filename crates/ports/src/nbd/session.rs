//! A session: one connection from its greeting to its end.

use super::connection::{Connection, Life, Limits};
use super::exports::{ShardExports, longest_transfer};
use super::inlet::{Arrival, Inlet};
use super::requests::{Job, Memory, payload_memory};
use super::shard::Port;
use super::writer::{self, Reply};
use ::nbd::{Negotiated, Rejected, Request, RequestEvent, RequestStream, ServerEvent, ServerHandshake};
use env::{Buf, BufferPool, Slices, Stream};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use units::ByteCount;

/// Serves one connection until it ends; everything it held has been given back then.
pub(super) async fn run(port: Rc<Port>, stream: Rc<dyn Stream>, life: Rc<Life>) {
    life.set_reader();
    let mut inlet = Inlet::new(stream.clone(), life.clone());
    let end = match shake_hands(&port, &*stream, &life, &mut inlet).await {
        Ok(Some(negotiated)) => transmit(&port, &life, &mut inlet, *negotiated).await,
        Ok(None) => "left during the handshake".to_owned(),
        Err(why) => why,
    };
    life.cut();
    inlet.finish(port.env()).await;
    tracing::debug!(peer = %life.peer, end, "NBD connection closed");
}

/// The handshake, within its time limit. `None`: the client left; an error: why it was left.
async fn shake_hands(
    port: &Port,
    stream: &dyn Stream,
    life: &Life,
    inlet: &mut Inlet,
) -> Result<Option<Box<Negotiated>>, String> {
    let exports = ShardExports { shard: &port.shard, read_only: port.options.read_only };
    let handshake = within(port, life, async {
        let mut output = Vec::new();
        let mut handshake = ServerHandshake::start(&mut output);
        loop {
            if !send_all(stream, &mut output).await {
                return Ok(None);
            }
            if inlet.bytes().is_empty() && inlet.receive().await != Arrival::Bytes {
                return Ok(None);
            }
            let step = match handshake.receive(inlet.bytes(), &exports, &mut output) {
                Ok(step) => step,
                Err(error) => {
                    send_all(stream, &mut output).await;
                    return Err(error.to_string());
                }
            };
            inlet.consume(step.consumed);
            if let Some(event) = step.event {
                let sent = send_all(stream, &mut output).await;
                return Ok(match event {
                    ServerEvent::Enter(negotiated) if sent => Some(negotiated),
                    ServerEvent::Enter(_) | ServerEvent::Abort => None,
                });
            }
        }
    });
    let (outcome, in_time) = handshake.await;
    if in_time { outcome } else { Err("the handshake took too long".to_owned()) }
}

/// Waits for a handshake. When its time is up the connection is cut, which ends its receives and sends; they
/// are waited for, because an operation in flight is never dropped.
async fn within<T>(port: &Port, life: &Life, handshake: impl Future<Output = T>) -> (T, bool) {
    let mut handshake = pin!(handshake);
    let mut limit = pin!(port.env().sleep(port.options.handshake_limit));
    let mut in_time = true;
    poll_fn(|context| {
        if let Poll::Ready(outcome) = handshake.as_mut().poll(context) {
            return Poll::Ready((outcome, in_time));
        }
        if in_time && Pin::new(&mut limit).poll(context).is_ready() {
            in_time = false;
            life.cut();
            return handshake.as_mut().poll(context).map(|outcome| (outcome, false));
        }
        Poll::Pending
    })
    .await
}

/// Sends `output` and empties it; false when the client is gone.
pub(super) async fn send_all(stream: &dyn Stream, output: &mut Vec<u8>) -> bool {
    if output.is_empty() {
        return true;
    }
    let slices: Slices = std::iter::once(Buf::copy_of(output).freeze()).collect();
    output.clear();
    stream.send(slices).await.result.is_ok()
}

/// The transmission phase; says how it ended.
async fn transmit(port: &Rc<Port>, life: &Rc<Life>, inlet: &mut Inlet, negotiated: Negotiated) -> String {
    let Some(volume) = port.shard.volume_named(&negotiated.export.name) else {
        return "the volume went away".to_owned();
    };
    life.volume.set(Some(volume.spec().id));
    let limits = Limits {
        requests: port.options.requests_under_way.max(1),
        bytes: longest_transfer(&port.shard).0.max(port.env().pool().limit().0 / 8),
    };
    tracing::debug!(
        peer = %life.peer,
        volume = negotiated.export.name,
        style = ?negotiated.style,
        "NBD connection open"
    );
    let connection = Connection::new(&port.shard, volume, life, &negotiated, limits);
    port.env().spawn("nbd writer", writer::write_replies(connection.clone()));
    let end =
        Reader { port, connection: &connection, inlet, stream: RequestStream::new(negotiated) }.run().await;
    connection.drained().await;
    connection.end().await;
    tracing::debug!(peer = %life.peer, counters = ?connection.counters.get(), "NBD connection done");
    end
}

/// Takes requests in.
struct Reader<'a> {
    port: &'a Port,
    connection: &'a Rc<Connection>,
    inlet: &'a mut Inlet,
    stream: RequestStream,
}

/// The connection is over, and why.
struct Over(String);

impl Reader<'_> {
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
            let step = match self.stream.receive(self.inlet.bytes()) {
                Ok(step) => step,
                Err(error) => return Err(Over(error.to_string())),
            };
            self.inlet.consume(step.consumed);
            match step.event {
                None => return Ok(()),
                Some(_) if self.connection.life.is_stopping() => {
                    return Err(Over("the server stopped".to_owned()));
                }
                Some(RequestEvent::Request(request)) => self.request(request).await?,
                Some(RequestEvent::Rejected(rejected)) => self.rejected(&rejected).await,
                Some(RequestEvent::Disconnect) => return Err(Over("the client disconnected".to_owned())),
                // Every payload is taken together with its request.
                Some(RequestEvent::Payload { .. }) => {
                    return Err(Over("a payload without a write".to_owned()));
                }
            }
        }
    }

    async fn rejected(&mut self, rejected: &Rejected) {
        self.connection.admit(0).await;
        self.connection.count(|counters| counters.rejected += 1);
        let error = self.connection.replies.error(rejected.reply_to, rejected.errno, rejected.message);
        self.connection.reply(Reply::error(error, None));
    }

    async fn request(&mut self, request: Request) -> Result<(), Over> {
        let memory = self.admit(&request).await;
        let payload_bytes = request.payload_bytes();
        let mut payload = None;
        if payload_bytes > 0 {
            self.inlet.expect_payloads_like(payload_bytes);
            let life = &self.connection.life;
            life.set_receiving_payload(true);
            let taken = self.payload(ByteCount(payload_bytes.into())).await;
            life.set_receiving_payload(false);
            payload = match taken {
                Ok(payload) => Some(payload.freeze()),
                Err(over) => {
                    self.connection.release(1, memory.map_or(0, |memory| memory.bytes));
                    return Err(over);
                }
            };
        }
        self.connection.start(Job { request, payload, memory });
        Ok(())
    }

    /// Waits for the connection's limits, then for memory.
    async fn admit(&mut self, request: &Request) -> Option<Memory> {
        let need = payload_memory(request);
        if need.is_zero() {
            self.connection.admit(0).await;
            return None;
        }
        let bytes = BufferPool::block_size(need).0;
        self.connection.admit(bytes).await;
        Some(Memory { bytes, _taken: self.port.reserve(need).await })
    }

    /// Takes a write's payload off the stream; its memory has been reserved.
    async fn payload(&mut self, len: ByteCount) -> Result<Buf, Over> {
        let gone = || Over("the client closed it in the middle of a write".to_owned());
        let mut buf = self.port.env().pool().take_reserved(len);
        let here = self.inlet.bytes().len().min(len.as_usize());
        buf.bytes_mut()[..here].copy_from_slice(&self.inlet.bytes()[..here]);
        self.inlet.consume(here);
        if here < len.as_usize() {
            buf = self.inlet.receive_into(buf, here).await.ok_or_else(gone)?;
        }
        self.stream.payload_taken(len.as_usize()).map_err(|error| Over(error.to_string()))?;
        Ok(buf)
    }
}
