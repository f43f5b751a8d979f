//! The state of a simulation below its processes: time, due actions, drives, streams, durable
//! state.
//!
//! It outlives all processes. One thread owns it. Types that must be `Send` (a drive source, a
//! stream source) hold its [`SimId`], and look it up on that thread.

use crate::agenda::Agenda;
use crate::drive::{DriveCell, SimDrive, Twin};
use crate::kept::PersistentMemories;
use crate::network::Network;
use crate::options::SimOptions;
use crate::rng::Rng;
use crate::sim::ProcessId;
use crate::state::StateFiles;
use crate::trace::{Trace, TraceEvent};
use platform::{Instant, Work};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// An action at a point in time.
pub(crate) enum Action {
    /// A drive completes an operation, if it still has it.
    Drive { drive: Rc<DriveCell>, slot: u32, generation: u32 },
    /// A model acts as it scheduled.
    Act { actor: Rc<dyn Actor>, token: u64 },
    /// Any other action.
    Call(Box<dyn FnOnce()>),
}

/// A model that acts at times of its own: see [`SimHandle::at`].
pub trait Actor {
    /// Acts at the scheduled time; `token` is the scheduled value.
    fn act(self: Rc<Self>, token: u64);
}

/// A processor model: the time that work takes.
pub(crate) type Charge = Rc<dyn Fn(Work) -> Duration>;

/// Processor models, per process and a default.
#[derive(Default)]
pub(crate) struct Charges {
    all: Option<Charge>,
    own: Vec<(u64, Charge)>,
}

impl Charges {
    pub fn of(&self, process: u64) -> Option<Charge> {
        let own = self.own.iter().find(|(of, _)| *of == process);
        own.map(|(_, charge)| charge).or(self.all.as_ref()).cloned()
    }
}

pub(crate) struct Core {
    id: SimId,
    pub options: SimOptions,
    now: Cell<Instant>,
    /// The error of the wall clock.
    pub clock_ahead_s: Cell<i64>,
    due: RefCell<Agenda>,
    trace: RefCell<Trace>,
    pub drives: RefCell<BTreeMap<String, Rc<DriveCell>>>,
    /// Twins of drives, by name.
    pub twins: RefCell<BTreeMap<String, Twin>>,
    pub network: RefCell<Network>,
    pub state: RefCell<StateFiles>,
    pub kept: RefCell<PersistentMemories>,
    /// The running processes.
    pub living: RefCell<BTreeSet<u64>>,
    /// The number of events so far.
    pub events: Cell<u64>,
    /// The number of events at the last progress report of the test.
    pub progress_at: Cell<u64>,
    /// The event before which the run stops.
    pub stop_at: Cell<Option<u64>>,
    /// The space used by drives that the tested code created.
    pub file_space_used: Cell<u64>,
    /// Processor models, replacing the constant costs of the options.
    pub charges: RefCell<Charges>,
}

/// Identifies a simulation; `Send`, to look it up on its thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct SimId(u64);

thread_local! {
    static SIMS: RefCell<BTreeMap<SimId, Weak<Core>>> = const { RefCell::new(BTreeMap::new()) };
}

impl SimId {
    pub(crate) fn core(self) -> Option<Rc<Core>> {
        SIMS.try_with(|sims| sims.borrow().get(&self)?.upgrade()).ok().flatten()
    }

    /// The simulation, if it exists and this is its thread.
    pub fn handle(self) -> Option<SimHandle> {
        self.core().map(|core| SimHandle { core })
    }
}

impl Core {
    pub fn new(options: SimOptions) -> Rc<Core> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = SimId(NEXT.fetch_add(1, Ordering::Relaxed));
        let core = Rc::new(Core {
            id,
            network: RefCell::new(Network::default()),
            state: RefCell::new(StateFiles::new(options.seed)),
            kept: RefCell::new(PersistentMemories::new(options.seed)),
            options,
            now: Cell::default(),
            clock_ahead_s: Cell::default(),
            due: RefCell::default(),
            trace: RefCell::new(Trace::new()),
            drives: RefCell::default(),
            twins: RefCell::default(),
            living: RefCell::default(),
            events: Cell::new(0),
            progress_at: Cell::new(0),
            stop_at: Cell::new(None),
            file_space_used: Cell::new(0),
            charges: RefCell::default(),
        });
        SIMS.with(|sims| sims.borrow_mut().insert(id, Rc::downgrade(&core)));
        core
    }

    pub fn id(&self) -> SimId {
        self.id
    }

    pub fn now(&self) -> Instant {
        self.now.get()
    }

    pub fn set_now(&self, now: Instant) {
        debug_assert!(now >= self.now.get(), "time runs forward");
        self.now.set(now);
    }

    pub fn rng(&self, purpose: &str, instance: &str) -> Rng {
        Rng::new(self.options.seed, purpose, instance)
    }

    pub fn schedule(&self, delay: Duration, action: Action) {
        self.schedule_at(self.now.get() + delay, action);
    }

    /// Schedules an action at `at`, or now if that has passed.
    pub fn schedule_at(&self, at: Instant, action: Action) {
        self.due.borrow_mut().put(at.max(self.now.get()), action);
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.due.borrow().first()
    }

    /// Takes the first action and its instant, if that is not after `latest`.
    pub fn take_due(&self, latest: Instant) -> Option<(Instant, Action)> {
        self.due.borrow_mut().take_due(latest)
    }

    pub fn trace(&self, event: TraceEvent<'_>) {
        self.trace.borrow_mut().record(self.now.get(), event);
    }

    pub fn tracer(&self) -> std::cell::RefMut<'_, Trace> {
        self.trace.borrow_mut()
    }

    pub fn is_alive(&self, process: u64) -> bool {
        self.living.borrow().contains(&process)
    }

    /// Waits for `duration`, in a task of any executor.
    pub fn wait(&self, duration: Duration) -> Wait {
        let wait = Wait { shared: Rc::default() };
        let shared = Rc::clone(&wait.shared);
        self.schedule(
            duration,
            Action::Call(Box::new(move || {
                shared.0.set(true);
                if let Some(waker) = shared.1.take() {
                    waker.wake();
                }
            })),
        );
        wait
    }

    /// Ends the simulation: drops all actions and the contents of drives. This breaks the reference
    /// cycle with its models.
    pub fn end(&self) {
        let due = self.due.take();
        self.charges.take();
        let drives = self.all_drives();
        let named = (self.drives.take(), self.twins.take());
        drives.iter().for_each(|drive| drive.empty());
        drop((due, named));
    }

    /// The drive of that name.
    pub fn drive_at(&self, name: &str) -> Option<Rc<DriveCell>> {
        let drive = self.drives.borrow().get(name).cloned();
        drive.or_else(|| self.twins.borrow().get(name).map(|twin| twin.drive().clone()))
    }

    /// All named simulated drives, in the order of their first names.
    pub fn all_drives(&self) -> Vec<Rc<DriveCell>> {
        let mut all: BTreeMap<String, Rc<DriveCell>> = BTreeMap::new();
        for drive in self.drives.borrow().values() {
            all.entry(drive.name.clone()).or_insert_with(|| drive.clone());
        }
        all.into_values().collect()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let _ = SIMS.try_with(|sims| sims.borrow_mut().remove(&self.id));
    }
}

/// See [`Core::wait`].
pub(crate) struct Wait {
    shared: Rc<(Cell<bool>, Cell<Option<Waker>>)>,
}

impl Future for Wait {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.0.get() {
            return Poll::Ready(());
        }
        self.shared.1.set(Some(context.waker().clone()));
        Poll::Pending
    }
}

/// The simulation for models of drives and links: time, scheduling, random streams, the trace.
#[derive(Clone)]
pub struct SimHandle {
    pub(crate) core: Rc<Core>,
}

impl SimHandle {
    /// The identity of this simulation.
    pub fn id(&self) -> SimId {
        self.core.id()
    }

    /// The current virtual time.
    pub fn now(&self) -> Instant {
        self.core.now()
    }

    /// Calls `action` after `delay`. Actions of one instant run in the order of scheduling. The
    /// call is one event, belongs to no process, and survives all of them.
    pub fn after(&self, delay: Duration, action: impl FnOnce() + 'static) {
        self.core.schedule(delay, Action::Call(Box::new(action)));
    }

    /// Calls `actor` with `token` at `at`, or now if that has passed. Like [`SimHandle::after`],
    /// without an allocation.
    pub fn at(&self, at: Instant, actor: Rc<dyn Actor>, token: u64) {
        self.core.schedule_at(at, Action::Act { actor, token });
    }

    /// Sets a processor model: `charge` returns the time until work is done, with the wait for the
    /// processor. It replaces the constant costs of the options.
    pub fn charge_by(&self, charge: impl Fn(Work) -> Duration + 'static) {
        self.core.charges.borrow_mut().all = Some(Rc::new(charge));
    }

    /// The same for one process, which has a processor of its own.
    pub fn charge_process_by(
        &self,
        process: ProcessId,
        charge: impl Fn(Work) -> Duration + 'static,
    ) {
        let mut charges = self.core.charges.borrow_mut();
        charges.own.retain(|(of, _)| *of != process.number());
        charges.own.push((process.number(), Rc::new(charge)));
    }

    /// Stops the run after that many more events (see [`crate::Sim::stop_at_event`]), replacing an
    /// earlier stop.
    pub fn stop_in(&self, events: u64) {
        self.core.stop_at.set(Some(self.core.events.get().saturating_add(events)));
    }

    /// Reports progress of the test: see
    /// [`SimOptions::events_without_progress`](crate::SimOptions::events_without_progress).
    pub fn progress(&self) {
        self.core.progress_at.set(self.core.events.get());
    }

    /// A separate stream of random numbers.
    pub fn rng(&self, purpose: &str, instance: &str) -> Rng {
        self.core.rng(purpose, instance)
    }

    /// Gives a drive another name, replacing the drive of that name (see
    /// [`crate::Sim::alias_drive`]).
    pub fn alias_drive(&self, drive: &SimDrive, name: &str) {
        self.core.drives.borrow_mut().insert(name.to_owned(), drive.cell.clone());
    }

    /// Gives a drive another name with a separate identity (see [`crate::Sim::add_twin`]).
    pub fn add_twin(&self, drive: &SimDrive, name: &str) {
        self.core.twins.borrow_mut().insert(name.to_owned(), Twin::of(&drive.cell));
    }

    /// Records an event in the hash and the trace.
    pub fn trace(&self, event: TraceEvent<'_>) {
        self.core.trace(event);
    }
}
