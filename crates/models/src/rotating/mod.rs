//! A rotating drive: one actuator with its scheduling, and a buffer that hides its latency.
//!
//! ```text
//!            buffered read: completed by the electronics
//! command ──► write, cache on, space: buffered, acknowledged ─► runs ┐
//!            otherwise: the queue ─────────────────────────────────►│ actuator: shortest
//!                                                                   │ positioning time,
//!            idle: read-ahead after the last read ◄─────────────────┘ bonus for age
//! ```
//!
//! - **Order.** Among the oldest `read_window` commands of the queue and the dirty runs, the
//!   actuator takes the one with the shortest seek and rotation (shortest positioning time first).
//!   A bonus for age ([`AGEING`]) prevents starvation.
//! - **Read-ahead.** When idle, the actuator continues after a read. Requests for sectors that pass
//!   or are about to pass under the heads are served from there. It stops when the buffer is full,
//!   and resumes when half of it has been requested.
//! - **Writing.** With the cache on, a write completes when it is in the buffer, and the actuator
//!   writes runs of neighbours to the medium in pieces. When the buffer is full, writes wait for
//!   space.
//! - **512e.** A write of partial physical sectors reads them first, which takes one revolution.

mod cache;
mod geometry;
mod seek;

use crate::catalog::{DriveSpec, RotatingSpec};
use crate::device::{Command, Device, Done, Kind, SECTOR};
use cache::{Segments, WriteCache};
use geometry::{Geometry, Position};
use platform::Instant;
use platform_sim::{Actor, SimHandle};
use seek::SeekCurve;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// A command takes precedence when its waiting time is this multiple of the time that another would
/// save.
const AGEING: u64 = 100;
/// A sector on the stream's way may take this multiple of the time of one elsewhere: it is read in
/// passing, while a sector that the stream has passed needs another revolution.
const ON_STREAM: u64 = 16;
/// The maximum number of sectors of one destage operation.
const PIECE_SECTORS: u64 = 1024;

/// Event tokens: an operation of the actuator ends; with [`ANSWER`], a command completes.
const ARM: u64 = 0;
const ANSWER: u64 = 1 << 32;

/// A command that waits for the actuator.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: Command,
    place: Position,
    since_ns: u64,
}

/// An operation of the actuator.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Job {
    /// A command from the queue.
    Command { tag: u32, writes: bool, start: u64, end: u64 },
    /// A piece of a dirty run.
    Destage { start: u64, end: u64 },
}

/// The actuator reads ahead.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The start of the buffered range.
    from: u64,
    /// The sector and time at which this read-ahead began.
    head: u64,
    since_ns: u64,
    /// The sector at which the buffer is full.
    until: u64,
    /// The end of the requested range so far.
    asked: u64,
}

struct State {
    queue: Vec<Waiting>,
    /// Writes that wait for space in the cache.
    blocked: VecDeque<Command>,
    flushes: Vec<u32>,
    cache: WriteCache,
    segments: Segments,
    stream: Option<Stream>,
    job: Option<Job>,
    cylinder: u64,
    /// The sector after the last access, and the time of that access.
    passed: (u64, u64),
    busy_ns: u64,
    busy_since_ns: u64,
}

/// See the [module](self).
pub(crate) struct Rotating {
    me: Weak<Rotating>,
    sim: SimHandle,
    port: Weak<dyn Done>,
    spec: RotatingSpec,
    write_cache: bool,
    /// Sectors per physical sector; 1 without 512e.
    physical: u64,
    geometry: Geometry,
    seek: SeekCurve,
    state: RefCell<State>,
}

/// The best next operation, and its end.
struct Choice {
    what: Next,
    score: i64,
    /// The time at which the first sector is under the heads.
    begins_ns: u64,
}

#[derive(Clone, Copy)]
enum Next {
    Queue { at: usize, on_stream: bool },
    Run { at: usize },
}

impl Rotating {
    pub fn new(
        sim: &SimHandle,
        name: &str,
        drive: &DriveSpec,
        spec: &RotatingSpec,
        write_cache: bool,
        port: Weak<dyn Done>,
    ) -> Rc<Rotating> {
        let mut chance = sim.rng("spindle", name);
        let (phase, speed) = (chance.next_u64(), chance.next_u64());
        let geometry = Geometry::new(spec, drive.capacity_bytes, phase, speed);
        let us = 1000;
        let seek = SeekCurve::new(
            geometry.cylinders,
            spec.seek_min_us * us,
            spec.seek_avg_us * us,
            spec.seek_max_us * us,
        );
        let sectors = |kib: u64| kib * 1024 / SECTOR;
        let state = State {
            queue: Vec::new(),
            blocked: VecDeque::new(),
            flushes: Vec::new(),
            cache: WriteCache::new(sectors(spec.write_buffer_kib), spec.write_window),
            segments: Segments::new(spec.segments, sectors(spec.read_ahead_kib)),
            stream: None,
            job: None,
            cylinder: 0,
            passed: (0, 0),
            busy_ns: 0,
            busy_since_ns: 0,
        };
        Rc::new_cyclic(|me| Rotating {
            me: me.clone(),
            sim: sim.clone(),
            port,
            spec: spec.clone(),
            write_cache,
            physical: drive.physical_sector_bytes / drive.logical_sector_bytes.max(SECTOR),
            geometry,
            seek,
            state: RefCell::new(state),
        })
    }

    fn now_ns(&self) -> u64 {
        self.sim.now().ns
    }

    fn command_ns(&self) -> u64 {
        self.spec.command_us * 1000
    }

    fn at(&self, ns: u64, token: u64) {
        if let Some(me) = self.me.upgrade() {
            self.sim.at(Instant { ns }, me, token);
        }
    }

    /// Completes a command by the electronics.
    fn answer(&self, tag: u32) {
        self.at(self.now_ns() + self.command_ns(), ANSWER | u64::from(tag));
    }

    fn done(&self, tag: u32) {
        if let Some(port) = self.port.upgrade() {
            port.done(tag);
        }
    }

    // Read-ahead.

    /// The end of the stream's buffered range.
    fn buffered(&self, stream: &Stream, now_ns: u64) -> u64 {
        if now_ns <= stream.since_ns {
            return stream.head;
        }
        let passed = self.geometry.passed(stream.head, now_ns - stream.since_ns);
        stream.until.min(stream.head + passed).max(stream.head)
    }

    /// The time at which the stream reaches `sector`.
    fn reaches_ns(&self, stream: &Stream, sector: u64) -> u64 {
        stream.since_ns + self.geometry.pass_ns(stream.head, sector.saturating_sub(stream.head))
    }

    /// Whether the stream covers a range: buffered, or about to pass under the heads.
    fn is_on(&self, stream: &Stream, command: &Command, now_ns: u64) -> bool {
        let buffered = self.buffered(stream, now_ns);
        let reach = if buffered < stream.until { self.geometry.track(buffered) } else { 0 };
        let going = stream.asked == buffered && stream.head == buffered;
        command.start >= stream.from && (command.start <= buffered + reach && (reach > 0 || going))
    }

    /// Whether the buffer contains a read's range. Advances the stream, and resumes one that has
    /// stopped.
    fn in_buffer(&self, state: &mut State, command: &Command, now_ns: u64) -> bool {
        let (start, end) = (command.start, command.end());
        if state.cache.holds(start, end) || state.segments.hold(start, end) {
            return true;
        }
        let Some(mut stream) = state.stream else { return false };
        let buffered = self.buffered(&stream, now_ns);
        if start < stream.from || end > buffered {
            return false;
        }
        self.ask(&mut stream, end, now_ns);
        state.stream = Some(stream);
        true
    }

    /// Notes a request that ends at `end`: the stream may continue.
    fn ask(&self, stream: &mut Stream, end: u64, now_ns: u64) {
        let ahead = self.spec.read_ahead_kib * 1024 / SECTOR;
        stream.asked = stream.asked.max(end);
        let buffered = self.buffered(stream, now_ns);
        if buffered < stream.until {
            stream.until = stream.until.max(stream.asked + ahead);
        } else if buffered.saturating_sub(stream.asked) <= ahead / 2 {
            // After a stop, the heads must be positioned again.
            let place = self.geometry.place(buffered);
            stream.head = buffered;
            stream.since_ns = now_ns + self.geometry.wait_ns(place.angle_ns, now_ns);
            stream.until = stream.asked + ahead;
        }
        stream.from = stream.from.max(stream.asked.saturating_sub(ahead));
    }

    /// Ends the stream; its data stays in the buffer.
    fn leave_stream(&self, state: &mut State, now_ns: u64) {
        if let Some(stream) = state.stream.take() {
            let buffered = self.buffered(&stream, now_ns);
            state.segments.keep(stream.from, buffered);
            state.cylinder = self.geometry.place(buffered).cylinder;
        }
    }

    // Scheduling.

    /// The time from `from_ns` until the heads are at `place`.
    fn positioning_ns(&self, state: &State, place: Position, from_ns: u64, writes: bool) -> u64 {
        let mut seek = self.seek.ns(state.cylinder, place.cylinder);
        if writes {
            seek += self.spec.write_settle_us * 1000;
        }
        seek + self.geometry.wait_ns(place.angle_ns, from_ns + seek)
    }

    fn choose(&self, state: &State, now_ns: u64) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        let mut consider = |what: Next, begins_ns: u64, since_ns: u64| {
            let age = (now_ns.saturating_sub(since_ns) / AGEING) as i64;
            let on_stream = matches!(what, Next::Queue { on_stream: true, .. });
            let wait_ns = (begins_ns - now_ns) / if on_stream { ON_STREAM } else { 1 };
            let score = wait_ns as i64 - age;
            if best.as_ref().is_none_or(|best| score < best.score) {
                best = Some(Choice { what, score, begins_ns });
            }
        };
        let stream = state.stream.as_ref();
        for (at, waiting) in state.queue.iter().enumerate().take(self.spec.read_window as usize) {
            let command = &waiting.command;
            let writes = command.kind != Kind::Read;
            let on_stream =
                !writes && stream.is_some_and(|stream| self.is_on(stream, command, now_ns));
            let begins_ns = match stream {
                Some(stream) if on_stream => self.reaches_ns(stream, command.start).max(now_ns),
                // The next sectors, known early enough.
                _ if writes && state.passed == (command.start, now_ns) => now_ns,
                _ => {
                    // The electronics delay the start of positioning.
                    let from_ns = now_ns.max(waiting.since_ns + self.command_ns());
                    from_ns + self.positioning_ns(state, waiting.place, from_ns, writes)
                }
            };
            consider(Next::Queue { at, on_stream }, begins_ns, waiting.since_ns);
        }
        for (at, run) in state.cache.runs().iter().enumerate() {
            let goes_on = state.passed == (run.start, now_ns);
            let positioning =
                if goes_on { 0 } else { self.positioning_ns(state, run.place, now_ns, true) };
            consider(Next::Run { at }, now_ns + positioning, run.since_ns);
        }
        best
    }

    /// Starts an operation if the actuator is idle.
    fn pump(&self) {
        let now_ns = self.now_ns();
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.job.is_some() {
            return;
        }
        let Some(choice) = self.choose(state, now_ns) else { return };
        let (job, ends_ns) = match choice.what {
            Next::Queue { at, on_stream } => {
                let Command { tag, kind, start, sectors, .. } = state.queue.remove(at).command;
                let (end, writes) = (start + sectors, kind != Kind::Read);
                let job = Job::Command { tag, writes, start, end };
                match &mut state.stream {
                    Some(stream) if on_stream => {
                        self.ask(stream, end, now_ns);
                        (job, self.reaches_ns(stream, end).max(now_ns))
                    }
                    _ => {
                        self.leave_stream(state, now_ns);
                        (job, choice.begins_ns + self.media_ns(start, end, writes))
                    }
                }
            }
            Next::Run { at } => {
                self.leave_stream(state, now_ns);
                let run = state.cache.runs()[at];
                let end = run.start + run.sectors.min(PIECE_SECTORS);
                let ends_ns = choice.begins_ns + self.media_ns(run.start, end, true);
                (Job::Destage { start: run.start, end }, ends_ns)
            }
        };
        state.job = Some(job);
        state.busy_since_ns = now_ns;
        self.at(ends_ns, ARM);
    }

    /// The time for a range to pass under the heads. A partial physical sector is read first and
    /// written a revolution later.
    fn media_ns(&self, start: u64, end: u64, writes: bool) -> u64 {
        let torn = writes
            && self.physical > 1
            && !(start.is_multiple_of(self.physical) && end.is_multiple_of(self.physical));
        let again = if torn { self.geometry.revolution_ns } else { 0 };
        again + self.geometry.pass_ns(start, end - start)
    }

    /// Completes the actuator's operation.
    fn job_is_over(&self) {
        let now_ns = self.now_ns();
        let mut finished = None;
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let Some(job) = state.job.take() else { return };
            state.busy_ns += now_ns - state.busy_since_ns;
            let (start, end, writes) = match job {
                Job::Command { tag, writes, start, end } => {
                    finished = Some(tag);
                    (start, end, writes)
                }
                Job::Destage { start, end } => {
                    state.cache.clean(start, end - start, &self.geometry, now_ns);
                    (start, end, true)
                }
            };
            state.passed = (end, now_ns);
            state.cylinder = self.geometry.place(end - 1).cylinder;
            if !writes && state.stream.is_none() {
                let ahead = self.spec.read_ahead_kib * 1024 / SECTOR;
                let until = end + ahead;
                state.stream =
                    Some(Stream { from: start, head: end, since_ns: now_ns, until, asked: end });
            }
            self.admit(state, now_ns);
        }
        if let Some(tag) = finished {
            self.done(tag);
        }
        self.pump();
    }

    /// Accepts writes that waited for space, and completes flushes without remaining dirty sectors.
    fn admit(&self, state: &mut State, now_ns: u64) {
        while let Some(command) = state.blocked.front().copied() {
            if !state.cache.take(command.start, command.sectors, now_ns, &self.geometry) {
                break;
            }
            state.blocked.pop_front();
            self.answer(command.tag);
        }
        if state.cache.is_empty() {
            for tag in state.flushes.drain(..) {
                self.answer(tag);
            }
        }
    }
}

impl Device for Rotating {
    fn submit(&self, command: Command) {
        let now_ns = self.now_ns();
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            match command.kind {
                Kind::Ask => self.answer(command.tag),
                Kind::Flush => {
                    state.flushes.push(command.tag);
                    self.admit(state, now_ns);
                }
                Kind::Write { durable: false } if self.write_cache => {
                    state.segments.forget(command.start, command.end());
                    state.blocked.push_back(command);
                    self.admit(state, now_ns);
                }
                Kind::Read if self.in_buffer(state, &command, now_ns) => self.answer(command.tag),
                Kind::Read | Kind::Write { .. } => {
                    let place = self.geometry.place(command.start);
                    state.queue.push(Waiting { command, place, since_ns: now_ns });
                }
            }
        }
        self.pump();
    }

    fn busy(&self, now_ns: u64) -> Vec<(&'static str, u64)> {
        let state = self.state.borrow();
        let current = if state.job.is_some() { now_ns - state.busy_since_ns } else { 0 };
        vec![("actuator", state.busy_ns + current)]
    }
}

impl Actor for Rotating {
    fn act(self: Rc<Self>, token: u64) {
        match token {
            ARM => self.job_is_over(),
            answer => self.done(answer as u32),
        }
    }
}
