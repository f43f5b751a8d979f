//! A shard: one thread with its ring, executor and memory; and its main loop.

use crate::inherited::InheritedSocket;
use crate::listener::SocketPermissions;
use crate::parking::Parking;
use crate::ring::Ring;
use crate::state::{MemoryState, StateDirectory};
use crate::world::{RealWorld, now};
use platform::{
    BufferPool, Env, Error, ErrorKind, Executor, Instant, Result, Schedule, StateStore,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use units::ByteCount;

/// Polls between two checks of the clock and the ring: enough to batch their requests, few enough
/// that drives start early and completions do not wait. With 32 outstanding requests and a budget
/// of 32, all were submitted together and returned together, and the drive idled in between: 16 %
/// fewer random 4 KiB reads from a virtual disk than fio; with 8, 5 % fewer, at the same CPU time
/// per request.
const POLL_BUDGET: usize = 8;

/// How long a shard with operations in flight may sleep before it checks their time limits.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A longer delay than this between two clock checks means that the process did not run: it was
/// stopped, frozen or swapped out, or the computer was suspended. A busy processor causes shorter
/// delays.
const STOOD_STILL: Duration = Duration::from_millis(500);

/// How recent a wake by another shard must be for the next one to be likely at once.
const SHORTLY: Duration = Duration::from_micros(50);

/// How long it polls for that wake before it sleeps: about the time of a wake-up. Without it,
/// shards that serve a volume together slept and woke every few requests.
const LOOK_FOR_WAKES: Duration = Duration::from_micros(5);

/// The settings of a shard.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The maximum memory of its buffers.
    pub memory: ByteCount,
    /// The folder of the durable state, only for the controller's shard. Without one, state lasts
    /// as long as the shard.
    pub state: Option<PathBuf>,
    /// The folder of persistent memory, on a memory file system. Without one there is none.
    pub kept: Option<PathBuf>,
    /// Listening sockets from the parent process; a listener at the address of one takes it over.
    pub sockets: Vec<InheritedSocket>,
    /// The permissions of the files of its listening sockets.
    pub permissions: SocketPermissions,
}

impl Settings {
    /// A shard with that much buffer memory and no durable state.
    pub fn with_memory(memory: ByteCount) -> Settings {
        Settings { memory, ..Settings::default() }
    }
}

/// One thread's part of the Linux platform. It is created, used and dropped on that thread.
pub struct Shard {
    env: Env,
    executor: Rc<Executor>,
    ring: Rc<Ring>,
    /// When it last checked the clock, or was due to wake, if that is earlier.
    looked: Cell<Instant>,
}

thread_local! {
    /// The rings of this thread's shards, by executor.
    static RINGS: RefCell<Vec<(*const Executor, Weak<Ring>)>> = const { RefCell::new(Vec::new()) };
}

/// The ring of `env`'s shard.
pub(crate) fn ring_of(env: &Env) -> Result<Rc<Ring>> {
    let executor = Rc::as_ptr(env.executor());
    RINGS
        .with(|rings| {
            let rings = rings.borrow();
            rings.iter().find(|(owner, _)| *owner == executor).and_then(|(_, ring)| ring.upgrade())
        })
        .ok_or_else(|| {
            Error::new(ErrorKind::WrongKind, "this drive or stream belongs to the Linux platform")
        })
}

impl Shard {
    /// Creates a shard for the calling thread.
    ///
    /// # Errors
    /// If the kernel refuses io_uring, or the state directory cannot be used.
    pub fn new(settings: &Settings) -> Result<Shard> {
        let state: Box<dyn StateStore> = match &settings.state {
            Some(directory) => Box::new(StateDirectory::open(directory)?),
            None => Box::new(MemoryState::default()),
        };
        let parking = Parking::new().map_err(|error| {
            Error::new(ErrorKind::System, "cannot make an event file for a shard").caused_by(error)
        })?;
        let parking = Arc::new(parking);
        let executor = Executor::new(Schedule::Fifo, parking.clone());
        let pool = BufferPool::new(settings.memory);
        let ring = Ring::new(&executor, &parking, &pool)?;
        RINGS.with(|rings| rings.borrow_mut().push((Rc::as_ptr(&executor), Rc::downgrade(&ring))));
        let world = Rc::new(RealWorld::new(ring.clone(), state, settings));
        let env = Env::new(executor.clone(), world, pool);
        let looked = Cell::new(now());
        executor.fire_timers(looked.get());
        Ok(Shard { env, executor, ring, looked })
    }

    /// The platform handle for tasks on this shard.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Runs `main` and all tasks it starts until `main` ends. Operations of other tasks continue at
    /// the next run, and end with the shard.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let main = self.env.spawn("main", main);
        self.looked.set(now());
        loop {
            self.executor.run_ready(POLL_BUDGET);
            if let Some(output) = main.try_take() {
                return output;
            }
            let now = self.look();
            self.executor.fire_timers(now);
            if self.executor.next_expiry(now).is_some() {
                self.take_answers();
                self.executor.expire_operations(now);
            }
            if self.executor.has_ready() {
                if self.ring.needs_enter() {
                    self.ring.submit();
                }
            } else if !self.is_woken_soon(now) {
                self.park(now);
                // Completions during the sleep are timed by the tick, which must be current.
                self.executor.fire_timers(crate::world::now());
            }
            self.ring.reap();
        }
    }

    /// Reads the clock, and detects times in which the process did not run.
    fn look(&self) -> Instant {
        let now = now();
        let late = now.since(self.looked.replace(now));
        if late > STOOD_STILL {
            tracing::warn!(
                "this process did not run for {late:?}; time limits of drives exclude that time"
            );
            self.executor.stand_still(late);
        }
        now
    }

    /// Takes completions of drives, before any operation counts as late.
    fn take_answers(&self) {
        self.ring.submit();
        self.ring.reap();
    }

    /// Whether a wake or a completion arrives while this recently woken shard polls for it.
    fn is_woken_soon(&self, now: Instant) -> bool {
        if now.since(self.executor.woken_at()) > SHORTLY {
            return false;
        }
        if self.ring.needs_enter() {
            self.ring.submit();
        }
        while crate::world::now().since(now) < LOOK_FOR_WAKES {
            (0..32).for_each(|_| std::hint::spin_loop());
            if self.executor.has_ready() || self.ring.has_answers() {
                return true;
            }
        }
        false
    }

    /// Sleeps until an operation returns, a timer or time limit is near, or another thread wakes
    /// the shard.
    fn park(&self, now: Instant) {
        let parking = self.ring.parking();
        parking.announce();
        if self.executor.has_ready() {
            parking.awake();
            return;
        }
        let mut until = self.executor.next_deadline();
        if self.executor.operations_in_flight() > 0 {
            let bound = until.map_or(now + LONGEST_SLEEP, |until| until.min(now + LONGEST_SLEEP));
            until = Some(self.executor.next_expiry(bound).unwrap_or(bound));
        }
        self.ring.submit_and_wait(now, until);
        parking.awake();
        let woken = crate::world::now();
        self.looked.set(until.map_or(woken, |until| until.min(woken)));
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.executor.kill_all();
        self.ring.close();
        let executor = Rc::as_ptr(&self.executor);
        RINGS.with(|rings| rings.borrow_mut().retain(|(owner, _)| *owner != executor));
    }
}

/// A shard on its own thread.
pub struct ShardHandle<T> {
    thread: std::thread::JoinHandle<Result<T>>,
}

/// Starts a thread named `name` with a shard, and runs the future of `main` there to its end.
///
/// `main` itself runs first on the new thread: it can create mailboxes and pass their senders out.
///
/// # Errors
/// If the thread cannot start. [`ShardHandle::join`] reports errors of the shard itself.
pub fn spawn_shard<T, F>(
    name: &str,
    settings: Settings,
    main: impl FnOnce(Env) -> F + Send + 'static,
) -> Result<ShardHandle<T>>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let shard = Shard::new(&settings)?;
            let future = main(shard.env().clone());
            Ok(shard.run(future))
        })
        .map_err(|error| {
            Error::new(ErrorKind::System, format!("cannot start the thread of {name}"))
                .caused_by(error)
        })?;
    Ok(ShardHandle { thread })
}

impl<T> ShardHandle<T> {
    /// Waits for the shard to end. Continues its panic, if it panicked.
    ///
    /// # Errors
    /// If the shard could not be created.
    pub fn join(self) -> Result<T> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}
