//! TLS below a protocol: a stream that encrypts sent bytes and decrypts received bytes.
//!
//! [`accept`] performs the handshake on a session's stream and returns the encrypted stream.
//! Sessions without TLS do not use this module.
//!
//! # Fault model and bounds
//! A client is hostile: rustls validates its input, and any error ends the stream. A connection
//! holds [`RECEIVED`] received bytes, one decrypted record, and the records of one [`PIECE`] to be
//! sent.

use crate::session::ConnectionState;
use platform::{Buf, Completion, Env, Io, IoError, IoErrorKind, IoOutcome, Slice, Slices, Stream};
use rustls::pki_types::CertificateDer;
use rustls::{ServerConfig, ServerConnection};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{IoSlice, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use units::ByteCount;

/// Encrypted bytes received at a time.
const RECEIVED: usize = 64 << 10;
/// Plain bytes encrypted at a time: four records.
const PIECE: usize = 64 << 10;
/// Space for the records of one piece.
const RECORDS: usize = PIECE + (4 << 10);

const BROKEN: IoError = IoError::new(IoErrorKind::Gone);

/// A stream with TLS.
pub(crate) struct Tls(Rc<Inner>);

struct Inner {
    env: Env,
    under: Rc<dyn Stream>,
    connection: RefCell<ServerConnection>,
    arrived: RefCell<Received>,
}

/// Received encrypted bytes.
#[derive(Default)]
struct Received {
    /// `None` while the stream has it, or after it was lost.
    buf: Option<Buf>,
    at: usize,
    filled: usize,
}

/// Performs the handshake with the client of `life`'s stream.
///
/// # Errors
/// Why the handshake failed.
pub(crate) async fn accept(
    env: &Env,
    life: &ConnectionState,
    config: Arc<ServerConfig>,
) -> Result<Tls, String> {
    let mut connection = ServerConnection::new(config).map_err(|error| format!("TLS: {error}"))?;
    // The size of a piece limits it.
    connection.set_buffer_limit(None);
    let arrived =
        Received { buf: Some(Buf::unpooled(ByteCount(RECEIVED as u64))), at: 0, filled: 0 };
    let inner = Inner {
        env: env.clone(),
        under: life.stream(),
        connection: RefCell::new(connection),
        arrived: RefCell::new(arrived),
    };
    loop {
        inner
            .send_records()
            .await
            .map_err(|_| "the client left during the TLS handshake".to_owned())?;
        if !inner.connection.borrow().is_handshaking() {
            return Ok(Tls(Rc::new(inner)));
        }
        if inner.arrived.borrow().is_empty() && !inner.receive_until_stopped(life).await {
            return Err("left during the TLS handshake".to_owned());
        }
        if let Err(error) = inner.decrypt() {
            // The alert is best effort; the client may have disconnected.
            if inner.send_records().await.is_err() {
                tracing::debug!(peer = %life.peer, "the client disconnected before the TLS alert \
                    was sent");
            }
            return Err(format!("TLS: {error}"));
        }
    }
}

impl Tls {
    /// The certificate that the client authenticated with, if one was requested.
    pub fn client_certificate(&self) -> Option<CertificateDer<'static>> {
        let connection = self.0.connection.borrow();
        connection
            .peer_certificates()
            .and_then(<[_]>::first)
            .map(|first| first.clone().into_owned())
    }
}

impl Stream for Tls {
    fn receive(&self, mut buf: Buf) -> Io {
        let (io, completion) = self.0.env.start_operation(None);
        match self.0.read(&mut buf) {
            Ok(0) => {
                let inner = self.0.clone();
                self.0
                    .env
                    .spawn("tls receive", async move { inner.receive(buf, completion).await });
            }
            outcome => returned(completion, buf, outcome.map(|count| count as u64)),
        }
        io
    }

    fn send(&self, slices: Slices) -> Io {
        let (io, completion) = self.0.env.start_operation(None);
        let inner = self.0.clone();
        self.0.env.spawn("tls send", async move {
            completion.complete(match inner.send(slices).await {
                Ok(bytes) => IoOutcome::done(bytes),
                Err(error) => IoOutcome::failed(error),
            });
        });
        io
    }

    fn shutdown(&self) {
        self.0.under.shutdown();
    }

    fn abort(&self) {
        self.0.under.abort();
    }
}

/// Returns the buffer of a receive.
fn returned(completion: Completion, buf: Buf, result: Result<u64, IoError>) {
    let outcome = match result {
        Ok(count) => IoOutcome::done(count),
        Err(error) => IoOutcome::failed(error),
    };
    completion.complete(outcome.with_buffers(std::iter::once(buf).collect()));
}

impl Received {
    fn is_empty(&self) -> bool {
        self.at == self.filled
    }
}

impl Inner {
    /// Receives until there is plaintext, or the end. All earlier plaintext must be read.
    async fn receive(&self, mut buf: Buf, completion: Completion) {
        let result = loop {
            if !self.connection.borrow().wants_read() {
                break Ok(0);
            }
            let room = self.arrived.borrow_mut().buf.take();
            let Some(room) = room else { break Err(BROKEN) };
            let received = self.under.receive(room).await;
            if !self.arrived(received) {
                break Ok(0);
            }
            match self.read(&mut buf) {
                Ok(0) => {}
                outcome => break outcome.map(|count| count as u64),
            }
        };
        returned(completion, buf, result);
    }

    /// The same during the handshake; a shutdown of the server ends it.
    async fn receive_until_stopped(&self, life: &ConnectionState) -> bool {
        let Some(room) = self.arrived.borrow_mut().buf.take() else { return false };
        let mut io = self.under.receive(room);
        let outcome = poll_fn(|context| match Pin::new(&mut io).poll(context) {
            Poll::Pending if life.is_stopping() && !life.is_cut() => {
                // Returns the receive.
                life.cut();
                Pin::new(&mut io).poll(context)
            }
            polled => polled,
        })
        .await;
        self.arrived(outcome)
    }

    /// Stores the result of a receive; false at the end of the stream.
    fn arrived(&self, mut outcome: IoOutcome) -> bool {
        let buf = outcome.buffers.pop();
        let filled = outcome.result.unwrap_or(0) as usize;
        let goes_on = filled > 0 && buf.is_some();
        *self.arrived.borrow_mut() = Received { buf, at: 0, filled };
        goes_on
    }

    /// Copies available plaintext into `buf`; zero: more bytes must be received, or the stream
    /// ended.
    fn read(&self, buf: &mut Buf) -> Result<usize, IoError> {
        let room = buf.bytes_mut();
        let mut filled = 0;
        loop {
            let read = self.connection.borrow_mut().reader().read(&mut room[filled..]);
            match read {
                Ok(0) => return Ok(filled),
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(BROKEN),
            }
            if filled == room.len() || self.arrived.borrow().is_empty() {
                return Ok(filled);
            }
            if let Err(error) = self.decrypt() {
                tracing::debug!(%error, "TLS: the client violated the protocol");
                return Err(BROKEN);
            }
        }
    }

    /// Passes received bytes to rustls. All earlier plaintext must be read.
    fn decrypt(&self) -> Result<(), String> {
        let (mut arrived, mut connection) =
            (self.arrived.borrow_mut(), self.connection.borrow_mut());
        let (at, filled) = (arrived.at, arrived.filled);
        let Some(buf) = &arrived.buf else { return Err("the received bytes were lost".to_owned()) };
        let taken = connection
            .read_tls(&mut &buf.bytes()[at..filled])
            .map_err(|error| error.to_string())?;
        arrived.at += taken;
        let state = connection.process_new_packets().map_err(|error| error.to_string())?;
        if state.peer_has_closed() {
            // Bytes after a close alert are not authenticated.
            arrived.at = arrived.filled;
        }
        Ok(())
    }

    /// Encrypts and sends `slices`; returns the number of plain bytes.
    async fn send(&self, slices: Slices) -> Result<u64, IoError> {
        let mut pieces = Pieces { slices: &slices, slice: 0, at: 0 };
        let mut sent = 0;
        loop {
            let piece = pieces.next_piece();
            let len: usize = piece.iter().map(|part| part.len()).sum();
            if len == 0 {
                return Ok(sent);
            }
            let written = self.connection.borrow_mut().writer().write_vectored(&piece);
            // Without a limit, rustls takes all bytes.
            if written.ok() != Some(len) {
                return Err(BROKEN);
            }
            self.send_records().await?;
            sent += len as u64;
        }
    }

    /// Sends the pending records.
    async fn send_records(&self) -> Result<(), IoError> {
        while self.connection.borrow().wants_write() {
            let mut room = Buf::unpooled(ByteCount(RECORDS as u64));
            let written = self.connection.borrow_mut().write_tls(&mut room.bytes_mut());
            let written = written.map_err(|_| BROKEN)?;
            let records = room.freeze().cut(ByteCount::ZERO, ByteCount(written as u64));
            self.under.send(std::iter::once(records).collect()).await.result?;
        }
        Ok(())
    }
}

/// The unsent rest of a list of slices.
struct Pieces<'a> {
    slices: &'a [Slice],
    slice: usize,
    at: usize,
}

impl<'a> Pieces<'a> {
    /// At most [`PIECE`] bytes of it; empty at its end.
    fn next_piece(&mut self) -> Vec<IoSlice<'a>> {
        let (mut piece, mut room) = (Vec::new(), PIECE);
        while room > 0 && self.slice < self.slices.len() {
            let slice = &self.slices[self.slice];
            let left = slice.len().as_usize() - self.at;
            let bytes = match slice.solid() {
                Some(bytes) => &bytes[self.at..],
                // Slices of zeros have no bytes of their own.
                None => &platform::buffers::zero_bytes()
                    [..left.min(platform::buffers::zero_bytes().len())],
            };
            let part = &bytes[..bytes.len().min(room)];
            if !part.is_empty() {
                piece.push(IoSlice::new(part));
            }
            room -= part.len();
            self.at += part.len();
            if self.at == slice.len().as_usize() {
                (self.slice, self.at) = (self.slice + 1, 0);
            }
        }
        piece
    }
}
