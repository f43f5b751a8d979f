//! The kinds of ring operations, and how each continues when the kernel completes an entry.

use crate::errno::{is_transient, stream_error};
use crate::event::{self, Event, EventWait};
use crate::parking::Parking;
use crate::transfer::Transfer;
use crate::ublk;
use crate::wait::Waiter;
use io_uring::{opcode, squeue, types};
use platform::buffers::{total_len, zero_bytes};
use platform::{Buf, Completion, Executor, IoError, IoErrorKind, IoOutcome, Slice, Slices};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of pieces of one vectored call (IOV_MAX); longer ones continue like short
/// transfers.
const PIECES: usize = 1024;

/// A slot's memory that the kernel accesses while an entry is in progress: never moves, is reused.
pub(crate) struct Memory {
    pub(crate) pieces: Vec<libc::iovec>,
    header: libc::msghdr,
    pub(crate) time: types::Timespec,
    word: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        // SAFETY: a message header of zeroes is a valid empty one.
        let header = unsafe { std::mem::zeroed() };
        Memory { pieces: Vec::new(), header, time: types::Timespec::new(), word: 0 }
    }
}

impl Memory {
    /// The address of an eight-byte buffer.
    pub(crate) fn word(&mut self) -> *mut u8 {
        (&raw mut self.word).cast()
    }

    /// The address of an eight-byte buffer that holds this number.
    pub(crate) fn set_word(&mut self, word: u64) -> *const u8 {
        self.word = word;
        self.word()
    }
}

/// The next step of an operation after a completion.
pub(crate) enum Step {
    /// Another entry is needed.
    Again,
    /// Another entry is needed after a pause: the system refused the operation temporarily.
    AgainAfter(Duration),
    /// The operation is complete.
    Done(Result<u64, IoError>),
}

/// An operation in its slot.
#[allow(
    clippy::large_enum_variant,
    reason = "it lives in slots that are reused: a box would be an allocation per I/O"
)]
pub(crate) enum Op {
    Free,
    /// The read of the eventfd by which other threads wake this one.
    Wakeup {
        parking: Arc<Parking>,
    },
    Drive(Transfer),
    Receive {
        completion: Completion,
        socket: Rc<OwnedFd>,
        buf: Buf,
        /// The flags of `recv`.
        flags: i32,
    },
    Send {
        completion: Completion,
        socket: Rc<OwnedFd>,
        slices: Slices,
        sent: u64,
    },
    /// Waits for the signal of an event.
    Event {
        completion: Completion,
        wait: EventWait,
        buf: Buf,
    },
    /// Signals an event.
    Signal {
        completion: Completion,
        event: Rc<Event>,
    },
    /// Completes a request of a served block device, and waits for the next.
    Command {
        completion: Completion,
        file: Arc<OwnedFd>,
        number: u32,
        bytes: [u8; 16],
    },
    /// An operation for a task that waits for the plain result.
    Wait(Rc<Waiter>),
}

impl Op {
    /// The entry for the rest of the operation.
    pub(crate) fn entry(&mut self, memory: &mut Memory) -> squeue::Entry {
        match self {
            Op::Free => unreachable!("a free slot has nothing to submit"),
            Op::Wakeup { parking } => {
                opcode::Read::new(types::Fd(parking.fd()), memory.word(), 8).build()
            }
            Op::Drive(transfer) => transfer.entry(memory),
            Op::Receive { socket, buf, flags, .. } => {
                let bytes = buf.bytes_mut();
                let len = bytes.len().min(1 << 30) as u32;
                opcode::Recv::new(types::Fd(socket.as_raw_fd()), bytes.as_mut_ptr(), len)
                    .flags(*flags)
                    .build()
            }
            Op::Send { socket, slices, sent, .. } => {
                send_entry(types::Fd(socket.as_raw_fd()), slices, *sent, memory)
            }
            Op::Event { wait, .. } => wait.entry(memory),
            Op::Signal { event, .. } => event::signal_entry(event, memory),
            Op::Command { file, number, bytes, .. } => ublk::command_entry(file, *number, *bytes),
            Op::Wait(waiter) => waiter.entry(memory),
        }
    }

    /// Handles a completion: a count, or a negative error number.
    pub(crate) fn returned(&mut self, result: i32) -> Step {
        match self {
            Op::Free => unreachable!("the kernel answers every entry once"),
            Op::Wakeup { .. } => match result {
                8 => Step::Again,
                _ if is_transient(-result) => Step::Again,
                // Only closing the ring ends it.
                _ => Step::Done(Ok(0)),
            },
            Op::Drive(transfer) => transfer.returned(result),
            Op::Receive { .. } if is_transient(-result) => Step::Again,
            Op::Receive { .. } if result < 0 => Step::Done(Err(stream_error(-result))),
            Op::Receive { .. } => Step::Done(Ok(result as u64)),
            Op::Send { .. } if is_transient(-result) => Step::Again,
            Op::Send { .. } if result < 0 => Step::Done(Err(stream_error(-result))),
            Op::Send { slices, sent, .. } => {
                *sent += result as u64;
                let total = total_len(slices).0;
                match (*sent >= total, result) {
                    (true, _) => Step::Done(Ok(total)),
                    (false, 0) => Step::Done(Err(IoError::new(IoErrorKind::Gone))),
                    (false, _) => Step::Again,
                }
            }
            Op::Event { wait, .. } => wait.returned(result),
            Op::Signal { .. } => event::signalled(result),
            Op::Command { .. } if result < 0 => Step::Done(Err(stream_error(-result))),
            Op::Command { .. } => Step::Done(Ok(0)),
            Op::Wait(waiter) => {
                waiter.set(result);
                Step::Done(Ok(0))
            }
        }
    }

    /// An entry that completes after a pause. The operation keeps its slot meanwhile.
    pub(crate) fn pause_entry(memory: &mut Memory, pause: Duration) -> squeue::Entry {
        memory.time = types::Timespec::from(pause);
        opcode::Timeout::new(&raw const memory.time).build()
    }

    /// Completes the operation for its waiter.
    pub(crate) fn finish(self, result: Result<u64, IoError>, executor: &Executor) {
        match self {
            Op::Free | Op::Wakeup { .. } => {}
            Op::Drive(transfer) => transfer.finish(result),
            Op::Receive { completion, buf, .. } | Op::Event { completion, buf, .. } => {
                let buffers = smallvec::smallvec![buf];
                let outcome = IoOutcome { result, buffers, ..IoOutcome::done(0) };
                completion.complete(outcome);
            }
            Op::Send { completion, .. }
            | Op::Signal { completion, .. }
            | Op::Command { completion, .. } => {
                completion.complete(IoOutcome { result, ..IoOutcome::done(0) });
            }
            Op::Wait(waiter) => waiter.finish(executor),
        }
    }

    /// Whether it can only end with the ring: the kernel does not cancel it, and it uses no memory
    /// of ours.
    pub(crate) fn ends_with_the_ring(&self) -> bool {
        matches!(self, Op::Command { .. })
    }

    /// Whether it may wait forever unless it is cancelled: all operations except those of drives.
    pub(crate) fn waits_for_the_outside(&self) -> bool {
        !matches!(self, Op::Free | Op::Drive(_))
    }
}

/// The pieces of `slices` after `done` bytes; zero slices use the shared block of zeros. At most
/// [`PIECES`].
pub(crate) fn gather(slices: &[Slice], done: u64, pieces: &mut Vec<libc::iovec>) {
    pieces.clear();
    let mut skip = done as usize;
    for slice in slices {
        let len = slice.len().as_usize();
        if skip >= len {
            skip -= len;
            continue;
        }
        let (mut at, from) = (skip, slice.solid());
        skip = 0;
        while at < len && pieces.len() < PIECES {
            let bytes = match from {
                Some(bytes) => &bytes[at..],
                None => &zero_bytes()[..zero_bytes().len().min(len - at)],
            };
            pieces.push(libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() });
            at += bytes.len();
        }
        if pieces.len() == PIECES {
            return;
        }
    }
}

/// The pieces of `buffers` after `done` bytes. At most [`PIECES`].
pub(crate) fn scatter(buffers: &mut [Buf], done: u64, pieces: &mut Vec<libc::iovec>) {
    pieces.clear();
    let mut skip = done as usize;
    for buf in buffers {
        let bytes = buf.bytes_mut();
        if skip >= bytes.len() {
            skip -= bytes.len();
            continue;
        }
        let rest = &mut bytes[skip..];
        skip = 0;
        pieces.push(libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() });
        if pieces.len() == PIECES {
            return;
        }
    }
}

/// Sends as much of `slices` as the socket accepts at once; returns the number of bytes.
///
/// # Errors
/// The error number, such as `EAGAIN`.
pub(crate) fn send_now(
    socket: &OwnedFd,
    slices: &Slices,
    pieces: &mut Vec<libc::iovec>,
) -> Result<u64, i32> {
    gather(slices, 0, pieces);
    // SAFETY: a message header of zeroes is a valid empty one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = pieces.as_mut_ptr();
    header.msg_iovlen = pieces.len() as _;
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the pieces point to slices that outlive the call, and the call only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    u64::try_from(sent)
        .map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Receives the available bytes; returns their number, zero at the end of the stream.
///
/// # Errors
/// The error number, such as `EAGAIN`.
pub(crate) fn receive_now(socket: &OwnedFd, buf: &mut Buf) -> Result<u64, i32> {
    let bytes = buf.bytes_mut();
    // SAFETY: the call writes only to these bytes.
    let received = unsafe {
        libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT)
    };
    u64::try_from(received)
        .map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn send_entry(fd: types::Fd, slices: &Slices, sent: u64, memory: &mut Memory) -> squeue::Entry {
    // MSG_WAITALL: the kernel continues by itself after a short send.
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    if let [slice] = slices.as_slice()
        && let Some(bytes) = slice.solid()
    {
        let rest = &bytes[sent as usize..];
        let len = rest.len().min(1 << 30) as u32;
        return opcode::Send::new(fd, rest.as_ptr(), len).flags(flags).build();
    }
    gather(slices, sent, &mut memory.pieces);
    memory.header.msg_iov = memory.pieces.as_mut_ptr();
    memory.header.msg_iovlen = memory.pieces.len() as _;
    opcode::SendMsg::new(fd, &raw const memory.header).flags(flags as u32).build()
}
