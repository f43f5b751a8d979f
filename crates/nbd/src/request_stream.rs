//! Parses a client's byte stream after the handshake: requests and their payloads.
//!
//! Fault model: the client is hostile, and its bytes arrive in arbitrary fragments. Invariants:
//! - At most one header is stored here; payload stays in the caller's buffer.
//! - The payload of a rejected write is skipped before the rejection is reported: a client that is
//!   still sending does not expect the reply yet (libnbd disconnects).
//! - The result does not depend on the fragmentation.
//! - After an error or a disconnect, nothing more is parsed.

use crate::error::{Error, ErrorKind, Result};
use crate::negotiation::{Negotiated, Step};
use crate::request::{Judged, Rejected, Request, RequestHeader, judge};
use crate::wire::Collector;

/// The next event of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEvent {
    /// A request. If it is a write, its payload follows: [`RequestStream::payload_left`] is nonzero
    /// (unless the write is empty).
    Request(Request),
    /// Payload of the last write follows; none was consumed. Call [`RequestStream::payload_taken`]
    /// after reading it.
    Payload {
        /// The number of bytes left.
        left_bytes: u32,
    },
    /// A rejected request: reply with an error. Its payload, if any, has been skipped.
    Rejected(Rejected),
    /// The client disconnects: complete outstanding requests, then close.
    Disconnect,
}

/// Parses requests from a byte stream.
#[derive(Debug)]
pub struct RequestStream {
    negotiated: Negotiated,
    header: Collector,
    payload_left: u32,
    skip_left: u32,
    /// The rejection to report after its payload is skipped.
    rejected: Option<Rejected>,
    over: bool,
}

impl RequestStream {
    /// A stream at the start of the transmission phase.
    pub fn new(negotiated: Negotiated) -> RequestStream {
        RequestStream {
            negotiated,
            header: Collector::default(),
            payload_left: 0,
            skip_left: 0,
            rejected: None,
            over: false,
        }
    }

    /// The negotiated rules.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Parses up to the next event; without an event, all input was consumed.
    ///
    /// # Errors
    /// The stream is out of sync: complete outstanding requests, then close.
    pub fn receive(&mut self, input: &[u8]) -> Result<Step<RequestEvent>> {
        let mut rest = input;
        let outcome = self.advance(&mut rest);
        if matches!(outcome, Err(_) | Ok(Some(RequestEvent::Disconnect))) {
            self.over = true;
        }
        outcome.map(|event| Step { consumed: input.len() - rest.len(), event })
    }

    /// The bytes left of the last write's payload.
    pub fn payload_left(&self) -> u32 {
        self.payload_left
    }

    /// The bytes that certainly precede the next event: a caller without its own header buffer may
    /// read that many without reading too far.
    pub fn want_bytes(&self) -> usize {
        match (self.payload_left, self.skip_left) {
            (0, 0) => self.negotiated.style.request_bytes() - self.header.bytes().len(),
            (0, skip) => skip as usize,
            (payload, _) => payload as usize,
        }
    }

    /// Reports that `count` bytes of payload were taken from the stream, from the input or
    /// directly.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if fewer bytes are [left](Self::payload_left); nothing changes then.
    pub fn payload_taken(&mut self, count: usize) -> Result<()> {
        match u32::try_from(count).ok().and_then(|count| self.payload_left.checked_sub(count)) {
            Some(left) => {
                self.payload_left = left;
                Ok(())
            }
            None => Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{count} bytes were taken of a payload of which {} are left",
                    self.payload_left
                ),
            )),
        }
    }

    fn advance(&mut self, rest: &mut &[u8]) -> Result<Option<RequestEvent>> {
        if self.over {
            return Err(Error::new(ErrorKind::Usage, "this connection is already over"));
        }
        if self.payload_left > 0 {
            return Ok((!rest.is_empty())
                .then_some(RequestEvent::Payload { left_bytes: self.payload_left }));
        }
        if let Some(rejected) = self.rejected {
            return Ok(self.skip(rejected, rest));
        }
        let style = self.negotiated.style;
        if !self.header.fill(style.request_bytes(), rest) {
            return Ok(None);
        }
        let header = RequestHeader::decode(style, self.header.bytes());
        self.header.clear();
        Ok(match judge(&header?, &self.negotiated)? {
            Judged::Request(request) => {
                self.payload_left = request.payload_bytes();
                Some(RequestEvent::Request(request))
            }
            Judged::Rejected(rejected) => {
                self.skip_left = rejected.skip_bytes;
                self.skip(rejected, rest)
            }
            Judged::Disconnect => Some(RequestEvent::Disconnect),
        })
    }

    /// Skips payload of a rejected request; returns the rejection at the end.
    fn skip(&mut self, rejected: Rejected, rest: &mut &[u8]) -> Option<RequestEvent> {
        let count = rest.len().min(self.skip_left as usize);
        *rest = &rest[count..];
        // `count` is at most `skip_left`, so the cast is lossless.
        self.skip_left -= count as u32;
        self.rejected = (self.skip_left > 0).then_some(rejected);
        (self.skip_left == 0).then_some(RequestEvent::Rejected(rejected))
    }
}
