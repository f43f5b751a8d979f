//! Who watches over the operations of a drive that take too long.
//!
//! # Invariants
//! - A drive that is watched over does not lose an operation by a time limit alone: one that is *overdue* stays in flight, and its waiter waits on,
//!   until the drive returns it or whoever watches [gives up](crate::Member::give_up) on the drive. So nobody goes on without the last drive
//!   that has something, and all that wait for one drive are told at once.
//! - A read with a short limit is *late* when that has passed: its waiter hears of that ([`IoErrorKind::Late`](crate::IoErrorKind::Late)) and
//!   may look elsewhere; the drive still has it, and it becomes overdue like any other.
//! - An operation counts as late or overdue until the drive returns it.
//! - A drive has a bounded number of operations at once: each has a *place* from the moment when the drive is asked until it returns it, or
//!   nobody waits for the drive any longer. Time limits begin with the place. What waits for one ([`crate::Member`]) does not age.

use crate::error::IoError;
use crate::executor::{Executor, TaskId};
use crate::ops::Waiter;
use crate::time::Instant;
use crate::traffic::{Metered, Operation};
use std::cell::{Cell, RefCell};
use std::fmt::{Display, Formatter};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Whoever watches over the operations of a drive.
///
/// It is called from within whatever a drive or the executor is about: it starts no operation, and borrows nothing that a drive or a task may
/// hold borrowed. It may wake and spawn tasks.
pub trait Overseer {
    /// The drive has operations that are late or overdue, as the member says, where it had none before, or the other way round.
    fn changed(&self);
}

/// What is known of the operations of a member.
#[derive(Default)]
pub(crate) struct Oversight {
    /// Operations that the drive has not returned.
    pub(crate) outstanding: Cell<u32>,
    /// Those of which the short limit has passed.
    pub(crate) late: Cell<u32>,
    /// Those of which the time limit has passed.
    pub(crate) overdue: Cell<u32>,
    /// The last that became overdue.
    pub(crate) exceeded: Cell<Option<Exceeded>>,
    /// How many operations the drive has at once at most; `None`: as many as there are.
    pub(crate) places: Cell<Option<u32>>,
    /// How many have a place.
    pub(crate) taken: Cell<u32>,
    /// Starts operations that wait for a place.
    pub(crate) starter: Cell<Option<TaskId>>,
    overseer: RefCell<Option<Weak<dyn Overseer>>>,
}

impl Oversight {
    pub(crate) fn watch(&self, overseer: Weak<dyn Overseer>) {
        *self.overseer.borrow_mut() = Some(overseer);
    }

    pub(crate) fn watch_no_more(&self) {
        *self.overseer.borrow_mut() = None;
    }

    /// Whether anybody watches, so that time limits do not decide by themselves.
    pub(crate) fn is_watched(&self) -> bool {
        self.overseer.borrow().as_ref().is_some_and(|overseer| overseer.strong_count() > 0)
    }

    /// Whether the drive may have one more.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.places.get().is_none_or(|places| self.taken.get() < places)
    }

    /// Whoever watches is to look.
    pub(crate) fn tell(&self) {
        let overseer = self.overseer.borrow().as_ref().and_then(Weak::upgrade);
        if let Some(overseer) = overseer {
            overseer.changed();
        }
    }
}

/// A time limit that an operation exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exceeded {
    /// What the drive was asked.
    pub operation: Operation,
    /// How long it had for that.
    pub limit: Duration,
}

impl Display for Exceeded {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "a {} takes longer than {:?}", self.operation.name(), self.limit)
    }
}

/// Counts one more or one less. Whether there were none before, or are none now.
pub(crate) fn count(number: &Cell<u32>, is_more: bool) -> bool {
    let before = number.get();
    number.set(if is_more { before + 1 } else { before - 1 });
    before == 0 || number.get() == 0
}

/// Who hears that an operation takes too long.
pub(crate) enum Heard {
    /// Whoever waits for it: it has failed for them.
    Waiter(Waiter, IoError),
    /// Whoever watches over the drive.
    Overseer(Rc<Oversight>),
    /// Whoever starts what waits for a place.
    Starter(TaskId),
}

impl Heard {
    pub(crate) fn hear(self, executor: &Executor) {
        match self {
            Heard::Waiter(waiter, error) => waiter.hear(executor, error),
            Heard::Overseer(oversight) => oversight.tell(),
            Heard::Starter(task) => executor.wake(task),
        }
    }
}

/// On what terms an operation starts.
pub(crate) struct Terms {
    /// When its time is up. Never, of what has no place yet.
    pub(crate) deadline: Instant,
    /// Whether the drive is asked at once.
    pub(crate) has_place: bool,
    /// How much more the drive has when its waiter does not wait on: not zero of a read with a short limit.
    pub(crate) rest: Duration,
    /// Where it counts as outstanding until the drive returns it, and who watches over it.
    pub(crate) oversight: Option<Rc<Oversight>>,
    /// The limit, and of what. `None` of what does not count as traffic.
    pub(crate) exceeds: Option<Exceeded>,
    /// Ends when the drive returns it.
    pub(crate) metered: Option<Metered>,
}

impl Terms {
    /// Those of an operation over which nobody watches.
    pub(crate) fn until(deadline: Instant) -> Terms {
        Terms {
            deadline,
            has_place: true,
            rest: Duration::ZERO,
            oversight: None,
            exceeds: None,
            metered: None,
        }
    }
}
