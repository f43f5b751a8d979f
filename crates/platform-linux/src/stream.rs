//! Connected streams, TCP and Unix alike.
//!
//! They are not registered with the ring: a receive may wait there for ever, and older kernels keep every
//! file that was unregistered later open until it returns, drives with their locks included.

use crate::errno::{is_transient, stream_error};
use crate::op::{Op, receive_now, send_now};
use crate::ring::Ring;
use crate::shard::ring_of;
use platform::buffers::total_len;
use platform::{Buf, Env, Io, IoError, IoErrorKind, IoOutcome, Peer, Result, Slices, Stream, StreamSource};
use rustix::net::Shutdown;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// A connected socket on its way to a shard.
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
    /// Where the pieces of a send are put together.
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

    /// Receives what has come, which is often all, without an entry of the ring: the outcome, or nothing where nothing has.
    fn receive_now(&self, buf: &mut Buf) -> Option<std::result::Result<u64, IoError>> {
        match receive_now(&self.socket, buf) {
            Ok(received) => Some(Ok(received)),
            Err(errno) if is_transient(errno) => None,
            Err(errno) => Some(Err(stream_error(errno))),
        }
    }

    /// Sends what the socket takes at once, which is nearly always all: without an entry of the ring, and without a turn of the
    /// shard that takes its answer. The outcome, or how much is left to the ring.
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
        // The kernel goes on by itself after a short receive.
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
        // It fails only if the other side has ended the connection already.
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
    }

    fn abort(&self) {
        // A socket that does not linger throws away what it has not sent when it is closed, and it is closed when
        // the last operation in the ring has returned, which the shutdown sees to. Unix sockets have delivered
        // what they were given, and refuse the option.
        let _ = rustix::net::sockopt::set_socket_linger(&*self.socket, Some(Duration::ZERO));
        self.shutdown();
    }
}

impl Drop for SocketStream {
    fn drop(&mut self) {
        // What is still in the ring holds the socket open: it ends now.
        self.shutdown();
    }
}
