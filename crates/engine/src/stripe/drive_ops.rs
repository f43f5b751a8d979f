//! Concurrent operations on several drives of a volume, for a task that awaits them.
//!
//! # Invariants
//! - All operations are started before the first is awaited, and all are awaited, whatever their
//!   results: none is left in flight.
//! - The caller interprets results ([`Answered`]): a write, a journal record, a trim and a flush
//!   have different policies. The policy for a *replacement* is always the same: if it missed an
//!   operation, it must not take the slot as it is. [`Lacking::settled`] waits until that is
//!   certain.
//! - A drive without a volatile cache skips flushes, and one without write-zeroes gets zeros as
//!   data: callers see neither.

use crate::members::{Drives, Replacement};
use platform::{Io, IoError, IoErrorKind, Member, Zeroes};
use smallvec::SmallVec;
use std::rc::Rc;
use units::DriveIndex;

/// An operation on a drive.
pub(crate) enum DriveOp {
    /// A plain I/O.
    Io(Io),
    /// Write zeros, which every drive supports: rare and large.
    Zeroes(Box<Zeroes>),
    /// A flush, which a drive without a volatile cache may refuse.
    Flush(Io),
}

impl DriveOp {
    pub(crate) fn zeroes(zeroes: Zeroes) -> DriveOp {
        DriveOp::Zeroes(Box::new(zeroes))
    }

    pub(super) async fn result(&mut self) -> Result<(), IoError> {
        let outcome = match self {
            DriveOp::Io(io) => io.await,
            DriveOp::Zeroes(zeroes) => zeroes.as_mut().await,
            DriveOp::Flush(flush) => match flush.await {
                outcome
                    if outcome
                        .result
                        .is_err_and(|error| error.kind == IoErrorKind::NotSupported) =>
                {
                    return Ok(());
                }
                outcome => outcome,
            },
        };
        outcome.result.map(drop)
    }
}

/// The drive of an operation.
enum Asked {
    /// The slot's drive, or `None` if the slot is empty.
    Slot(Option<Rc<Member>>),
    /// The replacement that is being filled for the slot.
    Replacement(Rc<Replacement>),
}

/// The result from the drive of a slot.
pub(crate) struct Answered {
    pub(crate) slot: DriveIndex,
    /// The drive. `None`: the slot was empty, and the result is `Gone`.
    pub(crate) member: Option<Rc<Member>>,
    pub(crate) result: Result<(), IoError>,
}

impl Answered {
    /// Whether another drive has the slot by now. Then this result is irrelevant: the other drive
    /// is not current in any region that is being written.
    pub(crate) fn is_swapped(&self, drives: &Drives) -> bool {
        self.member.as_ref().is_some_and(|member| !drives.members.is_in_slot(self.slot, member))
    }
}

/// Replacements that missed an operation.
#[must_use = "a replacement that lacks something must be known to before that is acknowledged"]
#[derive(Default)]
pub(crate) struct Lacking(SmallVec<[(DriveIndex, Rc<Replacement>, IoError); 1]>);

impl Lacking {
    /// Removes replacements whose flush was busy: they miss no data. Returns the reason as well.
    /// For flushes only: a replacement that missed a write lacks it, whatever the reason.
    pub(crate) fn without_busy(mut self) -> (Lacking, Option<IoError>) {
        let is_busy = |error: &IoError| error.kind == IoErrorKind::Busy;
        let busy = self.0.iter().map(|(_, _, error)| *error).find(is_busy);
        self.0.retain(|(_, _, error)| !is_busy(error));
        (self, busy)
    }

    /// Waits until none of them can take its slot as it is. The host is not affected otherwise.
    ///
    /// # Errors
    /// When that cannot be made certain: then nothing must be acknowledged.
    pub(crate) async fn settled(self, drives: &Rc<Drives>) -> Result<(), IoError> {
        let mut result = Ok(());
        for (slot, replacement, error) in self.0 {
            result =
                Box::pin(drives.replacement_lacks(slot, &replacement, error)).await.and(result);
        }
        result
    }
}

/// Operations in flight on drives of one volume.
#[derive(Default)]
pub(crate) struct DriveOps {
    under_way: SmallVec<[(DriveIndex, Asked, Option<DriveOp>); 8]>,
}

impl DriveOps {
    /// Starts an operation on the drive of a slot. An empty slot returns `Gone`. A drive that
    /// failed since the plan was made is skipped with `TimedOut`: it may not respond at all.
    pub(crate) fn ask(
        &mut self,
        drives: &Drives,
        slot: DriveIndex,
        op: impl FnOnce(&Rc<Member>) -> DriveOp,
    ) {
        let member = drives.members.get(slot);
        let asked = member.as_ref().filter(|_| drives.in_service().contains(slot));
        let op = asked.map(op);
        self.under_way.push((slot, Asked::Slot(member), op));
    }

    /// Starts an operation on the replacement for a slot, if any. A replacement that already lacks
    /// data is skipped, and lacks this operation too.
    pub(crate) fn ask_replacement(
        &mut self,
        drives: &Drives,
        slot: DriveIndex,
        op: impl FnOnce(&Rc<Member>) -> DriveOp,
    ) {
        if let Some(replacement) = drives.members.replacement(slot) {
            let op = replacement.failed.get().is_none().then(|| op(&replacement.member));
            self.under_way.push((slot, Asked::Replacement(replacement), op));
        }
    }

    /// Waits for all operations; `take` gets the results of slots' drives in the order of their
    /// start.
    pub(crate) async fn finish(
        mut self,
        drives: &Drives,
        mut take: impl FnMut(Answered),
    ) -> Lacking {
        let mut lacking = Lacking::default();
        for (slot, asked, op) in &mut self.under_way {
            let result = match op {
                Some(op) => op.result().await,
                None if matches!(asked, Asked::Slot(Some(_))) => {
                    Err(IoError::new(IoErrorKind::TimedOut))
                }
                None => Err(IoError::new(IoErrorKind::Gone)),
            };
            let slot = *slot;
            drives.shard.env().trace(
                "drive answered",
                u64::from(slot.0),
                u64::from(result.is_ok()),
            );
            match asked {
                Asked::Slot(member) => take(Answered { slot, member: member.take(), result }),
                Asked::Replacement(replacement) => {
                    lacking.0.extend(result.err().map(|error| (slot, replacement.clone(), error)));
                }
            }
        }
        lacking
    }
}
