//! Regions whose redundancy an operator forces as it is: drives are missing that could have told.
//!
//! # Fault model
//! A write was cut off, and what it wrote to some drives and not to others is not known. While all data of the stripe
//! can be read that does no harm: redundancy is computed anew. Where a drive is missing (out, or stale there), what it
//! held can be told from parity only, which may be older or newer than the data, and P older or newer than Q. A volume
//! that is started like that needs the operator's word: blocks of the missing drive may read wrongly in these regions.
//! The word is about nothing else: blocks of other drives must survive the loss of those too, as far as the level goes.
//!
//! # The rule
//! | data that a stripe misses | what it is, and what becomes of the redundancy |
//! | --- | --- |
//! | none | all redundancy is computed anew from the data |
//! | one strip, of a drive that the word is about | what P says, or Q where P cannot be read; the other one is computed anew from that |
//! | two strips of such drives | what P and Q say together, as they are |
//! | a strip of any other drive | unknown: a request that needs redundancy fails |
//!
//! Punctured blocks of a missing strip are zeros. If a crash cut off a write of such blocks before they left
//! the list, redundancy may include the new content. So, when the stripe is settled, redundancy is updated
//! with zeros for these blocks.
//!
//! # The journal's word
//! Where a volume has a [`journal`](crate::stripe::journal), it is replayed before the volume is served, and tells what was interrupted: all
//! redundancy agrees but that of whole stripes which were being written. So no operator is asked, and what redundancy says
//! counts for every drive, also for one that goes out later. The regions are still settled by the same rule, for the sake of
//! those stripes.
//!
//! # Invariants
//! - The word of an operator is about the drives that are missing in a region when it is given, and no others: one that fails later held
//!   what hosts were promised.
//! - A stripe is *settled* by the rule, held exclusively, before it is written, rebuilt or moved, and by the resync.
//!   From then on its redundancy is trusted as any other. Before, what is missing of it is read by the same rule.
//! - Settling writes only what the rule computes and never what it computes from: cut off and begun anew, it comes to
//!   the same.
//! - Blocks of a drive that is there and cannot read them are told, and written anew, by the rule as well; with them all data of
//!   their columns are there, and *then* all redundancy is computed anew: P told them, and Q need not agree.
//! - The region stays unsynced, and marked, until all its stripes are settled: a crash before that needs the word again.
//! - A region that is distrusted, because a write to it failed, is not forced any more.

use crate::recovery::{Mend, Recovery};
use crate::stripe::{Attempt, Ended, Host, Trouble};
use layout::{CopyIndex, DataIndex, ParityIndex, Role};
use plan::Request;
use platform::locks::{ALL_COLUMNS, Mode};
use platform::{Durability, IoError, IoErrorKind, Slice};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// What settling a stripe takes.
enum Settling {
    /// Nothing: no redundancy is left over that could disagree.
    Nothing,
    /// All redundancy is computed anew; this drive's is among it, and is not to be believed until then.
    Renew(DriveSet),
    /// Nobody can tell what is missing.
    Unknown,
}

impl Recovery {
    /// Whether a stripe is to be settled before anything is done that has to keep its redundancy.
    pub(crate) fn is_doubtful(&self, stripe: StripeIndex) -> bool {
        let region = self.region_of(stripe);
        self.state().forced().contains(region)
            && !self.settled.contains(region, self.nth_of_region(region, stripe))
    }

    /// Whether a stripe is of a region that was forced.
    pub(crate) fn is_forced(&self, stripe: StripeIndex) -> bool {
        self.state().forced().contains(self.region_of(stripe))
    }

    /// By the rule at the top.
    fn settling(&self, stripe: StripeIndex) -> Settling {
        // What a drive did not keep is missing, as if the drive were.
        let health = self.stripe_health(stripe, &self.lacking(stripe));
        let map = self.map(stripe);
        let drive_of = |parity: u16| map.parity_cell(ParityIndex(parity)).map(|cell| cell.drive);
        let (p, q) = (drive_of(0), drive_of(1));
        let is_in =
            |set: &DriveSet, drive: Option<DriveIndex>| drive.is_some_and(|drive| set.contains(drive));
        let missing = self.state().missing_by_force(&self.regions, stripe, &health.readable);
        match (missing, q) {
            (None, _) => Settling::Unknown,
            (Some(0), _) if is_in(&health.writable, p) || is_in(&health.writable, q) => {
                Settling::Renew(DriveSet::EMPTY)
            }
            (Some(1), Some(drive)) if is_in(&health.readable, p) && health.writable.contains(drive) => {
                Settling::Renew(DriveSet::EMPTY.with(drive))
            }
            (Some(_), _) => Settling::Nothing,
        }
    }

    /// Settles a stripe, if it is doubtful. The caller holds it exclusively. Which drives were not written although
    /// they have a part in it.
    ///
    /// # Errors
    /// When it cannot be settled: it stays as it is.
    pub(crate) async fn settle_by_word(self: &Rc<Self>, stripe: StripeIndex) -> Result<DriveSet, IoError> {
        if !self.is_doubtful(stripe) {
            return Ok(DriveSet::EMPTY);
        }
        let mut skipped = DriveSet::EMPTY;
        loop {
            let lacking = self.lacking(stripe);
            match self.settling(stripe) {
                Settling::Nothing => {}
                Settling::Renew(unbelieved) => {
                    let renewed = self.bring_together(stripe, &DriveSet::EMPTY, &unbelieved).await?;
                    skipped = skipped.union(&renewed);
                }
                // Nothing vouches for what redundancy says of blocks that a drive did not keep: these are lost.
                Settling::Unknown if !lacking.is_empty() => {
                    self.mend(stripe, &self.lacking_places(stripe), Mend::GiveUp).await?;
                    match self.lacking(stripe) == lacking {
                        true => return Err(IoError::new(IoErrorKind::Medium)),
                        false => continue,
                    }
                }
                Settling::Unknown => return Err(IoError::new(IoErrorKind::Medium)),
            }
            skipped = skipped.union(&self.count_punctured_as_zeros(stripe).await?);
            // A drive that did not keep what it was given has less to say than it seemed: what said it is to agree with the rest.
            if self.lacking(stripe).minus(&lacking).is_empty() {
                break;
            }
        }
        let region = self.region_of(stripe);
        // Unless it was distrusted meanwhile, or is synced.
        if self.state().forced().contains(region) {
            self.settled.insert(region, self.nth_of_region(region, stripe));
        }
        Ok(skipped)
    }

    /// Updates redundancy so that punctured blocks of missing strips are zeros in it.
    /// Returns the drives that were not written.
    ///
    /// # Errors
    /// When it cannot be computed, or not be written.
    async fn count_punctured_as_zeros(self: &Rc<Self>, stripe: StripeIndex) -> Result<DriveSet, IoError> {
        let mut skipped = DriveSet::EMPTY;
        if self.geometry().parity_strips() == 0 {
            return Ok(skipped);
        }
        let readable = self.stripe_health(stripe, &self.lacking(stripe)).readable;
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
            // Listed where it belongs, wherever it lies now.
            let home = self.geometry().stripe_map(stripe).data_cell(index, CopyIndex(0));
            let all = ByteRange::new(home.offset, strip);
            let punctured: Vec<ByteRange> = self.state().punctured_within(home.drive, all).collect();
            for place in punctured {
                let start = strip.0 * u64::from(index.0) + (place.start - home.offset).0;
                let request = Request::WriteZeroes { range: ByteRange::new(ByteOffset(start), place.len) };
                let host = Host::Payload(Slice::zero(place.len).into(), Durability::Durable);
                let (ended, _) =
                    self.attempt(stripe, request, host, &mut Trouble::default(), &Attempt::HELD).await;
                match ended {
                    Ended::Done { skipped: of_this, .. } => skipped = skipped.union(&of_this),
                    Ended::Lost | Ended::NeedsLock => return Err(IoError::new(IoErrorKind::Medium)),
                    Ended::Failed(error) => return Err(error),
                }
            }
        }
        Ok(skipped)
    }

    /// Settles a stripe that is about to be written, if that can be done; the caller holds nothing. Where it cannot,
    /// the write has to do without redundancy, as in any region that is unsynced.
    pub(crate) async fn settle_before_write(self: &Rc<Self>, stripe: StripeIndex) {
        if matches!(self.settling(stripe), Settling::Unknown) {
            return;
        }
        let key = self.lock_key(stripe);
        let _guard = self.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
        if let Err(error) = self.settle_by_word(stripe).await {
            tracing::debug!(volume = %self.name(), stripe = stripe.0, "not settled: {error}");
        }
    }
}
