//! The load loops: each outstanding I/O is a task that starts its next request when the last one
//! completes (closed loop), or when the next request is due (open loop).
//!
//! # Invariants
//! - Closed, without think time: the number of outstanding requests equals the queue depth from
//!   start to end of a point, except between a completion and the next start. With think time it is
//!   at most that number.
//! - Open: a schedule fixes the due times of requests in advance, independently of the target, and
//!   requests start in that order. A request without a free task waits, and its latency counts from
//!   its due time. A stall therefore affects every request that was due during it. (A closed loop
//!   sends nothing during a stall: *coordinated omission*. Its percentiles do not represent users
//!   who arrive independently.)
//! - A task ends without a request in flight: a point ends when all its tasks have ended.
//! - The clock is read once per I/O: the end of one is the start of the next. Latencies of a
//!   closed-loop task therefore add up to the elapsed time, and Little's law holds for the results
//!   (the generator's own tens of nanoseconds are included). The only exception is a task that
//!   yields to others because its target completes requests within the call: its wait is not
//!   counted.
//!
//! Budget: 100 ns of a core per I/O in addition to platform layer and target
//! (`examples/generator_cost.rs`).

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

/// The measurement of a target ends after this many consecutive errors.
const MOST_ERRORS_IN_A_ROW: u32 = 1000;

/// A task whose target completes requests within the call yields after this many. The number is
/// below the executor's budget per poll, so that the task yields between two requests, where the
/// wait is not part of a latency.
const INLINE_TURNS: u32 = 32;

/// The reason why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The target reported an error.
    Io(IoError),
    /// The target transferred fewer bytes.
    Short(u64),
    /// The target returned other bytes than were written.
    Wrong(Mismatch),
}

/// A failed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) request: Request,
    /// The index of the target in a joint measurement.
    pub(crate) target: usize,
    /// The time of the failure.
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

/// The shared state of a point's tasks.
pub(crate) struct Point {
    pub(crate) meter: Meter,
    /// The start time.
    began_ns: u64,
    /// The due times of an open loop.
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

    /// The due times of an open loop.
    pub(crate) fn schedule(&self) -> Option<&Schedule> {
        self.schedule.as_ref()
    }

    /// The first failed request.
    pub(crate) fn first_failure(&self) -> Option<Failure> {
        self.first_failure.get()
    }

    /// The request whose failure ended the point.
    pub(crate) fn end(&self) -> Option<Failure> {
        self.end.get()
    }

    /// Counts a failure. Ends the point if continuing is pointless: the target is gone or does not
    /// respond, rejects such requests, returns wrong data, or returns only errors.
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
        if (!passing || self.errors_in_a_row.get() >= MOST_ERRORS_IN_A_ROW)
            && self.end.get().is_none()
        {
            self.end.set(Some(failure));
            self.meter.stop(match failure.cause {
                // The wait for the time limit is not part of the measurement.
                Cause::Io(error) if error.kind == IoErrorKind::TimedOut => {
                    self.meter.last_completion_ns()
                }
                _ => failure.at_ns,
            });
        }
    }
}

/// The read and write buffers of one outstanding I/O.
pub(crate) struct Buffers {
    read: Option<Buf>,
    /// The unused rest of the read buffer during a shorter request.
    rest: Option<Buf>,
    payload: Option<Payload>,
    largest: ByteCount,
    compressible_percent: f64,
    hollow: bool,
}

impl Buffers {
    /// The buffers for `profile`, from the pool of `env`; `None` if memory is insufficient.
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

    /// The read buffer. It returns with its read; a spare replaces one that the target kept.
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
        let mut fill = |bytes: &mut [u8]| {
            writing = Some(verifier.write(request, &mut bytes[..block.as_usize()]))
        };
        let mut payload = match self.payload.take() {
            Some(payload) => payload,
            None => Payload::new(self.spare(), 0, 0.0),
        };
        if !payload.change(&mut fill) {
            // The target still uses the last write's bytes, so they must not change.
            payload = Payload::new(self.spare(), 0, 0.0);
            payload.change(fill);
        }
        let slice = payload.first(block);
        self.payload = Some(payload);
        (
            slice,
            writing.expect(
                "only this task holds the buffer, and verify mode has no data-less buffers",
            ),
        )
    }
}

/// One outstanding I/O.
pub(crate) struct Outstanding {
    pub(crate) env: Env,
    pub(crate) member: Member,
    /// The index of `member`'s target in a joint measurement.
    pub(crate) target: usize,
    pub(crate) pattern: Rc<Pattern>,
    pub(crate) walk: Rc<Walk>,
    pub(crate) asker: Asker,
    pub(crate) point: Rc<Point>,
    pub(crate) verifier: Option<Rc<Verifier>>,
    pub(crate) buffers: Buffers,
}

/// The data needed to verify a request in flight.
enum Pending {
    Nothing,
    Read(Reading),
    Write(Writing),
}

impl Outstanding {
    /// Runs requests until the point is over.
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

    /// Sleeps until a time; false if the point ends first. The end of the point may move meanwhile.
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
                (
                    self.member.write(offset, smallvec![slice], Durability::Cached),
                    Pending::Write(writing),
                )
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
