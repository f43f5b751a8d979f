//! What a simulation is, below its processes: time, what is due, drives, streams, state.
//!
//! Outlives every process. One thread owns it; what must be `Send` (a drive source, a stream source) names it
//! by its [`SimId`] and finds it again on that thread.

use crate::agenda::Agenda;
use crate::drive::{DriveCell, SimDrive, Twin};
use crate::kept::Kept;
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

/// What is to happen at a point in time.
pub(crate) enum Action {
    /// A drive finishes an operation, if it still has it.
    Drive { drive: Rc<DriveCell>, slot: u32, generation: u32 },
    /// A model does what it had planned.
    Act { actor: Rc<dyn Actor>, token: u64 },
    /// Anything else.
    Call(Box<dyn FnOnce()>),
}

/// A model that has something to do at points in time of its own: see [`SimHandle::at`].
pub trait Actor {
    /// The moment has come; `token` is what was given with it.
    fn act(self: Rc<Self>, token: u64);
}

/// What processor work costs, as a model of a processor has it.
pub(crate) type Charge = Rc<dyn Fn(Work) -> Duration>;

/// Models of processors: that of a process, or else that of all.
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
    /// By how much the clock that people read is wrong.
    pub clock_ahead_s: Cell<i64>,
    due: RefCell<Agenda>,
    trace: RefCell<Trace>,
    pub drives: RefCell<BTreeMap<String, Rc<DriveCell>>>,
    /// Other doors to some of them, by name.
    pub twins: RefCell<BTreeMap<String, Twin>>,
    pub network: RefCell<Network>,
    pub state: RefCell<StateFiles>,
    pub kept: RefCell<Kept>,
    /// The processes that live.
    pub living: RefCell<BTreeSet<u64>>,
    /// How many events there have been.
    pub events: Cell<u64>,
    /// How many there had been when the test last reported progress.
    pub progress_at: Cell<u64>,
    /// The event before which running stops.
    pub stop_at: Cell<Option<u64>>,
    /// Space taken by drives that the code above created.
    pub file_space_used: Cell<u64>,
    /// Models of processors, in place of the constant costs of the options.
    pub charges: RefCell<Charges>,
}

/// Tells one simulation from another; may travel, to find its simulation again on its thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct SimId(u64);

thread_local! {
    static SIMS: RefCell<BTreeMap<SimId, Weak<Core>>> = const { RefCell::new(BTreeMap::new()) };
}

impl SimId {
    pub(crate) fn core(self) -> Option<Rc<Core>> {
        SIMS.try_with(|sims| sims.borrow().get(&self)?.upgrade()).ok().flatten()
    }

    /// The simulation, if it lives and this is its thread.
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
            kept: RefCell::new(Kept::new(options.seed)),
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

    /// At `at`, or now if that is past.
    pub fn schedule_at(&self, at: Instant, action: Action) {
        self.due.borrow_mut().put(at.max(self.now.get()), action);
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.due.borrow().first()
    }

    /// Takes what is due first, if that is not after `latest`; when it is due.
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

    /// Waits for `duration` in a task of any executor.
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

    /// The simulation is over: nothing is due any more, and drives hold nothing. Models hold their simulation, and this
    /// holds them.
    pub fn end(&self) {
        let due = self.due.take();
        self.charges.take();
        let drives = self.all_drives();
        let named = (self.drives.take(), self.twins.take());
        drives.iter().for_each(|drive| drive.empty());
        drop((due, named));
    }

    /// What a name leads to.
    pub fn drive_at(&self, name: &str) -> Option<Rc<DriveCell>> {
        let drive = self.drives.borrow().get(name).cloned();
        drive.or_else(|| self.twins.borrow().get(name).map(|twin| twin.drive().clone()))
    }

    /// Every simulated drive that has a name, in the order of their first names.
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

/// A simulation as models of drives and links see it: time, what is to happen later, random streams, the trace.
#[derive(Clone)]
pub struct SimHandle {
    pub(crate) core: Rc<Core>,
}

impl SimHandle {
    /// What finds this simulation again.
    pub fn id(&self) -> SimId {
        self.core.id()
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.core.now()
    }

    /// Calls `action` after `delay`. Of actions due at one instant, the first scheduled comes first. It counts
    /// as one event, belongs to no process and survives all of them.
    pub fn after(&self, delay: Duration, action: impl FnOnce() + 'static) {
        self.core.schedule(delay, Action::Call(Box::new(action)));
    }

    /// Has `actor` act at `at` (now, if that is past), with `token`. As [`SimHandle::after`], without an allocation.
    pub fn at(&self, at: Instant, actor: Rc<dyn Actor>, token: u64) {
        self.core.schedule_at(at, Action::Act { actor, token });
    }

    /// Lets a model of a processor say how long work takes from now on (waiting for the processor included), in
    /// place of the constant costs of the options.
    pub fn charge_by(&self, charge: impl Fn(Work) -> Duration + 'static) {
        self.core.charges.borrow_mut().all = Some(Rc::new(charge));
    }

    /// The same for the work of one process: it has a processor of its own.
    pub fn charge_process_by(&self, process: ProcessId, charge: impl Fn(Work) -> Duration + 'static) {
        let mut charges = self.core.charges.borrow_mut();
        charges.own.retain(|(of, _)| *of != process.number());
        charges.own.push((process.number(), Rc::new(charge)));
    }

    /// Makes running stop so many events from now (see [`crate::Sim::stop_at_event`]), in place of where it was to stop.
    pub fn stop_in(&self, events: u64) {
        self.core.stop_at.set(Some(self.core.events.get().saturating_add(events)));
    }

    /// The test reports progress: see [`SimOptions::events_without_progress`](crate::SimOptions::events_without_progress).
    pub fn progress(&self) {
        self.core.progress_at.set(self.core.events.get());
    }

    /// A stream of random numbers of its own.
    pub fn rng(&self, purpose: &str, instance: &str) -> Rng {
        self.core.rng(purpose, instance)
    }

    /// Makes a drive known under one more name, in place of what had that name (see [`crate::Sim::alias_drive`]).
    pub fn alias_drive(&self, drive: &SimDrive, name: &str) {
        self.core.drives.borrow_mut().insert(name.to_owned(), drive.cell.clone());
    }

    /// Makes a drive known under one more name that nothing but its content tells from another drive (see [`crate::Sim::add_twin`]).
    pub fn add_twin(&self, drive: &SimDrive, name: &str) {
        self.core.twins.borrow_mut().insert(name.to_owned(), Twin::of(&drive.cell));
    }

    /// Takes note of something for the hash and the trace.
    pub fn trace(&self, event: TraceEvent<'_>) {
        self.core.trace(event);
    }
}
