//! Operations in flight: a slot each, from the start until the drive returns it.
//!
//! # Fault model and invariants
//! - A drive returns every operation exactly once, at any time, in any order, possibly long after its
//!   waiter was told that it timed out. A [`Completion`] that is dropped unreturned completes with
//!   [`IoErrorKind::Gone`]: a drive that forgets an operation cannot hang its waiter.
//! - Whatever the operation holds (buffers) stays with it until it is returned, even when nobody waits any
//!   more: late data lands in memory that nobody else has.
//! - An operation that needs no task ([`OnReturn`]) is told of once: returned, or late. What the drive brings after that is dropped.
//! - An [`Io`] dropped before it finished panics, unless its executor is being killed or the thread is
//!   already panicking: forgetting an I/O is a defect, [`Io::abandon`] is a decision.

use crate::error::{IoError, IoErrorKind};
use crate::executor::{Executor, TaskId};
use crate::outcome::IoOutcome;
use crate::oversight::{Exceeded, Heard, Oversight, Terms, count};
use crate::time::Instant;
use crate::traffic::Metered;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

const TIMED_OUT: IoError = IoError::new(IoErrorKind::TimedOut);
const LATE: IoError = IoError::new(IoErrorKind::Late);

/// Whoever is to hear of operations without a task that waits for them.
///
/// It is called once for each, or not at all where its process is killed: by the drive, from within whatever the drive is about, or by the executor when the time limit has passed. So it starts no operation, and
/// borrows nothing that a drive or a task may hold borrowed; it may wake tasks.
pub trait OnReturn {
    /// What the operation came to that was started with `token`.
    fn returned(&self, token: u32, outcome: IoOutcome);
}

/// Who hears of an operation in flight.
#[derive(Default)]
pub(crate) enum Waiter {
    /// Nobody has asked so far.
    #[default]
    Nobody,
    /// Whoever polled for it last.
    Task(TaskId),
    /// Somebody who needs no task.
    OnReturn(Rc<dyn OnReturn>, u32),
}

impl Waiter {
    /// The operation failed, while the drive still has it.
    pub(crate) fn hear(self, executor: &Executor, error: IoError) {
        match self {
            Waiter::Nobody => {}
            Waiter::Task(task) => executor.wake(task),
            Waiter::OnReturn(whom, token) => whom.returned(token, IoOutcome::failed(error)),
        }
    }
}

/// What is to be done when the drive has returned an operation, with nothing borrowed.
enum Told {
    Nobody,
    Task(TaskId),
    OnReturn(Rc<dyn OnReturn>, u32, IoOutcome),
}

enum State {
    Free,
    /// The drive has it.
    InFlight(Waiter),
    /// Returned, not yet taken.
    Done(IoOutcome),
    /// The drive still has it; its waiter is told that it failed (timed out, mostly), or does not care.
    Expired {
        told: bool,
        error: IoError,
    },
}

struct Slot {
    generation: u32,
    state: State,
    /// When somebody is to hear that it takes too long.
    deadline: Instant,
    /// [`Terms::rest`], until that begins.
    rest: Duration,
    oversight: Option<Rc<Oversight>>,
    exceeds: Option<Exceeded>,
    is_late: bool,
    is_overdue: bool,
    /// See [`Oversight::places`].
    has_place: bool,
}

impl Slot {
    /// The drive is asked.
    fn take_place(&mut self) {
        self.has_place = true;
        if let Some(oversight) = &self.oversight {
            oversight.taken.set(oversight.taken.get() + 1);
        }
    }

    /// The drive may have another one in its stead.
    fn leave_place(&mut self) {
        if let Some(oversight) = self.oversight.as_ref().filter(|_| std::mem::take(&mut self.has_place)) {
            oversight.taken.set(oversight.taken.get() - 1);
        }
    }

    /// Whoever starts what waits for a place is to look.
    fn starter(&self) -> Option<TaskId> {
        self.oversight.as_ref().and_then(|oversight| oversight.starter.take())
    }

    /// The operation has failed for its waiter, who is to hear of that; the drive still has it.
    fn fail(&mut self, error: IoError) -> Waiter {
        let State::InFlight(waiter) = &mut self.state else { return Waiter::Nobody };
        let waiter = std::mem::take(waiter);
        // A task looks for itself when it is woken; anybody else is told.
        let told = matches!(waiter, Waiter::OnReturn(..));
        self.state = State::Expired { told, error };
        waiter
    }

    /// Its time is up.
    fn pass_limit(&mut self, heard: &mut Vec<Heard>) {
        let watched = self.oversight.clone().filter(|oversight| oversight.is_watched());
        let Some(oversight) = watched else {
            let rest = std::mem::take(&mut self.rest);
            if !rest.is_zero() {
                self.deadline = self.deadline + rest;
                return; // Whoever watched is gone.
            }
            self.deadline = Instant::NEVER;
            self.leave_place();
            heard.extend(self.starter().map(Heard::Starter));
            heard.push(Heard::Waiter(self.fail(TIMED_OUT), TIMED_OUT));
            return;
        };
        let is_short = !self.rest.is_zero();
        let number = if is_short { &oversight.late } else { &oversight.overdue };
        if !is_short {
            oversight.exceeded.set(self.exceeds);
        }
        if count(number, true) {
            // First: whoever waited may look at the drive before it does anything else.
            heard.push(Heard::Overseer(oversight.clone()));
        }
        if is_short {
            self.is_late = true;
            self.deadline = self.deadline + std::mem::take(&mut self.rest);
            heard.push(Heard::Waiter(self.fail(LATE), LATE));
        } else {
            self.is_overdue = true;
            self.deadline = Instant::NEVER;
        }
    }

    /// Nobody waits for it any longer, and no limit is to pass.
    fn give_up(&mut self) -> (Heard, bool) {
        self.deadline = Instant::NEVER;
        // What waited for a place has been taken away by now.
        self.leave_place();
        let is_news = std::mem::take(&mut self.is_overdue)
            && self.oversight.as_ref().is_some_and(|oversight| count(&oversight.overdue, false));
        (Heard::Waiter(self.fail(TIMED_OUT), TIMED_OUT), is_news)
    }

    /// The drive has returned it. Who is to hear that it has none any more that take too long.
    fn end_watch(&mut self) -> Option<Rc<Oversight>> {
        self.deadline = Instant::NEVER;
        let oversight = self.oversight.take()?;
        let late = std::mem::take(&mut self.is_late) && count(&oversight.late, false);
        let overdue = std::mem::take(&mut self.is_overdue) && count(&oversight.overdue, false);
        (late || overdue).then_some(oversight)
    }
}

/// The operations of one executor.
#[derive(Default)]
pub(crate) struct OpTable {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    in_flight: Cell<usize>,
    killed: Cell<bool>,
    /// How long the process stood still, in all. Deadlines are kept in the time without that: whenever it grows, all of them are later.
    stood_still: Cell<Duration>,
    /// No operation in flight has an earlier deadline. A lower bound: it is not raised when one returns.
    earliest: Cell<Instant>,
}

impl OpTable {
    /// The process stood still for so long: no operation in flight has used that of its time.
    pub(crate) fn stand_still(&self, time: Duration) {
        self.stood_still.set(self.stood_still.get() + time);
    }

    /// How long the process stood still, in all.
    pub(crate) fn stood_still(&self) -> Duration {
        self.stood_still.get()
    }

    /// A time of the world's clock, as deadlines are kept.
    fn without_stops(&self, at: Instant) -> Instant {
        match at {
            Instant::NEVER => Instant::NEVER,
            Instant { ns } => Instant {
                ns: ns.saturating_sub(u64::try_from(self.stood_still.get().as_nanos()).unwrap_or(u64::MAX)),
            },
        }
    }

    /// The time of the world's clock that a deadline is at, if the process goes on running until then.
    fn by_the_clock(&self, deadline: Instant) -> Instant {
        match deadline {
            Instant::NEVER => Instant::NEVER,
            deadline => deadline + self.stood_still.get(),
        }
    }

    fn start(&self, waiter: Waiter, terms: &Terms) -> u32 {
        let deadline = self.without_stops(terms.deadline);
        if deadline < self.earliest.get() || self.in_flight.get() == 0 {
            self.earliest.set(deadline);
        }
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(Slot {
                generation: 0,
                state: State::Free,
                deadline: Instant::NEVER,
                rest: Duration::ZERO,
                oversight: None,
                exceeds: None,
                is_late: false,
                is_overdue: false,
                has_place: false,
            });
            slots.len() as u32 - 1
        });
        let slot = &mut slots[index as usize];
        slot.state = State::InFlight(waiter);
        (slot.deadline, slot.rest) = (deadline, terms.rest);
        slot.oversight.clone_from(&terms.oversight);
        slot.exceeds = terms.exceeds;
        if terms.has_place {
            slot.take_place();
        }
        self.in_flight.set(self.in_flight.get() + 1);
        index
    }

    /// The drive is asked for what waited for a place.
    fn begin(&self, index: u32, terms: &Terms) {
        let deadline = self.without_stops(terms.deadline);
        self.earliest.set(self.earliest.get().min(deadline));
        let slot = &mut self.slots.borrow_mut()[index as usize];
        (slot.deadline, slot.rest) = (deadline, terms.rest);
        slot.take_place();
    }

    fn release(&self, slot: &mut Slot, index: u32) {
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Free;
        self.free.borrow_mut().push(index);
    }

    /// Takes the drive's answer; returns whom to tell, who is to hear that no operation takes too long any more, and who starts the next.
    fn complete(&self, index: u32, outcome: IoOutcome) -> (Told, Option<Rc<Oversight>>, Option<TaskId>) {
        self.in_flight.set(self.in_flight.get() - 1);
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        slot.leave_place();
        let starter = slot.starter();
        let in_time = slot.end_watch();
        if let State::InFlight(waiter) = &mut slot.state {
            let told = match std::mem::take(waiter) {
                Waiter::OnReturn(whom, token) => {
                    self.release(slot, index);
                    Told::OnReturn(whom, token, outcome)
                }
                Waiter::Task(task) => {
                    slot.state = State::Done(outcome);
                    Told::Task(task)
                }
                Waiter::Nobody => {
                    slot.state = State::Done(outcome);
                    Told::Nobody
                }
            };
            return (told, in_time, starter);
        }
        self.complete_late(slot, index);
        drop(slots);
        // With nothing borrowed: nobody wants what it brought.
        drop(outcome);
        (Told::Nobody, in_time, starter)
    }

    /// The drive returns what its waiter was told about, or is to be told about.
    #[cold]
    fn complete_late(&self, slot: &mut Slot, index: u32) {
        match slot.state {
            State::Expired { told: true, .. } => self.release(slot, index),
            // The waiter has not looked yet; it will find what it was woken for.
            State::Expired { error, .. } => slot.state = State::Done(IoOutcome::failed(error)),
            State::InFlight(_) | State::Free | State::Done(_) => {
                unreachable!("a completion is consumed by completing")
            }
        }
    }

    /// What the current task of `executor` is told that looks after an operation.
    fn poll(&self, index: u32, executor: &Executor) -> Poll<IoOutcome> {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        match &mut slot.state {
            State::InFlight(waiter) => {
                *waiter = Waiter::Task(executor.current());
                Poll::Pending
            }
            State::Expired { told, error } => {
                *told = true;
                Poll::Ready(IoOutcome::failed(*error))
            }
            State::Done(_) if !executor.may_go_on() => Poll::Pending,
            state @ State::Done(_) => {
                let State::Done(outcome) = std::mem::replace(state, State::Free) else { unreachable!() };
                slot.generation = slot.generation.wrapping_add(1);
                self.free.borrow_mut().push(index);
                Poll::Ready(outcome)
            }
            State::Free => {
                unreachable!("an operation is polled by its only handle, which knows when it is done")
            }
        }
    }

    fn abandon(&self, index: u32) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        let unclaimed = match &mut slot.state {
            State::InFlight(_) | State::Expired { .. } => {
                slot.state = State::Expired { told: true, error: TIMED_OUT };
                None
            }
            state @ State::Done(_) => {
                let unclaimed = std::mem::replace(state, State::Free);
                self.release(slot, index);
                Some(unclaimed)
            }
            State::Free => None,
        };
        drop(slots);
        drop(unclaimed);
    }

    /// The earliest time limit of an operation in flight, if it is not after `bound`. Looks at every
    /// operation only when the lower bound says that there may be one.
    pub(crate) fn next_expiry(&self, bound: Instant) -> Option<Instant> {
        self.next_deadline(self.without_stops(bound)).map(|deadline| self.by_the_clock(deadline))
    }

    /// The same, all without the time that the process stood still.
    fn next_deadline(&self, bound: Instant) -> Option<Instant> {
        if self.in_flight.get() == 0 || self.earliest.get() > bound {
            return None;
        }
        let slots = self.slots.borrow();
        let earliest = slots.iter().map(|slot| slot.deadline).min().unwrap_or(Instant::NEVER);
        self.earliest.set(earliest);
        (earliest <= bound && earliest != Instant::NEVER).then_some(earliest)
    }

    /// No operation in flight has an earlier time limit.
    pub(crate) fn earliest(&self) -> Instant {
        if self.in_flight.get() == 0 { Instant::NEVER } else { self.by_the_clock(self.earliest.get()) }
    }

    /// How long an operation may still take, if somebody waits for it.
    fn time_left(&self, index: u32, now: Instant) -> Option<Duration> {
        let slot = &self.slots.borrow()[index as usize];
        match slot.state {
            State::InFlight(_) if slot.is_overdue => Some(Duration::ZERO),
            State::InFlight(_) => Some(slot.deadline.since(self.without_stops(now))),
            State::Free | State::Done(_) | State::Expired { .. } => None,
        }
    }

    fn is_awaited(&self, index: u32) -> bool {
        matches!(self.slots.borrow()[index as usize].state, State::InFlight(_))
    }

    /// An operation has failed for whoever waits for it, while the drive still has it; returns who is to hear of that.
    fn fail_early(&self, index: u32, error: IoError) -> Waiter {
        self.slots.borrow_mut()[index as usize].fail(error)
    }

    /// The time of operations is up; returns who is to hear of that.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Heard> {
        let now = self.without_stops(now);
        let mut heard = Vec::new();
        if self.next_deadline(now).is_none() {
            return heard;
        }
        let mut slots = self.slots.borrow_mut();
        slots.iter_mut().filter(|slot| slot.deadline <= now).for_each(|slot| slot.pass_limit(&mut heard));
        heard
    }

    /// Every operation that is counted there fails; returns who is to hear of that.
    pub(crate) fn give_up(&self, oversight: &Rc<Oversight>) -> Vec<Heard> {
        let is_its = |slot: &&mut Slot| slot.oversight.as_ref().is_some_and(|of| Rc::ptr_eq(of, oversight));
        let mut slots = self.slots.borrow_mut();
        let (mut heard, mut is_news) = (Vec::new(), false);
        for slot in slots.iter_mut().filter(is_its) {
            let (waiter, ends) = slot.give_up();
            heard.push(waiter);
            is_news |= ends;
        }
        heard.extend(is_news.then(|| Heard::Overseer(oversight.clone())));
        heard
    }

    /// Nobody waits for any operation any more.
    pub(crate) fn abandon_all(&self) {
        self.killed.set(true);
        let needs_no_task = |slot: &&mut Slot| matches!(&slot.state, State::InFlight(Waiter::OnReturn(..)));
        let mut slots = self.slots.borrow_mut();
        slots.iter_mut().for_each(|slot| slot.deadline = Instant::NEVER);
        let forgotten: Vec<Waiter> =
            slots.iter_mut().filter(needs_no_task).map(|slot| slot.fail(TIMED_OUT)).collect();
        drop(slots);
        // With nothing borrowed: what is dropped may be the last to hold a volume.
        drop(forgotten);
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }
}

/// The drive's side of an operation: returns it, exactly once.
pub struct Completion {
    executor: Weak<Executor>,
    index: u32,
    /// Counts the operations its drive still has, late ones too.
    oversight: Option<Rc<Oversight>>,
    metered: Option<Metered>,
    returned: bool,
}

impl Completion {
    /// The drive's side of a new operation.
    #[inline]
    pub(crate) fn start(executor: &Rc<Executor>, waiter: Waiter, terms: Terms) -> Completion {
        let index = executor.ops.start(waiter, &terms);
        let Terms { oversight, metered, .. } = terms;
        if let Some(oversight) = &oversight {
            oversight.outstanding.set(oversight.outstanding.get() + 1);
        }
        Completion { executor: Rc::downgrade(executor), index, oversight, metered, returned: false }
    }

    /// The drive is about to be asked for what waited for a place: its time runs from now on.
    pub(crate) fn begin(&mut self, terms: Terms) {
        if let Some(executor) = self.executor.upgrade() {
            executor.ops.begin(self.index, &terms);
        }
        self.metered = terms.metered;
    }

    /// Returns the operation to whoever waits for it.
    pub fn complete(mut self, outcome: IoOutcome) {
        self.finish(outcome);
    }

    /// Whether somebody still waits: not once it timed out, was abandoned or [failed early](Self::fail_early).
    pub fn is_awaited(&self) -> bool {
        self.executor.upgrade().is_some_and(|executor| executor.ops.is_awaited(self.index))
    }

    /// How long until the operation times out. `None` once nobody waits: see [`is_awaited`](Self::is_awaited).
    pub fn time_left(&self) -> Option<Duration> {
        let executor = self.executor.upgrade()?;
        executor.ops.time_left(self.index, executor.tick())
    }

    /// Tells whoever waits that the operation failed, while the drive goes on having it: what was asked for
    /// may still happen. Only completing it says that it cannot any more; until then it counts as outstanding.
    pub fn fail_early(&self, error: IoError) {
        if let Some(executor) = self.executor.upgrade() {
            executor.ops.fail_early(self.index, error).hear(&executor, error);
        }
    }

    fn finish(&mut self, outcome: IoOutcome) {
        self.returned = true;
        if let Some(oversight) = &self.oversight {
            oversight.outstanding.set(oversight.outstanding.get() - 1);
        }
        let Some(executor) = self.executor.upgrade() else { return };
        if let Some(metered) = self.metered.take() {
            metered.end(executor.tick(), &outcome.result);
        }
        let (told, in_time, starter) = executor.ops.complete(self.index, outcome);
        starter.into_iter().for_each(|starter| executor.wake(starter));
        if let Some(oversight) = in_time {
            oversight.tell();
        }
        match told {
            Told::Nobody => {}
            Told::Task(task) => executor.wake(task),
            Told::OnReturn(whom, token, outcome) => whom.returned(token, outcome),
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if !self.returned {
            self.finish(IoOutcome::failed(IoError::new(IoErrorKind::Gone)));
        }
    }
}

/// The waiter's side of an operation in flight. Awaiting it gives the [`IoOutcome`].
#[must_use = "an operation in flight must be awaited or abandoned"]
pub struct Io {
    executor: Rc<Executor>,
    index: u32,
    finished: bool,
}

impl Io {
    /// A new operation: its waiter's and its drive's side.
    pub(crate) fn start(executor: &Rc<Executor>, terms: Terms) -> (Io, Completion) {
        let completion = Completion::start(executor, Waiter::Nobody, terms);
        (Io { executor: executor.clone(), index: completion.index, finished: false }, completion)
    }

    /// Stops waiting, on purpose: the operation goes on, and what it holds goes home when it returns.
    pub fn abandon(mut self) {
        self.finished = true;
        self.executor.ops.abandon(self.index);
    }
}

impl Future for Io {
    type Output = IoOutcome;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoOutcome> {
        assert!(!self.finished, "polled after it finished");
        let outcome = self.executor.ops.poll(self.index, &self.executor);
        self.finished = outcome.is_ready();
        outcome
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.executor.ops.abandon(self.index);
        if !self.executor.ops.killed.get() && !std::thread::panicking() {
            panic!("an operation in flight was dropped; await it or abandon it");
        }
    }
}
