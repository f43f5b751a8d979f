//! The simulation: runs processes in virtual time, step by step.
//!
//! One step is one *event* (a poll of a task, or one due action: a drive returns an operation, a
//! stream delivers) or an advance of time to the next action. Time passes only when no task is
//! ready and nothing is due, so that work takes no time except for the costs of `Env::compute`.
//!
//! # Invariants
//! - The options and the test's calls, in order, determine the run; [`Sim::hash`] proves it.
//! - Drives, state and time survive processes; persistent memory survives them until a power cut.

use crate::core::{Action, Core, SimHandle};
use crate::drive::{DriveCell, DriveImage, SimDrive};
use crate::kept::KeptImage;
use crate::network;
use crate::options::{DriveOptions, Order, SimOptions};
use crate::rng::Rng;
use crate::stall::{Stall, StallKind};
use crate::trace::{TraceEvent, TraceRecord};
use crate::world::SimWorld;
use platform::{BufferPool, Env, Executor, Instant, JoinHandle, Schedule, Unpark};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// One thread runs everything and never sleeps.
struct NoSleeper;
impl Unpark for NoSleeper {
    fn unpark(&self) {}
}

/// A process of the simulated machine (or of another one).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct ProcessId(u64);

impl ProcessId {
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

struct Process {
    id: ProcessId,
    shards: Vec<Env>,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// One event happened.
    Event,
    /// Time passed.
    Time,
    /// Nothing is left to do, now or later.
    Idle,
}

/// A simulation. See the [module](self).
pub struct Sim {
    core: Rc<Core>,
    processes: Vec<Process>,
    /// The executors of all shards of all processes, in that order; used several times per event.
    executors: Vec<Rc<Executor>>,
    /// The process for [`Sim::kill`] and [`Sim::restart_process`].
    main: ProcessId,
    next_process: u64,
    turn: Rng,
    events_at_jump: u64,
    /// The limit of virtual time.
    latest: Instant,
}

impl Sim {
    /// A simulation with one process and no drives.
    pub fn new(options: SimOptions) -> Sim {
        let core = Core::new(options);
        let turn = core.rng("turn", "");
        let latest = Instant::default() + core.options.time_limit;
        let mut sim = Sim {
            core,
            processes: Vec::new(),
            executors: Vec::new(),
            main: ProcessId(0),
            next_process: 0,
            turn,
            events_at_jump: 0,
            latest,
        };
        sim.main = sim.add_process();
        sim
    }

    /// The simulation for models.
    pub fn handle(&self) -> SimHandle {
        SimHandle { core: self.core.clone() }
    }

    /// The current virtual time.
    pub fn now(&self) -> Instant {
        self.core.now()
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.core.events.get()
    }

    /// The hash of the run so far: two runs have equal hashes if and only if (up to collisions)
    /// they were equal.
    pub fn hash(&self) -> u64 {
        let mut hash = self.core.tracer().hash();
        hash.number(self.events());
        hash.number(self.core.now().ns);
        hash.value()
    }

    /// Passes all further events to `listener`, which must not call the simulation.
    pub fn trace_to(&mut self, listener: impl FnMut(&TraceRecord<'_>) + 'static) {
        self.core.tracer().listen(Some(Box::new(listener)));
    }

    // Processes.

    /// Starts another process, such as a client on another machine.
    pub fn add_process(&mut self) -> ProcessId {
        let id = ProcessId(self.next_process);
        self.next_process += 1;
        let options = &self.core.options;
        let shards = (0..options.shards.max(1))
            .map(|shard| {
                let schedule = match options.order {
                    Order::Fifo => Schedule::Fifo,
                    Order::Shuffled => {
                        let mut rng = self.core.rng("schedule", &format!("{}.{shard}", id.0));
                        Schedule::Shuffled { seed: rng.next_u64() }
                    }
                };
                let executor = Executor::new(schedule, Arc::new(NoSleeper));
                executor.fire_timers(self.core.now());
                let world = Rc::new(SimWorld::new(&self.core, id.0, shard));
                Env::new(executor, world, BufferPool::new(options.memory))
            })
            .collect();
        self.core.living.borrow_mut().insert(id.0);
        self.processes.push(Process { id, shards });
        self.list_executors();
        self.core.trace(TraceEvent::Process { process: id.0, name: "starts" });
        id
    }

    /// The first shard of the main process. Panics if the process has ended.
    pub fn env(&self) -> Env {
        self.env_of(self.main, 0)
    }

    /// A shard of the main process. Panics if the process has ended or has no such shard.
    pub fn shard(&self, shard: usize) -> Env {
        self.env_of(self.main, shard)
    }

    /// A shard of a process. Panics if the process has ended or has no such shard.
    pub fn env_of(&self, process: ProcessId, shard: usize) -> Env {
        let found = self.processes.iter().find(|candidate| candidate.id == process);
        let found = found.expect("the process has ended: restart it first");
        found.shards[shard].clone()
    }

    /// Whether the main process runs.
    pub fn is_alive(&self) -> bool {
        self.processes.iter().any(|process| process.id == self.main)
    }

    /// Kills the main process, like SIGKILL. Its tasks end at once, its operations in flight may
    /// take effect, its streams close. Drive caches stay, and persistent memory keeps its content.
    pub fn kill(&mut self) {
        self.kill_process(self.main);
    }

    /// Kills a process; see [`Sim::kill`]. No effect on an ended one.
    pub fn kill_process(&mut self, process: ProcessId) {
        if self.end_tasks(process, "killed") {
            for drive in self.core.all_drives() {
                drive.process_died(&self.core, process.0);
            }
        }
    }

    /// Cuts the machine's power: the main process ends, drives lose their caches, persistent memory
    /// is cleared, and the boot number changes. Other processes run on other machines and continue.
    pub fn power_cut(&mut self) {
        self.end_tasks(self.main, "power cut");
        self.core.kept.borrow_mut().power_cut();
        for drive in self.core.all_drives() {
            drive.power_cut(&self.core);
            drive.break_lease(self.main.0);
        }
    }

    /// Starts the main process again with the same drives, state and time; kills it first if it
    /// runs.
    pub fn restart_process(&mut self) -> Env {
        self.kill();
        self.main = self.add_process();
        self.core.kept.borrow_mut().main_process = self.main.0;
        self.env()
    }

    fn end_tasks(&mut self, process: ProcessId, how: &'static str) -> bool {
        let Some(at) = self.processes.iter().position(|candidate| candidate.id == process) else {
            return false;
        };
        let process = self.processes.remove(at);
        self.list_executors();
        self.core.trace(TraceEvent::Process { process: process.id.0, name: how });
        self.core.living.borrow_mut().remove(&process.id.0);
        // Before its tasks are dropped, which does not happen in a real kill: stores by their
        // destructors must not count.
        self.core.kept.borrow_mut().process_died(process.id.0);
        for shard in &process.shards {
            shard.executor().kill_all();
        }
        network::process_died(&self.core, process.id.0);
        self.core.state.borrow_mut().process_died(process.id.0);
        true
    }

    // Running.

    /// Runs `main` on the first shard of the main process until it completes; other tasks are kept.
    ///
    /// # Errors
    /// If it cannot complete; the tasks are kept.
    pub fn run<T: 'static>(&mut self, main: impl Future<Output = T> + 'static) -> Result<T, Stall> {
        let handle = self.env().spawn("main", main);
        self.finish(&handle)
    }

    /// Runs until a task completes.
    ///
    /// # Errors
    /// As for [`Sim::run`].
    pub fn finish<T>(&mut self, task: &JoinHandle<T>) -> Result<T, Stall> {
        loop {
            if task.is_finished()
                && let Some(output) = task.try_take()
            {
                return Ok(output);
            }
            self.guarded_step(Instant::NEVER, true)?;
        }
    }

    /// Runs until `instant`, even if nothing is left to do.
    ///
    /// # Errors
    /// If tasks spin, or at the event to stop at.
    pub fn run_until(&mut self, instant: Instant) -> Result<(), Stall> {
        while self.guarded_step(instant, false)? != Step::Idle {}
        self.jump(instant.max(self.now()));
        Ok(())
    }

    /// Runs until nothing is ready or due, now or later.
    ///
    /// # Errors
    /// If tasks spin, at the event to stop at, and at the limit of virtual time.
    pub fn run_until_idle(&mut self) -> Result<(), Stall> {
        while self.guarded_step(Instant::NEVER, false)? != Step::Idle {}
        Ok(())
    }

    /// Stops the run before event number `event` (counted from the start, see [`Sim::events`]).
    pub fn stop_at_event(&mut self, event: Option<u64>) {
        self.core.stop_at.set(event);
    }

    /// One step.
    pub fn step(&mut self) -> Step {
        self.step_until(Instant::NEVER)
    }

    /// One step, and the actions of models that follow.
    fn guarded_step(&mut self, until: Instant, expects_more: bool) -> Result<Step, Stall> {
        if let Some(kind) = self.end() {
            return Err(self.stall(kind));
        }
        match self.step_until(until) {
            Step::Idle if expects_more => Err(self.stall(StallKind::Deadlock)),
            Step::Idle => Ok(Step::Idle),
            step => {
                self.run_models(until);
                Ok(step)
            }
        }
    }

    /// The event to stop at, or the limit, that is reached.
    #[inline]
    fn end(&self) -> Option<StallKind> {
        if self.core.stop_at.get().is_some_and(|stop| self.events() >= stop) {
            return Some(StallKind::Stopped);
        }
        if self.events() - self.events_at_jump >= self.core.options.steps_per_instant {
            return Some(StallKind::Spinning);
        }
        if self.events() - self.core.progress_at.get() >= self.core.options.events_without_progress
        {
            return Some(StallKind::NoProgress);
        }
        (self.now() > self.latest).then_some(StallKind::TimeLimit)
    }

    /// Runs actions of models as long as no task and no timer comes in between, without checking
    /// each time. They are most events of a prediction. Not with a random order of tasks, which is
    /// drawn at every step.
    fn run_models(&mut self, until: Instant) {
        if self.core.options.order != Order::Fifo {
            return;
        }
        // Only tasks set timers; a completed operation may start a queued one.
        while self.end().is_none()
            && !self.has_ready()
            && let Some(quiet_until) = self.quiet_until(until).filter(|quiet| *quiet >= self.now())
            && let Some((at, action)) = self.core.take_due(quiet_until)
        {
            self.pass_quietly(at);
            self.act(action);
            self.count_event();
        }
    }

    /// Whether a task is ready. Predictions have one shard: no loop.
    #[inline]
    fn has_ready(&self) -> bool {
        match &self.executors[..] {
            [only] => only.has_ready(),
            all => all.iter().any(|executor| executor.has_ready()),
        }
    }

    fn list_executors(&mut self) {
        let shards = self.processes.iter().flat_map(|process| &process.shards);
        self.executors = shards.map(|shard| shard.executor().clone()).collect();
    }

    fn stall(&self, kind: StallKind) -> Stall {
        let tasks = |executor: &Rc<Executor>| match kind {
            StallKind::Spinning => executor.ready_tasks(),
            _ => executor.unfinished_tasks(),
        };
        let tasks = self.executors.iter().flat_map(tasks).collect();
        Stall { kind, at: self.now(), events: self.events(), tasks }
    }

    fn step_until(&mut self, until: Instant) -> Step {
        // With a random order, due actions may precede ready tasks.
        let due_first = self.core.options.order == Order::Shuffled
            && self.core.next_due().is_some_and(|at| at <= self.now())
            && self.turn.chance(1, 2);
        if (due_first && self.do_due()) || self.poll_one() || self.do_due() {
            self.count_event();
            return Step::Event;
        }
        match self.next_instant(until) {
            Some(next) => {
                self.jump(next);
                Step::Time
            }
            None => Step::Idle,
        }
    }

    fn count_event(&self) {
        self.core.events.set(self.core.events.get() + 1);
    }

    fn do_due(&mut self) -> bool {
        let due = self.core.take_due(self.now());
        due.map(|(_, action)| self.act(action)).is_some()
    }

    fn act(&self, action: Action) {
        match action {
            Action::Drive { drive, slot, generation } => drive.due(&self.core, slot, generation),
            Action::Act { actor, token } => actor.act(token),
            Action::Call(call) => call(),
        }
    }

    fn poll_one(&mut self) -> bool {
        if let [only] = &self.executors[..] {
            // A wake of an ended task is not an event.
            while let Some(ran) = only.run_next() {
                if ran {
                    return true;
                }
            }
            return false;
        }
        let count = self.executors.len();
        let first = match self.core.options.order {
            Order::Shuffled if count > 1 => self.turn.below(count as u64) as usize,
            _ => 0,
        };
        let (before, from) = self.executors.split_at(first.min(count));
        for executor in from.iter().chain(before) {
            while let Some(ran) = executor.run_next() {
                // A wake of an ended task is not an event.
                if ran {
                    return true;
                }
            }
        }
        false
    }

    /// The instant before which no timer and no time limit is due: not after `until`, nor after the
    /// limit of virtual time.
    fn quiet_until(&self, until: Instant) -> Option<Instant> {
        if let [only] = &self.executors[..] {
            return Some(
                until.min(self.latest).min(Instant { ns: only.quiet_until().ns.checked_sub(1)? }),
            );
        }
        self.executors.iter().try_fold(until.min(self.latest), |soonest, executor| {
            Some(soonest.min(Instant { ns: executor.quiet_until().ns.checked_sub(1)? }))
        })
    }

    /// The instant of the next action, if it is not after `until`.
    fn next_instant(&self, until: Instant) -> Option<Instant> {
        let timers = self.executors.iter().filter_map(|executor| executor.next_deadline());
        let soonest = timers.chain(self.core.next_due()).filter(|at| *at <= until).min();
        let bound = soonest.unwrap_or(until);
        self.executors
            .iter()
            .filter_map(|executor| executor.next_expiry(bound))
            .chain(soonest)
            .min()
    }

    fn note_jump(&mut self, to: Instant) {
        if to > self.now() {
            self.events_at_jump = self.events();
        }
        self.core.set_now(to);
    }

    /// Advances to a time for which only models wait.
    fn pass_quietly(&mut self, to: Instant) {
        self.note_jump(to);
        match &self.executors[..] {
            [only] => only.pass_quietly(to),
            all => all.iter().for_each(|executor| executor.pass_quietly(to)),
        }
    }

    fn jump(&mut self, to: Instant) {
        self.note_jump(to);
        for executor in &self.executors {
            executor.fire_timers(to);
            executor.expire_operations(to);
        }
    }

    // Drives and state.

    /// Adds a new drive under `name`, replacing the drive of that name.
    pub fn add_drive(&mut self, name: &str, options: DriveOptions) -> SimDrive {
        let cell = DriveCell::new(&self.core, name, options);
        self.core.drives.borrow_mut().insert(name.to_owned(), cell.clone());
        SimDrive { core: self.core.clone(), cell }
    }

    /// Adds a new drive with the content of `image`. The options must be those of the image's
    /// drive.
    pub fn add_drive_with(
        &mut self,
        name: &str,
        options: DriveOptions,
        image: &DriveImage,
    ) -> SimDrive {
        let drive = self.add_drive(name, options);
        drive.restore(image);
        drive
    }

    /// Gives a drive another name, like another path to it, replacing the drive of that name.
    pub fn alias_drive(&mut self, drive: &SimDrive, name: &str) {
        self.handle().alias_drive(drive, name);
    }

    /// Gives a drive another name, with a separate lock and identity, like a second export of one
    /// storage. Only the content shows that it is the same drive.
    pub fn add_twin(&mut self, drive: &SimDrive, name: &str) {
        self.handle().add_twin(drive, name);
    }

    /// The drive of that name.
    pub fn drive(&self, name: &str) -> Option<SimDrive> {
        let cell = self.core.drives.borrow().get(name)?.clone();
        Some(SimDrive { core: self.core.clone(), cell })
    }

    /// The durable content of `name` in the state store.
    pub fn stored(&self, name: &str) -> Option<Vec<u8>> {
        self.core.state.borrow().files().get(name).cloned()
    }

    /// Replaces or removes the content of `name`.
    pub fn put_stored(&mut self, name: &str, content: Option<Vec<u8>>) {
        self.core.state.borrow_mut().put(name, content);
    }

    /// Sets the error of the wall clock, in seconds; 0 is correct. Virtual time is not affected.
    pub fn set_clock_ahead(&mut self, seconds: i64) {
        self.core.clock_ahead_s.set(seconds);
    }

    /// Removes the content of `name` and its previous version.
    pub fn remove_stored(&mut self, name: &str) {
        let mut state = self.core.state.borrow_mut();
        state.put(name, None);
        state.put(&format!("{name}.previous"), None);
    }

    /// Makes `name` unreadable and not replaceable, like a folder.
    pub fn make_stored_unreadable(&mut self, name: &str, why: &'static str) {
        self.core.state.borrow_mut().make_unreadable(name, why);
    }

    /// Whether `name` is unreadable.
    pub fn is_stored_unreadable(&self, name: &str) -> bool {
        self.core.state.borrow().is_unreadable(name)
    }

    /// The readable names in the state store.
    pub fn stored_names(&self) -> Vec<String> {
        self.core.state.borrow().files().keys().cloned().collect()
    }

    /// The machine's persistent memory while no process runs there.
    pub fn kept_image(&self) -> KeptImage {
        assert!(!self.is_alive(), "the memory may change while a process runs");
        self.core.kept.borrow().image()
    }

    /// Gives the machine the memory and the boot number of another one, so that it continues that
    /// one.
    pub fn restore_kept(&mut self, image: &KeptImage) {
        self.core.kept.borrow_mut().restore(image);
    }

    /// True: stores neither complete nor fail, as on a stuck file system. False: pending stores
    /// continue.
    pub fn silence_stores(&mut self, is_silent: bool) {
        self.core.state.borrow_mut().is_silent = is_silent;
    }

    /// Fails the next `count` stores and appends with "no space".
    pub fn fail_stores(&mut self, count: u64) {
        self.core.state.borrow_mut().failures = count;
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Tasks and their executor hold each other: killing breaks the cycle.
        for process in std::mem::take(&mut self.processes) {
            self.core.living.borrow_mut().remove(&process.id.0);
            for shard in &process.shards {
                shard.executor().kill_all();
            }
        }
        // Processes that were not stopped may be reference cycles with their platform: drives drop
        // their content all the same.
        self.core.end();
    }
}
