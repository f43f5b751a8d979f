//! A request to the drive as the requests that the protocol has for it.

use super::standing::Standing;
use crate::request::{copy_into, give_back, zero_into};
use nbd::{Command, CommandFlags, Connected, Errno, Extent};
use platform::{
    BlockStatus, Buf, Completion, Durability, Instant, IoError, IoErrorKind, IoOutcome, IoRequest, Slice,
    Slices, StatusExtent,
};
use std::time::Duration;
use units::ByteCount;

/// The pause before a request is sent again that the server had no memory for; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How a job goes on that the server had no memory for.
#[derive(Clone, Copy)]
struct Pausing {
    next: Duration,
    /// The part of its time that is the server's: without that left it fails.
    reserve: Duration,
}

/// One request on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The job it belongs to.
    pub(crate) job: usize,
    pub(crate) command: Command,
    pub(crate) flags: CommandFlags,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A request of the engine, under way in one or several pieces.
pub(crate) struct Job {
    pub(crate) request: IoRequest,
    completion: Completion,
    /// What was acknowledged when it came: what a flush covers.
    mark: u64,
    /// Until then the server may carry out what it was sent of this on a connection that is no more.
    pub(crate) may_land_until: Instant,
    /// Pieces that have not returned.
    left: usize,
    error: Option<IoError>,
    /// Once the server had no memory for it.
    pausing: Option<Pausing>,
    /// It waits to be sent again, with nothing on the wire.
    is_paused: bool,
    /// The server cannot write durably by itself: a flush follows.
    then_flush: bool,
    extents: Vec<StatusExtent>,
}

/// What a new job needs.
pub(crate) enum Plan {
    /// These pieces, and whether a flush has to follow them.
    Pieces(Vec<Piece>, bool),
    /// Nothing: it is done.
    Done,
    /// The export cannot do it.
    Impossible(IoErrorKind),
}

fn command_of(request: &IoRequest, connected: &Connected) -> Option<(Command, CommandFlags, Durability)> {
    let flags = &connected.flags;
    Some(match request {
        IoRequest::Read { .. } => (Command::Read, CommandFlags::NONE, Durability::Cached),
        IoRequest::Write { durability, .. } => (Command::Write, CommandFlags::NONE, *durability),
        IoRequest::WriteZeroes { may_unmap, durability, .. } if flags.write_zeroes => {
            let kept = if *may_unmap { CommandFlags::NONE } else { CommandFlags::NO_HOLE };
            (Command::WriteZeroes, kept, *durability)
        }
        IoRequest::WriteZeroes { durability, .. } => (Command::Write, CommandFlags::NONE, *durability),
        IoRequest::Trim { .. } if flags.trim => (Command::Trim, CommandFlags::NONE, Durability::Cached),
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

/// Whether carrying it out changes what the export holds.
pub(crate) fn changes(command: Command) -> bool {
    !matches!(command, Command::Read | Command::Flush | Command::BlockStatus | Command::Cache)
}

/// How `request`, which becomes job number `job`, is put to an export like that.
pub(crate) fn plan(request: &IoRequest, connected: &Connected, job: usize) -> Plan {
    let Some((command, mut flags, durability)) = command_of(request, connected) else {
        return match request {
            // Nothing was ever written that a flush could make durable.
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
            // Extents are told from the front on: one piece after the other.
            break;
        }
        at += len;
    }
    if pieces.is_empty() { Plan::Done } else { Plan::Pieces(pieces, then_flush) }
}

/// What an export without block status says: everything may hold data.
pub(crate) fn all_data(len: ByteCount) -> IoOutcome {
    let mut outcome = IoOutcome::done(len.0);
    outcome.extents = vec![StatusExtent { len, status: BlockStatus::Data }];
    outcome
}

/// Whether the other side can be given this: there is nothing to send of a hollow buffer.
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

    /// Forgets all answers: it is sent again as a whole.
    pub(crate) fn start_again(&mut self, pieces: usize, then_flush: bool) {
        (self.left, self.then_flush, self.error, self.is_paused) = (pieces, then_flush, None, false);
        self.extents.clear();
    }

    /// How long it waits until it is sent again as a whole, where the server had no memory for some of it. Half of its time
    /// is for that, and half for the server: a server that is slow besides does not count as silent.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let left =
            self.error.filter(|error| error.kind == IoErrorKind::Busy).and(self.completion.time_left())?;
        let Pausing { next, reserve } =
            self.pausing.unwrap_or(Pausing { next: FIRST_PAUSE, reserve: left / 2 });
        if left < next + reserve {
            return None;
        }
        self.pausing = Some(Pausing { next: (next * 2).min(LONGEST_PAUSE), reserve });
        self.is_paused = true;
        Some(next)
    }

    /// Whether it waits to be sent again.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether somebody still waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.completion.is_awaited()
    }

    /// Tells whoever waits that it failed; it may still land.
    pub(crate) fn fail_early(&self, error: IoError) {
        self.completion.fail_early(error);
    }

    /// Whether what has come of it can be vouched for; a connection of that age brought the last answer.
    pub(crate) fn stands(&self, standing: &Standing, age: u64) -> bool {
        match &self.request {
            _ if self.error.is_some() => true,
            IoRequest::Write { durability: Durability::Cached, .. }
            | IoRequest::WriteZeroes { durability: Durability::Cached, .. } => standing.acknowledge(age),
            IoRequest::Flush => standing.flushed(self.mark, age),
            // Durable once answered. One that needed a flush is answered by that, of the same connection.
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } => standing.holds(age),
            _ => true,
        }
    }

    fn position(&self, piece: &Piece) -> usize {
        (piece.offset - self.request.range().start.0) as usize
    }

    /// The data that follow the header of a piece.
    pub(crate) fn payload(&self, piece: &Piece, out: &mut Slices) {
        if piece.command != Command::Write {
            return;
        }
        let IoRequest::Write { slices, .. } = &self.request else {
            // Zeroes for a server without a command for them.
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

    /// Takes data of a read.
    pub(crate) fn take_data(&mut self, piece: &Piece, at: u64, bytes: &[u8]) {
        let position = self.position(piece) + at as usize;
        if let IoRequest::Read { buffers, .. } = &mut self.request {
            copy_into(buffers, position, bytes);
        }
    }

    /// Takes zeroes of a read.
    pub(crate) fn take_zeroes(&mut self, piece: &Piece, at: u64, len: u32) {
        let position = self.position(piece) + at as usize;
        if let IoRequest::Read { buffers, .. } = &mut self.request {
            zero_into(buffers, position, len as usize);
        }
    }

    /// Lends out the memory where the next data of a read belong, up to `len` bytes, so that they can be
    /// received into it. [`Loan::give_back`] returns it.
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

    /// Takes extents of a status request, those beyond its range left out.
    pub(crate) fn take_extents(&mut self, extents: &[Extent]) {
        let wanted = self.request.range().len;
        for extent in extents {
            let status = match (extent.hole, extent.zero) {
                (true, true) => BlockStatus::Hole,
                (false, true) => BlockStatus::Zero,
                // A hole that need not read as zeroes is data as far as a reader is concerned.
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

    /// A piece has returned. Gives the piece that is to follow, if the job is not done with it.
    pub(crate) fn returned(&mut self, piece: &Piece, result: Result<(), Errno>) -> Progress {
        self.left -= 1;
        if let Err(errno) = result {
            let error = self.error_of(piece, errno);
            // One that stands for the whole counts more than want of memory, which passes.
            match self.error {
                Some(before) if before.kind != IoErrorKind::Busy => {}
                _ => self.error = Some(error),
            }
        }
        if self.left > 0 {
            return Progress::Waiting;
        }
        let follow =
            |command, offset, len| Piece { command, flags: CommandFlags::NONE, offset, len, ..*piece };
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

    /// What an error number of the server means. Want of memory passes, but not where the server made something durable: a
    /// system reports a failed write-back once, by any number, and the same again would succeed although data is lost.
    fn error_of(&self, piece: &Piece, errno: Errno) -> IoError {
        let makes_durable = piece.command == Command::Flush || piece.flags.contains(CommandFlags::FUA);
        match errno {
            Errno::NoMem if makes_durable => IoError::new(IoErrorKind::Unknown),
            errno => error_of(errno),
        }
    }

    /// What a server that answered only the beginning of a status request has not told.
    fn unknown_rest(&self) -> Option<(u64, u64)> {
        let range = self.request.range();
        let known: u64 = self.extents.iter().map(|extent| extent.len.0).sum();
        (known > 0 && known < range.len.0).then(|| (range.start.0 + known, range.len.0 - known))
    }

    /// Answers the request.
    pub(crate) fn finish(self, lost: Option<IoError>) {
        let error = lost.or(self.error);
        match (error, self.request) {
            (Some(error), request) => give_back(request, self.completion, Err(error)),
            (None, IoRequest::Status { range }) => {
                let mut outcome = IoOutcome::done(range.len.0);
                outcome.extents = self.extents;
                let known = ByteCount(outcome.extents.iter().map(|extent| extent.len.0).sum());
                if known < range.len {
                    // What the server will not tell may be data.
                    outcome.extents.push(StatusExtent { len: range.len - known, status: BlockStatus::Data });
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

/// How a job stands after a piece has returned.
pub(crate) enum Progress {
    /// Other pieces are under way.
    Waiting,
    /// This piece follows.
    Next(Piece),
    /// It is to be answered.
    Over,
}

/// The parts of a buffer whose middle is lent out.
pub(crate) struct Loan {
    index: usize,
    head: Buf,
    tail: Buf,
}

impl Loan {
    /// Puts the buffer together again.
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
