//! Events shared with another process (eventfd), as streams: a receive waits for a signal, a send
//! gives one. Each transfers eight bytes of arbitrary content.
//!
//! The other process may set the file to blocking or non-blocking at any time. So the ring does all
//! I/O, and this module makes no call that could block.

use crate::errno::{is_transient, stream_error};
use crate::op::{Memory, Op, Step};
use crate::ring::Ring;
use crate::shard::ring_of;
use io_uring::{opcode, squeue, types};
use platform::{
    Buf, Env, Io, IoError, IoErrorKind, IoOutcome, Peer, Result, Slices, Stream, StreamSource,
};
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// The length of an event in bytes.
const EVENT: u32 = 8;

struct EventSource {
    file: OwnedFd,
    peer: Peer,
}

/// A stream over an event that `peer` shares with this process, not yet attached to a shard.
pub fn event_stream(file: OwnedFd, peer: Peer) -> Box<dyn StreamSource> {
    Box::new(EventSource { file, peer })
}

impl StreamSource for EventSource {
    fn attach(self: Box<Self>, env: &Env) -> Result<Rc<dyn Stream>> {
        let ring = ring_of(env)?;
        let event = Rc::new(Event { file: self.file, is_over: Cell::new(false) });
        Ok(Rc::new(EventStream { event, ring, env: env.clone() }))
    }

    fn peer(&self) -> Peer {
        self.peer.clone()
    }
}

/// The ring's state of an event.
pub(crate) struct Event {
    file: OwnedFd,
    is_over: Cell<bool>,
}

/// The wait for an event in a slot of the ring.
pub(crate) struct EventWait {
    event: Rc<Event>,
    /// The event was signalled; the read that takes it comes next.
    is_ready: bool,
}

impl EventWait {
    pub(crate) fn entry(&self, memory: &mut Memory) -> squeue::Entry {
        let fd = types::Fd(self.event.file.as_raw_fd());
        match self.is_ready {
            // Poll first: the read of a non-blocking file would return at once without a signal.
            false => opcode::PollAdd::new(fd, libc::POLLIN as u32).build(),
            true => opcode::Read::new(fd, memory.word(), EVENT).build(),
        }
    }

    pub(crate) fn returned(&mut self, result: i32) -> Step {
        if self.event.is_over.get() {
            return Step::Done(Err(IoError::new(IoErrorKind::Gone)));
        }
        match (self.is_ready, result) {
            // Another reader took it.
            (true, result) if is_transient(-result) => self.is_ready = false,
            (false, result) if is_transient(-result) => {}
            (_, result) if result < 0 => return Step::Done(Err(stream_error(-result))),
            (false, _) => self.is_ready = true,
            (true, result) => return Step::Done(Ok(result as u64)),
        }
        Step::Again
    }
}

/// The ring entry that signals the event.
pub(crate) fn signal_entry(event: &Event, memory: &mut Memory) -> squeue::Entry {
    opcode::Write::new(types::Fd(event.file.as_raw_fd()), memory.set_word(1), EVENT).build()
}

/// The result of a signal. An event whose counter is full counts as signalled.
pub(crate) fn signalled(result: i32) -> Step {
    match -result {
        libc::EINTR => Step::Again,
        errno if result < 0 && errno != libc::EAGAIN => Step::Done(Err(stream_error(errno))),
        _ => Step::Done(Ok(EVENT.into())),
    }
}

struct EventStream {
    event: Rc<Event>,
    ring: Rc<Ring>,
    env: Env,
}

impl Stream for EventStream {
    fn receive(&self, buf: Buf) -> Io {
        let (io, completion) = self.env.start_operation(None);
        if self.event.is_over.get() || buf.len().0 < u64::from(EVENT) {
            let outcome = IoOutcome::failed(IoError::new(IoErrorKind::Gone));
            completion.complete(outcome.with_buffers(smallvec::smallvec![buf]));
        } else {
            let wait = EventWait { event: self.event.clone(), is_ready: false };
            self.ring.start(Op::Event { completion, wait, buf });
        }
        io
    }

    fn send(&self, _: Slices) -> Io {
        let (io, completion) = self.env.start_operation(None);
        self.ring.start(Op::Signal { completion, event: self.event.clone() });
        io
    }

    fn shutdown(&self) {
        if !self.event.is_over.replace(true) {
            self.ring.cancel_file(self.event.file.as_raw_fd());
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        // Pending operations in the ring keep the file open.
        self.shutdown();
    }
}
