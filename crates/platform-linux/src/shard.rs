//! A shard: one thread with its ring, its executor and its memory; and the loop that drives them.

use crate::inherited::InheritedSocket;
use crate::listener::SocketPermissions;
use crate::parking::Parking;
use crate::ring::Ring;
use crate::state::{MemoryState, StateDirectory};
use crate::world::{RealWorld, now};
use platform::{BufferPool, Env, Error, ErrorKind, Executor, Instant, Result, Schedule, StateStore};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use units::ByteCount;

/// Polls between two looks at the clock and the ring: enough to batch what they start, few enough that drives
/// begin early and no completion waits long. With 32 outstanding requests and a budget as large, all of them were
/// handed over at once and came back at once, and the drive stood still in between: 16 % fewer random reads of
/// 4 KiB from a virtual disk than fio had of it; with 8, 5 % fewer, at the same cost of a core per request.
const POLL_BUDGET: usize = 8;

/// How long a shard with operations in flight may sleep before it looks at their time limits.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A shard that looks at the clock later than it was about to by more than this did not run meanwhile: the process was stopped or frozen, its
/// memory was swapped out, or the machine was suspended. Only a processor that is busy with others delays a shard, by less.
const STOOD_STILL: Duration = Duration::from_millis(500);

/// A shard that another one woke less than this ago may be asked for something, or answered, again at once.
const SHORTLY: Duration = Duration::from_micros(50);

/// How long it looks for that before it sleeps: about as long as it takes to be woken. Where shards serve a volume together, each was put to
/// sleep and woken for every few requests.
const LOOK_FOR_WAKES: Duration = Duration::from_micros(5);

/// What a shard is built from.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The most memory its buffers may take.
    pub memory: ByteCount,
    /// The folder of the durable state, for the one shard that the controller lives on. Without one, what is
    /// stored lasts as long as the shard.
    pub state: Option<PathBuf>,
    /// The folder of memory that outlives this process, on a file system of memory. Without one there is no such memory.
    pub kept: Option<PathBuf>,
    /// Listening sockets that were handed to this process: who listens at the address of one takes it over.
    pub sockets: Vec<InheritedSocket>,
    /// To whom the files of sockets are open that it listens at.
    pub permissions: SocketPermissions,
}

impl Settings {
    /// A shard with that much memory for buffers and no durable state.
    pub fn with_memory(memory: ByteCount) -> Settings {
        Settings { memory, ..Settings::default() }
    }
}

/// One thread's part of the real world. It is made, used and dropped on that thread.
pub struct Shard {
    env: Env,
    executor: Rc<Executor>,
    ring: Rc<Ring>,
    /// When it looked at the clock, or was to wake up if that is earlier.
    looked: Cell<Instant>,
}

thread_local! {
    /// The rings of this thread's shards, by their executor.
    static RINGS: RefCell<Vec<(*const Executor, Weak<Ring>)>> = const { RefCell::new(Vec::new()) };
}

/// The ring of the shard that `env` belongs to.
pub(crate) fn ring_of(env: &Env) -> Result<Rc<Ring>> {
    let executor = Rc::as_ptr(env.executor());
    RINGS
        .with(|rings| {
            let rings = rings.borrow();
            rings.iter().find(|(owner, _)| *owner == executor).and_then(|(_, ring)| ring.upgrade())
        })
        .ok_or_else(|| Error::new(ErrorKind::WrongKind, "this drive or stream belongs to the real world"))
}

impl Shard {
    /// A shard for the thread that calls.
    ///
    /// # Errors
    /// When the kernel has no io_uring for us, or the state directory cannot be used.
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

    /// The handle that tasks on this shard see the world through.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Runs `main` and every task it starts until `main` ends. What the other tasks have in flight then goes
    /// on when a shard is run again, and ends with the shard.
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
                // What returned while we slept took until now: operations are timed by the tick.
                self.executor.fire_timers(crate::world::now());
            }
            self.ring.reap();
        }
    }

    /// Looks at the clock, and finds whether the process stood still.
    fn look(&self) -> Instant {
        let now = now();
        let late = now.since(self.looked.replace(now));
        if late > STOOD_STILL {
            tracing::warn!("this process did not run for {late:?}: no drive is blamed for that");
            self.executor.stand_still(late);
        }
        now
    }

    /// Takes what drives have answered, before anything counts as late.
    fn take_answers(&self) {
        self.ring.submit();
        self.ring.reap();
    }

    /// Whether another thread woke a task while this one, woken shortly before, looked for that.
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

    /// Sleeps until an operation returns, a timer or time limit is near, or another thread wakes us.
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

/// A shard on a thread of its own.
pub struct ShardHandle<T> {
    thread: std::thread::JoinHandle<Result<T>>,
}

/// Starts a thread named `name` with a shard, and runs there the future that `main` makes, to its end.
///
/// `main` itself runs on the new thread before the future: the place to make mailboxes and hand their senders
/// out.
///
/// # Errors
/// When the thread cannot be started. What the shard itself fails of comes out of [`ShardHandle::join`].
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
            Error::new(ErrorKind::System, format!("cannot start the thread of {name}")).caused_by(error)
        })?;
    Ok(ShardHandle { thread })
}

impl<T> ShardHandle<T> {
    /// Waits for the shard to end. A panic over there goes on here.
    ///
    /// # Errors
    /// When the shard could not be made.
    pub fn join(self) -> Result<T> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}
