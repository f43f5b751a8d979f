//! Splits a request of the engine into NBD requests, and collects their results.

use super::standing::FlushTracker;
use crate::request::{copy_into, give_back, zero_into};
use nbd::{Command, CommandFlags, Connected, Errno, Extent};
use platform::{
    BlockStatus, Buf, Completion, Durability, Instant, IoError, IoErrorKind, IoOutcome, IoRequest,
    Slice, Slices, StatusExtent,
};
use std::time::Duration;
use units::ByteCount;

/// The first pause after the server reports no memory (ENOMEM); each further pause is twice as
/// long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pauses of a job after ENOMEM.
#[derive(Clone, Copy)]
struct Pausing {
    next: Duration,
    /// Time reserved for the server: the job fails when less than this is left.
    reserve: Duration,
}

/// One request on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The piece's job.
    pub(crate) job: usize,
    pub(crate) command: Command,
    pub(crate) flags: CommandFlags,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A request of the engine, sent as one or several pieces.
pub(crate) struct Job {
    pub(crate) request: IoRequest,
    completion: Completion,
    /// The acknowledged writes when the job started: a flush covers these.
    mark: u64,
    /// Until this time the server may still perform writes of a closed connection.
    pub(crate) may_land_until: Instant,
    /// Pieces without a reply.
    left: usize,
    error: Option<IoError>,
    /// Set after the first ENOMEM.
    pausing: Option<Pausing>,
    /// The job waits to be resent; none of its pieces is outstanding.
    is_paused: bool,
    /// The server does not support FUA: a flush follows the write.
    then_flush: bool,
    extents: Vec<StatusExtent>,
}

/// How a new job starts.
pub(crate) enum Plan {
    /// Send these pieces; the flag: a flush follows them.
    Pieces(Vec<Piece>, bool),
    /// Nothing to send: the job is complete.
    Done,
    /// The export does not support the request.
    Impossible(IoErrorKind),
}

fn command_of(
    request: &IoRequest,
    connected: &Connected,
) -> Option<(Command, CommandFlags, Durability)> {
    let flags = &connected.flags;
    Some(match request {
        IoRequest::Read { .. } => (Command::Read, CommandFlags::NONE, Durability::Cached),
        IoRequest::Write { durability, .. } => (Command::Write, CommandFlags::NONE, *durability),
        IoRequest::WriteZeroes { may_unmap, durability, .. } if flags.write_zeroes => {
            let kept = if *may_unmap { CommandFlags::NONE } else { CommandFlags::NO_HOLE };
            (Command::WriteZeroes, kept, *durability)
        }
        IoRequest::WriteZeroes { durability, .. } => {
            (Command::Write, CommandFlags::NONE, *durability)
        }
        IoRequest::Trim { .. } if flags.trim => {
            (Command::Trim, CommandFlags::NONE, Durability::Cached)
        }
        IoRequest::Flush if flags.flush => (Command::Flush, CommandFlags::NONE, Durability::Cached),
        IoRequest::Status { .. } if connected.base_allocation.is_some() => {
            (Command::BlockStatus, CommandFlags::NONE, Durability::Cached)
        }
        IoRequest::Trim { .. }
        | IoRequest::Flush
        | IoRequest::Status { .. }
        | IoRequest::Health
        | IoRequest::Locate { .. }
        | IoRequest::WriteCache { .. } => return None,
    })
}

/// Whether the command changes the export's content.
pub(crate) fn changes(command: Command) -> bool {
    !matches!(command, Command::Read | Command::Flush | Command::BlockStatus | Command::Cache)
}

/// Splits `request`, which becomes job number `job`, for an export with these features.
pub(crate) fn plan(request: &IoRequest, connected: &Connected, job: usize) -> Plan {
    let Some((command, mut flags, durability)) = command_of(request, connected) else {
        return match request {
            // A read-only export has nothing to flush.
            IoRequest::Flush if connected.flags.read_only => Plan::Done,
            _ => Plan::Impossible(IoErrorKind::NotSupported),
        };
    };
    let durable = durability == Durability::Durable;
    if durable && connected.flags.fua {
        flags = flags | CommandFlags::FUA;
    }
    let then_flush = durable && !connected.flags.fua;
    if then_flush && !connected.flags.flush {
        return Plan::Impossible(IoErrorKind::NotSupported);
    }
    let range = request.range();
    if command == Command::Flush {
        return Plan::Pieces(vec![Piece { job, command, flags, offset: 0, len: 0 }], false);
    }
    let longest = connected.longest_bytes(command).max(1);
    let (mut at, end) = (range.start.0, range.end().0);
    let mut pieces = Vec::with_capacity(1);
    while at < end {
        let len = longest.min(end - at);
        pieces.push(Piece { job, command, flags, offset: at, len });
        if command == Command::BlockStatus {
            // Extents are reported in order from the start: one piece at a time.
            break;
        }
        at += len;
    }
    if pieces.is_empty() { Plan::Done } else { Plan::Pieces(pieces, then_flush) }
}

/// The extents without block status: all blocks may hold data.
pub(crate) fn all_data(len: ByteCount) -> IoOutcome {
    let mut outcome = IoOutcome::done(len.0);
    outcome.extents = vec![StatusExtent { len, status: BlockStatus::Data }];
    outcome
}

/// Whether the request can be sent: data-less buffers cannot.
pub(crate) fn is_solid(request: &IoRequest) -> bool {
    match request {
        IoRequest::Read { buffers, .. } => buffers.iter().all(|buf| !buf.is_hollow()),
        IoRequest::Write { slices, .. } => slices.iter().all(|slice| !slice.is_hollow()),
        _ => true,
    }
}

impl Job {
    pub(crate) fn new(
        request: IoRequest,
        completion: Completion,
        mark: u64,
        pieces: usize,
        then_flush: bool,
    ) -> Job {
        let may_land_until = Instant::default();
        let (error, pausing, extents) = (None, None, Vec::new());
        let (left, is_paused) = (pieces, false);
        Job {
            request,
            completion,
            mark,
            may_land_until,
            left,
            error,
            pausing,
            is_paused,
            then_flush,
            extents,
        }
    }

    /// Discards all replies: the whole job is sent again.
    pub(crate) fn start_again(&mut self, pieces: usize, then_flush: bool) {
        (self.left, self.then_flush, self.error, self.is_paused) =
            (pieces, then_flush, None, false);
        self.extents.clear();
    }

    /// The pause before the job is resent after ENOMEM. Pauses use half of the job's time; the
    /// other half is for the server, so that a slow server does not time out.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let left = self
            .error
            .filter(|error| error.kind == IoErrorKind::Busy)
            .and(self.completion.time_left())?;
        let Pausing { next, reserve } =
            self.pausing.unwrap_or(Pausing { next: FIRST_PAUSE, reserve: left / 2 });
        if left < next + reserve {
            return None;
        }
        self.pausing = Some(Pausing { next: (next * 2).min(LONGEST_PAUSE), reserve });
        self.is_paused = true;
        Some(next)
    }

    /// Whether the job waits to be resent.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether the requester still waits for the job.
    pub(crate) fn is_awaited(&self) -> bool {
        self.completion.is_awaited()
    }

    /// Reports the failure to the requester; a write may still reach the server's storage.
    pub(crate) fn fail_early(&self, error: IoError) {
        self.completion.fail_early(error);
    }

    /// Whether the result is valid; a connection of `epoch` received the last reply.
    pub(crate) fn stands(&self, standing: &FlushTracker, epoch: u64) -> bool {
        match &self.request {
            _ if self.error.is_some() => true,
            IoRequest::Write { durability: Durability::Cached, .. }
            | IoRequest::WriteZeroes { durability: Durability::Cached, .. } => {
                standing.acknowledge(epoch)
            }
            IoRequest::Flush => standing.flushed(self.mark, epoch),
            // A FUA write is durable with its reply; without FUA, the flush on the same connection
            // counts.
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } => standing.holds(epoch),
            _ => true,
        }
    }

    fn position(&self, piece: &Piece) -> usize {
        (piece.offset - self.request.range().start.0) as usize
    }

    /// The data to send after a piece's header.
    pub(crate) fn payload(&self, piece: &Piece, out: &mut Slices) {
        if piece.command != Command::Write {
            return;
        }
        let IoRequest::Write { slices, .. } = &self.request else {
            // Zeroes for a server without a write-zeroes command.
            return out.push(Slice::zero(ByteCount(piece.len)));
        };
        let (mut skip, mut left) = (self.position(piece) as u64, piece.len);
        for slice in slices {
            let len = slice.len().0;
            if skip >= len {
                skip -= len;
                continue;
            }
            let count = (len - skip).min(left);
            out.push(slice.cut(ByteCount(skip), ByteCount(count)));
            left -= count;
            skip = 0;
            if left == 0 {
                return;
            }
        }
    }

    /// Stores received read data.
    pub(crate) fn take_data(&mut self, piece: &Piece, at: u64, bytes: &[u8]) {
        let position = self.position(piece) + at as usize;
        if let IoRequest::Read { buffers, .. } = &mut self.request {
            copy_into(buffers, position, bytes);
        }
    }

    /// Stores zeroes of a read.
    pub(crate) fn take_zeroes(&mut self, piece: &Piece, at: u64, len: u32) {
        let position = self.position(piece) + at as usize;
        if let IoRequest::Read { buffers, .. } = &mut self.request {
            zero_into(buffers, position, len as usize);
        }
    }

    /// Lends out the buffer for the next read data, up to `len` bytes, to receive directly into it.
    /// [`Loan::give_back`] returns it.
    pub(crate) fn lend(&mut self, piece: &Piece, at: u64, len: usize) -> Option<(Buf, Loan)> {
        let mut position = self.position(piece) + at as usize;
        let IoRequest::Read { buffers, .. } = &mut self.request else { return None };
        let index = buffers.iter().position(|buf| match buf.len().as_usize() {
            size if position < size => true,
            size => {
                position -= size;
                false
            }
        })?;
        let mut head = std::mem::replace(&mut buffers[index], Buf::hollow(ByteCount::ZERO));
        let mut lent = head.split_off(ByteCount(position as u64));
        let tail = lent.split_off(lent.len().min(ByteCount(len as u64)));
        Some((lent, Loan { index, head, tail }))
    }

    /// Stores extents of a status request; extents beyond its range are left out.
    pub(crate) fn take_extents(&mut self, extents: &[Extent]) {
        let wanted = self.request.range().len;
        for extent in extents {
            let status = match (extent.hole, extent.zero) {
                (true, true) => BlockStatus::Hole,
                (false, true) => BlockStatus::Zero,
                // A hole without guaranteed zeroes counts as data.
                (_, false) => BlockStatus::Data,
            };
            let known = ByteCount(self.extents.iter().map(|extent| extent.len.0).sum());
            let len = ByteCount(extent.length_bytes).min(wanted - known);
            match self.extents.last_mut() {
                _ if len.is_zero() => return,
                Some(last) if last.status == status => last.len += len,
                _ => self.extents.push(StatusExtent { len, status }),
            }
        }
    }

    /// Handles a piece's result. Returns the next piece, if the job needs one.
    pub(crate) fn returned(&mut self, piece: &Piece, result: Result<(), Errno>) -> Progress {
        self.left -= 1;
        if let Err(errno) = result {
            let error = self.error_of(piece, errno);
            // A permanent error takes precedence over ENOMEM, which is temporary.
            match self.error {
                Some(before) if before.kind != IoErrorKind::Busy => {}
                _ => self.error = Some(error),
            }
        }
        if self.left > 0 {
            return Progress::Waiting;
        }
        let follow = |command, offset, len| Piece {
            command,
            flags: CommandFlags::NONE,
            offset,
            len,
            ..*piece
        };
        let next = match (self.error, piece.command) {
            (Some(_), _) => None,
            (None, Command::BlockStatus) => {
                self.unknown_rest().map(|(at, len)| follow(piece.command, at, len))
            }
            (None, _) if std::mem::take(&mut self.then_flush) => Some(follow(Command::Flush, 0, 0)),
            (None, _) => None,
        };
        match next {
            Some(piece) => {
                self.left = 1;
                Progress::Next(piece)
            }
            None => Progress::Over,
        }
    }

    /// The meaning of a server's error number. ENOMEM is temporary, except for a durable write or a
    /// flush: a system reports a failed write-back once, with any error number, so a repeated flush
    /// would succeed although data is lost.
    fn error_of(&self, piece: &Piece, errno: Errno) -> IoError {
        let makes_durable =
            piece.command == Command::Flush || piece.flags.contains(CommandFlags::FUA);
        match errno {
            Errno::NoMem if makes_durable => IoError::new(IoErrorKind::Unknown),
            errno => error_of(errno),
        }
    }

    /// The part of a status request's range that the server's reply did not cover.
    fn unknown_rest(&self) -> Option<(u64, u64)> {
        let range = self.request.range();
        let known: u64 = self.extents.iter().map(|extent| extent.len.0).sum();
        (known > 0 && known < range.len.0).then(|| (range.start.0 + known, range.len.0 - known))
    }

    /// Completes the request.
    pub(crate) fn finish(self, lost: Option<IoError>) {
        let error = lost.or(self.error);
        match (error, self.request) {
            (Some(error), request) => give_back(request, self.completion, Err(error)),
            (None, IoRequest::Status { range }) => {
                let mut outcome = IoOutcome::done(range.len.0);
                outcome.extents = self.extents;
                let known = ByteCount(outcome.extents.iter().map(|extent| extent.len.0).sum());
                if known < range.len {
                    // A range without status may hold data.
                    outcome
                        .extents
                        .push(StatusExtent { len: range.len - known, status: BlockStatus::Data });
                }
                self.completion.complete(outcome);
            }
            (None, request) => {
                let len = request.range().len.0;
                give_back(request, self.completion, Ok(len));
            }
        }
    }
}

/// The state of a job after a piece's reply.
pub(crate) enum Progress {
    /// Other pieces are outstanding.
    Waiting,
    /// Send this piece next.
    Next(Piece),
    /// The job is complete.
    Over,
}

/// The parts of a buffer around its lent middle.
pub(crate) struct Loan {
    index: usize,
    head: Buf,
    tail: Buf,
}

impl Loan {
    /// Reassembles the buffer.
    pub(crate) fn give_back(self, job: &mut Job, lent: Buf) {
        let whole = self.head.join(lent).and_then(|most| most.join(self.tail));
        if let (IoRequest::Read { buffers, .. }, Ok(whole)) = (&mut job.request, whole) {
            buffers[self.index] = whole;
        }
    }
}

fn error_of(errno: Errno) -> IoError {
    IoError::new(match errno {
        Errno::Perm => IoErrorKind::ReadOnly,
        Errno::Io => IoErrorKind::Medium,
        Errno::NoMem => IoErrorKind::Busy,
        Errno::Inval | Errno::Overflow => IoErrorKind::Invalid,
        Errno::NoSpc => IoErrorKind::OutOfSpace,
        Errno::NotSup => IoErrorKind::NotSupported,
        Errno::Shutdown => IoErrorKind::Gone,
    })
}
