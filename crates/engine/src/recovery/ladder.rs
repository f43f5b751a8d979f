//! What is done about a request on a stripe when bytes that it needs cannot be had: one ladder, and a table of who
//! climbs it how.
//!
//! # The table
//! A request is attempted; where it ends as lost because drives could not read some blocks, those are mended, and it is
//! attempted again by the next rung. Without anything that could not be read there is nothing to mend, and it stays lost.
//!
//! | request | rung | what cannot be read is | and then |
//! | --- | --- | --- | --- |
//! | [`WRITE`]: a host's write | 1 | not planned around | repaired where it can be ([`Mend::Look`]) |
//! | | 2 | planned around | given up where nothing gives it back ([`Mend::GiveUp`]): one block must not keep others from being written |
//! | | 3 | planned around | lost |
//! | [`MOVE`]: a copy, a strip that goes into the spare | 1, 2 | planned around | given up: one block must not keep all others where they are |
//! | | 3 | planned around | lost |
//! | [`RESTORE`]: a rebuild, a resync | 1 to 4 | planned around, unless copies differ | given up |
//! | | 5 | the same | lost |
//! | [`RESTORE_DOUBTFUL`]: the same of a stripe that is not settled | 1 to 4 | not planned around: redundancy that does not agree yet tells it, and is computed anew from that | given up |
//! | | 5 | the same | lost |
//!
//! What still cannot be had of a whole strip may be had column by column: what no host writes is tried in halves then, down to
//! single sectors ([`Recovery::recover_by_columns`]).
//!
//! A *read* climbs no ladder: it changes nothing, and where the whole of it cannot be had, less of it may
//! ([`reading`](crate::recovery::reading)). Checks, repairs of places and the redundancy over what was given up are attempted once.

use crate::members::Places;
use crate::recovery::{Mend, Recovery};
use crate::stripe::{Attempt, Ended, Host, Patience, Trouble};
use plan::Request;
use platform::{Durability, IoError, IoErrorKind, Slice};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// One attempt, and what is done about what could not be read, before the next.
struct Rung {
    patience: Patience,
    then: Option<Mend>,
}

const fn rung(patience: Patience, then: Option<Mend>) -> Rung {
    Rung { patience, then }
}

/// How often and by which means a request is attempted: a row of the table.
pub(crate) struct Ladder {
    rungs: &'static [Rung],
    /// Whether what is written comes from a host: blocks of it that were lost are not any more, and drives that did not
    /// take their part are known to have failed before it is done.
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

/// See the table. One that cannot read what it has just been written is no help: four times are enough.
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

/// A request that was done, perhaps after some mending.
pub(crate) struct Recovered {
    /// Drives of the array that were not written although they have a part in the stripe.
    pub(crate) skipped: DriveSet,
    /// What could not be read in the attempt that did it, and was planned around.
    pub(crate) around: Places,
    /// What could not be read before, and was given up where nothing gave it back.
    pub(crate) given_up: Vec<(DriveIndex, ByteRange)>,
}

impl Recovery {
    /// Has a request done by a ladder of the table. The caller holds the stripe, or the columns concerned, exclusively.
    ///
    /// # Errors
    /// When it cannot be done (`Medium`: for want of bytes that nothing gives back), when blocks that had to be given up
    /// could not be listed, or what has to be recorded before an acknowledgement could not be recorded.
    pub(crate) async fn recover(
        self: &Rc<Self>,
        stripe: StripeIndex,
        request: Request<'_>,
        mut host: Host,
        how: &Attempt,
        ladder: &'static Ladder,
    ) -> Result<Recovered, IoError> {
        let mut given_up = Vec::new();
        let mut unreadable = Places::new();
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
                    if !trouble.unkept.is_empty() {
                        Box::pin(self.put_back(stripe, trouble)).await?;
                    }
                    return Err(error);
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

    /// The same of what concerns columns of a stripe, and that no host writes: of all of them at once, and where that cannot be done, of
    /// as many as it takes.
    ///
    /// # Errors
    /// Those of [`Recovery::recover`].
    pub(crate) async fn recover_by_columns(
        self: &Rc<Self>,
        stripe: StripeIndex,
        request: impl Fn(ByteRange) -> Request<'static>,
        how: &Attempt,
        ladder: &'static Ladder,
    ) -> Result<Recovered, IoError> {
        let sector = self.spec.sector.bytes();
        let strip = ByteRange::new(ByteOffset::ZERO, self.geometry().strip().bytes());
        let mut all = Recovered { skipped: DriveSet::EMPTY, around: Places::new(), given_up: Vec::new() };
        let mut rest = vec![strip];
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
        self.recover(stripe, Request::WriteZeroes { range }, host, &Attempt::HELD, &WRITE).await.map(drop)
    }

    /// The blocks that are listed as lost and are about to be written anew. That they are not lost any more is durable
    /// with the write, or the next start would call lost what was acknowledged; and not before it, or a power cut would
    /// pass zeroes off as what is lost.
    fn rewritten_by(&self, stripe: StripeIndex, request: Request<'_>, host: &mut Host) -> Places {
        if !self.any_punctured() {
            return Places::new();
        }
        let ranges: &[ByteRange] = match &request {
            Request::Write { range } | Request::WriteZeroes { range } => std::slice::from_ref(range),
            Request::WriteExtents { extents, .. } => extents,
            _ => &[],
        };
        let rewritten: Places = ranges.iter().flat_map(|range| self.lost_within(stripe, *range)).collect();
        if let (false, Host::Payload(_, durability)) = (rewritten.is_empty(), host) {
            *durability = Durability::Durable;
        }
        rewritten
    }

    /// What has to be durable before a write is acknowledged: which lost blocks it wrote, and, by rule (a) of the promises,
    /// which drives did not take their part of it and are out.
    async fn record_write(self: &Rc<Self>, rewritten: &Places, skipped: &DriveSet) -> Result<(), IoError> {
        if !rewritten.is_empty() {
            self.healed_by_host(rewritten).await?;
        }
        self.recorded(skipped).await
    }
}
