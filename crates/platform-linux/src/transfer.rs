//! One request to a file or block device, from its start until the last byte is transferred.
//!
//! Fault model: the kernel may transfer less than requested (the rest is requested again), may
//! refuse a method (another is tried), and reports errors by number. A read past the end of a
//! shrunken drive returns nothing: reported as `Changed`. A removed device reports "no space", and
//! is distinguished from a full one.
//!
//! A temporarily refused request (no memory, a busy device) is repeated after growing pauses, for
//! half of its remaining time. The other half is for the drive, so that it is not blamed for the
//! pauses. A sync of the page cache is never repeated: the kernel reports a failed write-back once,
//! by any number, and forgets it. A repetition would succeed, and acknowledged data would be lost.
//! That is an error without a known meaning.

use crate::errno::{drive_error, is_for_now};
use crate::file_drive::Attachment;
use crate::op::{Memory, Step, gather, scatter};
use io_uring::{opcode, squeue, types};
use platform::{Buf, Bufs, Completion, Durability, IoError, IoErrorKind, IoOutcome, Slice, Slices};
use smallvec::SmallVec;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// The maximum length of one call, in bytes.
const LARGEST_CALL: u64 = 1 << 30;
/// The pause before the first repetition of a temporarily refused request; each further one is
/// twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The operation.
pub(crate) enum Work {
    /// Read into these buffers.
    Read(Bufs),
    /// Write these slices.
    Write(Slices, Durability),
    /// Make the range read as zeros, by the first method that works, else by writing zeros.
    Zero { ways: &'static [i32], durability: Durability },
    /// Discard the range, by the first method that works.
    Trim { ways: &'static [i32] },
    /// Make all earlier writes durable: a flush, or the end of durable zeroing.
    Sync,
}

/// A request in progress. See the [module](self).
pub(crate) struct Transfer {
    completion: Completion,
    drive: Rc<Attachment>,
    work: Work,
    offset: u64,
    total: u64,
    done: u64,
    /// Aligned memory in place of the caller's, if direct I/O cannot use that.
    bounce: Option<Buf>,
    /// Set after the first temporary refusal.
    pausing: Option<Pausing>,
}

/// The repetition of a temporarily refused transfer.
#[derive(Clone, Copy)]
struct Pausing {
    next: Duration,
    /// The time reserved for the drive: with less left, the transfer fails.
    reserve: Duration,
}

impl Transfer {
    pub(crate) fn new(
        completion: Completion,
        drive: Rc<Attachment>,
        work: Work,
        offset: u64,
        total: u64,
    ) -> Transfer {
        let mut transfer = Transfer {
            completion,
            drive,
            work,
            offset,
            total,
            done: 0,
            bounce: None,
            pausing: None,
        };
        transfer.make_reachable();
        transfer
    }

    /// Direct I/O needs aligned memory: other memory is replaced by an aligned bounce buffer.
    fn make_reachable(&mut self) {
        let Some(align) = self.drive.memory_alignment() else { return };
        let is_reachable =
            |bytes: &[u8]| (bytes.as_ptr() as usize | bytes.len()).is_multiple_of(align as usize);
        let reachable = match &self.work {
            Work::Read(buffers) => buffers.iter().all(|buf| is_reachable(buf.bytes())),
            Work::Write(slices, _) => slices.iter().all(|slice| match slice.solid() {
                Some(bytes) => is_reachable(bytes),
                None => slice.len().0.is_multiple_of(u64::from(align)),
            }),
            Work::Zero { .. } | Work::Trim { .. } | Work::Sync => true,
        };
        if reachable {
            return;
        }
        let mut bounce = self.drive.aligned_memory(ByteCount(self.total));
        if let Work::Write(slices, _) = &self.work {
            let mut rest = bounce.bytes_mut();
            for slice in slices {
                let (part, tail) = rest.split_at_mut(slice.len().as_usize());
                slice.copy_to(part);
                rest = tail;
            }
        }
        self.bounce = Some(bounce);
    }

    /// The entry for the rest of the transfer.
    pub(crate) fn entry(&mut self, memory: &mut Memory) -> squeue::Entry {
        let Transfer { drive, work, offset, total, done, bounce, .. } = self;
        let (position, left) = (*offset + *done, *total - *done);
        let (fd, flags) = drive.target();
        let entry = match work {
            Work::Read(buffers) => match (bounce, buffers.as_mut_slice()) {
                (Some(one), _) | (None, [one]) => {
                    let rest = &mut one.bytes_mut()[*done as usize..];
                    let len = left.min(LARGEST_CALL) as u32;
                    opcode::Read::new(fd, rest.as_mut_ptr(), len).offset(position).build()
                }
                (None, several) => {
                    scatter(several, *done, &mut memory.pieces);
                    let pieces = &memory.pieces;
                    opcode::Readv::new(fd, pieces.as_ptr(), pieces.len() as u32)
                        .offset(position)
                        .build()
                }
            },
            Work::Write(slices, durability) => {
                let rw_flags = if *durability == Durability::Durable { libc::RWF_DSYNC } else { 0 };
                let single = match (&bounce, slices.as_slice()) {
                    (Some(bounce), _) => Some(bounce.bytes()),
                    (None, [one]) => one.solid(),
                    _ => None,
                };
                if let Some(bytes) = single {
                    let len = left.min(LARGEST_CALL) as u32;
                    let rest = bytes[*done as usize..].as_ptr();
                    opcode::Write::new(fd, rest, len).offset(position).rw_flags(rw_flags).build()
                } else {
                    gather(slices, *done, &mut memory.pieces);
                    let pieces = &memory.pieces;
                    opcode::Writev::new(fd, pieces.as_ptr(), pieces.len() as u32)
                        .offset(position)
                        .rw_flags(rw_flags)
                        .build()
                }
            }
            Work::Zero { ways, .. } | Work::Trim { ways } => {
                let mode = ways.first().copied().unwrap_or_default();
                opcode::Fallocate::new(fd, left).offset(position).mode(mode).build()
            }
            Work::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        entry.flags(flags)
    }

    /// Handles a completion.
    pub(crate) fn returned(&mut self, result: i32) -> Step {
        if -result == libc::EINTR {
            return Step::Again;
        }
        if is_for_now(-result) {
            return self.again_later(-result);
        }
        if result < 0 {
            return self.failed(-result);
        }
        match &mut self.work {
            Work::Read(_) | Work::Write(..) => self.moved(result as u64),
            Work::Zero { durability: Durability::Durable, .. } => {
                self.work = Work::Sync;
                Step::Again
            }
            Work::Zero { .. } | Work::Trim { .. } | Work::Sync => Step::Done(Ok(self.total)),
        }
    }

    /// Handles a temporary refusal: a pause, if the time suffices.
    fn again_later(&mut self, errno: i32) -> Step {
        if self.reports_write_back() {
            return Step::Done(Err(IoError { kind: IoErrorKind::Unknown, errno }));
        }
        let given_up = Step::Done(Err(drive_error(errno)));
        let Some(left) = self.completion.time_left() else { return given_up };
        let first = Pausing { next: FIRST_PAUSE, reserve: left / 2 };
        let Pausing { next, reserve } = self.pausing.unwrap_or(first);
        if left < next + reserve {
            return given_up;
        }
        self.pausing = Some(Pausing { next: (next * 2).min(LONGEST_PAUSE), reserve });
        Step::AgainAfter(next)
    }

    /// Whether the result may be that of an earlier write from the page cache.
    fn reports_write_back(&self) -> bool {
        let makes_durable = matches!(self.work, Work::Sync | Work::Write(_, Durability::Durable));
        makes_durable && self.drive.memory_alignment().is_none()
    }

    fn moved(&mut self, bytes: u64) -> Step {
        let before = self.done;
        self.done += bytes;
        if self.done >= self.total {
            return Step::Done(Ok(self.total));
        }
        if self.drive.memory_alignment().is_some() {
            // Direct I/O continues at a sector boundary.
            self.done -= self.done % self.drive.sector();
        }
        if self.done > before {
            return Step::Again;
        }
        // A read returns nothing only past the end of the drive.
        let is_read = matches!(self.work, Work::Read(_));
        let kind = if is_read { IoErrorKind::Changed } else { IoErrorKind::Medium };
        Step::Done(Err(IoError::new(kind)))
    }

    fn failed(&mut self, errno: i32) -> Step {
        let mut error = drive_error(errno);
        if error.kind == IoErrorKind::OutOfSpace
            && let Some(kind) = self.drive.is_cut()
        {
            error.kind = kind;
        }
        if error.kind == IoErrorKind::NotSupported {
            match &mut self.work {
                Work::Zero { ways, .. } | Work::Trim { ways } if ways.len() > 1 => {
                    *ways = &ways[1..];
                    return Step::Again;
                }
                Work::Zero { durability, .. } => {
                    let durability = *durability;
                    let zeroes = Slice::zero(ByteCount(self.total));
                    self.work = Work::Write(smallvec::smallvec![zeroes], durability);
                    return Step::Again;
                }
                _ => {}
            }
        }
        Step::Done(Err(error))
    }

    /// Completes the request, with the buffers of a read.
    pub(crate) fn finish(self, result: Result<u64, IoError>) {
        let buffers = match self.work {
            Work::Read(mut buffers) => {
                if let (Some(bounce), Ok(_)) = (&self.bounce, &result) {
                    let mut rest = bounce.bytes();
                    for buf in &mut buffers {
                        let (part, tail) = rest.split_at(buf.len().as_usize());
                        buf.bytes_mut().copy_from_slice(part);
                        rest = tail;
                    }
                }
                buffers
            }
            _ => SmallVec::new(),
        };
        self.completion.complete(IoOutcome { result, buffers, ..IoOutcome::done(0) });
    }
}

/// Whether a request has all its bytes: this platform needs them, and accepts no data-less buffer.
pub(crate) fn is_solid(work: &Work) -> bool {
    match work {
        Work::Read(buffers) => buffers.iter().all(|buf| !buf.is_hollow()),
        Work::Write(slices, _) => slices.iter().all(|slice| !slice.is_hollow()),
        Work::Zero { .. } | Work::Trim { .. } | Work::Sync => true,
    }
}
