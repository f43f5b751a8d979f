//! The loops: each outstanding I/O is a task that starts its next request when the last one returned (closed), or
//! when the next request is due (open).
//!
//! # Invariants
//! - Closed, without think time: from the start of a point until its end, exactly as many requests are with the
//!   target as the rung says: a task has one in flight except for the instant between taking one back and starting
//!   the next. With think time it is at most as many.
//! - Open: requests are due at times that a schedule fixes beforehand, whatever the target does, and are taken in the
//!   order of these times. A request that no task is free for waits, and its latency counts from when it was due, so
//!   that a stall of the target is seen by every request that should have come during it. (A closed loop stops asking
//!   while the target stalls: that is *coordinated omission*, and its percentiles say nothing about users who come
//!   when they like.)
//! - A task ends only with nothing in flight: a point is over when all its tasks are.
//! - The clock is read once per I/O: the end of one is the start of the next. So the latencies of a task in a closed
//!   loop add up to the time that passed, and Little's law holds for what is reported (the generator's own share of a
//!   latency, some tens of nanoseconds, is counted with the target's). Only a task that made way for others,
//!   because its target completes requests within the call, leaves its waiting out.
//!
//! Budget: 100 ns of a core per I/O beyond what the seam and the target take (`examples/generator_cost.rs`).

use crate::generator::pattern::{Asker, Pattern, Request, Walk};
use crate::generator::payload::Payload;
use crate::generator::schedule::Schedule;
use crate::generator::verify::{Mismatch, Reading, Verifier, Writing};
use crate::load::profile::Operation;
use crate::load::profile::{Pace, Profile};
use crate::statistics::meter::Meter;
use platform::{Buf, Durability, Env, Instant, IoError, IoErrorKind, IoOutcome, Member, Slice};
use smallvec::smallvec;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use units::{ByteCount, ByteRange};

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
    /// The target gave other bytes than were written.
    Wrong(Mismatch),
}

/// A failed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) request: Request,
    /// Which of the targets that are measured together.
    pub(crate) target: usize,
    /// When, in the world's time.
    pub(crate) at_ns: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = match self.request.operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        write!(f, "a {operation} of {} at byte {} ", self.request.block, self.request.offset.0)?;
        match self.cause {
            Cause::Io(error) => write!(f, "failed: {error}"),
            Cause::Short(moved) => write!(f, "moved only {moved} bytes"),
            Cause::Wrong(mismatch) => write!(f, "gave wrong data: {mismatch}"),
        }
    }
}

/// What the tasks of one point share.
pub(crate) struct Point {
    pub(crate) meter: Meter,
    /// When it began.
    began_ns: u64,
    /// When requests are due, in an open loop.
    schedule: Option<Schedule>,
    first_failure: Cell<Option<Failure>>,
    end: Cell<Option<Failure>>,
    errors_in_a_row: Cell<u32>,
}

impl Point {
    pub(crate) fn new(profile: &Profile, meter: Meter, began_ns: u64, seed: u64) -> Point {
        let schedule = match profile.load().pace {
            Pace::Closed { .. } => None,
            Pace::Open { rate, arrivals } => Some(Schedule::new(rate, arrivals, began_ns, seed)),
        };
        Point {
            meter,
            began_ns,
            schedule,
            first_failure: Cell::new(None),
            end: Cell::new(None),
            errors_in_a_row: Cell::new(0),
        }
    }

    /// When requests were due, in an open loop.
    pub(crate) fn schedule(&self) -> Option<&Schedule> {
        self.schedule.as_ref()
    }

    /// The request that failed first.
    pub(crate) fn first_failure(&self) -> Option<Failure> {
        self.first_failure.get()
    }

    /// The request whose failure ended the point.
    pub(crate) fn end(&self) -> Option<Failure> {
        self.end.get()
    }

    /// Counts a failure, and ends the point where going on would measure nothing: the target is gone or does
    /// not answer, it can never do what is asked, gives wrong data, or nothing but errors comes back.
    fn fail(&self, failure: Failure) {
        if self.first_failure.get().is_none() {
            self.first_failure.set(Some(failure));
        }
        self.errors_in_a_row.set(self.errors_in_a_row.get() + 1);
        let passing = match failure.cause {
            Cause::Io(error) => {
                matches!(error.kind, IoErrorKind::Medium | IoErrorKind::Busy | IoErrorKind::Unknown)
            }
            Cause::Short(_) => true,
            Cause::Wrong(_) => false,
        };
        self.meter.fail(failure.at_ns, failure.request.operation);
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
    /// What was cut off the read buffer for a request that is shorter.
    rest: Option<Buf>,
    payload: Option<Payload>,
    largest: ByteCount,
    compressible_percent: f64,
    hollow: bool,
}

impl Buffers {
    /// The buffers that `profile` needs, from the pool of `env`; `None` when they do not fit.
    pub(crate) fn take(env: &Env, profile: &Profile, hollow: bool, seed: u64) -> Option<Buffers> {
        let largest = profile.largest_block();
        let compressible_percent = profile.load().compressible_percent;
        let take = || if hollow { Some(Buf::hollow(largest)) } else { env.pool().take(largest) };
        let read = if profile.reads() { Some(take()?) } else { None };
        let payload = match profile.writes() {
            true => Some(Payload::new(take()?, seed, compressible_percent)),
            false => None,
        };
        Some(Buffers { read, rest: None, payload, largest, compressible_percent, hollow })
    }

    fn spare(&self) -> Buf {
        if self.hollow { Buf::hollow(self.largest) } else { Buf::unpooled(self.largest) }
    }

    /// The buffer to read into. It comes back with its read; for one that a target kept there is a spare.
    fn next_read(&mut self, block: ByteCount) -> Buf {
        let mut buf = match self.read.take() {
            Some(buf) if buf.len() >= block => buf,
            _ => self.spare(),
        };
        self.rest = (buf.len() > block).then(|| buf.split_off(block));
        buf
    }

    /// Takes a read buffer back.
    fn give_back(&mut self, buf: Option<Buf>) {
        self.read = match (buf, self.rest.take()) {
            (Some(buf), Some(rest)) => Some(buf.join_or_keep(rest)),
            (buf, _) => buf,
        };
    }

    /// The bytes to write.
    fn next_write(&mut self, stamp: u64, block: ByteCount) -> Slice {
        let payload = match self.payload.take() {
            Some(payload) => payload,
            None => Payload::new(self.spare(), stamp, self.compressible_percent),
        };
        self.payload.insert(payload).next(stamp, block)
    }

    /// The bytes to write in verify mode.
    fn next_verified(&mut self, verifier: &Verifier, request: &Request) -> (Slice, Writing) {
        let block = request.block;
        let mut writing = None;
        let mut fill =
            |bytes: &mut [u8]| writing = Some(verifier.write(request, &mut bytes[..block.as_usize()]));
        let mut payload = match self.payload.take() {
            Some(payload) => payload,
            None => Payload::new(self.spare(), 0, 0.0),
        };
        if !payload.change(&mut fill) {
            // The target still holds on to the last write: that must not change under its hands.
            payload = Payload::new(self.spare(), 0, 0.0);
            payload.change(fill);
        }
        let slice = payload.first(block);
        self.payload = Some(payload);
        (
            slice,
            writing.expect("a buffer of this task alone can be written, and verify mode has no hollow ones"),
        )
    }
}

/// One outstanding I/O.
pub(crate) struct Outstanding {
    pub(crate) env: Env,
    pub(crate) member: Member,
    /// Which of the targets that are measured together `member` leads to.
    pub(crate) target: usize,
    pub(crate) pattern: Rc<Pattern>,
    pub(crate) walk: Rc<Walk>,
    pub(crate) asker: Asker,
    pub(crate) point: Rc<Point>,
    pub(crate) verifier: Option<Rc<Verifier>>,
    pub(crate) buffers: Buffers,
}

/// What must be remembered of a request in flight to verify it.
enum Pending {
    Nothing,
    Read(Reading),
    Write(Writing),
}

impl Outstanding {
    /// Makes one request after the other until the point is over.
    pub(crate) async fn run(mut self) {
        let mut now_ns = self.env.now().ns;
        let (mut inline, mut made) = (0, 0);
        while now_ns < self.point.meter.window_end_ns() {
            let mut start_ns = now_ns;
            if let Some(schedule) = &self.point.schedule {
                start_ns = schedule.claim(now_ns, self.point.meter.window_start_ns());
                if start_ns > now_ns && !self.wait_until(start_ns).await {
                    break;
                }
            }
            let polls = self.env.executor().polls();
            self.asker.turn = made;
            let elapsed_ns = start_ns.saturating_sub(self.point.began_ns);
            let request = self.walk.next(&self.pattern, &self.asker, elapsed_ns);
            let (io, pending) = self.start(&request);
            let outcome = io.await;
            now_ns = self.env.now().ns;
            self.finish(request, pending, outcome, start_ns, now_ns);
            made += 1;
            if let Pace::Closed { think, burst } = self.pattern.pace
                && !think.is_zero()
                && made.is_multiple_of(burst as usize)
            {
                let think_ns = u64::try_from(think.as_nanos()).unwrap_or(u64::MAX);
                if !self.wait_until(now_ns.saturating_add(think_ns)).await {
                    break;
                }
                now_ns = self.env.now().ns;
            }
            inline = if self.env.executor().polls() == polls { inline + 1 } else { 0 };
            if inline == INLINE_TURNS {
                self.env.yield_now().await;
                inline = 0;
                now_ns = self.env.now().ns;
            }
        }
    }

    /// Waits for a time; false when the point is over before. The point's end may be moved meanwhile.
    async fn wait_until(&self, deadline_ns: u64) -> bool {
        loop {
            let (now_ns, end_ns) = (self.env.now().ns, self.point.meter.window_end_ns());
            if now_ns >= end_ns {
                return false;
            }
            if now_ns >= deadline_ns {
                return true;
            }
            self.env.sleep_until(Instant { ns: deadline_ns.min(end_ns) }).await;
        }
    }

    fn start(&mut self, request: &Request) -> (platform::Io, Pending) {
        let (offset, block) = (request.offset, request.block);
        match (request.operation, &self.verifier) {
            (Operation::Read, verifier) => {
                let pending = verifier.as_ref().map_or(Pending::Nothing, |verifier| {
                    let mut reading = Reading::default();
                    verifier.read(ByteRange::new(offset, block), &mut reading);
                    Pending::Read(reading)
                });
                (self.member.read(offset, smallvec![self.buffers.next_read(block)]), pending)
            }
            (Operation::Write, None) => {
                let slice = self.buffers.next_write(self.walk.stamp(), block);
                (self.member.write(offset, smallvec![slice], Durability::Cached), Pending::Nothing)
            }
            (Operation::Write, Some(verifier)) => {
                let (slice, writing) = self.buffers.next_verified(verifier, request);
                (self.member.write(offset, smallvec![slice], Durability::Cached), Pending::Write(writing))
            }
        }
    }

    fn finish(
        &mut self,
        request: Request,
        pending: Pending,
        mut outcome: IoOutcome,
        start_ns: u64,
        now_ns: u64,
    ) {
        let block = request.block;
        let mut cause = match outcome.result {
            Ok(moved) if moved == block.0 => None,
            Ok(moved) => Some(Cause::Short(moved)),
            Err(error) => Some(Cause::Io(error)),
        };
        if let Some(verifier) = &self.verifier {
            match pending {
                Pending::Write(writing) => verifier.written(&writing, cause.is_none()),
                Pending::Read(reading) if cause.is_none() => {
                    let bytes = outcome.buffers.first().map_or(&[][..], Buf::bytes);
                    let range = ByteRange::new(request.offset, block);
                    cause = verifier.check(range, &reading, bytes).err().map(Cause::Wrong);
                }
                _ => {}
            }
        }
        if request.operation == Operation::Read {
            self.buffers.give_back(outcome.buffers.pop());
        }
        match cause {
            None => {
                self.point.errors_in_a_row.set(0);
                let latency_ns = now_ns.saturating_sub(start_ns);
                self.point.meter.complete(now_ns, latency_ns, request.operation, block.0);
            }
            Some(cause) => {
                self.point.fail(Failure { cause, request, target: self.target, at_ns: now_ns });
            }
        }
    }
}
