//! The NBD port: targets as network block devices.
//!
//! # What is served
//! Every target under its name, with any byte range; the empty name means the only target, where there is exactly
//! one; to a client that may use some of them only, there are no others. Where there is TLS, a client may ask for it, or has to.
//! Flush, FUA, trim, zeroes, `base:allocation` and several connections to one target hold what the target
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

use crate::access::Visitor;
use crate::protocol::{Arrival, Arrived, Greeted, Offer, Protocol, Reply, Step, Wire};
use crate::session::Session;
use ::nbd::{
    Command, Encryption, ErrorReply, Exports, Negotiated, Replies, ReplyHeader, ReplyStyle, Request,
    RequestEvent, RequestStream, ServerEvent, ServerHandshake,
};
use exports::{NoExports, Offered};
use platform::{BlockTarget, Slice, Targets};
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
        let mut handshake = ServerHandshake::start(&mut output);
        handshake.set_encryption(match &offer.encryption {
            None => Encryption::Absent,
            // A Unix socket does not leave this machine: its file says who may use it.
            Some(encryption) if encryption.required && !wire.peer().is_at_unix_socket() => {
                Encryption::Required
            }
            Some(_) => Encryption::Offered,
        });
        let mut visitor = Visitor { peer: wire.peer().clone(), certificate: None };
        let negotiated = loop {
            let exports = Offered { offer, visitor: &visitor };
            match shake_hands(wire, &mut handshake, &mut output, &exports).await? {
                Some(ServerEvent::Enter(negotiated)) => break negotiated,
                Some(ServerEvent::Encrypt) => {
                    let encryption = offer.encryption.as_ref().ok_or("TLS that was not offered")?;
                    visitor.certificate = wire.encrypt(encryption).await?;
                    handshake.encrypted();
                }
                Some(ServerEvent::Abort) | None => return Ok(None),
            }
        };
        let name = &negotiated.export.name;
        let target = offer.find(name).ok_or("the volume went away")?;
        tracing::debug!(peer = %wire.peer(), volume = name, style = ?negotiated.style, "NBD: connection open");
        let protocol = Nbd { replies: Replies::new(&negotiated), longest_transfer: offer.longest_transfer() };
        let read_only = negotiated.export.flags.read_only;
        Ok(Some(Greeted { target, protocol, decoder: RequestStream::new(*negotiated), read_only }))
    }

    fn known<S: Targets>(
        offer: &Offer<S>,
        target: Rc<S::Target>,
        read_only: bool,
    ) -> Greeted<Nbd, S::Target> {
        let read_only = read_only || offer.is_read_only(&target);
        let mut export = exports::info(offer, &target, read_only);
        // The other end is told when the target has grown. Until then it asks for nothing beyond, and the target refuses what is beyond.
        export.size_bytes = u64::MAX;
        // What the kernel speaks: of the others nothing was agreed.
        let agreed = Negotiated { export, style: ReplyStyle::Simple, base_allocation: false };
        let protocol = Nbd { replies: Replies::new(&agreed), longest_transfer: offer.longest_transfer() };
        Greeted { target, protocol, decoder: RequestStream::new(agreed), read_only }
    }

    async fn turn_away(wire: &mut Wire<'_>) {
        let mut output = Vec::new();
        let mut handshake = ServerHandshake::start(&mut output);
        handshake.shut_down();
        if let Err(error) = shake_hands(wire, &mut handshake, &mut output, &NoExports).await {
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

/// A handshake that goes on with `output`, until something comes of it. `None`: the client left; an error: why it was left.
async fn shake_hands(
    wire: &mut Wire<'_>,
    handshake: &mut ServerHandshake,
    output: &mut Vec<u8>,
    exports: &impl Exports,
) -> Result<Option<ServerEvent>, String> {
    loop {
        if !wire.send(output).await {
            return Ok(None);
        }
        if wire.received().is_empty() && wire.receive().await != Arrival::Bytes {
            return Ok(None);
        }
        let step = match handshake.receive(wire.received(), exports, output) {
            Ok(step) => step,
            Err(error) => {
                wire.send(output).await;
                return Err(error.to_string());
            }
        };
        wire.consume(step.consumed);
        if let Some(event) = step.event {
            return Ok(wire.send(output).await.then_some(event));
        }
    }
}
