//! The simulation: runs processes in virtual time, step by step.
//!
//! One step is one *event* (a poll of a task, or one thing that was due: a drive returns an operation, a stream
//! delivers) or a jump of time to what is next. Time passes only when no task is ready and nothing is due, so
//! work takes no time but what `Env::compute` charges.
//!
//! # Invariants
//! - What happens is a function of the options and of what the test calls, in order; [`Sim::hash`] proves it.
//! - Processes die and start; drives, state and time go on; and until the power goes, kept memory.

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

/// One thread runs everything: nobody sleeps.
struct NoSleeper;
impl Unpark for NoSleeper {
    fn unpark(&self) {}
}

/// A process of the simulated machine (or of one next to it).
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

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// One event happened.
    Event,
    /// Time passed.
    Time,
    /// There is nothing to do, now or ever.
    Idle,
}

/// See the [module](self).
pub struct Sim {
    core: Rc<Core>,
    processes: Vec<Process>,
    /// The executors of all shards of all processes, in that order: looked at several times an event.
    executors: Vec<Rc<Executor>>,
    /// The process that [`Sim::kill`] and [`Sim::restart_process`] mean.
    main: ProcessId,
    next_process: u64,
    turn: Rng,
    events_at_jump: u64,
    /// The limit of virtual time.
    latest: Instant,
}

impl Sim {
    /// A world with one process and no drives.
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

    /// The world as models see it.
    pub fn handle(&self) -> SimHandle {
        SimHandle { core: self.core.clone() }
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.core.now()
    }

    /// How many events there have been.
    pub fn events(&self) -> u64 {
        self.core.events.get()
    }

    /// The hash of everything that happened so far: two runs agree in it if and only if (but for chance) they
    /// were the same.
    pub fn hash(&self) -> u64 {
        let mut hash = self.core.tracer().hash();
        hash.number(self.events());
        hash.number(self.core.now().ns);
        hash.value()
    }

    /// Tells `listener` everything that happens from now on. It must not call the simulation.
    pub fn trace_to(&mut self, listener: impl FnMut(&TraceRecord<'_>) + 'static) {
        self.core.tracer().listen(Some(Box::new(listener)));
    }

    // Processes.

    /// Starts one more process, a client next door for example.
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

    /// The first shard of the main process. Panics if it is dead.
    pub fn env(&self) -> Env {
        self.env_of(self.main, 0)
    }

    /// A shard of the main process. Panics if it is dead or has no such shard.
    pub fn shard(&self, shard: usize) -> Env {
        self.env_of(self.main, shard)
    }

    /// A shard of a process. Panics if it is dead or has no such shard.
    pub fn env_of(&self, process: ProcessId, shard: usize) -> Env {
        let found = self.processes.iter().find(|candidate| candidate.id == process);
        let found = found.expect("the process is dead: restart it first");
        found.shards[shard].clone()
    }

    /// Whether the main process lives.
    pub fn is_alive(&self) -> bool {
        self.processes.iter().any(|process| process.id == self.main)
    }

    /// Kills the main process, as SIGKILL would: its tasks end where they stand, its operations in flight land or
    /// not, drive caches keep what they have, its streams close, and kept memory has what it had at that moment.
    pub fn kill(&mut self) {
        self.kill_process(self.main);
    }

    /// Kills a process; see [`Sim::kill`]. Killing a dead one does nothing.
    pub fn kill_process(&mut self, process: ProcessId) {
        if self.end_tasks(process, "killed") {
            for drive in self.core.all_drives() {
                drive.process_died(&self.core, process.0);
            }
        }
    }

    /// Cuts the power of the machine: the main process dies, every drive loses what its cache loses, kept memory is
    /// gone, and the machine has another boot. Other processes are elsewhere and live on.
    pub fn power_cut(&mut self) {
        self.end_tasks(self.main, "power cut");
        self.core.kept.borrow_mut().power_cut();
        for drive in self.core.all_drives() {
            drive.power_cut(&self.core);
            drive.break_lease(self.main.0);
        }
    }

    /// Starts the main process anew over the same drives, state and time; kills it first if it lives.
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
        // Before its tasks are dropped, which a killed process does not do: nothing that they store then was stored.
        self.core.kept.borrow_mut().process_died(process.id.0);
        for shard in &process.shards {
            shard.executor().kill_all();
        }
        network::process_died(&self.core, process.id.0);
        self.core.state.borrow_mut().process_died(process.id.0);
        true
    }

    // Running.

    /// Runs `main` on the first shard of the main process until it is done; other tasks stay where they are.
    ///
    /// # Errors
    /// When it cannot get done; the tasks stay as they are.
    pub fn run<T: 'static>(&mut self, main: impl Future<Output = T> + 'static) -> Result<T, Stall> {
        let handle = self.env().spawn("main", main);
        self.finish(&handle)
    }

    /// Runs until a task is done.
    ///
    /// # Errors
    /// As [`Sim::run`].
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

    /// Runs until `instant`, whether or not there is anything to do.
    ///
    /// # Errors
    /// When tasks spin, or at the event to stop at.
    pub fn run_until(&mut self, instant: Instant) -> Result<(), Stall> {
        while self.guarded_step(instant, false)? != Step::Idle {}
        self.jump(instant.max(self.now()));
        Ok(())
    }

    /// Runs until nothing is ready or due, now or ever.
    ///
    /// # Errors
    /// When tasks spin, at the event to stop at, and at the limit of virtual time.
    pub fn run_until_idle(&mut self) -> Result<(), Stall> {
        while self.guarded_step(Instant::NEVER, false)? != Step::Idle {}
        Ok(())
    }

    /// Makes running stop before event number `event` (counted from the start, see [`Sim::events`]).
    pub fn stop_at_event(&mut self, event: Option<u64>) {
        self.core.stop_at.set(event);
    }

    /// One step.
    pub fn step(&mut self) -> Step {
        self.step_until(Instant::NEVER)
    }

    /// One step, and what models alone do after it.
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

    /// The event to stop at, or a limit, that is reached.
    #[inline]
    fn end(&self) -> Option<StallKind> {
        if self.core.stop_at.get().is_some_and(|stop| self.events() >= stop) {
            return Some(StallKind::Stopped);
        }
        if self.events() - self.events_at_jump >= self.core.options.steps_per_instant {
            return Some(StallKind::Spinning);
        }
        if self.events() - self.core.progress_at.get() >= self.core.options.events_without_progress {
            return Some(StallKind::NoProgress);
        }
        (self.now() > self.latest).then_some(StallKind::TimeLimit)
    }

    /// Gives models their turns as long as no task and no timer has one in between: nobody need be asked then. These are
    /// most events of a prediction. Nothing to do with tasks in any order, which are drawn anew at every step.
    fn run_models(&mut self, until: Instant) {
        if self.core.options.order != Order::Fifo {
            return;
        }
        // Tasks alone set timers; an operation that ends may begin one that waited for its place.
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

    /// Whether a task is ready. One shard is what predictions have: no loop over it.
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
        // With tasks in any order, what is due may go before what is ready.
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
            // A wake of a task that has ended is not an event.
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
                // A wake of a task that has ended is not an event.
                if ran {
                    return true;
                }
            }
        }
        false
    }

    /// Up to when nobody's timer or time limit has its turn: not after `until`, nor after the limit of virtual time.
    fn quiet_until(&self, until: Instant) -> Option<Instant> {
        if let [only] = &self.executors[..] {
            return Some(until.min(self.latest).min(Instant { ns: only.quiet_until().ns.checked_sub(1)? }));
        }
        self.executors.iter().try_fold(until.min(self.latest), |soonest, executor| {
            Some(soonest.min(Instant { ns: executor.quiet_until().ns.checked_sub(1)? }))
        })
    }

    /// The next instant at which anything can happen, if that is not after `until`.
    fn next_instant(&self, until: Instant) -> Option<Instant> {
        let timers = self.executors.iter().filter_map(|executor| executor.next_deadline());
        let soonest = timers.chain(self.core.next_due()).filter(|at| *at <= until).min();
        let bound = soonest.unwrap_or(until);
        self.executors.iter().filter_map(|executor| executor.next_expiry(bound)).chain(soonest).min()
    }

    fn note_jump(&mut self, to: Instant) {
        if to > self.now() {
            self.events_at_jump = self.events();
        }
        self.core.set_now(to);
    }

    /// Passes to where nobody but a model waits for.
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

    /// A new drive under `name`, in place of what had that name.
    pub fn add_drive(&mut self, name: &str, options: DriveOptions) -> SimDrive {
        let cell = DriveCell::new(&self.core, name, options);
        self.core.drives.borrow_mut().insert(name.to_owned(), cell.clone());
        SimDrive { core: self.core.clone(), cell }
    }

    /// A new drive that holds what `image` holds. The options must be those of the drive it was taken of.
    pub fn add_drive_with(&mut self, name: &str, options: DriveOptions, image: &DriveImage) -> SimDrive {
        let drive = self.add_drive(name, options);
        drive.restore(image);
        drive
    }

    /// Makes a drive known under one more name, as another path to it would, in place of what had that name.
    pub fn alias_drive(&mut self, drive: &SimDrive, name: &str) {
        self.handle().alias_drive(drive, name);
    }

    /// Makes a drive known under one more name, with a lock and an identity of its own, as a second export of one storage has them: nothing but what
    /// lies on it tells that it is the same.
    pub fn add_twin(&mut self, drive: &SimDrive, name: &str) {
        self.handle().add_twin(drive, name);
    }

    /// The drive of that name.
    pub fn drive(&self, name: &str) -> Option<SimDrive> {
        let cell = self.core.drives.borrow().get(name)?.clone();
        Some(SimDrive { core: self.core.clone(), cell })
    }

    /// What is stored under `name`, now and durably.
    pub fn stored(&self, name: &str) -> Option<Vec<u8>> {
        self.core.state.borrow().files().get(name).cloned()
    }

    /// Replaces what is stored under `name`, or removes it.
    pub fn put_stored(&mut self, name: &str, content: Option<Vec<u8>>) {
        self.core.state.borrow_mut().put(name, content);
    }

    /// The clock of the machine is wrong by so many seconds from now on, or right again. Time itself passes as before.
    pub fn set_clock_ahead(&mut self, seconds: i64) {
        self.core.clock_ahead_s.set(seconds);
    }

    /// Removes what is stored under `name`, with its previous version.
    pub fn remove_stored(&mut self, name: &str) {
        let mut state = self.core.state.borrow_mut();
        state.put(name, None);
        state.put(&format!("{name}.previous"), None);
    }

    /// Has something be stored under `name` that cannot be read, nor written over: a folder, say.
    pub fn make_stored_unreadable(&mut self, name: &str, why: &'static str) {
        self.core.state.borrow_mut().make_unreadable(name, why);
    }

    /// Whether what is stored under `name` cannot be read.
    pub fn is_stored_unreadable(&self, name: &str) -> bool {
        self.core.state.borrow().is_unreadable(name)
    }

    /// The names under which something is stored that can be read.
    pub fn stored_names(&self) -> Vec<String> {
        self.core.state.borrow().files().keys().cloned().collect()
    }

    /// The machine's memory that outlives processes, as it is while none runs there.
    pub fn kept_image(&self) -> KeptImage {
        assert!(!self.is_alive(), "what a process views may change");
        self.core.kept.borrow().image()
    }

    /// Gives the machine the memory of another one, and its boot: it is the same machine.
    pub fn restore_kept(&mut self, image: &KeptImage) {
        self.core.kept.borrow_mut().restore(image);
    }

    /// From now on nothing is stored and nothing fails, as on a file system that hangs, or what waits is stored.
    pub fn silence_stores(&mut self, is_silent: bool) {
        self.core.state.borrow_mut().is_silent = is_silent;
    }

    /// The next `count` stores and appends fail for want of space.
    pub fn fail_stores(&mut self, count: u64) {
        self.core.state.borrow_mut().failures = count;
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Tasks hold their executor and their executor them: only killing lets go.
        for process in std::mem::take(&mut self.processes) {
            self.core.living.borrow_mut().remove(&process.id.0);
            for shard in &process.shards {
                shard.executor().kill_all();
            }
        }
        // What ended without stopping may own itself, and with it its world: what drives hold goes all the same.
        self.core.end();
    }
}
