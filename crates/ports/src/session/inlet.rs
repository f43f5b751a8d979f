//! What a connection has received and nobody has looked at yet.
//!
//! One receive takes in as many requests as have come. When the client writes long payloads, receives are kept
//! short, so that little of a payload lands here and has to be copied: most of it is received into its place.

use super::life::Life;
use platform::{Buf, Env, Io, Stream};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use units::ByteCount;

/// Received at a time: dozens of small writes with their payload, thousands of other requests.
const LONG: usize = 64 << 10;
/// Received at a time behind a long payload: dozens of headers.
const SHORT: usize = 1 << 10;
/// Payloads from here on are better received into their place than copied.
const LONG_PAYLOAD: ByteCount = ByteCount(16 << 10);
/// Received into its place at a time, without a look whether the client moves: a client that needs longer for that than it may
/// stand still is as good as one that does.
const WHOLE: usize = 64 << 10;

/// How a receive ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// There are bytes.
    Bytes,
    /// The stream has ended, or is broken.
    End,
    /// The session is to stop; the receive is still under way.
    Stopped,
}

/// See the [module](self).
pub(crate) struct Inlet {
    stream: Rc<dyn Stream>,
    life: Rc<Life>,
    /// `None` while it is with the stream, and when the stream lost it.
    buf: Option<Buf>,
    /// The unused part of the buffer during a short receive.
    rest: Option<Buf>,
    receiving: Option<Io>,
    at: usize,
    filled: usize,
    long_payloads: bool,
}

impl Inlet {
    pub fn new(stream: Rc<dyn Stream>, life: Rc<Life>) -> Inlet {
        let buf = Some(Buf::unpooled(ByteCount(LONG as u64)));
        Inlet { stream, life, buf, rest: None, receiving: None, at: 0, filled: 0, long_payloads: false }
    }

    /// Bytes come by `stream` from now on. All that have come were consumed.
    pub fn set_stream(&mut self, stream: Rc<dyn Stream>) {
        self.stream = stream;
    }

    /// What has come and was not consumed.
    pub fn bytes(&self) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf.bytes()[self.at..self.filled])
    }

    /// The first `count` of [`Inlet::bytes`] are dealt with.
    pub fn consume(&mut self, count: usize) {
        self.at = (self.at + count).min(self.filled);
    }

    /// Learns how long payloads are.
    pub fn expect_payloads_like(&mut self, payload: ByteCount) {
        self.long_payloads = payload >= LONG_PAYLOAD;
    }

    /// Waits for more bytes; all earlier ones must have been consumed.
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
                    // Many requests at once: look again whether their payloads are long.
                    self.long_payloads = false;
                }
                Arrival::Bytes
            }
            _ => Arrival::End,
        }
    }

    /// Fills `buf` from `filled` on, straight from the stream; `None` if that ended first.
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

    /// Waits for a receive that is still under way. The stream has been shut down.
    pub async fn finish(&mut self, env: &Env) {
        if let Some(io) = self.receiving.take() {
            let outcome = io.await;
            env.trace("port receive ended", outcome.result.unwrap_or(0), 0);
        }
    }
}
