//! Regions with accepted stale parity: missing drives prevent a normal resync.
//!
//! # Fault model
//! A write was interrupted, and it is unknown which drives have it. While all data of the stripe is
//! readable, redundancy is computed anew. Where a drive is missing (out of service, or stale
//! there), only parity has its data. Parity may be older or newer than the data, and P older or
//! newer than Q. Such a volume starts only if an operator accepts the stale parity: blocks of the
//! missing drive may be wrong in these regions. The acceptance covers no other blocks: those of
//! other drives must survive further failures, as far as the level allows.
//!
//! # The rule
//! | missing data of a stripe | content, and result for the redundancy |
//! | --- | --- |
//! | none | all redundancy is computed anew from the data |
//! | one strip, of a drive that the acceptance covers | computed from P, or from Q where P cannot be read; the other parity is computed anew from that |
//! | two strips of such drives | computed from P and Q together, which stay unchanged |
//! | a strip of any other drive | unknown: a request that needs redundancy fails |
//!
//! A present drive's excluded blocks whose content is in redundancy alone are missing, and nothing
//! else of their strip: the rule is applied to each run of columns with the same missing strips.
//!
//! Punctured blocks of a missing drive's strip are zeros. If a crash interrupted a write of such
//! blocks before they left the list, redundancy may include the new content. So settling a stripe
//! updates redundancy with zeros for these blocks.
//!
//! # Volumes with a journal
//! The [`journal`](crate::stripe::journal) is replayed before the volume is served, and identifies
//! interrupted writes: all redundancy agrees, except for whole stripes that were being written. So
//! no acceptance is needed, and redundancy is valid for every drive, including one that fails
//! later. The regions are still settled by the same rule, because of those stripes.
//!
//! # Invariants
//! - An acceptance covers the drives missing from a region when it is given. Drives that fail later
//!   held acknowledged data.
//! - A stripe is *settled* by the rule, under its exclusive lock, before it is written, rebuilt or
//!   moved, and by the resync. After that its redundancy is trusted. Before, its missing data is
//!   read by the same rule.
//! - Settling writes only results of the rule, never their inputs: after an interruption, a retry
//!   has the same result.
//! - Unreadable blocks of a present drive are also computed by the rule and rewritten. Then all
//!   data of their columns is readable, and all redundancy is computed anew, since Q need not agree
//!   with P.
//! - The region stays unsynced, and marked, until all its stripes are settled: after an earlier
//!   crash the acceptance must be repeated.
//! - A region that is distrusted after a failed write no longer has accepted stale parity.

use crate::recovery::{Mend, Recovery};
use crate::stripe::{Attempt, Ended, Host, Trouble};
use layout::{CopyIndex, DataIndex, ParityIndex, Role};
use plan::Request;
use platform::locks::{ALL_COLUMNS, Mode};
use platform::{Durability, IoError, IoErrorKind, Slice};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// The work to settle some columns of a stripe.
enum Settling {
    /// None: no redundancy is left that could disagree.
    Nothing,
    /// All redundancy is computed anew; it includes this drive's part, which is not trusted until
    /// then.
    Renew(DriveSet),
    /// The missing data cannot be determined.
    Unknown,
}

/// The parts of a run of columns before, within and after columns in which a drive lacks blocks.
fn cut(
    (run, lacking): (ByteRange, DriveSet),
    lacked: ByteRange,
    drive: DriveIndex,
) -> impl Iterator<Item = (ByteRange, DriveSet)> {
    let within = run.intersection(lacked);
    let parts = match within.is_empty() {
        true => [(run, lacking), (within, lacking), (within, lacking)],
        false => [
            (ByteRange::from_to(run.start, within.start), lacking),
            (within, lacking.with(drive)),
            (ByteRange::from_to(within.end(), run.end()), lacking),
        ],
    };
    parts.into_iter().filter(|(part, _)| !part.is_empty())
}

impl Recovery {
    /// Whether a stripe must be settled before an operation that preserves its redundancy.
    pub(crate) fn is_doubtful(&self, stripe: StripeIndex) -> bool {
        let region = self.region_of(stripe);
        self.state().forced().contains(region)
            && !self.settled.contains(region, self.nth_of_region(region, stripe))
    }

    /// Whether a stripe is in a region with accepted stale parity.
    pub(crate) fn is_forced(&self, stripe: StripeIndex) -> bool {
        self.state().forced().contains(self.region_of(stripe))
    }

    /// The columns of a stripe, cut where the set of drives changes that lack blocks there.
    fn runs_of_columns(&self, stripe: StripeIndex) -> SmallVec<[(ByteRange, DriveSet); 1]> {
        let strip = ByteRange::new(ByteOffset::ZERO, self.geometry().strip().bytes());
        let mut runs = SmallVec::from_iter([(strip, DriveSet::EMPTY)]);
        for (drive, place) in self.lacking_places(stripe) {
            let Some(located) = self.locate(drive, place.start) else { continue };
            let lacked = ByteRange::new(ByteOffset(located.within.0), place.len);
            runs = runs.iter().flat_map(|run| cut(*run, lacked, drive)).collect();
        }
        runs
    }

    /// See the rule at the top. `lacking`: drives without their blocks in the columns concerned.
    fn settling(&self, stripe: StripeIndex, lacking: &DriveSet) -> Settling {
        let health = self.stripe_health(stripe, lacking);
        let map = self.map(stripe);
        let drive_of = |parity: u16| map.parity_cell(ParityIndex(parity)).map(|cell| cell.drive);
        let (p, q) = (drive_of(0), drive_of(1));
        let is_in = |set: &DriveSet, drive: Option<DriveIndex>| {
            drive.is_some_and(|drive| set.contains(drive))
        };
        let missing = self.state().missing_by_force(&self.regions, stripe, &health.readable);
        match (missing, q) {
            (None, _) => Settling::Unknown,
            (Some(0), _) if is_in(&health.writable, p) || is_in(&health.writable, q) => {
                Settling::Renew(DriveSet::EMPTY)
            }
            (Some(1), Some(drive))
                if is_in(&health.readable, p) && health.writable.contains(drive) =>
            {
                Settling::Renew(DriveSet::EMPTY.with(drive))
            }
            (Some(_), _) => Settling::Nothing,
        }
    }

    /// Settles a stripe, if it is doubtful. The caller holds it exclusively. Returns the drives
    /// that were not written although they have a part in it.
    ///
    /// # Errors
    /// When it cannot be settled: it stays unchanged.
    pub(crate) async fn settle_by_word(
        self: &Rc<Self>,
        stripe: StripeIndex,
    ) -> Result<DriveSet, IoError> {
        if !self.is_doubtful(stripe) {
            return Ok(DriveSet::EMPTY);
        }
        let mut skipped = DriveSet::EMPTY;
        loop {
            let lacking = self.lacking_places(stripe);
            for (columns, lacking) in self.runs_of_columns(stripe) {
                skipped = skipped.union(&self.settle_columns(stripe, columns, &lacking).await?);
            }
            skipped = skipped.union(&self.count_punctured_as_zeros(stripe).await?);
            // Repeat after a new exclusion: the remaining redundancy must agree with the rest of
            // the stripe.
            if self.lacking_places(stripe).iter().all(|place| lacking.contains(place)) {
                break;
            }
        }
        let region = self.region_of(stripe);
        // Unless it was distrusted or synced meanwhile.
        if self.state().forced().contains(region) {
            self.settled.insert(region, self.nth_of_region(region, stripe));
        }
        Ok(skipped)
    }

    /// Settles columns in which these drives lack their blocks. Returns the drives that were not
    /// written.
    ///
    /// # Errors
    /// When they cannot be settled.
    async fn settle_columns(
        self: &Rc<Self>,
        stripe: StripeIndex,
        columns: ByteRange,
        lacking: &DriveSet,
    ) -> Result<DriveSet, IoError> {
        match self.settling(stripe, lacking) {
            Settling::Nothing => Ok(DriveSet::EMPTY),
            Settling::Renew(unbelieved) => {
                self.bring_together(stripe, columns, &DriveSet::EMPTY, &unbelieved).await
            }
            Settling::Unknown if lacking.is_empty() => Err(IoError::new(IoErrorKind::Medium)),
            // The redundancy of excluded blocks is not trustworthy here: these are lost.
            Settling::Unknown => {
                self.mend(stripe, &self.unknown_places(stripe, columns), Mend::GiveUp).await?;
                match self.unknown_places(stripe, columns).is_empty() {
                    true => Box::pin(self.settle_columns(stripe, columns, &DriveSet::EMPTY)).await,
                    false => Err(IoError::new(IoErrorKind::Medium)),
                }
            }
        }
    }

    /// Updates redundancy so that punctured blocks of missing drives are zeros in it.
    /// Returns the drives that were not written.
    ///
    /// # Errors
    /// When it cannot be computed or written.
    async fn count_punctured_as_zeros(
        self: &Rc<Self>,
        stripe: StripeIndex,
    ) -> Result<DriveSet, IoError> {
        let mut skipped = DriveSet::EMPTY;
        if self.geometry().parity_strips() == 0 {
            return Ok(skipped);
        }
        let readable = self.stripe_health(stripe, &DriveSet::EMPTY).readable;
        let strip = self.geometry().strip().bytes();
        let missing: SmallVec<[DataIndex; 2]> = self
            .map(stripe)
            .cells()
            .filter_map(|(cell, role)| match role {
                Role::Data { index, .. } if !readable.contains(cell.drive) => Some(index),
                _ => None,
            })
            .collect();
        for index in missing {
            // Listed at its home, wherever it is now.
            let home = self.geometry().stripe_map(stripe).data_cell(index, CopyIndex(0));
            let all = ByteRange::new(home.offset, strip);
            let punctured: Vec<ByteRange> =
                self.state().punctured_within(home.drive, all).collect();
            for place in punctured {
                let columns = ByteRange::new(ByteOffset((place.start - home.offset).0), place.len);
                let zeros = self.count_as_zeros(stripe, index, columns).await?;
                skipped = skipped.union(&zeros);
            }
        }
        Ok(skipped)
    }

    /// The same for these columns of a missing strip. Where other blocks are missing too,
    /// redundancy cannot follow: they are given up.
    async fn count_as_zeros(
        self: &Rc<Self>,
        stripe: StripeIndex,
        index: DataIndex,
        columns: ByteRange,
    ) -> Result<DriveSet, IoError> {
        if !self.has_redundancy_in(stripe, columns) {
            return Ok(DriveSet::EMPTY); // None is left that could disagree.
        }
        let start = self.geometry().strip().bytes().0 * u64::from(index.0) + columns.start.0;
        let range = ByteRange::new(ByteOffset(start), columns.len);
        for is_given_up in [false, true] {
            let host = Host::Payload(Slice::zero(columns.len).into(), Durability::Durable);
            let request = Request::WriteZeroes { range };
            let (ended, _) =
                self.attempt(stripe, request, host, &mut Trouble::default(), &Attempt::HELD).await;
            match ended {
                Ended::Done { skipped, .. } => return Ok(skipped),
                Ended::Failed(error) => return Err(error),
                Ended::Lost | Ended::NeedsLock if !is_given_up => {
                    for sector in self.sectors_of(columns) {
                        self.take_for_lost(stripe, sector, Mend::GiveUp).await?;
                    }
                }
                Ended::Lost | Ended::NeedsLock
                    if self.is_determined(stripe, &DriveSet::EMPTY)
                        || !self.has_redundancy_in(stripe, columns) =>
                {
                    break;
                }
                Ended::Lost | Ended::NeedsLock => return Err(IoError::new(IoErrorKind::Medium)),
            }
        }
        Ok(DriveSet::EMPTY)
    }

    /// Whether redundancy of these columns can be read.
    fn has_redundancy_in(&self, stripe: StripeIndex, columns: ByteRange) -> bool {
        let lacking = self.unknown_places(stripe, columns);
        let lacking = lacking.iter().map(|(drive, _)| *drive).collect();
        let readable = self.stripe_health(stripe, &lacking).readable;
        self.map(stripe)
            .cells()
            .any(|(cell, role)| matches!(role, Role::P | Role::Q) && readable.contains(cell.drive))
    }

    /// Settles a stripe that is about to be written, if possible; the caller holds no lock.
    /// Otherwise the write works without redundancy, as in any unsynced region.
    pub(crate) async fn settle_before_write(self: &Rc<Self>, stripe: StripeIndex) {
        let is_unknown = |(_, lacking): &(ByteRange, DriveSet)| {
            matches!(self.settling(stripe, lacking), Settling::Unknown)
        };
        if self.runs_of_columns(stripe).iter().any(is_unknown) {
            return;
        }
        let key = self.lock_key(stripe);
        let _guard = self.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
        if let Err(error) = self.settle_by_word(stripe).await {
            tracing::debug!(volume = %self.name(), stripe = stripe.0, "not settled: {error}");
        }
    }
}
