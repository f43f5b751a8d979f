//! The executor of one shard: tasks, a ready queue, timers and the table of operations in flight.
//!
//! A platform drives it in a loop: *run ready tasks, submit, wait for a completion or the next
//! timer*. It never blocks, and has neither a clock nor a thread. So the real and the simulated
//! platform use the same one.
//!
//! # Invariants
//! - A task is in the ready queue at most once. It is polled in its turn, or inside a task that
//!   continues it ([`Executor::go_on`]); never recursively.
//! - Timers fire in the order of their deadlines, then of their creation.
//! - The order of polls depends only on the order of wakes, on the allowance that each task has
//!   left, and on the seed if orders are explored.

use crate::op_table::OpTable;
use crate::split_mix::split_mix;
use crate::time::Instant;
use crate::waiter::TaskId;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A boxed future that stays on its thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The finished operations that a task may take in one turn. Without a limit, a task in a loop on a
/// memory drive, which completes at once, would never yield.
const ALLOWANCE: u32 = 64;

/// The maximum depth of tasks inside one another: a host's inside its connection's, a stripe
/// request's inside that, and a reserve.
const DEEPEST: u32 = 4;

/// Wakes a platform's sleeping thread from another thread.
pub trait Unpark: Send + Sync {
    /// Makes the platform check its remote wakes soon. Callable from any thread.
    fn unpark(&self);
}

/// Wakes tasks of an executor from any thread.
#[derive(Clone)]
pub struct RemoteWaker {
    shared: Arc<Remote>,
}

struct Remote {
    woken: Mutex<Vec<TaskId>>,
    /// Set after every entry is added: the executor checks it several times per request, and takes
    /// the lock only if it is set.
    any: AtomicBool,
    unpark: Arc<dyn Unpark>,
}

impl RemoteWaker {
    /// Adds `task` to the ready queue of its executor.
    pub fn wake(&self, task: TaskId) {
        self.shared.woken.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        self.shared.any.store(true, Ordering::Release);
        self.shared.unpark.unpark();
    }
}

struct TaskWaker {
    task: TaskId,
    remote: RemoteWaker,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.remote.wake(self.task);
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.remote.wake(self.task);
    }
}

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

struct TaskSlot {
    generation: u32,
    name: &'static str,
    queued: bool,
    /// `None` while the task is being polled, and in a free slot.
    future: Option<BoxedTask>,
    waker: Option<Waker>,
}

/// The order of ready tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// First woken, first polled.
    Fifo,
    /// A seeded random order: explores interleavings.
    Shuffled {
        /// The seed; equal seeds give equal orders.
        seed: u64,
    },
}

/// See the [module](self).
pub struct Executor {
    tasks: RefCell<Vec<TaskSlot>>,
    free: RefCell<Vec<u32>>,
    ready: RefCell<VecDeque<TaskId>>,
    current: Cell<Option<TaskId>>,
    /// The number of tasks inside the one that is being polled.
    depth: Cell<u32>,
    timers: RefCell<BTreeMap<(Instant, u64), TaskId>>,
    /// A lower bound of the next timer's deadline: cancelling a timer does not raise it.
    first_timer: Cell<Instant>,
    timer_sequence: Cell<u64>,
    shuffle: Cell<Option<u64>>,
    polls: Cell<u64>,
    /// The finished operations that the current task may still take before it must yield.
    allowance: Cell<u32>,
    tick: Cell<Instant>,
    /// When wakes of other threads were last taken.
    woken_at: Cell<Instant>,
    remote: RemoteWaker,
    pub(crate) ops: OpTable,
}

impl Executor {
    /// An executor without tasks. `unpark` wakes its thread.
    pub fn new(schedule: Schedule, unpark: Arc<dyn Unpark>) -> Rc<Executor> {
        Rc::new(Executor {
            tasks: RefCell::default(),
            free: RefCell::default(),
            ready: RefCell::default(),
            current: Cell::new(None),
            depth: Cell::new(0),
            timers: RefCell::default(),
            first_timer: Cell::new(Instant::NEVER),
            timer_sequence: Cell::new(0),
            shuffle: Cell::new(match schedule {
                Schedule::Fifo => None,
                Schedule::Shuffled { seed } => Some(seed),
            }),
            polls: Cell::new(0),
            allowance: Cell::new(0),
            tick: Cell::new(Instant::default()),
            woken_at: Cell::new(Instant::default()),
            remote: RemoteWaker {
                shared: Arc::new(Remote {
                    woken: Mutex::default(),
                    any: AtomicBool::new(false),
                    unpark,
                }),
            },
            ops: OpTable::default(),
        })
    }

    /// Starts a task, which runs when the platform next runs ready tasks. Reports of a stall show
    /// its name.
    pub fn spawn<T: 'static>(
        self: &Rc<Self>,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let cell = Rc::new(JoinCell { output: RefCell::new(None), waiter: Cell::new(None) });
        let (done, executor) = (cell.clone(), Rc::downgrade(self));
        let body = Box::pin(async move {
            let output = future.await;
            *done.output.borrow_mut() = Some(output);
            if let (Some(waiter), Some(executor)) = (done.waiter.take(), executor.upgrade()) {
                executor.wake(waiter);
            }
        });
        let mut tasks = self.tasks.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            tasks.push(TaskSlot { generation: 0, name, queued: false, future: None, waker: None });
            tasks.len() as u32 - 1
        });
        let slot = &mut tasks[index as usize];
        let task = TaskId { index, generation: slot.generation };
        slot.name = name;
        slot.future = Some(body);
        slot.waker = Some(Waker::from(Arc::new(TaskWaker { task, remote: self.remote.clone() })));
        drop(tasks);
        self.wake(task);
        JoinHandle { cell, executor: self.clone() }
    }

    /// Adds a task to the ready queue, unless it is there already.
    pub fn wake(&self, task: TaskId) {
        if let Some(slot) = self.tasks.borrow_mut().get_mut(task.index as usize)
            && slot.generation == task.generation
            && !slot.queued
        {
            slot.queued = true;
            self.ready.borrow_mut().push_back(task);
        }
    }

    /// Continues a waiting task at once, inside the current one, while its data is in the
    /// processor's cache. The caller must hold no borrow that the task needs. The task uses the
    /// caller's allowance, and the call takes one from it. If the allowance is used up, the task is
    /// queued as by [`Executor::wake`]; so are half of the tasks if orders are explored.
    pub fn go_on(&self, task: TaskId) {
        let waits = || {
            let tasks = self.tasks.borrow();
            let slot =
                tasks.get(task.index as usize).filter(|slot| slot.generation == task.generation);
            slot.is_some_and(|slot| !slot.queued && slot.future.is_some())
        };
        let (depth, allowance) = (self.depth.get(), self.allowance.get());
        if depth == DEEPEST || allowance == 0 || !waits() || self.draws_a_turn() {
            return self.wake(task);
        }
        self.allowance.set(allowance - 1);
        self.depth.set(depth + 1);
        self.step(task);
        self.depth.set(depth);
    }

    /// If orders are explored: whether a task is queued this time instead of continued at once.
    fn draws_a_turn(&self) -> bool {
        let Some(state) = self.shuffle.get() else { return false };
        let (state, value) = split_mix(state);
        self.shuffle.set(Some(state));
        value & 1 == 1
    }

    /// The task that is being polled. Panics outside a task: only tasks wait.
    pub fn current(&self) -> TaskId {
        self.current.get().expect("only a task of this executor can wait on it")
    }

    /// Counts a finished operation that the current task is about to take. False: its allowance is
    /// used up and it is queued again; it must return pending.
    pub(crate) fn may_go_on(&self) -> bool {
        match self.allowance.get() {
            0 => {
                self.wake(self.current());
                false
            }
            left => {
                self.allowance.set(left - 1);
                true
            }
        }
    }

    /// Counts a request that the current task starts without a task of its own, and that may end at
    /// once. False: its allowance is used up.
    pub fn take_allowance(&self) -> bool {
        let left = self.allowance.get();
        self.allowance.set(left.saturating_sub(1));
        left > 0
    }

    /// A waker for other threads.
    pub fn remote(&self) -> RemoteWaker {
        self.remote.clone()
    }

    /// Polls ready tasks until none is ready or `budget` polls are spent. Returns whether any ran.
    /// Wakes of other threads are taken first, once per call, so that they do not wait for a local
    /// queue that never empties.
    pub fn run_ready(&self, budget: usize) -> bool {
        let mut ran = false;
        for poll in 0..budget {
            if self.remote.shared.any.load(Ordering::Acquire) {
                let waited = self.ready.borrow().len();
                self.take_them();
                if poll == 0 {
                    self.ready.borrow_mut().rotate_left(waited);
                }
            }
            let Some(task) = self.next_ready() else { break };
            ran |= self.poll(task);
        }
        ran
    }

    /// Polls the next ready task; `None` if none is ready. `false`: that task has ended.
    pub fn run_next(&self) -> Option<bool> {
        self.take_remote_wakes();
        self.next_ready().map(|task| self.poll(task))
    }

    /// Whether a task is ready now.
    #[inline]
    pub fn has_ready(&self) -> bool {
        let is_ready = || !self.ready.borrow().is_empty();
        // Remote wakes are only needed if the queue is empty: `run_ready` and `run_next` take them.
        is_ready() || {
            self.take_remote_wakes();
            is_ready()
        }
    }

    /// When a wake by another thread was last taken, by the latest tick.
    pub fn woken_at(&self) -> Instant {
        self.woken_at.get()
    }

    #[inline]
    fn take_remote_wakes(&self) {
        if self.remote.shared.any.load(Ordering::Acquire) {
            self.take_them();
        }
    }

    #[cold]
    fn take_them(&self) {
        self.woken_at.set(self.tick.get());
        let shared = &self.remote.shared;
        // Cleared before the wakes are taken: a later wake sets it again.
        shared.any.store(false, Ordering::Relaxed);
        let woken =
            std::mem::take(&mut *shared.woken.lock().unwrap_or_else(PoisonError::into_inner));
        for task in woken {
            self.wake(task);
        }
    }

    fn next_ready(&self) -> Option<TaskId> {
        let mut ready = self.ready.borrow_mut();
        if let Some(state) = self.shuffle.get() {
            if ready.is_empty() {
                return None;
            }
            let (state, value) = split_mix(state);
            self.shuffle.set(Some(state));
            let pick = (value % ready.len() as u64) as usize;
            ready.swap(0, pick);
        }
        ready.pop_front()
    }

    /// Polls a task in its turn.
    fn poll(&self, task: TaskId) -> bool {
        self.allowance.set(ALLOWANCE);
        let ran = self.step(task);
        self.polls.set(self.polls.get() + u64::from(ran));
        ran
    }

    fn step(&self, task: TaskId) -> bool {
        let (mut future, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            let slot = &mut tasks[task.index as usize];
            if slot.generation != task.generation {
                return false;
            }
            slot.queued = false;
            let (Some(future), Some(waker)) = (slot.future.take(), slot.waker.take()) else {
                return false;
            };
            (future, waker)
        };
        let outer = self.current.replace(Some(task));
        let outcome = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.current.set(outer);
        let mut tasks = self.tasks.borrow_mut();
        let slot = &mut tasks[task.index as usize];
        match outcome {
            Poll::Pending => {
                slot.future = Some(future);
                slot.waker = Some(waker);
            }
            Poll::Ready(()) => {
                slot.generation = slot.generation.wrapping_add(1);
                slot.queued = false;
                drop(tasks);
                self.free.borrow_mut().push(task.index);
                // Dropped last, without a borrow: its destructors may wake or spawn.
                drop(future);
            }
        }
        true
    }

    pub(crate) fn set_timer(&self, deadline: Instant, task: TaskId) -> (Instant, u64) {
        let sequence = self.timer_sequence.get();
        self.timer_sequence.set(sequence + 1);
        self.timers.borrow_mut().insert((deadline, sequence), task);
        self.first_timer.set(self.first_timer.get().min(deadline));
        (deadline, sequence)
    }

    pub(crate) fn cancel_timer(&self, timer: (Instant, u64)) {
        self.timers.borrow_mut().remove(&timer);
    }

    pub(crate) fn timer_is_pending(&self, timer: (Instant, u64)) -> bool {
        self.timers.borrow().contains_key(&timer)
    }

    /// When the next timer is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.borrow().first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// The time when the platform last read its clock: precise enough for time limits, and free.
    pub fn tick(&self) -> Instant {
        self.tick.get()
    }

    /// Wakes the tasks whose timers are due at `now`. A platform calls it in each round of its
    /// loop.
    pub fn fire_timers(&self, now: Instant) {
        self.tick.set(now);
        while self.first_timer.get() <= now {
            let mut timers = self.timers.borrow_mut();
            match timers.first_entry() {
                Some(entry) if entry.key().0 <= now => {
                    let task = entry.remove();
                    drop(timers);
                    self.wake(task);
                }
                first => self.first_timer.set(first.map_or(Instant::NEVER, |entry| entry.key().0)),
            }
        }
    }

    /// Records a time before [`Executor::quiet_until`]: no timer is due.
    pub fn pass_quietly(&self, now: Instant) {
        debug_assert!(now < self.quiet_until(), "a timer is due before that");
        self.tick.set(now);
    }

    /// A lower bound of the next timer and the next time limit.
    pub fn quiet_until(&self) -> Instant {
        self.first_timer.get().min(self.ops.earliest())
    }

    /// Handles operations that have exceeded their time limit: fails them for their waiters, or
    /// notifies the overseer of their drive. They stay in flight: their buffers return when the
    /// drive returns them.
    pub fn expire_operations(&self, now: Instant) {
        for notice in self.ops.expire(now) {
            notice.notify(|task| self.wake(task));
        }
    }

    /// Reports that the process did not run for `time`: it was stopped, frozen or swapped out, or
    /// the computer was suspended. No time limit includes that time. A platform calls this before
    /// it fires timers, and takes completions of drives before it expires operations.
    pub fn stand_still(&self, time: Duration) {
        self.ops.stand_still(time);
    }

    /// The total time in which the process did not run, as far as the platform detected it.
    pub fn stood_still(&self) -> Duration {
        self.ops.stood_still()
    }

    /// The earliest time limit of an operation in flight, if it is not after `bound`: how far a
    /// platform may jump or sleep. Cheap if there is none.
    pub fn next_expiry(&self, bound: Instant) -> Option<Instant> {
        self.ops.next_expiry(bound)
    }

    /// The number of operations that were started and that their drives have not returned.
    pub fn operations_in_flight(&self) -> usize {
        self.ops.in_flight()
    }

    /// The names of the unfinished tasks, for reports of a stall.
    pub fn unfinished_tasks(&self) -> Vec<&'static str> {
        self.tasks
            .borrow()
            .iter()
            .filter(|slot| slot.future.is_some())
            .map(|slot| slot.name)
            .collect()
    }

    /// The names of the ready tasks, for reports of a task that never stops waking itself.
    pub fn ready_tasks(&self) -> Vec<&'static str> {
        let tasks = self.tasks.borrow();
        let ready = self.ready.borrow();
        let live =
            ready.iter().filter(|task| tasks[task.index as usize].generation == task.generation);
        live.map(|task| tasks[task.index as usize].name).collect()
    }

    /// The number of polls so far: the length of a run, and an input of its hash.
    pub fn polls(&self) -> u64 {
        self.polls.get()
    }

    /// Drops all tasks at once: the crash of a process, in the simulated platform. Operations in
    /// flight are abandoned first. The executor cannot be used afterwards.
    pub fn kill_all(&self) {
        self.ops.abandon_all();
        loop {
            let futures: Vec<BoxedTask> = {
                let mut tasks = self.tasks.borrow_mut();
                let mut free = self.free.borrow_mut();
                tasks
                    .iter_mut()
                    .enumerate()
                    .filter_map(|(index, slot)| {
                        let future = slot.future.take()?;
                        slot.generation = slot.generation.wrapping_add(1);
                        slot.queued = false;
                        free.push(index as u32);
                        Some(future)
                    })
                    .collect()
            };
            if futures.is_empty() {
                break;
            }
            drop(futures);
        }
        self.ready.borrow_mut().clear();
        self.timers.borrow_mut().clear();
    }
}

struct JoinCell<T> {
    output: RefCell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
}

/// Waits for a task's result. The task continues if this is dropped.
pub struct JoinHandle<T> {
    cell: Rc<JoinCell<T>>,
    executor: Rc<Executor>,
}

impl<T> JoinHandle<T> {
    /// Whether the task has ended and its result has not been taken.
    pub fn is_finished(&self) -> bool {
        self.cell.output.borrow().is_some()
    }

    /// The result, if the task has ended.
    pub fn try_take(&self) -> Option<T> {
        self.cell.output.borrow_mut().take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        match self.cell.output.borrow_mut().take() {
            Some(output) => Poll::Ready(output),
            None => {
                self.cell.waiter.set(Some(self.executor.current()));
                Poll::Pending
            }
        }
    }
}
