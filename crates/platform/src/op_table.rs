//! The table of the operations in flight of an executor. See [`ops`](crate::ops).

use crate::error::{IoError, IoErrorKind};
use crate::outcome::IoOutcome;
use crate::oversight::{Exceeded, LimitNotice, Oversight, Terms, count};
use crate::time::Instant;
use crate::waiter::{OnReturn, TaskId, Waiter};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

const TIMED_OUT: IoError = IoError::new(IoErrorKind::TimedOut);
const LATE: IoError = IoError::new(IoErrorKind::Late);

/// The notification that is due when the drive has returned an operation; given without a borrow.
pub(crate) enum Notice {
    None,
    Task(TaskId),
    OnReturn(Rc<dyn OnReturn>, u32, IoOutcome),
}

enum State {
    Free,
    /// The drive has it.
    InFlight(Waiter),
    /// Returned, not yet taken.
    Done(IoOutcome),
    /// The drive still has it; its waiter was notified of a failure (mostly a timeout), or
    /// abandoned it.
    Expired {
        notified: bool,
        error: IoError,
    },
}

struct Slot {
    generation: u32,
    state: State,
    /// When its time limit passes.
    deadline: Instant,
    /// [`Terms::rest`], until that time begins.
    rest: Duration,
    oversight: Option<Rc<Oversight>>,
    exceeds: Option<Exceeded>,
    is_late: bool,
    is_overdue: bool,
    /// See [`Oversight::places`].
    has_place: bool,
}

impl Slot {
    /// Counts the operation as one that the drive has.
    fn take_place(&mut self) {
        self.has_place = true;
        if let Some(oversight) = &self.oversight {
            oversight.taken.set(oversight.taken.get() + 1);
        }
    }

    /// Frees the operation's place at the drive.
    fn leave_place(&mut self) {
        if let Some(oversight) =
            self.oversight.as_ref().filter(|_| std::mem::take(&mut self.has_place))
        {
            oversight.taken.set(oversight.taken.get() - 1);
        }
    }

    /// The task that starts queued operations, if it waits.
    fn starter(&self) -> Option<TaskId> {
        self.oversight.as_ref().and_then(|oversight| oversight.starter.take())
    }

    /// Fails the operation for its waiter, and returns the waiter; the drive still has it.
    fn fail(&mut self, error: IoError) -> Waiter {
        let State::InFlight(waiter) = &mut self.state else { return Waiter::None };
        let waiter = std::mem::take(waiter);
        // A task sees the state when it polls; other waiters are notified here.
        let notified = matches!(waiter, Waiter::OnReturn(..));
        self.state = State::Expired { notified, error };
        waiter
    }

    /// Handles a passed time limit.
    fn pass_limit(&mut self, notices: &mut Vec<LimitNotice>) {
        let watched = self.oversight.clone().filter(|oversight| oversight.is_watched());
        let Some(oversight) = watched else {
            let rest = std::mem::take(&mut self.rest);
            if !rest.is_zero() {
                self.deadline = self.deadline + rest;
                return; // The overseer is gone.
            }
            self.deadline = Instant::NEVER;
            self.leave_place();
            notices.extend(self.starter().map(LimitNotice::Starter));
            notices.push(LimitNotice::Waiter(self.fail(TIMED_OUT), TIMED_OUT));
            return;
        };
        let is_short = !self.rest.is_zero();
        let number = if is_short { &oversight.late } else { &oversight.overdue };
        if !is_short {
            oversight.exceeded.set(self.exceeds);
        }
        if count(number, true) {
            // Before the waiter: it may query the drive's state at once.
            notices.push(LimitNotice::Overseer(oversight.clone()));
        }
        if is_short {
            self.is_late = true;
            self.deadline = self.deadline + std::mem::take(&mut self.rest);
            notices.push(LimitNotice::Waiter(self.fail(LATE), LATE));
        } else {
            self.is_overdue = true;
            self.deadline = Instant::NEVER;
        }
    }

    /// Fails the operation for its waiter, and cancels its time limit.
    fn give_up(&mut self) -> (LimitNotice, bool) {
        self.deadline = Instant::NEVER;
        // `Member::give_up` has emptied the queue already.
        self.leave_place();
        let is_news = std::mem::take(&mut self.is_overdue)
            && self.oversight.as_ref().is_some_and(|oversight| count(&oversight.overdue, false));
        (LimitNotice::Waiter(self.fail(TIMED_OUT), TIMED_OUT), is_news)
    }

    /// Handles the return by the drive. The result is the oversight whose late or overdue count
    /// became zero.
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
    pub(crate) killed: Cell<bool>,
    /// The total time in which the process did not run. Deadlines are stored without it, so that
    /// all move when it grows.
    stood_still: Cell<Duration>,
    /// A lower bound of the deadlines in flight: the return of an operation does not raise it.
    earliest: Cell<Instant>,
}

impl OpTable {
    /// Adds a time in which the process did not run: no time limit includes it.
    pub(crate) fn stand_still(&self, time: Duration) {
        self.stood_still.set(self.stood_still.get() + time);
    }

    /// The total time in which the process did not run.
    pub(crate) fn stood_still(&self) -> Duration {
        self.stood_still.get()
    }

    /// Converts a time of the platform's clock to the form in which deadlines are stored.
    fn without_stops(&self, at: Instant) -> Instant {
        match at {
            Instant::NEVER => Instant::NEVER,
            Instant { ns } => Instant {
                ns: ns.saturating_sub(
                    u64::try_from(self.stood_still.get().as_nanos()).unwrap_or(u64::MAX),
                ),
            },
        }
    }

    /// The clock time of a deadline, if the process runs until then.
    fn by_the_clock(&self, deadline: Instant) -> Instant {
        match deadline {
            Instant::NEVER => Instant::NEVER,
            deadline => deadline + self.stood_still.get(),
        }
    }

    pub(crate) fn start(&self, waiter: Waiter, terms: &Terms) -> u32 {
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

    /// The drive receives a queued operation.
    pub(crate) fn begin(&self, index: u32, terms: &Terms) {
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

    /// Records the drive's outcome. Returns the notification for the waiter, the oversight whose
    /// overdue or late count changed to zero, and the task that starts queued operations.
    pub(crate) fn complete(
        &self,
        index: u32,
        outcome: IoOutcome,
    ) -> (Notice, Option<Rc<Oversight>>, Option<TaskId>) {
        self.in_flight.set(self.in_flight.get() - 1);
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        slot.leave_place();
        let starter = slot.starter();
        let in_time = slot.end_watch();
        if let State::InFlight(waiter) = &mut slot.state {
            let notified = match std::mem::take(waiter) {
                Waiter::OnReturn(whom, token) => {
                    self.release(slot, index);
                    Notice::OnReturn(whom, token, outcome)
                }
                Waiter::Task(task) => {
                    slot.state = State::Done(outcome);
                    Notice::Task(task)
                }
                Waiter::None => {
                    slot.state = State::Done(outcome);
                    Notice::None
                }
            };
            return (notified, in_time, starter);
        }
        self.complete_late(slot, index);
        drop(slots);
        // Dropped without a borrow: no waiter takes the outcome.
        drop(outcome);
        (Notice::None, in_time, starter)
    }

    /// The drive returns an operation that has failed for its waiter already.
    #[cold]
    fn complete_late(&self, slot: &mut Slot, index: u32) {
        match slot.state {
            State::Expired { notified: true, .. } => self.release(slot, index),
            // The waiter has not polled yet; it finds the error that it was woken for.
            State::Expired { error, .. } => slot.state = State::Done(IoOutcome::failed(error)),
            State::InFlight(_) | State::Free | State::Done(_) => {
                unreachable!("a completion is consumed by completing")
            }
        }
    }

    /// Polls an operation for the current task. `may_go_on`: whether that may take an outcome now.
    pub(crate) fn poll(
        &self,
        index: u32,
        current: impl FnOnce() -> TaskId,
        may_go_on: impl FnOnce() -> bool,
    ) -> Poll<IoOutcome> {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        match &mut slot.state {
            State::InFlight(waiter) => {
                *waiter = Waiter::Task(current());
                Poll::Pending
            }
            State::Expired { notified, error } => {
                *notified = true;
                Poll::Ready(IoOutcome::failed(*error))
            }
            State::Done(_) if !may_go_on() => Poll::Pending,
            state @ State::Done(_) => {
                let State::Done(outcome) = std::mem::replace(state, State::Free) else {
                    unreachable!()
                };
                slot.generation = slot.generation.wrapping_add(1);
                self.free.borrow_mut().push(index);
                Poll::Ready(outcome)
            }
            State::Free => {
                unreachable!(
                    "an operation is polled by its only handle, which knows when it is done"
                )
            }
        }
    }

    pub(crate) fn abandon(&self, index: u32) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        let unclaimed = match &mut slot.state {
            State::InFlight(_) | State::Expired { .. } => {
                slot.state = State::Expired { notified: true, error: TIMED_OUT };
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

    /// The earliest time limit of an operation in flight, if it is not after `bound`. Scans the
    /// operations only if the lower bound permits one.
    pub(crate) fn next_expiry(&self, bound: Instant) -> Option<Instant> {
        self.next_deadline(self.without_stops(bound)).map(|deadline| self.by_the_clock(deadline))
    }

    /// The same, in the form in which deadlines are stored.
    fn next_deadline(&self, bound: Instant) -> Option<Instant> {
        if self.in_flight.get() == 0 || self.earliest.get() > bound {
            return None;
        }
        let slots = self.slots.borrow();
        let earliest = slots.iter().map(|slot| slot.deadline).min().unwrap_or(Instant::NEVER);
        self.earliest.set(earliest);
        (earliest <= bound && earliest != Instant::NEVER).then_some(earliest)
    }

    /// A lower bound of the time limits in flight.
    pub(crate) fn earliest(&self) -> Instant {
        if self.in_flight.get() == 0 {
            Instant::NEVER
        } else {
            self.by_the_clock(self.earliest.get())
        }
    }

    /// The time left for an operation, if it has a waiter.
    pub(crate) fn time_left(&self, index: u32, now: Instant) -> Option<Duration> {
        let slot = &self.slots.borrow()[index as usize];
        match slot.state {
            State::InFlight(_) if slot.is_overdue => Some(Duration::ZERO),
            State::InFlight(_) => Some(slot.deadline.since(self.without_stops(now))),
            State::Free | State::Done(_) | State::Expired { .. } => None,
        }
    }

    pub(crate) fn is_awaited(&self, index: u32) -> bool {
        matches!(self.slots.borrow()[index as usize].state, State::InFlight(_))
    }

    /// Fails an operation for its waiter, and returns the waiter; the drive still has it.
    pub(crate) fn fail_early(&self, index: u32, error: IoError) -> Waiter {
        self.slots.borrow_mut()[index as usize].fail(error)
    }

    /// Handles passed time limits; returns the notifications that are due.
    pub(crate) fn expire(&self, now: Instant) -> Vec<LimitNotice> {
        let now = self.without_stops(now);
        let mut notices = Vec::new();
        if self.next_deadline(now).is_none() {
            return notices;
        }
        let mut slots = self.slots.borrow_mut();
        slots
            .iter_mut()
            .filter(|slot| slot.deadline <= now)
            .for_each(|slot| slot.pass_limit(&mut notices));
        notices
    }

    /// Fails all operations of a member; returns the notifications that are due.
    pub(crate) fn give_up(&self, oversight: &Rc<Oversight>) -> Vec<LimitNotice> {
        let is_its =
            |slot: &&mut Slot| slot.oversight.as_ref().is_some_and(|of| Rc::ptr_eq(of, oversight));
        let mut slots = self.slots.borrow_mut();
        let (mut notices, mut is_news) = (Vec::new(), false);
        for slot in slots.iter_mut().filter(is_its) {
            let (waiter, ends) = slot.give_up();
            notices.push(waiter);
            is_news |= ends;
        }
        notices.extend(is_news.then(|| LimitNotice::Overseer(oversight.clone())));
        notices
    }

    /// Removes the waiters of all operations.
    pub(crate) fn abandon_all(&self) {
        self.killed.set(true);
        let needs_no_task =
            |slot: &&mut Slot| matches!(&slot.state, State::InFlight(Waiter::OnReturn(..)));
        let mut slots = self.slots.borrow_mut();
        slots.iter_mut().for_each(|slot| slot.deadline = Instant::NEVER);
        let forgotten: Vec<Waiter> =
            slots.iter_mut().filter(needs_no_task).map(|slot| slot.fail(TIMED_OUT)).collect();
        drop(slots);
        // Without a borrow: a waiter may hold the last reference to a volume.
        for waiter in forgotten {
            if let Waiter::OnReturn(whom, token) = waiter {
                whom.forgotten(token);
            }
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }
}
