//! The server's view of a client's byte stream after the handshake: requests and their payloads.
//!
//! Fault model: the client is hostile, and its bytes come in any fragments. Invariants:
//! - no more than one header is held here; payload stays where the caller received it;
//! - the payload of a rejected write is skipped, so that the next header is found, and the rejection is
//!   reported only then: a client that is still sending doesn't expect the reply yet (libnbd hangs up);
//! - the outcome does not depend on the fragmentation;
//! - after an error or a disconnect nothing is parsed any more.

use crate::error::{Error, ErrorKind, Result};
use crate::negotiation::{Negotiated, Step};
use crate::request::{Judged, Rejected, Request, RequestHeader, judge};
use crate::wire::Collector;

/// What the stream says next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEvent {
    /// A request. If it is a write, its payload follows: [`RequestStream::payload_left`] is then not zero
    /// (unless the write is empty).
    Request(Request),
    /// The next bytes of the stream are payload of the last write; none of them were consumed. Take them
    /// with [`RequestStream::payload_taken`].
    Payload {
        /// How many bytes are still to come.
        left_bytes: u32,
    },
    /// A request to be answered with an error. Its payload, if any, has been skipped.
    Rejected(Rejected),
    /// The client is leaving: finish what is in flight, then close.
    Disconnect,
}

/// Parses requests out of a byte stream.
#[derive(Debug)]
pub struct RequestStream {
    negotiated: Negotiated,
    header: Collector,
    payload_left: u32,
    skip_left: u32,
    /// What to report once its payload is skipped.
    rejected: Option<Rejected>,
    over: bool,
}

impl RequestStream {
    /// A stream at the beginning of the transmission phase.
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

    /// What the requests are judged by.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Parses up to the next event; without one, all input was consumed and more is needed.
    ///
    /// # Errors
    /// The stream can't be followed any more: answer what is in flight, then close.
    pub fn receive(&mut self, input: &[u8]) -> Result<Step<RequestEvent>> {
        let mut rest = input;
        let outcome = self.advance(&mut rest);
        if matches!(outcome, Err(_) | Ok(Some(RequestEvent::Disconnect))) {
            self.over = true;
        }
        outcome.map(|event| Step { consumed: input.len() - rest.len(), event })
    }

    /// Bytes of the last write's payload that are still to come.
    pub fn payload_left(&self) -> u32 {
        self.payload_left
    }

    /// How many bytes are certain to come before the next event: what a caller without a buffer of its own
    /// for headers may read at once without reading too far.
    pub fn want_bytes(&self) -> usize {
        match (self.payload_left, self.skip_left) {
            (0, 0) => self.negotiated.style.request_bytes() - self.header.bytes().len(),
            (0, skip) => skip as usize,
            (payload, _) => payload as usize,
        }
    }

    /// Says that `count` bytes of payload were taken off the stream, from the input or directly into their
    /// place.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if that is more than is [left](Self::payload_left); nothing changes then.
    pub fn payload_taken(&mut self, count: usize) -> Result<()> {
        match u32::try_from(count).ok().and_then(|count| self.payload_left.checked_sub(count)) {
            Some(left) => {
                self.payload_left = left;
                Ok(())
            }
            None => Err(Error::new(
                ErrorKind::Usage,
                format!("{count} bytes were taken of a payload of which {} are left", self.payload_left),
            )),
        }
    }

    fn advance(&mut self, rest: &mut &[u8]) -> Result<Option<RequestEvent>> {
        if self.over {
            return Err(Error::new(ErrorKind::Usage, "this connection is already over"));
        }
        if self.payload_left > 0 {
            return Ok((!rest.is_empty()).then_some(RequestEvent::Payload { left_bytes: self.payload_left }));
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

    /// Skips payload of a rejected request; the rejection, once there is no more.
    fn skip(&mut self, rejected: Rejected, rest: &mut &[u8]) -> Option<RequestEvent> {
        let count = rest.len().min(self.skip_left as usize);
        *rest = &rest[count..];
        // `count` is at most `skip_left`, so the cast loses nothing.
        self.skip_left -= count as u32;
        self.rejected = (self.skip_left > 0).then_some(rejected);
        (self.skip_left == 0).then_some(RequestEvent::Rejected(rejected))
    }
}
