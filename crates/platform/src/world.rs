//! The world as the code above the seam sees it.

use crate::buffers::BufferPool;
use crate::drive::DriveSource;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::{Executor, JoinHandle};
use crate::kept::{KeptMemory, KeptSize, OtherMemory};
use crate::ops::{Completion, Io};
use crate::oversight::Terms;
use crate::state::StateStore;
use crate::stream::{Address, Listener, StreamSource};
use crate::time::Instant;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use units::ByteCount;

/// A boxed future that stays on its thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Work that a processor has to do, so that a model can charge time for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Taking in one host request.
    HostRequest,
    /// Handing one request to a drive.
    DriveRequest,
    /// One computation of parity, over this many bytes of sources and results.
    Xor(ByteCount),
    /// Copying this many bytes.
    Copy(ByteCount),
}

/// What a world provides to one shard. Implemented twice: real and simulated.
pub trait World {
    /// The time now.
    fn now(&self) -> Instant;

    /// The date now, in seconds since 1970, for events and labels that people read.
    fn unix_time(&self) -> u64;

    /// Random numbers: unpredictable in the real world, a function of the seed in the simulated one.
    fn random(&self) -> u64;

    /// The time that `work` takes beyond what really passes: zero in the real world.
    fn charge(&self, work: Work) -> Duration;

    /// Opens a drive of this world by its path or name, for one controller alone.
    fn open_drive<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Arc<dyn DriveSource>>>;

    /// The same for somebody who only reads: a file or block device is opened without the right to write, so that one
    /// that may not be written will do, and one that may cannot be by mistake.
    fn open_drive_for_reading<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Arc<dyn DriveSource>>>;

    /// Makes a new file drive of that size, with all its space reserved. It must not exist yet.
    fn create_drive<'a>(&'a self, name: &'a str, size: ByteCount) -> LocalFuture<'a, Result<()>>;

    /// Listens.
    fn listen<'a>(&'a self, address: &'a Address) -> LocalFuture<'a, Result<Rc<dyn Listener>>>;

    /// Connects.
    fn connect<'a>(&'a self, address: &'a Address) -> LocalFuture<'a, Result<Box<dyn StreamSource>>>;

    /// Memory of that name that outlives this process (see [`KeptMemory`]): what is there, of whatever size; or, with a
    /// size, new memory if there is none. `None`: there is none, and no size was given. Whoever has it has it alone, and
    /// as long as it views it.
    ///
    /// # Errors
    /// When somebody has it; when there is no room; when what is there cannot be understood; when this world offers none.
    fn kept_memory<'a>(
        &'a self,
        name: &'a str,
        size: Option<KeptSize>,
    ) -> LocalFuture<'a, Result<Option<KeptMemory>>>;

    /// Has memory that is much used lie in as large pages as this world has: a hint, which may come to nothing. What is in it stays.
    fn enlarge_pages(&self, _memory: &mut [u8]) {}

    /// Gives up the memory of that name; done when it is gone. If this process still views it, it may go on. Where there
    /// is none, all is well.
    ///
    /// # Errors
    /// When another process has it; when it cannot be removed.
    fn forget_kept_memory<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<()>>;

    /// Memory of that name that other processes of this machine have, or left behind. A world that offers none has none.
    ///
    /// # Errors
    /// When it cannot be looked for.
    fn other_memories<'a>(&'a self, _name: &'a str) -> LocalFuture<'a, Result<Vec<OtherMemory>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Removes one of them, by [what its world calls it](OtherMemory::name): what it holds is lost.
    ///
    /// # Errors
    /// When there is none so called; when a process has it; when it cannot be removed.
    fn forget_other_memory<'a>(&'a self, _name: &'a str, other: &'a str) -> LocalFuture<'a, Result<()>> {
        let sentence = format!("there is no memory {other}");
        Box::pin(async { Err(Error::new(ErrorKind::NotFound, sentence)) })
    }

    /// Which start of the machine this is: the same until its power goes, and never the same again.
    fn boot_id(&self) -> u128;

    /// The durable state of this controller.
    fn state(&self) -> &dyn StateStore;

    /// Takes note of an event, for the hash and the trace of a run; the real world keeps none.
    fn trace(&self, event: &'static str, a: u64, b: u64);
}

struct Inner {
    executor: Rc<Executor>,
    world: Rc<dyn World>,
    pool: BufferPool,
}

/// One shard's handle to its world and its executor. Cheap to clone; stays on its thread.
#[derive(Clone)]
pub struct Env {
    inner: Rc<Inner>,
}

impl Env {
    /// Joins an executor, a world and a buffer pool: what the two worlds call.
    pub fn new(executor: Rc<Executor>, world: Rc<dyn World>, pool: BufferPool) -> Env {
        Env { inner: Rc::new(Inner { executor, world, pool }) }
    }

    /// The executor of this shard.
    pub fn executor(&self) -> &Rc<Executor> {
        &self.inner.executor
    }

    /// What this world can do beyond the shortcuts below.
    pub fn world(&self) -> &dyn World {
        &*self.inner.world
    }

    /// This shard's memory for data.
    pub fn pool(&self) -> &BufferPool {
        &self.inner.pool
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.inner.world.now()
    }

    /// The date now, in seconds since 1970.
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

    /// Waits for `duration`, without the time that the process stood still: for limits to what others may take.
    pub async fn sleep_running(&self, duration: Duration) {
        let end = self.now_running() + duration;
        while self.now_running() < end {
            self.sleep(end - self.now_running()).await;
        }
    }

    /// The time now, without the time that the process stood still.
    pub fn now_running(&self) -> Instant {
        let stood_still = self.inner.executor.stood_still();
        Instant {
            ns: self.now().ns.saturating_sub(u64::try_from(stood_still.as_nanos()).unwrap_or(u64::MAX)),
        }
    }

    /// Charges for processor work where a model asks for it; costs nothing in the real world.
    pub async fn compute(&self, work: Work) {
        let time = self.inner.world.charge(work);
        if !time.is_zero() {
            self.sleep(time).await;
        }
    }

    /// Takes note of an event.
    pub fn trace(&self, event: &'static str, a: u64, b: u64) {
        self.inner.world.trace(event, a, b);
    }

    /// A new operation, for what implements drives and streams: the waiter's side and the returner's.
    /// `time_limit` `None`: it may take for ever (a receive).
    pub fn start_operation(&self, time_limit: Option<Duration>) -> (Io, Completion) {
        let deadline = time_limit.map_or(Instant::NEVER, |limit| self.inner.executor.tick() + limit);
        Io::start(&self.inner.executor, Terms::until(deadline))
    }

    /// Gives way to whatever has come back from drives and the network meanwhile, beside all that is ready: goes
    /// on after the world has looked. For work in the background; [`Env::yield_now`] is quicker and knows only
    /// what is ready already.
    pub fn give_way(&self) -> GiveWay {
        GiveWay(Sleep { env: self.clone(), deadline: self.now(), timer: None })
    }

    /// Gives every other ready task a turn.
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
    /// Lets a timer go off at the deadline, which is now or later, and waits for it.
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
