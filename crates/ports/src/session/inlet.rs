//! Received bytes of a connection that are not parsed yet.
//!
//! One receive accepts all requests that have arrived. With long payloads, receives are short, so
//! that most of a payload is received into its own buffer without a copy.

use super::life::ConnectionState;
use platform::{Buf, Env, Io, Stream};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use units::ByteCount;

/// Length of a receive: dozens of small writes with payload, thousands of other requests.
const LONG: usize = 64 << 10;
/// Length of a receive after a long payload: dozens of headers.
const SHORT: usize = 1 << 10;
/// Payloads of this length or more are received into their own buffer instead of copied.
const LONG_PAYLOAD: ByteCount = ByteCount(16 << 10);
/// Maximum bytes per receive of a payload. A client that needs longer for one such receive than the
/// stall limit counts as stalled.
const WHOLE: usize = 64 << 10;

/// The result of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Bytes are available.
    Bytes,
    /// The stream has ended or failed.
    End,
    /// The session must stop; the receive is still outstanding.
    Stopped,
}

/// See the [module](self).
pub(crate) struct Inlet {
    stream: Rc<dyn Stream>,
    life: Rc<ConnectionState>,
    /// `None` while the stream has it, or after the stream lost it.
    buf: Option<Buf>,
    /// The unused part of the buffer during a short receive.
    rest: Option<Buf>,
    receiving: Option<Io>,
    at: usize,
    filled: usize,
    long_payloads: bool,
}

impl Inlet {
    pub fn new(stream: Rc<dyn Stream>, life: Rc<ConnectionState>) -> Inlet {
        let buf = Some(Buf::unpooled(ByteCount(LONG as u64)));
        Inlet {
            stream,
            life,
            buf,
            rest: None,
            receiving: None,
            at: 0,
            filled: 0,
            long_payloads: false,
        }
    }

    /// Replaces the stream. All received bytes must be consumed.
    pub fn set_stream(&mut self, stream: Rc<dyn Stream>) {
        self.stream = stream;
    }

    /// Received bytes that are not consumed.
    pub fn bytes(&self) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf.bytes()[self.at..self.filled])
    }

    /// Discards the first `count` of [`Inlet::bytes`].
    pub fn consume(&mut self, count: usize) {
        self.at = (self.at + count).min(self.filled);
    }

    /// Adapts the receive length to a payload.
    pub fn expect_payloads_like(&mut self, payload: ByteCount) {
        self.long_payloads = payload >= LONG_PAYLOAD;
    }

    /// Waits for more bytes. All earlier bytes must be consumed.
    pub async fn receive(&mut self) -> Arrival {
        let Some(mut buf) = self.buf.take() else { return Arrival::End };
        if self.long_payloads {
            self.rest = Some(buf.split_off(ByteCount(SHORT as u64)));
        }
        let mut io = self.stream.receive(buf);
        let outcome = poll_fn(|context| match Pin::new(&mut io).poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if self.life.is_stopping() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        let Some(mut outcome) = outcome else {
            self.receiving = Some(io);
            return Arrival::Stopped;
        };
        let whole = |buf: Buf| match self.rest.take() {
            Some(rest) => buf.join_or_keep(rest),
            None => buf,
        };
        self.buf = outcome.buffers.pop().map(whole);
        match outcome.result {
            Ok(count) if count > 0 && self.buf.is_some() => {
                self.life.progressed(count);
                (self.at, self.filled) = (0, count as usize);
                if self.filled == SHORT {
                    // Several requests in one receive: measure the payloads again.
                    self.long_payloads = false;
                }
                Arrival::Bytes
            }
            _ => Arrival::End,
        }
    }

    /// Fills `buf` from `filled` on, directly from the stream; `None` if the stream ended first.
    pub async fn receive_into(&mut self, mut buf: Buf, mut filled: usize) -> Option<Buf> {
        while filled < buf.len().as_usize() {
            let mut empty = buf.split_off(ByteCount(filled as u64));
            let later = empty.split_off(empty.len().min(ByteCount(WHOLE as u64)));
            let mut outcome = self.stream.receive_full(empty).await;
            buf = buf.join(outcome.buffers.pop()?).ok()?.join(later).ok()?;
            match outcome.result {
                Ok(count) if count > 0 => {
                    self.life.progressed(count);
                    filled += count as usize;
                }
                _ => return None,
            }
        }
        Some(buf)
    }

    /// Waits for an outstanding receive. The stream is already shut down.
    pub async fn finish(&mut self, env: &Env) {
        if let Some(io) = self.receiving.take() {
            let outcome = io.await;
            env.trace("port receive ended", outcome.result.unwrap_or(0), 0);
        }
    }
}
