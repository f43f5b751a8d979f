//! A drive with the bookkeeping that every user of one needs: time limits and what is still out.

use crate::buffers::{Bufs, Slices};
use crate::drive::{Drive, DriveInfo, Durability, IoRequest};
use crate::error::IoError;
use crate::health::DriveHealth;
use crate::ops::Io;
use crate::world::Env;
use std::cell::Cell;
use std::rc::Rc;
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
        Member { env: env.clone(), drive, outstanding: Rc::default(), time_limit: Cell::new(time_limit) }
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
        let deadline = executor.tick() + self.time_limit.get();
        let (io, completion) = Io::start(executor, deadline, Some(self.outstanding.clone()));
        self.drive.start(request, completion);
        io
    }

    /// Starts filling `buffers` from `offset` on.
    pub fn read(&self, offset: ByteOffset, buffers: Bufs) -> Io {
        self.start(IoRequest::Read { offset, buffers })
    }

    /// Starts writing `slices` from `offset` on.
    pub fn write(&self, offset: ByteOffset, slices: Slices, durability: Durability) -> Io {
        self.start(IoRequest::Write { offset, slices, durability })
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

    /// Starts turning the light that shows where the drive sits on or off.
    pub fn locate(&self, on: bool) -> Io {
        self.start(IoRequest::Locate { on })
    }
}
