//! Operations on several drives of a volume at once: the one place where they are started and awaited.
//!
//! # Invariants
//! - Every operation is started before the first is awaited, and every one is awaited, whatever became of the others:
//!   none is left in flight.
//! - What an answer means is the caller's to say ([`Answered`]): a write, a record of the journal, a trim and a flush each
//!   have another policy. What it means that a *replacement* did not do its part is the same for all: it lacks something,
//!   and must never take the slot as it is. [`Lacking::settled`] waits until that is certain.
//! - A drive without a volatile cache has nothing to flush, and one that cannot write zeroes by itself is sent some: no
//!   caller sees either.

use crate::members::{Drives, Replacement};
use platform::{Io, IoError, IoErrorKind, Member, Zeroes};
use smallvec::SmallVec;
use std::rc::Rc;
use units::DriveIndex;

/// An operation that a drive has been asked for.
pub(crate) enum DriveOp {
    /// As it is.
    Io(Io),
    /// Zeroes, which every drive can take: seldom, and large.
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
                outcome if outcome.result.is_err_and(|error| error.kind == IoErrorKind::NotSupported) => {
                    return Ok(());
                }
                outcome => outcome,
            },
        };
        outcome.result.map(drop)
    }
}

/// Who was asked.
enum Asked {
    /// The slot's drive; none, if there is none.
    Slot(Option<Rc<Member>>),
    /// The one that is being filled for the slot.
    Replacement(Rc<Replacement>),
}

/// What the drive of a slot answered.
pub(crate) struct Answered {
    pub(crate) slot: DriveIndex,
    /// The drive that was asked. `None`: the slot had none, and the result is `Gone`.
    pub(crate) member: Option<Rc<Member>>,
    pub(crate) result: Result<(), IoError>,
}

impl Answered {
    /// Whether another drive has the slot by now: what this one did or failed to do is of no interest, as the other is
    /// not current in any region that is being written.
    pub(crate) fn is_swapped(&self, drives: &Drives) -> bool {
        self.member.as_ref().is_some_and(|member| !drives.members.is_in_slot(self.slot, member))
    }
}

/// Replacements that did not do their part.
#[must_use = "a replacement that lacks something must be known to before that is acknowledged"]
#[derive(Default)]
pub(crate) struct Lacking(SmallVec<[(DriveIndex, Rc<Replacement>, IoError); 1]>);

impl Lacking {
    /// Without those that could not flush for now, and lack nothing; and why they could not. Only of a flush: what was not written is
    /// lacking whatever the reason.
    pub(crate) fn without_busy(mut self) -> (Lacking, Option<IoError>) {
        let is_busy = |error: &IoError| error.kind == IoErrorKind::Busy;
        let busy = self.0.iter().map(|(_, _, error)| *error).find(is_busy);
        self.0.retain(|(_, _, error)| !is_busy(error));
        (self, busy)
    }

    /// Waits until it is certain that none of them takes its slot as it is. The host is not affected otherwise.
    ///
    /// # Errors
    /// When that cannot be made certain: then nothing must be acknowledged.
    pub(crate) async fn settled(self, drives: &Rc<Drives>) -> Result<(), IoError> {
        let mut result = Ok(());
        for (slot, replacement, error) in self.0 {
            result = Box::pin(drives.replacement_lacks(slot, &replacement, error)).await.and(result);
        }
        result
    }
}

/// Operations under way on drives of one volume.
#[derive(Default)]
pub(crate) struct DriveOps {
    under_way: SmallVec<[(DriveIndex, Asked, Option<DriveOp>); 8]>,
}

impl DriveOps {
    /// Asks the drive of a slot. A slot without one answers `Gone`. One that went out since that was planned is not asked: a drive that does
    /// not answer would be waited for again.
    pub(crate) fn ask(&mut self, drives: &Drives, slot: DriveIndex, op: impl FnOnce(&Rc<Member>) -> DriveOp) {
        let member = drives.members.get(slot);
        let asked = member.as_ref().filter(|_| drives.in_service().contains(slot));
        let op = asked.map(op);
        self.under_way.push((slot, Asked::Slot(member), op));
    }

    /// Asks the drive that is being filled for a slot, if there is one. One that lacks something already is not asked,
    /// and lacks this too.
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

    /// Waits for all of them; `take` gets what slots' drives answered, in the order in which they were asked.
    pub(crate) async fn finish(mut self, drives: &Drives, mut take: impl FnMut(Answered)) -> Lacking {
        let mut lacking = Lacking::default();
        for (slot, asked, op) in &mut self.under_way {
            let result = match op {
                Some(op) => op.result().await,
                None if matches!(asked, Asked::Slot(Some(_))) => Err(IoError::new(IoErrorKind::TimedOut)),
                None => Err(IoError::new(IoErrorKind::Gone)),
            };
            let slot = *slot;
            drives.shard.env().trace("drive answered", u64::from(slot.0), u64::from(result.is_ok()));
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
