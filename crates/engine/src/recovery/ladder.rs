//! Retry policies for requests on a stripe with unreadable blocks.
//!
//! # The table
//! A request is attempted. If it fails because drives could not read some blocks, those are
//! repaired, and the next attempt follows. If no block was unreadable, there is nothing to repair,
//! and the request stays lost.
//!
//! | request | attempt | unreadable blocks are | and then |
//! | --- | --- | --- | --- |
//! | [`WRITE`]: a host's write | 1 | not planned around | repaired where possible ([`Mend::Look`]) |
//! | | 2 | planned around | given up where they cannot be restored ([`Mend::GiveUp`]): one block must not prevent writes to others |
//! | | 3 | planned around | lost |
//! | [`MOVE`]: a copy, a strip that moves into the spare | 1, 2 | planned around | given up: one block must not prevent the move of all others |
//! | | 3 | planned around | lost |
//! | [`RESTORE`]: a rebuild, a resync | 1 to 4 | planned around, unless copies differ | given up |
//! | | 5 | the same | lost |
//! | [`RESTORE_DOUBTFUL`]: the same for a stripe that is not settled | 1 to 4 | not planned around: stale redundancy restores them, and is computed anew from that | given up |
//! | | 5 | the same | lost |
//!
//! If a whole strip cannot be restored, its columns may be: work without host data is retried in
//! halves, down to single sectors ([`Recovery::recover_by_columns`]).
//!
//! A *read* has no retry policy: it changes nothing, and is split instead
//! ([`reading`](crate::recovery::reading)). Checks, repairs of places and redundancy over blocks
//! given up are attempted once.

use crate::members::Places;
use crate::recovery::{Mend, Recovery};
use crate::stripe::{Attempt, Ended, Host, Patience, Trouble};
use plan::Request;
use platform::{Durability, IoError, IoErrorKind, Slice};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// One attempt, and the repair of unreadable blocks before the next.
struct Rung {
    patience: Patience,
    then: Option<Mend>,
}

const fn rung(patience: Patience, then: Option<Mend>) -> Rung {
    Rung { patience, then }
}

/// The retry policy of a request: a row of the table.
pub(crate) struct Ladder {
    rungs: &'static [Rung],
    /// Whether a host wrote the data: lost blocks in it are no longer lost, and the failure of
    /// skipped drives is recorded before it is acknowledged.
    is_of_host: bool,
}

/// See the table.
pub(crate) const WRITE: Ladder = Ladder {
    rungs: &[
        rung(Patience::Repair, Some(Mend::Look)),
        rung(Patience::PlanAround, Some(Mend::GiveUp)),
        rung(Patience::PlanAround, None),
    ],
    is_of_host: true,
};

/// See the table.
pub(crate) const MOVE: Ladder = Ladder {
    rungs: &[
        rung(Patience::PlanAround, Some(Mend::GiveUp)),
        rung(Patience::PlanAround, Some(Mend::GiveUp)),
        rung(Patience::PlanAround, None),
    ],
    is_of_host: false,
};

/// See the table. A drive that cannot read newly written blocks does not recover: four attempts are
/// enough.
pub(crate) const RESTORE: Ladder = Ladder {
    rungs: &[
        rung(Patience::OneCopy, Some(Mend::GiveUp)),
        rung(Patience::OneCopy, Some(Mend::GiveUp)),
        rung(Patience::OneCopy, Some(Mend::GiveUp)),
        rung(Patience::OneCopy, Some(Mend::GiveUp)),
        rung(Patience::OneCopy, None),
    ],
    is_of_host: false,
};

/// See the table.
pub(crate) const RESTORE_DOUBTFUL: Ladder = Ladder {
    rungs: &[
        rung(Patience::Repair, Some(Mend::GiveUp)),
        rung(Patience::Repair, Some(Mend::GiveUp)),
        rung(Patience::Repair, Some(Mend::GiveUp)),
        rung(Patience::Repair, Some(Mend::GiveUp)),
        rung(Patience::Repair, None),
    ],
    is_of_host: false,
};

/// A request that succeeded, possibly after repairs.
pub(crate) struct Recovered {
    /// Drives of the array that were not written although they have a part in the stripe.
    pub(crate) skipped: DriveSet,
    /// Blocks that were unreadable in the successful attempt, and were planned around.
    pub(crate) around: Places,
    /// Blocks that were unreadable before, and were given up if they could not be restored.
    pub(crate) given_up: Vec<(DriveIndex, ByteRange)>,
}

impl Recovery {
    /// Executes a request with a retry policy. The caller holds the stripe, or the columns
    /// concerned, exclusively.
    ///
    /// # Errors
    /// When it fails (`Medium`: bytes cannot be restored), when blocks that had to be given up
    /// could not be listed, or when a record required before the acknowledgement failed.
    pub(crate) async fn recover(
        self: &Rc<Self>,
        stripe: StripeIndex,
        request: Request<'_>,
        host: Host,
        how: &Attempt,
        ladder: &'static Ladder,
    ) -> Result<Recovered, IoError> {
        self.recover_after(Places::new(), stripe, request, host, how, ladder).await
    }

    /// Does a host's write that a [stripe operation](crate::stripe::StripeOp) has not begun to
    /// write. The caller holds the columns exclusively. `unreadable`: blocks that the operation
    /// could not read.
    ///
    /// # Errors
    /// Those of [`Recovery::recover`].
    pub(crate) async fn write_after(
        self: &Rc<Self>,
        unreadable: Places,
        stripe: StripeIndex,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        if !unreadable.is_empty() {
            self.mend(stripe, &unreadable, Mend::Look).await?;
        }
        let (request, host) = (Request::Write { range }, Host::Payload(data.into(), durability));
        let how = &Attempt::HELD;
        self.recover_after(unreadable, stripe, request, host, how, &WRITE).await.map(drop)
    }

    /// The same as [`Recovery::recover`]. `unreadable`: blocks that could not be read before; what
    /// is written over them is read back.
    async fn recover_after(
        self: &Rc<Self>,
        mut unreadable: Places,
        stripe: StripeIndex,
        request: Request<'_>,
        mut host: Host,
        how: &Attempt,
        ladder: &'static Ladder,
    ) -> Result<Recovered, IoError> {
        let mut given_up = Vec::new();
        for rung in ladder.rungs {
            let rewritten = match ladder.is_of_host {
                true => self.rewritten_by(stripe, request, &mut host),
                false => Places::new(),
            };
            let mut trouble = Trouble::default();
            let how = how.with(rung.patience);
            let (ended, back) = self.attempt(stripe, request, host, &mut trouble, &how).await;
            host = back;
            match (ended, rung.then) {
                (Ended::Done { skipped, .. }, _) => {
                    if ladder.is_of_host && !(rewritten.is_empty() && unreadable.is_empty()) {
                        Box::pin(self.confirm(stripe, &rewritten, &unreadable)).await?;
                    }
                    if ladder.is_of_host && !(rewritten.is_empty() && skipped.is_empty()) {
                        Box::pin(self.record_write(&rewritten, &skipped)).await?;
                    }
                    return Ok(Recovered { skipped, around: trouble.places, given_up });
                }
                (Ended::Failed(error), _) => {
                    return self.refused_write(stripe, error, trouble).await.and(Err(error));
                }
                (Ended::Lost | Ended::NeedsLock, Some(mend)) if !trouble.is_empty() => {
                    unreadable.extend(trouble.places.iter().copied());
                    Box::pin(self.mend(stripe, &trouble.places, mend)).await?;
                    given_up.extend(trouble.places.into_iter().filter(|_| mend == Mend::GiveUp));
                }
                (Ended::Lost | Ended::NeedsLock, _) => break,
            }
        }
        Err(IoError::new(IoErrorKind::Medium))
    }

    /// The same for columns of a stripe ([`plan::WHOLE_STRIP`]: all) without host data: all of them
    /// at once, and if that fails, in smaller parts.
    ///
    /// # Errors
    /// Those of [`Recovery::recover`].
    pub(crate) async fn recover_by_columns(
        self: &Rc<Self>,
        stripe: StripeIndex,
        columns: ByteRange,
        request: impl Fn(ByteRange) -> Request<'static>,
        how: &Attempt,
        ladder: &'static Ladder,
    ) -> Result<Recovered, IoError> {
        let sector = self.spec.sector.bytes();
        let strip = ByteRange::new(ByteOffset::ZERO, self.geometry().strip().bytes());
        let mut all =
            Recovered { skipped: DriveSet::EMPTY, around: Places::new(), given_up: Vec::new() };
        let mut rest = vec![columns.intersection(strip)];
        while let Some(columns) = rest.pop() {
            let asked = if columns == strip { plan::WHOLE_STRIP } else { columns };
            match self.recover(stripe, request(asked), Host::None, how, ladder).await {
                Ok(part) => {
                    all.skipped = all.skipped.union(&part.skipped);
                    all.around.extend(part.around);
                    all.given_up.extend(part.given_up);
                }
                Err(error) if error.kind == IoErrorKind::Medium && columns.len > sector => {
                    let middle = (columns.start + ByteCount(columns.len.0 / 2)).align_up(sector);
                    rest.push(ByteRange::from_to(middle, columns.end()));
                    rest.push(ByteRange::from_to(columns.start, middle));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Writes zeroes to bytes of a stripe that the caller holds exclusively.
    ///
    /// # Errors
    /// Those of [`Recovery::recover`].
    pub(crate) async fn write_zeroes(
        self: &Rc<Self>,
        stripe: StripeIndex,
        range: ByteRange,
    ) -> Result<(), IoError> {
        let host = Host::Payload(Slice::zero(range.len).into(), Durability::Cached);
        self.recover(stripe, Request::WriteZeroes { range }, host, &Attempt::HELD, &WRITE)
            .await
            .map(drop)
    }

    /// The lost blocks that are about to be rewritten. Their removal from the list becomes durable
    /// with the write: later, a restart would lose acknowledged data; earlier, a power cut would
    /// return zeroes for lost blocks.
    fn rewritten_by(&self, stripe: StripeIndex, request: Request<'_>, host: &mut Host) -> Places {
        if !self.any_punctured() {
            return Places::new();
        }
        let ranges: &[ByteRange] = match &request {
            Request::Write { range } | Request::WriteZeroes { range } => {
                std::slice::from_ref(range)
            }
            Request::WriteExtents { extents, .. } => extents,
            _ => &[],
        };
        let rewritten: Places =
            ranges.iter().flat_map(|range| self.lost_within(stripe, *range)).collect();
        if let (false, Host::Payload(_, durability)) = (rewritten.is_empty(), host) {
            *durability = Durability::Durable;
        }
        rewritten
    }

    /// A request has failed: puts back the content of the blocks that were refused.
    ///
    /// # Errors
    /// The request's error, or that of putting back.
    pub(crate) async fn refused_write(
        self: &Rc<Self>,
        stripe: StripeIndex,
        error: IoError,
        trouble: Trouble,
    ) -> Result<(), IoError> {
        if !trouble.unkept.is_empty() {
            Box::pin(self.put_back(stripe, trouble)).await?;
        }
        Err(error)
    }

    /// Records what a write requires before its acknowledgement: the lost blocks that it wrote,
    /// and, by rule (a) of `ARCHITECTURE.md`, the failed drives that it skipped.
    pub(crate) async fn record_write(
        self: &Rc<Self>,
        rewritten: &Places,
        skipped: &DriveSet,
    ) -> Result<(), IoError> {
        if !rewritten.is_empty() {
            self.healed_by_host(rewritten).await?;
        }
        self.recorded(skipped).await
    }
}
