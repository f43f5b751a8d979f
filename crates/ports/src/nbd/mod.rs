//! The NBD port: targets as network block devices.
//!
//! # Behaviour
//! - Each target is an export with its name, for any byte range. The empty name selects the only
//!   target that the client may use. Other targets are hidden.
//! - TLS is optional or required.
//! - Flush, FUA, trim, write zeroes, `base:allocation` and multiple connections have the guarantees
//!   of the target.
//! - *Cache* reads the range, up to the maximum read length, and drops it, so that lower caches
//!   keep it.
//! - *Fast zero* fails with "not supported": zeros are written like data.
//!
//! This module has the greeting and parses requests; `exports` lists targets; `requests` executes
//! requests; the crate `nbd` has the numbers and rules of the protocol.

mod exports;
mod requests;

use crate::access::ClientIdentity;
use crate::protocol::{
    Arrival, Arrived, Data, Greeted, Offer, Protocol, Reply, Step, Transfer, Wire,
};
use crate::session::{Refused, Session};
use ::nbd::{
    Command, Encryption, ErrorReply, Exports, Negotiated, Replies, ReplyHeader, ReplyStyle,
    Request, RequestEvent, RequestStream, ServerEvent, ServerHandshake,
};
use exports::{NoExports, Offered};
use platform::{BlockTarget, Slice, Targets};
use std::rc::Rc;
use units::ByteCount;

/// The length of one read of a cache request.
const CACHE_PIECE: ByteCount = ByteCount(256 << 10);

/// The protocol as negotiated with one client.
pub struct Nbd {
    replies: Replies,
    longest_transfer: ByteCount,
}

/// The bytes of a reply before its data.
pub enum Head {
    /// The header of a successful reply.
    Header(ReplyHeader),
    /// A complete error reply.
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
            // A Unix socket is local: the permissions of its file control access.
            Some(encryption) if encryption.required && !wire.peer().is_at_unix_socket() => {
                Encryption::Required
            }
            Some(_) => Encryption::Offered,
        });
        let mut visitor = ClientIdentity { peer: wire.peer().clone(), certificate: None };
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
        let target = offer.find(name).ok_or("the volume is no longer served")?;
        let style = &negotiated.style;
        tracing::debug!(peer = %wire.peer(), volume = name, ?style, "NBD: connection open");
        let protocol =
            Nbd { replies: Replies::new(&negotiated), longest_transfer: offer.longest_transfer() };
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
        // The kernel is notified when the target has grown. The target refuses requests beyond its
        // end.
        export.size_bytes = u64::MAX;
        // The kernel uses simple replies and nothing that is negotiated.
        let agreed = Negotiated { export, style: ReplyStyle::Simple, base_allocation: false };
        let protocol =
            Nbd { replies: Replies::new(&agreed), longest_transfer: offer.longest_transfer() };
        Greeted { target, protocol, decoder: RequestStream::new(agreed), read_only }
    }

    async fn turn_away(wire: &mut Wire<'_>) {
        let mut output = Vec::new();
        let mut handshake = ServerHandshake::start(&mut output);
        handshake.shut_down();
        if let Err(error) = shake_hands(wire, &mut handshake, &mut output, &NoExports).await {
            tracing::debug!(peer = %wire.peer(), error, "NBD: a rejected client sent invalid data");
        }
    }

    fn decode(&self, stream: &mut RequestStream, bytes: &[u8]) -> Result<Step<Nbd>, String> {
        let step = stream.receive(bytes).map_err(|error| error.to_string())?;
        let arrived = match step.event {
            None => None,
            Some(RequestEvent::Request(request)) => {
                let payload = request.payload_bytes();
                // The session receives the whole payload before the next request.
                stream.payload_taken(payload as usize).map_err(|error| error.to_string())?;
                let memory = self.payload_memory(&request);
                Some(Arrived::Request { request, payload: ByteCount(payload.into()), memory })
            }
            Some(RequestEvent::Rejected(rejected)) => {
                let error = self.replies.error(rejected.reply_to, rejected.errno, rejected.message);
                Some(Arrived::Rejected(Reply::error(Head::Error(Box::new(error)))))
            }
            Some(RequestEvent::Disconnect) => {
                Some(Arrived::End("the client disconnected".to_owned()))
            }
            Some(RequestEvent::Payload { .. }) => {
                return Err("a payload without a write".to_owned());
            }
        };
        Ok(Step { consumed: step.consumed, arrived })
    }

    fn transfer(&self, request: &Request) -> Option<Transfer> {
        requests::transfer(request)
    }

    fn answer(&self, request: &Request, result: Result<Data, Refused>) -> Reply<Head> {
        requests::answer(&self.replies, request, result)
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
    /// The payload memory that a request needs.
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

/// Continues a handshake with `output` until it is complete. `None`: the client left; an error: why
/// the port closed the connection.
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
