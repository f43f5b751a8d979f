//! The closed loop: each outstanding I/O is a task that starts its next request when the last one returned.
//!
//! # Invariants
//! - From the start of a point until its end, exactly as many requests are with the target as the rung says:
//!   a task has one in flight except for the instant between taking one back and starting the next.
//! - A task ends only with nothing in flight: a point is over when all its tasks are.
//! - The clock is read once per I/O: the end of one is the start of the next. So the latencies of a task add
//!   up to the time that passed, and Little's law holds for what is reported (the generator's own share of a
//!   latency, some tens of nanoseconds, is counted with the target's). Only a task that made way for others,
//!   because its target completes requests within the call, leaves its waiting out.
//!
//! Budget: 100 ns of a core per I/O beyond what the seam and the target take (`examples/generator_cost.rs`).

use crate::meter::Meter;
use crate::pattern::{Operation, Pattern, Walk};
use crate::payload::Payload;
use crate::profile::Profile;
use env::{Buf, Durability, Env, IoError, IoErrorKind, Member, Slice};
use smallvec::smallvec;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use units::{ByteCount, ByteOffset};

/// A target that returned so many errors with no success between them is not measured any further.
const MOST_ERRORS_IN_A_ROW: u32 = 1000;

/// A target that completes requests within the call would keep its task for ever: after so many, others get a
/// turn. It is fewer than what the executor lets a task take in one turn, so that the task makes way between two
/// requests, where the wait is not part of a latency.
const INLINE_TURNS: u32 = 32;

/// Why a request counts as failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The target said so.
    Io(IoError),
    /// The target moved fewer bytes.
    Short(u64),
}

/// A failed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) operation: Operation,
    pub(crate) offset: ByteOffset,
    pub(crate) block: ByteCount,
    /// When, in the world's time.
    pub(crate) at_ns: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        write!(f, "a {operation} of {} at byte {} ", self.block, self.offset.0)?;
        match self.cause {
            Cause::Io(error) => write!(f, "failed: {error}"),
            Cause::Short(moved) => write!(f, "moved only {moved} bytes"),
        }
    }
}

/// What the tasks of one point share.
pub(crate) struct Point {
    pub(crate) pattern: Pattern,
    pub(crate) meter: Meter,
    first_failure: Cell<Option<Failure>>,
    end: Cell<Option<Failure>>,
    errors_in_a_row: Cell<u32>,
}

impl Point {
    pub(crate) fn new(pattern: Pattern, meter: Meter) -> Point {
        Point {
            pattern,
            meter,
            first_failure: Cell::new(None),
            end: Cell::new(None),
            errors_in_a_row: Cell::new(0),
        }
    }

    /// The first request that failed.
    pub(crate) fn first_failure(&self) -> Option<Failure> {
        self.first_failure.get()
    }

    /// The request whose failure ended the point.
    pub(crate) fn end(&self) -> Option<Failure> {
        self.end.get()
    }

    /// Counts a failure, and ends the point where going on would measure nothing: the target is gone or does
    /// not answer, it can never do what is asked, or nothing but errors comes back.
    fn fail(&self, failure: Failure) {
        if self.first_failure.get().is_none() {
            self.first_failure.set(Some(failure));
        }
        self.errors_in_a_row.set(self.errors_in_a_row.get() + 1);
        let passing = match failure.cause {
            Cause::Io(error) => error.kind == IoErrorKind::Medium,
            Cause::Short(_) => true,
        };
        self.meter.fail(failure.at_ns, failure.operation);
        if (!passing || self.errors_in_a_row.get() >= MOST_ERRORS_IN_A_ROW) && self.end.get().is_none() {
            self.end.set(Some(failure));
            self.meter.stop(match failure.cause {
                // The silence before the time limit was up is not part of what was measured.
                Cause::Io(error) if error.kind == IoErrorKind::TimedOut => self.meter.last_completion_ns(),
                _ => failure.at_ns,
            });
        }
    }
}

/// What one outstanding I/O reads into and writes from.
pub(crate) struct Buffers {
    read: Option<Buf>,
    payload: Option<Payload>,
    block: ByteCount,
    hollow: bool,
}

impl Buffers {
    /// The buffers that `profile` needs, from the pool of `env`; `None` when they do not fit.
    pub(crate) fn take(env: &Env, profile: &Profile, hollow: bool, seed: u64) -> Option<Buffers> {
        let block = profile.block();
        let take = || if hollow { Some(Buf::hollow(block)) } else { env.pool().take(block) };
        let read = if profile.reads() { Some(take()?) } else { None };
        let payload = if profile.writes() { Some(Payload::new(take()?, seed)) } else { None };
        Some(Buffers { read, payload, block, hollow })
    }

    fn spare(&self) -> Buf {
        if self.hollow { Buf::hollow(self.block) } else { Buf::unpooled(self.block) }
    }

    /// The buffer to read into. It comes back with its read; for one that a target kept there is a spare.
    fn next_read(&mut self) -> Buf {
        self.read.take().unwrap_or_else(|| self.spare())
    }

    /// The bytes to write.
    fn next_write(&mut self, stamp: u64) -> Slice {
        let payload = self.payload.take().unwrap_or_else(|| Payload::new(self.spare(), stamp));
        self.payload.insert(payload).next(stamp)
    }
}

/// One outstanding I/O, until the point is over.
pub(crate) async fn keep_one_outstanding(
    env: Env,
    member: Member,
    walk: Rc<Walk>,
    point: Rc<Point>,
    mut buffers: Buffers,
) {
    let block = point.pattern.block;
    let mut started_ns = env.now().ns;
    let mut inline = 0;
    while started_ns < point.meter.window_end_ns() {
        let polls = env.executor().polls();
        let (operation, offset) = walk.next(&point.pattern);
        let io = match operation {
            Operation::Read => member.read(offset, smallvec![buffers.next_read()]),
            Operation::Write => {
                member.write(offset, smallvec![buffers.next_write(walk.stamp())], Durability::Cached)
            }
        };
        let mut outcome = io.await;
        let now_ns = env.now().ns;
        if operation == Operation::Read {
            buffers.read = outcome.buffers.pop();
        }
        let cause = match outcome.result {
            Ok(moved) if moved == block.0 => None,
            Ok(moved) => Some(Cause::Short(moved)),
            Err(error) => Some(Cause::Io(error)),
        };
        match cause {
            None => {
                point.errors_in_a_row.set(0);
                point.meter.complete(now_ns, now_ns.saturating_sub(started_ns), operation, block.0);
            }
            Some(cause) => point.fail(Failure { cause, operation, offset, block, at_ns: now_ns }),
        }
        started_ns = now_ns;
        inline = if env.executor().polls() == polls { inline + 1 } else { 0 };
        if inline == INLINE_TURNS {
            env.yield_now().await;
            inline = 0;
            started_ns = env.now().ns;
        }
    }
}
