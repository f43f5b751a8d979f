//! The services of a platform for a shard, the streams that they open, and the handle to them.

use crate::buffers::BufferPool;
use crate::drive::DriveSource;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::{Executor, JoinHandle, LocalFuture};
use crate::kept::{KeptMemory, KeptSize, OtherMemory};
use crate::ops::{Completion, Io};
use crate::oversight::Terms;
use crate::state::StateStore;
use crate::stream::{Address, Peer, Stream};
use crate::time::Instant;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use units::ByteCount;

/// Processor work, for which a model can charge time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// The intake of one host request.
    HostRequest,
    /// The start of one drive request.
    DriveRequest,
    /// One parity computation over that many bytes of sources and results.
    Xor(ByteCount),
    /// A copy of that many bytes.
    Copy(ByteCount),
}

/// The services of a platform for one shard. There are two implementations: real and simulated.
pub trait World {
    /// The current time.
    fn now(&self) -> Instant;

    /// The current date, in seconds since 1970, for events and labels that people read.
    fn unix_time(&self) -> u64;

    /// A random number: unpredictable on the real platform, determined by the seed on the simulated
    /// one.
    fn random(&self) -> u64;

    /// The virtual time that `work` takes: zero on the real platform.
    fn charge(&self, work: Work) -> Duration;

    /// Opens a drive by its path or name, exclusively for one controller.
    fn open_drive<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Arc<dyn DriveSource>>>;

    /// Opens a drive without write access. So a write-protected drive will do, and a write by
    /// mistake is impossible.
    fn open_drive_for_reading<'a>(
        &'a self,
        name: &'a str,
    ) -> LocalFuture<'a, Result<Arc<dyn DriveSource>>>;

    /// Creates a file drive of that size, with all its space reserved. It must not exist.
    fn create_drive<'a>(&'a self, name: &'a str, size: ByteCount) -> LocalFuture<'a, Result<()>>;

    /// Listens at an address.
    fn listen<'a>(&'a self, address: &'a Address) -> LocalFuture<'a, Result<Rc<dyn Listener>>>;

    /// Connects to an address.
    fn connect<'a>(
        &'a self,
        address: &'a Address,
    ) -> LocalFuture<'a, Result<Box<dyn StreamSource>>>;

    /// Opens or creates the persistent memory of that name (see [`KeptMemory`]). Existing memory
    /// keeps its size; new memory is made only if a size is given, and is reserved as far as the
    /// size says. `None`: it does not exist, and no size was given. The caller has it exclusively,
    /// until its last view is dropped.
    ///
    /// # Errors
    /// If another process has it, if space is missing, if its content is invalid, or if the
    /// platform has no persistent memory.
    fn kept_memory<'a>(
        &'a self,
        name: &'a str,
        size: Option<KeptSize>,
    ) -> LocalFuture<'a, Result<Option<KeptMemory>>>;

    /// Requests the largest page size of the platform for much-used memory. A hint without
    /// guarantee; the content is unchanged.
    fn enlarge_pages(&self, _memory: &mut [u8]) {}

    /// Removes the persistent memory of that name. Views of it in this process remain valid.
    /// Succeeds if it does not exist.
    ///
    /// # Errors
    /// If another process has it, or it cannot be removed.
    fn forget_kept_memory<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<()>>;

    /// Persistent memory of that name that other processes of this computer have, or left behind.
    /// Empty on a platform without persistent memory.
    ///
    /// # Errors
    /// If the search fails.
    fn other_memories<'a>(&'a self, _name: &'a str) -> LocalFuture<'a, Result<Vec<OtherMemory>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Removes persistent memory of another process, by [its name](OtherMemory::name): its content
    /// is lost.
    ///
    /// # Errors
    /// If it does not exist, if a process has it, or if it cannot be removed.
    fn forget_other_memory<'a>(
        &'a self,
        _name: &'a str,
        other: &'a str,
    ) -> LocalFuture<'a, Result<()>> {
        let sentence = format!("there is no memory {other}");
        Box::pin(async { Err(Error::new(ErrorKind::NotFound, sentence)) })
    }

    /// The boot number: constant until the computer restarts, and never reused.
    fn boot_id(&self) -> u128;

    /// The durable state of this controller.
    fn state(&self) -> &dyn StateStore;

    /// Records an event for the hash and the trace of a run; no effect on the real platform.
    fn trace(&self, event: &'static str, a: u64, b: u64);
}

/// A connected stream that is not yet attached to a shard.
pub trait StreamSource: Send {
    /// Attaches the stream to this shard.
    ///
    /// # Errors
    /// When the shard's platform cannot attach another stream.
    fn attach(self: Box<Self>, env: &Env) -> Result<Rc<dyn Stream>>;

    /// The other end.
    fn peer(&self) -> Peer;
}

/// Accepts streams. Dropping it closes it (and removes a Unix socket's file).
pub trait Listener {
    /// Waits for the next stream; an error when the listener is closed.
    fn accept(&self) -> LocalFuture<'_, Result<Box<dyn StreamSource>>>;

    /// The actual address (the port, if port 0 was requested).
    fn address(&self) -> Address;

    /// Stops listening: a pending accept fails.
    fn close(&self);
}

struct Inner {
    executor: Rc<Executor>,
    world: Rc<dyn World>,
    pool: BufferPool,
}

/// One shard's handle to its platform and its executor. Cheap to clone; stays on its thread.
#[derive(Clone)]
pub struct Env {
    inner: Rc<Inner>,
}

impl Env {
    /// Joins an executor, a platform and a buffer pool: for the implementations of platforms.
    pub fn new(executor: Rc<Executor>, world: Rc<dyn World>, pool: BufferPool) -> Env {
        Env { inner: Rc::new(Inner { executor, world, pool }) }
    }

    /// The executor of this shard.
    pub fn executor(&self) -> &Rc<Executor> {
        &self.inner.executor
    }

    /// The full interface of the platform.
    pub fn world(&self) -> &dyn World {
        &*self.inner.world
    }

    /// This shard's memory for data.
    pub fn pool(&self) -> &BufferPool {
        &self.inner.pool
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.inner.world.now()
    }

    /// The current date, in seconds since 1970.
    pub fn unix_time(&self) -> u64 {
        self.inner.world.unix_time()
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        self.inner.world.random()
    }

    /// Starts a task.
    pub fn spawn<T: 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        self.inner.executor.spawn(name, future)
    }

    /// Waits for `duration`.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { env: self.clone(), deadline, timer: None }
    }

    /// Waits for `duration`, not counting time in which the process does not run: for time limits.
    pub async fn sleep_running(&self, duration: Duration) {
        let end = self.now_running() + duration;
        while self.now_running() < end {
            self.sleep(end - self.now_running()).await;
        }
    }

    /// The current time, without the time in which the process did not run.
    pub fn now_running(&self) -> Instant {
        let stood_still = self.inner.executor.stood_still();
        Instant {
            ns: self
                .now()
                .ns
                .saturating_sub(u64::try_from(stood_still.as_nanos()).unwrap_or(u64::MAX)),
        }
    }

    /// Charges virtual time for processor work in a model; no effect on the real platform.
    pub async fn compute(&self, work: Work) {
        let time = self.charge(work);
        if !time.is_zero() {
            self.sleep(time).await;
        }
    }

    /// The same for a caller that sleeps for the result itself.
    pub fn charge(&self, work: Work) -> Duration {
        self.inner.world.charge(work)
    }

    /// Records an event.
    pub fn trace(&self, event: &'static str, a: u64, b: u64) {
        self.inner.world.trace(event, a, b);
    }

    /// A new operation, for implementations of drives and streams: the waiter's side and the
    /// drive's side. Without a `time_limit` it may take forever (a receive).
    pub fn start_operation(&self, time_limit: Option<Duration>) -> (Io, Completion) {
        let deadline =
            time_limit.map_or(Instant::NEVER, |limit| self.inner.executor.tick() + limit);
        Io::start(&self.inner.executor, Terms::until(deadline))
    }

    /// Yields to the ready tasks and to completions of drives and the network: continues after the
    /// platform has checked for them. For background work. [`Env::yield_now`] is faster, and yields
    /// only to ready tasks.
    pub fn give_way(&self) -> GiveWay {
        GiveWay(Sleep { env: self.clone(), deadline: self.now(), timer: None })
    }

    /// Yields once to all other ready tasks.
    pub fn yield_now(&self) -> Yield {
        Yield { env: self.clone(), yielded: false }
    }
}

/// See [`Env::sleep`].
pub struct Sleep {
    env: Env,
    deadline: Instant,
    timer: Option<(Instant, u64)>,
}

impl Sleep {
    /// Sets a timer for the deadline, which is now or later, and waits for it.
    fn wait(&mut self) -> Poll<()> {
        let executor = self.env.executor().clone();
        match self.timer {
            None => {
                self.timer = Some(executor.set_timer(self.deadline, executor.current()));
                Poll::Pending
            }
            Some(timer) if executor.timer_is_pending(timer) => Poll::Pending,
            Some(_) => {
                self.timer = None;
                Poll::Ready(())
            }
        }
    }
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none() && self.deadline <= self.env.now() {
            return Poll::Ready(());
        }
        self.wait()
    }
}

/// See [`Env::give_way`].
pub struct GiveWay(Sleep);

impl Future for GiveWay {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.0.wait()
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.env.executor().cancel_timer(timer);
        }
    }
}

/// See [`Env::yield_now`].
pub struct Yield {
    env: Env,
    yielded: bool,
}

impl Future for Yield {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        let executor = self.env.executor();
        executor.wake(executor.current());
        Poll::Pending
    }
}
