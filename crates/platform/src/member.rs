//! A drive with the bookkeeping that every user of one needs: time limits and what is still out.

use crate::buffers::{Bufs, Slice, Slices};
use crate::drive::{Drive, DriveInfo, DriveSource, Durability, IoRequest};
use crate::error::{self, IoError, IoErrorKind};
use crate::health::DriveHealth;
use crate::ops::{Completion, Io, OnReturn, Waiter};
use crate::outcome::IoOutcome;
use crate::oversight::{Exceeded, Overseer, Oversight, Terms};
use crate::time::Instant;
use crate::time_limits::{DriveClass, LimitsByClass, TimeLimits};
use crate::traffic::{Metered, Operation, TrafficRow};
use crate::world::Env;
use smallvec::smallvec;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use units::{ByteOffset, ByteRange};

/// A drive attached to this shard, whose operations have a time limit and are counted until they return.
///
/// Starting is calling: the operation is with the drive when the call returns, or waits for a place there where the drive has as many as it is given
/// at once ([`DriveClass::queue_depth`]), and awaiting the [`Io`] merely waits for it. What waits for a place begins in its order, and its time
/// limit begins with it.
#[derive(Clone)]
pub struct Member {
    env: Env,
    drive: Rc<dyn Drive>,
    oversight: Rc<Oversight>,
    /// What waits for a place. Shared by its clones.
    queue: Rc<Queue>,
    /// Shared by its clones.
    limits: Rc<Cell<TimeLimits>>,
    /// Where its operations are counted, if they are.
    traffic: Option<Rc<TrafficRow>>,
}

/// Operations that wait for a place.
#[derive(Default)]
struct Queue {
    waiting: RefCell<VecDeque<Queued>>,
    /// Whether a task starts them.
    is_served: Cell<bool>,
}

struct Queued {
    request: IoRequest,
    completion: Completion,
    is_short: bool,
}

/// How long a drive may take for one operation unless told otherwise.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(30);

impl Member {
    /// `drive` with the usual time limit.
    pub fn new(env: &Env, drive: Rc<dyn Drive>) -> Member {
        Member::with_time_limit(env, drive, DEFAULT_TIME_LIMIT)
    }

    /// `drive` with the same time limit for every operation.
    pub fn with_time_limit(env: &Env, drive: Rc<dyn Drive>, time_limit: Duration) -> Member {
        Member::with_limits(env, drive, TimeLimits::uniform(time_limit))
    }

    /// `drive` with time limits for its operations.
    pub fn with_limits(env: &Env, drive: Rc<dyn Drive>, limits: TimeLimits) -> Member {
        let (oversight, queue, limits) = (Rc::default(), Rc::default(), Rc::new(Cell::new(limits)));
        Member { env: env.clone(), drive, oversight, queue, limits, traffic: None }
    }

    /// This shard's way to the drive of a source, with the time limits and the queue depth of its class. Its operations count as the
    /// source's [traffic](DriveSource::traffic).
    ///
    /// # Errors
    /// When the shard's world cannot take one more drive.
    pub fn attach(env: &Env, source: &dyn DriveSource, limits: &LimitsByClass) -> error::Result<Member> {
        let member = Member::with_limits(env, source.attach(env)?, limits.of(source.info()));
        let traffic = source.traffic().map(|traffic| Rc::new(traffic.join()));
        Ok(Member { traffic, ..member.with_queue_depth(DriveClass::of(source.info()).queue_depth()) })
    }

    /// The drive is given so many operations at once, at most; others wait.
    #[must_use]
    pub fn with_queue_depth(self, depth: u32) -> Member {
        self.oversight.places.set(Some(depth));
        self
    }

    /// Another way to the same drive, whose outstanding operations are counted apart, with time limits of its own, and over which nobody
    /// watches.
    #[must_use]
    pub fn beside(&self) -> Member {
        let (oversight, limits) = (Rc::<Oversight>::default(), Rc::new(Cell::new(self.limits.get())));
        oversight.places.set(self.oversight.places.get());
        Member { oversight, queue: Rc::default(), limits, ..self.clone() }
    }

    /// What the drive says of itself.
    pub fn info(&self) -> &DriveInfo {
        self.drive.info()
    }

    /// Operations that the drive has not returned, those that wait for a place and those that timed out included: while there are any, a
    /// late write may still land.
    pub fn outstanding(&self) -> u32 {
        self.oversight.outstanding.get()
    }

    /// Whether reads with a short limit take longer than that, and have not been returned.
    pub fn is_late(&self) -> bool {
        self.oversight.late.get() > 0
    }

    /// Whether operations take longer than their time limit, and have not been returned or [given up](Self::give_up). Only of a member that is
    /// [watched over](Self::watch).
    pub fn is_overdue(&self) -> bool {
        self.oversight.overdue.get() > 0
    }

    /// The time limit that an operation has exceeded last, while any [is overdue](Self::is_overdue).
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.oversight.exceeded.get().filter(|_| self.is_overdue())
    }

    /// From now on somebody watches over operations that take too long: they do not fail by their time limit any more.
    pub fn watch(&self, overseer: Weak<dyn Overseer>) {
        self.oversight.watch(overseer);
    }

    /// Nobody watches any more: what starts from now on fails by its time limit. What is overdue by then has to be
    /// [given up](Self::give_up).
    pub fn watch_no_more(&self) {
        self.oversight.watch_no_more();
    }

    /// Nobody waits for the drive any longer: every operation that it has not returned times out. It is not asked for what waits for a place.
    pub fn give_up(&self) {
        let executor = self.env.executor();
        let never_asked = self.queue.waiting.take();
        executor.ops.give_up(&self.oversight).into_iter().for_each(|heard| heard.hear(executor));
        // Whoever waited knows by now.
        drop(never_asked);
        self.oversight.starter.take().into_iter().for_each(|starter| executor.wake(starter));
    }

    /// Gives operations of this member and its clones that start from now on other time limits.
    pub fn set_limits(&self, limits: &LimitsByClass) {
        self.limits.set(limits.of(self.drive.info()));
    }

    /// Starts any request.
    pub fn start(&self, request: IoRequest) -> Io {
        self.start_with(request, false)
    }

    fn start_with(&self, request: IoRequest, is_short: bool) -> Io {
        let terms = self.terms(&request, is_short);
        let has_place = terms.has_place;
        let (io, completion) = Io::start(self.env.executor(), terms);
        self.submit(request, completion, has_place, is_short);
        io
    }

    /// Asks the drive, or has the request wait for a place.
    #[inline]
    fn submit(&self, request: IoRequest, completion: Completion, has_place: bool, is_short: bool) {
        match has_place {
            true => self.drive.start(request, completion),
            false => self.wait_for_place(Queued { request, completion, is_short }),
        }
    }

    #[cold]
    fn wait_for_place(&self, queued: Queued) {
        self.queue.waiting.borrow_mut().push_back(queued);
        if self.queue.is_served.replace(true) {
            return;
        }
        let member = self.clone();
        self.env.spawn("start what waits for a drive", poll_fn(move |_| member.start_what_waits()));
    }

    /// Asks the drive for what waits, as long as it may have more. Ready when nothing waits.
    fn start_what_waits(&self) -> Poll<()> {
        loop {
            let is_empty = self.queue.waiting.borrow().is_empty();
            if !is_empty && !self.oversight.has_room() {
                self.oversight.starter.set(Some(self.env.executor().current()));
                return Poll::Pending;
            }
            let Some(queued) = self.queue.waiting.borrow_mut().pop_front() else { break };
            let Queued { request, mut completion, is_short } = queued;
            completion.begin(self.terms_now(&request, is_short));
            self.drive.start(request, completion);
        }
        self.queue.is_served.set(false);
        Poll::Ready(())
    }

    /// Starts a request of which `whom` hears, as `token`: when the drive returns it, or when its time is up. That may be before this returns.
    /// `is_short`: a read that others can serve as well ([`TimeLimits::short_read`]).
    pub fn start_for(&self, request: IoRequest, is_short: bool, whom: Rc<dyn OnReturn>, token: u32) {
        let terms = self.terms(&request, is_short);
        let has_place = terms.has_place;
        let completion = Completion::start(self.env.executor(), Waiter::OnReturn(whom, token), terms);
        self.submit(request, completion, has_place, is_short);
    }

    /// The terms of a request that starts now, or waits for a place.
    #[inline]
    fn terms(&self, request: &IoRequest, is_short: bool) -> Terms {
        match self.oversight.has_room() && !self.queue.is_served.get() {
            true => self.terms_now(request, is_short),
            false => self.terms_later(request),
        }
    }

    #[cold]
    fn terms_later(&self, request: &IoRequest) -> Terms {
        let limit = self.limits.get().of(request);
        let exceeds = Operation::of(request).map(|operation| Exceeded { operation, limit });
        let terms = Terms::until(Instant::NEVER);
        Terms { has_place: false, oversight: Some(self.oversight.clone()), exceeds, ..terms }
    }

    /// The terms of a request for which the drive is asked now.
    #[inline]
    fn terms_now(&self, request: &IoRequest, is_short: bool) -> Terms {
        let now = self.env.executor().tick();
        let metered = self.traffic.as_ref().and_then(|row| Metered::start(row, request, now));
        let limits = self.limits.get();
        let limit = limits.of(request);
        let short =
            if is_short && self.oversight.is_watched() { limits.short_read.min(limit) } else { limit };
        let (deadline, rest) = (now + short, limit.saturating_sub(short));
        let exceeds = Operation::of(request).map(|operation| Exceeded { operation, limit });
        let oversight = Some(self.oversight.clone());
        Terms { deadline, has_place: true, rest, oversight, exceeds, metered }
    }

    /// Starts filling `buffers` from `offset` on.
    pub fn read(&self, offset: ByteOffset, buffers: Bufs) -> Io {
        self.start(IoRequest::Read { offset, buffers })
    }

    /// Starts the same where others can serve it as well: [`IoErrorKind::Late`] when the short limit has passed, if anybody
    /// [watches over](Self::watch) the drive.
    pub fn read_or_late(&self, offset: ByteOffset, buffers: Bufs) -> Io {
        self.start_with(IoRequest::Read { offset, buffers }, true)
    }

    /// Starts asking where a range holds data, with the short limit of [`Member::read_or_late`].
    pub fn status_or_late(&self, range: ByteRange) -> Io {
        self.start_with(IoRequest::Status { range }, true)
    }

    /// Starts writing `slices` from `offset` on.
    pub fn write(&self, offset: ByteOffset, slices: Slices, durability: Durability) -> Io {
        self.start(IoRequest::Write { offset, slices, durability })
    }

    /// Starts writing zeroes; a drive that cannot do that by itself is sent some. With `may_unmap` it may give up the
    /// space as long as zeroes are read from it.
    pub fn write_zeroes(
        self: &Rc<Self>,
        range: ByteRange,
        may_unmap: bool,
        durability: Durability,
    ) -> Zeroes {
        let io = self.start(IoRequest::WriteZeroes { range, may_unmap, durability });
        Zeroes { io, left: Some((self.clone(), range, durability)) }
    }

    /// Starts a flush.
    pub fn flush(&self) -> Io {
        self.start(IoRequest::Flush)
    }

    /// Starts giving up a range.
    pub fn trim(&self, range: ByteRange) -> Io {
        self.start(IoRequest::Trim { range })
    }

    /// What the drive tells of its own state; unknown where it cannot tell.
    ///
    /// # Errors
    /// When the drive does not answer.
    pub async fn health(&self) -> Result<DriveHealth, IoError> {
        let outcome = self.start(IoRequest::Health).await;
        outcome.result.map(|_| outcome.health.map(|health| *health).unwrap_or_default())
    }

    /// Starts switching the drive's own write cache on or off.
    pub fn write_cache(&self, on: bool) -> Io {
        self.start(IoRequest::WriteCache { on })
    }

    /// Starts turning the light that shows where the drive sits on or off.
    pub fn locate(&self, on: bool) -> Io {
        self.start(IoRequest::Locate { on })
    }
}

/// Zeroes on their way to a drive.
#[must_use = "a write that nobody waits for may fail unseen"]
pub struct Zeroes {
    io: Io,
    /// Whom to send them byte by byte, should it refuse to make them itself.
    left: Option<(Rc<Member>, ByteRange, Durability)>,
}

impl Future for Zeroes {
    type Output = IoOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoOutcome> {
        loop {
            let outcome = std::task::ready!(Pin::new(&mut self.io).poll(context));
            let refused = outcome.result.is_err_and(|error| error.kind == IoErrorKind::NotSupported);
            match self.left.take() {
                Some((member, range, durability)) if refused => {
                    self.io = member.write(range.start, smallvec![Slice::zero(range.len)], durability);
                }
                _ => return Poll::Ready(outcome),
            }
        }
    }
}
