//! Oversight of drive operations that take too long.
//!
//! # Invariants
//! - With an overseer, no operation fails by its time limit alone. An *overdue* operation stays in
//!   flight, and its waiter waits, until the drive returns it or the overseer [gives
//!   up](crate::Member::give_up) the drive. So no waiter continues before the overseer has decided,
//!   and all waiters of a drive are notified together.
//! - A read that exceeds its short limit is *late*: its waiter is notified
//!   ([`IoErrorKind::Late`](crate::IoErrorKind::Late)) and may use redundancy. The drive still has
//!   the read, which may become overdue like any other.
//! - An operation counts as late or overdue until the drive returns it.
//! - A drive has a bounded number of operations. Each occupies a *place* from its start at the
//!   drive until the drive returns it or its waiter gives up. The time limit starts with the place:
//!   a queued operation ([`crate::Member`]) does not age.

use crate::error::IoError;
use crate::time::Instant;
use crate::traffic::{Metered, Operation};
use crate::waiter::{TaskId, Waiter};
use std::cell::{Cell, RefCell};
use std::fmt::{Display, Formatter};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Watches over the operations of a drive.
///
/// A drive or the executor calls it in the middle of its work. So it starts no operation, and
/// borrows nothing that a drive or a task may hold borrowed. It may wake and spawn tasks.
pub trait Overseer {
    /// The first operation of the drive became late or overdue, or the last one returned; the
    /// member has the state.
    fn changed(&self);
}

/// The state of a member's operations.
#[derive(Default)]
pub(crate) struct Oversight {
    /// Operations that the drive has not returned.
    pub(crate) outstanding: Cell<u32>,
    /// Those that have exceeded the short limit.
    pub(crate) late: Cell<u32>,
    /// Those that have exceeded the time limit.
    pub(crate) overdue: Cell<u32>,
    /// The limit that was exceeded last.
    pub(crate) exceeded: Cell<Option<Exceeded>>,
    /// The maximum number of operations at the drive; `None`: unlimited.
    pub(crate) places: Cell<Option<u32>>,
    /// The number of operations at the drive.
    pub(crate) taken: Cell<u32>,
    /// The task that starts queued operations.
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

    /// Whether there is an overseer, so that time limits alone do not fail operations.
    pub(crate) fn is_watched(&self) -> bool {
        self.overseer.borrow().as_ref().is_some_and(|overseer| overseer.strong_count() > 0)
    }

    /// Whether the drive has a free place.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.places.get().is_none_or(|places| self.taken.get() < places)
    }

    /// Notifies the overseer of a change.
    pub(crate) fn tell(&self) {
        let overseer = self.overseer.borrow().as_ref().and_then(Weak::upgrade);
        if let Some(overseer) = overseer {
            overseer.changed();
        }
    }
}

/// An exceeded time limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exceeded {
    /// The operation.
    pub operation: Operation,
    /// The limit.
    pub limit: Duration,
}

impl Display for Exceeded {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "a {} takes longer than {:?}", self.operation.name(), self.limit)
    }
}

/// Counts up or down. Returns whether the number was or became zero.
pub(crate) fn count(number: &Cell<u32>, is_more: bool) -> bool {
    let before = number.get();
    number.set(if is_more { before + 1 } else { before - 1 });
    before == 0 || number.get() == 0
}

/// A notification about an operation that takes too long.
pub(crate) enum LimitNotice {
    /// To the waiter: the operation has failed.
    Waiter(Waiter, IoError),
    /// To the overseer of the drive.
    Overseer(Rc<Oversight>),
    /// To the task that starts queued operations.
    Starter(TaskId),
}

impl LimitNotice {
    pub(crate) fn notify(self, wake: impl FnOnce(TaskId)) {
        match self {
            LimitNotice::Waiter(waiter, error) => waiter.notify(wake, error),
            LimitNotice::Overseer(oversight) => oversight.tell(),
            LimitNotice::Starter(task) => wake(task),
        }
    }
}

/// The terms of an operation.
pub(crate) struct Terms {
    /// Its deadline; never for a queued operation.
    pub(crate) deadline: Instant,
    /// Whether the drive receives it at once.
    pub(crate) has_place: bool,
    /// The time left at the drive after a short limit; zero for other operations.
    pub(crate) rest: Duration,
    /// Counts it as outstanding until the drive returns it, and has the overseer.
    pub(crate) oversight: Option<Rc<Oversight>>,
    /// The limit and its operation. `None` for operations that do not count as traffic.
    pub(crate) exceeds: Option<Exceeded>,
    /// Its measurement, which ends when the drive returns it.
    pub(crate) metered: Option<Metered>,
}

impl Terms {
    /// The terms of an operation without oversight.
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
