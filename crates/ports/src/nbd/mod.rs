//! The NBD port: targets as network block devices.
//!
//! # What is served
//! Every target under its name, with any byte range; the empty name means the only target, where there is exactly
//! one. Flush, FUA, trim, zeroes, `base:allocation` and several connections to one target hold what the target
//! promises. *Cache* reads the range and drops it, so that what caches there are below hold it (at most
//! the longest read's length: the protocol calls it advice). *Fast zero* is always answered with "not supported":
//! zeroes are written like data here, they only need not travel.
//!
//! | what | where |
//! | --- | --- |
//! | the greeting, and which target is meant | here, `exports` |
//! | requests off the stream, and how much memory they need | here |
//! | which calls a request stands for, and its reply | `requests` |
//! | numbers and rules of the protocol | the crate `nbd` |

mod exports;
mod requests;

use crate::protocol::{Arrival, Arrived, Greeted, Offer, Protocol, Reply, Step, Wire};
use crate::session::Session;
use ::nbd::{
    Command, ErrorReply, Exports, Negotiated, Replies, ReplyHeader, ReplyStyle, Request, RequestEvent,
    RequestStream, ServerEvent, ServerHandshake,
};
use env::{BlockTarget, Slice, Targets};
use exports::{NoExports, Offered};
use std::rc::Rc;
use units::ByteCount;

/// What a cache request reads at a time.
const CACHE_PIECE: ByteCount = ByteCount(256 << 10);

/// The protocol, as one client and its session agreed on it.
pub struct Nbd {
    replies: Replies,
    longest_transfer: ByteCount,
}

/// The bytes of a reply in front of its data.
pub enum Head {
    /// Of a success.
    Header(ReplyHeader),
    /// A whole error reply.
    Error(Box<ErrorReply>),
}

impl AsRef<[u8]> for Head {
    fn as_ref(&self) -> &[u8] {
        match self {
            Head::Header(header) => header.as_ref(),
            Head::Error(error) => (**error).as_ref(),
        }
    }
}

impl Protocol for Nbd {
    const NAME: &'static str = "NBD";
    const LONGEST_HEAD: usize = 256;
    type Decoder = RequestStream;
    type Request = Request;
    type Head = Head;

    async fn greet<S: Targets>(
        wire: &mut Wire<'_>,
        offer: &Offer<S>,
    ) -> Result<Option<Greeted<Nbd, S::Target>>, String> {
        let mut output = Vec::new();
        let handshake = ServerHandshake::start(&mut output);
        let Some(negotiated) = shake_hands(wire, handshake, output, &Offered(offer)).await? else {
            return Ok(None);
        };
        let name = &negotiated.export.name;
        let target = offer.find(name).ok_or("the volume went away")?;
        tracing::debug!(peer = %wire.peer(), volume = name, style = ?negotiated.style, "NBD: connection open");
        let protocol = Nbd { replies: Replies::new(&negotiated), longest_transfer: offer.longest_transfer() };
        Ok(Some(Greeted { target, protocol, decoder: RequestStream::new(*negotiated) }))
    }

    fn known<S: Targets>(
        offer: &Offer<S>,
        target: Rc<S::Target>,
        read_only: bool,
    ) -> Greeted<Nbd, S::Target> {
        let mut export = Offered(offer).info(&target);
        export.flags.read_only |= read_only;
        // What the kernel speaks: of the others nothing was agreed.
        let agreed = Negotiated { export, style: ReplyStyle::Simple, base_allocation: false };
        let protocol = Nbd { replies: Replies::new(&agreed), longest_transfer: offer.longest_transfer() };
        Greeted { target, protocol, decoder: RequestStream::new(agreed) }
    }

    async fn turn_away(wire: &mut Wire<'_>) {
        let mut output = Vec::new();
        let mut handshake = ServerHandshake::start(&mut output);
        handshake.shut_down();
        if let Err(error) = shake_hands(wire, handshake, output, &NoExports).await {
            tracing::debug!(peer = %wire.peer(), error, "NBD: who is turned away said something odd");
        }
    }

    fn decode(&self, stream: &mut RequestStream, bytes: &[u8]) -> Result<Step<Nbd>, String> {
        let step = stream.receive(bytes).map_err(|error| error.to_string())?;
        let arrived = match step.event {
            None => None,
            Some(RequestEvent::Request(request)) => {
                let payload = request.payload_bytes();
                // The session takes all of it before it asks for the next request.
                stream.payload_taken(payload as usize).map_err(|error| error.to_string())?;
                let memory = self.payload_memory(&request);
                Some(Arrived::Request { request, payload: ByteCount(payload.into()), memory })
            }
            Some(RequestEvent::Rejected(rejected)) => {
                let error = self.replies.error(rejected.reply_to, rejected.errno, rejected.message);
                Some(Arrived::Rejected(Reply::error(Head::Error(Box::new(error)))))
            }
            Some(RequestEvent::Disconnect) => Some(Arrived::End("the client disconnected".to_owned())),
            Some(RequestEvent::Payload { .. }) => return Err("a payload without a write".to_owned()),
        };
        Ok(Step { consumed: step.consumed, arrived })
    }

    fn execute<T: BlockTarget>(
        session: &Session<Nbd, T>,
        request: Request,
        payload: Option<Slice>,
    ) -> impl Future<Output = Reply<Head>> {
        requests::execute(session, request, payload)
    }
}

impl Nbd {
    /// How much memory for payload a request needs.
    fn payload_memory(&self, request: &Request) -> ByteCount {
        match request.command {
            Command::Read | Command::Write => ByteCount(request.length_bytes),
            Command::Cache => ByteCount(request.length_bytes).min(self.cache_piece()),
            _ => ByteCount::ZERO,
        }
    }

    fn cache_piece(&self) -> ByteCount {
        CACHE_PIECE.min(self.longest_transfer)
    }
}

/// A handshake that has begun with `output`. `None`: the client left; an error: why it was left.
async fn shake_hands(
    wire: &mut Wire<'_>,
    mut handshake: ServerHandshake,
    mut output: Vec<u8>,
    exports: &impl Exports,
) -> Result<Option<Box<Negotiated>>, String> {
    loop {
        if !wire.send(&mut output).await {
            return Ok(None);
        }
        if wire.received().is_empty() && wire.receive().await != Arrival::Bytes {
            return Ok(None);
        }
        let step = match handshake.receive(wire.received(), exports, &mut output) {
            Ok(step) => step,
            Err(error) => {
                wire.send(&mut output).await;
                return Err(error.to_string());
            }
        };
        wire.consume(step.consumed);
        if let Some(event) = step.event {
            let sent = wire.send(&mut output).await;
            return Ok(match event {
                ServerEvent::Enter(negotiated) if sent => Some(negotiated),
                ServerEvent::Enter(_) | ServerEvent::Abort => None,
            });
        }
    }
}
