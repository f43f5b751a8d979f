//! A drive with time limits and a count of its outstanding operations.

use crate::buffers::{Bufs, Slice, Slices};
use crate::drive::{Drive, DriveInfo, DriveSource};
use crate::error::{self, IoError, IoErrorKind};
use crate::health::DriveHealth;
use crate::ops::{Completion, Io};
use crate::outcome::IoOutcome;
use crate::oversight::{Exceeded, Overseer, Oversight, Terms};
use crate::request::{Durability, IoRequest};
use crate::time::Instant;
use crate::time_limits::{DriveClass, LimitsByClass, TimeLimits};
use crate::traffic::{Metered, Operation, TrafficRow};
use crate::waiter::{OnReturn, Waiter};
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

/// A drive attached to this shard, with time limits; its operations count as outstanding until they
/// return.
///
/// A call starts the operation, and awaiting the [`Io`] only waits for it. The drive has a limited
/// number of operations at once ([`DriveClass::queue_depth`]). Further ones queue in order; their
/// time limits start when the drive receives them.
#[derive(Clone)]
pub struct Member {
    env: Env,
    drive: Rc<dyn Drive>,
    oversight: Rc<Oversight>,
    /// The queued operations. Clones share the queue.
    queue: Rc<Queue>,
    /// Clones share the limits.
    limits: Rc<Cell<TimeLimits>>,
    /// The counters of its operations, if they are counted.
    traffic: Option<Rc<TrafficRow>>,
}

/// Operations that wait for a free place at the drive.
#[derive(Default)]
struct Queue {
    waiting: RefCell<VecDeque<Queued>>,
    /// Whether a task starts the queued operations.
    is_served: Cell<bool>,
}

struct Queued {
    request: IoRequest,
    completion: Completion,
    is_short: bool,
}

/// The default time limit of an operation.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(30);

impl Member {
    /// `drive` with the default time limit.
    pub fn new(env: &Env, drive: Rc<dyn Drive>) -> Member {
        Member::with_time_limit(env, drive, DEFAULT_TIME_LIMIT)
    }

    /// `drive` with one time limit for all operations.
    pub fn with_time_limit(env: &Env, drive: Rc<dyn Drive>, time_limit: Duration) -> Member {
        Member::with_limits(env, drive, TimeLimits::uniform(time_limit))
    }

    /// `drive` with time limits for its operations.
    pub fn with_limits(env: &Env, drive: Rc<dyn Drive>, limits: TimeLimits) -> Member {
        let (oversight, queue, limits) = (Rc::default(), Rc::default(), Rc::new(Cell::new(limits)));
        Member { env: env.clone(), drive, oversight, queue, limits, traffic: None }
    }

    /// Attaches the drive of a source to this shard, with the time limits and the queue depth of
    /// its class. Its operations count in the source's [traffic](DriveSource::traffic).
    ///
    /// # Errors
    /// When the shard's platform cannot attach another drive.
    pub fn attach(
        env: &Env,
        source: &dyn DriveSource,
        limits: &LimitsByClass,
    ) -> error::Result<Member> {
        let member = Member::with_limits(env, source.attach(env)?, limits.of(source.info()));
        let traffic = source.traffic().map(|traffic| Rc::new(traffic.join()));
        Ok(Member {
            traffic,
            ..member.with_queue_depth(DriveClass::of(source.info()).queue_depth())
        })
    }

    /// Limits the operations that the drive has at once; others queue.
    #[must_use]
    pub fn with_queue_depth(self, depth: u32) -> Member {
        self.oversight.places.set(Some(depth));
        self
    }

    /// A second handle to the same drive, with outstanding operations and time limits of its own,
    /// and without an overseer.
    #[must_use]
    pub fn beside(&self) -> Member {
        let (oversight, limits) =
            (Rc::<Oversight>::default(), Rc::new(Cell::new(self.limits.get())));
        oversight.places.set(self.oversight.places.get());
        Member { oversight, queue: Rc::default(), limits, ..self.clone() }
    }

    /// The drive's properties.
    pub fn info(&self) -> &DriveInfo {
        self.drive.info()
    }

    /// The operations that the drive has not returned, including queued and timed-out ones: while
    /// there are any, a late write may still reach the medium.
    pub fn outstanding(&self) -> u32 {
        self.oversight.outstanding.get()
    }

    /// Whether an outstanding read has exceeded the short limit.
    pub fn is_late(&self) -> bool {
        self.oversight.late.get() > 0
    }

    /// Whether an outstanding operation has exceeded its time limit, and was not [given
    /// up](Self::give_up). Only for a member with an [overseer](Self::watch).
    pub fn is_overdue(&self) -> bool {
        self.oversight.overdue.get() > 0
    }

    /// The latest exceeded time limit, while any operation [is overdue](Self::is_overdue).
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.oversight.exceeded.get().filter(|_| self.is_overdue())
    }

    /// Adds an overseer: from now on operations do not fail by their time limits.
    pub fn watch(&self, overseer: Weak<dyn Overseer>) {
        self.oversight.watch(overseer);
    }

    /// Removes the overseer: operations that start from now on fail by their time limits. The
    /// caller must [give up](Self::give_up) the overdue ones.
    pub fn watch_no_more(&self) {
        self.oversight.watch_no_more();
    }

    /// Times out all operations that the drive has not returned. Queued operations never reach the
    /// drive.
    pub fn give_up(&self) {
        let executor = self.env.executor();
        let never_asked = self.queue.waiting.take();
        executor
            .ops
            .give_up(&self.oversight)
            .into_iter()
            .for_each(|notice| notice.notify(|task| executor.wake(task)));
        // The waiters have been notified already.
        drop(never_asked);
        self.oversight.starter.take().into_iter().for_each(|starter| executor.wake(starter));
    }

    /// Changes the time limits of this member and its clones, for operations that start from now
    /// on.
    pub fn set_limits(&self, limits: &LimitsByClass) {
        self.limits.set(limits.of(self.drive.info()));
    }

    /// Starts any request.
    pub fn start(&self, request: IoRequest) -> Io {
        self.start_with(request, false)
    }

    /// The same. `is_short`: a read that redundancy can serve as well
    /// ([`TimeLimits::short_read`]).
    pub fn start_with(&self, request: IoRequest, is_short: bool) -> Io {
        let terms = self.terms(&request, is_short);
        let has_place = terms.has_place;
        let (io, completion) = Io::start(self.env.executor(), terms);
        self.submit(request, completion, has_place, is_short);
        io
    }

    /// Gives the request to the drive, or queues it.
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
        self.env.spawn("start queued drive operations", poll_fn(move |_| member.start_queued()));
    }

    /// Starts queued operations while the drive has free places. Ready when the queue is empty.
    fn start_queued(&self) -> Poll<()> {
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

    /// Starts a request that notifies `whom` with `token`: when the drive returns it, or when its
    /// time limit passes. That may be before this call returns. `is_short` as in
    /// [`Member::start_with`].
    pub fn start_for(
        &self,
        request: IoRequest,
        is_short: bool,
        whom: Rc<dyn OnReturn>,
        token: u32,
    ) {
        let terms = self.terms(&request, is_short);
        let has_place = terms.has_place;
        let completion =
            Completion::start(self.env.executor(), Waiter::OnReturn(whom, token), terms);
        self.submit(request, completion, has_place, is_short);
    }

    /// The terms of a request that starts or queues now.
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

    /// The terms of a request that the drive receives now.
    #[inline]
    fn terms_now(&self, request: &IoRequest, is_short: bool) -> Terms {
        let now = self.env.executor().tick();
        let metered = self.traffic.as_ref().and_then(|row| Metered::start(row, request, now));
        let limits = self.limits.get();
        let limit = limits.of(request);
        let short = if is_short && self.oversight.is_watched() {
            limits.short_read.min(limit)
        } else {
            limit
        };
        let (deadline, rest) = (now + short, limit.saturating_sub(short));
        let exceeds = Operation::of(request).map(|operation| Exceeded { operation, limit });
        let oversight = Some(self.oversight.clone());
        Terms { deadline, has_place: true, rest, oversight, exceeds, metered }
    }

    /// Starts a read into `buffers` from `offset`.
    pub fn read(&self, offset: ByteOffset, buffers: Bufs) -> Io {
        self.start(IoRequest::Read { offset, buffers })
    }

    /// Starts a read that redundancy can serve as well. It returns [`IoErrorKind::Late`] after the
    /// short limit if the drive has an [overseer](Self::watch).
    pub fn read_or_late(&self, offset: ByteOffset, buffers: Bufs) -> Io {
        self.start_with(IoRequest::Read { offset, buffers }, true)
    }

    /// Starts a block status request, with the short limit of [`Member::read_or_late`].
    pub fn status_or_late(&self, range: ByteRange) -> Io {
        self.start_with(IoRequest::Status { range }, true)
    }

    /// Starts a write of `slices` to `offset`.
    pub fn write(&self, offset: ByteOffset, slices: Slices, durability: Durability) -> Io {
        self.start(IoRequest::Write { offset, slices, durability })
    }

    /// Starts zeroing; a drive without that operation receives zeros as data. With `may_unmap` the
    /// drive may deallocate the space, if it still reads as zeros.
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

    /// Starts a trim.
    pub fn trim(&self, range: ByteRange) -> Io {
        self.start(IoRequest::Trim { range })
    }

    /// Queries the drive's health; unknown if the drive does not report it.
    ///
    /// # Errors
    /// When the drive does not respond.
    pub async fn health(&self) -> Result<DriveHealth, IoError> {
        let outcome = self.start(IoRequest::Health).await;
        outcome.result.map(|_| outcome.health.map(|health| *health).unwrap_or_default())
    }

    /// Starts switching the drive's own write cache on or off.
    pub fn write_cache(&self, on: bool) -> Io {
        self.start(IoRequest::WriteCache { on })
    }

    /// Starts switching the locate light of the drive's bay on or off.
    pub fn locate(&self, on: bool) -> Io {
        self.start(IoRequest::Locate { on })
    }
}

/// A zeroing operation in progress.
#[must_use = "an unawaited write may fail unnoticed"]
pub struct Zeroes {
    io: Io,
    /// The member, range and durability for a write of zeros as data, if the drive does not support
    /// zeroing.
    left: Option<(Rc<Member>, ByteRange, Durability)>,
}

impl Future for Zeroes {
    type Output = IoOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoOutcome> {
        loop {
            let outcome = std::task::ready!(Pin::new(&mut self.io).poll(context));
            let refused =
                outcome.result.is_err_and(|error| error.kind == IoErrorKind::NotSupported);
            match self.left.take() {
                Some((member, range, durability)) if refused => {
                    self.io =
                        member.write(range.start, smallvec![Slice::zero(range.len)], durability);
                }
                _ => return Poll::Ready(outcome),
            }
        }
    }
}
