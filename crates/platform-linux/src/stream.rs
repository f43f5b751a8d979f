//! Connected streams, TCP and Unix.
//!
//! They are not registered with the ring: a receive may wait forever, and older kernels then keep
//! every file that is unregistered later open until it returns, including drives and their locks.

use crate::errno::{is_transient, stream_error};
use crate::op::{Op, receive_now, send_now};
use crate::ring::Ring;
use crate::shard::ring_of;
use platform::buffers::total_len;
use platform::{
    Buf, Env, Io, IoError, IoErrorKind, IoOutcome, Peer, Result, Slices, Stream, StreamSource,
};
use rustix::net::Shutdown;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// A connected socket that is not yet attached to a shard.
pub(crate) struct SocketSource {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
}

impl StreamSource for SocketSource {
    fn attach(self: Box<Self>, env: &Env) -> Result<Rc<dyn Stream>> {
        let ring = ring_of(env)?;
        let (socket, pieces) = (Rc::new(self.socket), RefCell::default());
        Ok(Rc::new(SocketStream { socket, ring, env: env.clone(), pieces }))
    }

    fn peer(&self) -> Peer {
        self.peer.clone()
    }
}

struct SocketStream {
    socket: Rc<OwnedFd>,
    ring: Rc<Ring>,
    env: Env,
    /// The vector of a send's pieces.
    pieces: RefCell<Vec<libc::iovec>>,
}

impl SocketStream {
    fn start_receive(&self, buf: Buf, flags: i32) -> Io {
        let (io, completion) = self.env.start_operation(None);
        if buf.is_hollow() || buf.is_empty() {
            let outcome = IoOutcome::failed(IoError::new(IoErrorKind::Invalid));
            completion.complete(outcome.with_buffers(smallvec::smallvec![buf]));
        } else {
            self.ring.start(Op::Receive { completion, socket: self.socket.clone(), buf, flags });
        }
        io
    }

    /// Receives the available bytes, often all, without a ring entry: the outcome, or `None` if
    /// there are none.
    fn receive_now(&self, buf: &mut Buf) -> Option<std::result::Result<u64, IoError>> {
        match receive_now(&self.socket, buf) {
            Ok(received) => Some(Ok(received)),
            Err(errno) if is_transient(errno) => None,
            Err(errno) => Some(Err(stream_error(errno))),
        }
    }

    /// Sends what the socket accepts at once, nearly always all: without a ring entry and its
    /// completion. Returns the outcome, or the bytes sent so far; the ring sends the rest.
    fn send_now(&self, slices: &Slices) -> std::result::Result<IoOutcome, u64> {
        let total = total_len(slices).0;
        match send_now(&self.socket, slices, &mut self.pieces.borrow_mut()) {
            Ok(sent) if sent == total => Ok(IoOutcome::done(total)),
            Ok(sent) => Err(sent),
            Err(errno) if is_transient(errno) => Err(0),
            Err(errno) => Ok(IoOutcome::failed(stream_error(errno))),
        }
    }
}

impl Stream for SocketStream {
    fn receive(&self, buf: Buf) -> Io {
        self.start_receive(buf, 0)
    }

    fn receive_full(&self, mut buf: Buf) -> Io {
        let takes_bytes = !buf.is_hollow() && !buf.is_empty();
        if takes_bytes && let Some(result) = self.receive_now(&mut buf) {
            let (io, completion) = self.env.start_operation(None);
            completion.complete(IoOutcome {
                result,
                buffers: smallvec::smallvec![buf],
                ..IoOutcome::done(0)
            });
            return io;
        }
        // The kernel continues by itself after a short receive.
        self.start_receive(buf, libc::MSG_WAITALL)
    }

    fn send(&self, slices: Slices) -> Io {
        let (io, completion) = self.env.start_operation(None);
        if slices.iter().any(|slice| slice.is_hollow()) {
            completion.complete(IoOutcome::failed(IoError::new(IoErrorKind::Invalid)));
        } else if total_len(&slices).is_zero() {
            completion.complete(IoOutcome::done(0));
        } else {
            match self.send_now(&slices) {
                Ok(outcome) => completion.complete(outcome),
                Err(sent) => {
                    let socket = self.socket.clone();
                    self.ring.start(Op::Send { completion, socket, slices, sent });
                }
            }
        }
        io
    }

    fn shutdown(&self) {
        // Fails only if the other side has closed the connection already.
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
    }

    fn abort(&self) {
        // With a linger time of zero, closing the socket discards unsent data; the shutdown ends
        // the last ring operation, which closes it. Unix sockets deliver at once, and refuse the
        // option.
        let _ = rustix::net::sockopt::set_socket_linger(&*self.socket, Some(Duration::ZERO));
        self.shutdown();
    }
}

impl Drop for SocketStream {
    fn drop(&mut self) {
        // Pending operations in the ring keep the socket open: end them now.
        self.shutdown();
    }
}
