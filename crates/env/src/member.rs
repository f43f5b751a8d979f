//! A drive with the bookkeeping that every user of one needs: time limits and what is still out.

use crate::buffers::{Bufs, Slice, Slices};
use crate::drive::{Drive, DriveInfo, DriveSource, Durability, IoRequest};
use crate::error::{self, IoError, IoErrorKind};
use crate::health::DriveHealth;
use crate::ops::{Completion, Io, IoOutcome, Metered, OnReturn, Waiter};
use crate::time::Instant;
use crate::traffic::TrafficRow;
use crate::world::Env;
use smallvec::smallvec;
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use units::{ByteOffset, ByteRange};

/// A drive attached to this shard, whose operations have a time limit and are counted until they return.
///
/// Starting is calling: the operation is with the drive when the call returns, and awaiting the [`Io`]
/// merely waits for it.
#[derive(Clone)]
pub struct Member {
    env: Env,
    drive: Rc<dyn Drive>,
    outstanding: Rc<Cell<u32>>,
    time_limit: Cell<Duration>,
    /// Where its operations are counted, if they are.
    traffic: Option<Rc<TrafficRow>>,
}

/// How long a drive may take for one operation unless told otherwise.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(30);

impl Member {
    /// `drive` with the usual time limit.
    pub fn new(env: &Env, drive: Rc<dyn Drive>) -> Member {
        Member::with_time_limit(env, drive, DEFAULT_TIME_LIMIT)
    }

    /// `drive` with a time limit for each operation.
    pub fn with_time_limit(env: &Env, drive: Rc<dyn Drive>, time_limit: Duration) -> Member {
        let (outstanding, time_limit) = (Rc::default(), Cell::new(time_limit));
        Member { env: env.clone(), drive, outstanding, time_limit, traffic: None }
    }

    /// This shard's way to the drive of a source, with a time limit for each operation. They count as the source's
    /// [traffic](DriveSource::traffic).
    ///
    /// # Errors
    /// When the shard's world cannot take one more drive.
    pub fn attach(env: &Env, source: &dyn DriveSource, time_limit: Duration) -> error::Result<Member> {
        let member = Member::with_time_limit(env, source.attach(env)?, time_limit);
        let traffic = source.traffic().map(|traffic| Rc::new(traffic.join()));
        Ok(Member { traffic, ..member })
    }

    /// Another way to the same drive, whose outstanding operations are counted apart.
    #[must_use]
    pub fn beside(&self) -> Member {
        Member { outstanding: Rc::default(), ..self.clone() }
    }

    /// What the drive says of itself.
    pub fn info(&self) -> &DriveInfo {
        self.drive.info()
    }

    /// Operations that the drive has not returned, those that timed out included: while there are any, a
    /// late write may still land.
    pub fn outstanding(&self) -> u32 {
        self.outstanding.get()
    }

    /// Gives operations that start from now on another time limit.
    pub fn set_time_limit(&self, time_limit: Duration) {
        self.time_limit.set(time_limit);
    }

    /// Starts any request.
    pub fn start(&self, request: IoRequest) -> Io {
        let executor = self.env.executor();
        let (deadline, metered) = self.begin(&request);
        let (io, completion) = Io::start(executor, deadline, Some(self.outstanding.clone()), metered);
        self.drive.start(request, completion);
        io
    }

    /// Starts a request of which `whom` hears, as `token`: when the drive returns it, or when its time is up. That may be before this returns.
    pub fn start_for(&self, request: IoRequest, whom: Rc<dyn OnReturn>, token: u32) {
        let (deadline, metered) = self.begin(&request);
        let (waiter, outstanding) = (Waiter::OnReturn(whom, token), Some(self.outstanding.clone()));
        let completion = Completion::start(self.env.executor(), deadline, waiter, outstanding, metered);
        self.drive.start(request, completion);
    }

    /// Until when a request that starts now has time, and where it counts.
    #[inline]
    fn begin(&self, request: &IoRequest) -> (Instant, Option<Metered>) {
        let now = self.env.executor().tick();
        let metered = self.traffic.as_ref().and_then(|row| Metered::start(row, request, now));
        (now + self.time_limit.get(), metered)
    }

    /// Starts filling `buffers` from `offset` on.
    pub fn read(&self, offset: ByteOffset, buffers: Bufs) -> Io {
        self.start(IoRequest::Read { offset, buffers })
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
