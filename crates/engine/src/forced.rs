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
//! # The journal's word
//! Where a volume has a [`journal`](crate::journal), it is replayed before the volume is served, and tells what was interrupted: all
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

use crate::regions::{RegionIndex, RegionSet};
use crate::volume::Volume;
use env::locks::{ALL_COLUMNS, Mode};
use env::{IoError, IoErrorKind};
use layout::{ParityIndex, Role};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{DriveIndex, DriveSet, StripeIndex};

/// What the word was given for, and how far it has been made good.
#[derive(Default)]
pub(crate) struct Forced {
    regions: RefCell<RegionSet>,
    /// By slot, regions among them in which its content was missing when the word was given.
    missing: RefCell<Vec<RegionSet>>,
    /// Whether it is about whatever goes missing: the journal tells what was interrupted.
    of_journal: bool,
    /// Stripes that are settled, by region: bit by bit from the region's first.
    settled: RefCell<BTreeMap<RegionIndex, Vec<u64>>>,
}

impl Forced {
    /// Nothing is forced yet. `of_journal`: it is the journal that gives its word, and not an operator.
    pub(crate) fn new(of_journal: bool) -> Forced {
        Forced { of_journal, ..Forced::default() }
    }

    fn contains(&self, region: RegionIndex) -> bool {
        let regions = self.regions.borrow();
        !regions.is_empty() && regions.contains(region)
    }

    fn is_settled(&self, region: RegionIndex, nth: u64) -> bool {
        let settled = self.settled.borrow();
        let word = settled.get(&region).and_then(|words| words.get((nth / 64) as usize));
        word.is_some_and(|word| word >> (nth % 64) & 1 == 1)
    }

    fn set_settled(&self, region: RegionIndex, nth: u64) {
        if !self.contains(region) {
            return; // It was distrusted meanwhile, or is synced.
        }
        let mut settled = self.settled.borrow_mut();
        let (words, at) = (settled.entry(region).or_default(), (nth / 64) as usize);
        if words.len() <= at {
            words.resize(at + 1, 0);
        }
        words[at] |= 1 << (nth % 64);
    }

    /// These regions are synced, or distrusted: the word is of no consequence there any more.
    pub(crate) fn forget(&self, regions: &RegionSet) {
        if self.regions.borrow().is_empty() {
            return;
        }
        self.regions.borrow_mut().remove_all(regions);
        self.missing.borrow_mut().iter_mut().for_each(|missing| missing.remove_all(regions));
        self.settled.borrow_mut().retain(|region, _| !regions.contains(*region));
    }

    /// Whether the word is about what a slot held in a region.
    fn is_about(&self, slot: DriveIndex, region: RegionIndex) -> bool {
        let missing = self.missing.borrow();
        self.of_journal || missing.get(slot.as_usize()).is_some_and(|regions| regions.contains(region))
    }
}

/// What settling a stripe takes.
enum Settling {
    /// Nothing: no redundancy is left over that could disagree.
    Nothing,
    /// All redundancy is computed anew; this drive's is among it, and is not to be believed until then.
    Renew(DriveSet),
    /// Nobody can tell what is missing.
    Unknown,
}

impl Volume {
    /// The operator's word for regions, as the volume is now. It counts for those that are unsynced.
    pub(crate) fn force(&self, regions: &RegionSet) {
        if self.geometry().parity_strips() == 0 {
            return; // Copies need no word: one of them speaks for all.
        }
        let doubtful = self.dirty.unsynced();
        let regions = regions.clone().minus(&regions.clone().minus(&doubtful));
        self.forced.forget(&regions);
        let (readable, _) = self.health.usable();
        let missing = |slot: DriveIndex| match readable.contains(slot) {
            true => {
                let stale = self.members.stale_regions(slot);
                stale.clone().minus(&stale.minus(&regions))
            }
            false => regions.clone(),
        };
        let mut all = self.forced.missing.borrow_mut();
        all.resize(self.geometry().drives().as_usize(), RegionSet::EMPTY);
        for slot in self.geometry().drives().indexes() {
            all[slot.as_usize()].insert_all(&missing(slot));
        }
        self.forced.regions.borrow_mut().insert_all(&regions);
    }

    fn nth_of_region(&self, region: RegionIndex, stripe: StripeIndex) -> u64 {
        stripe.0 - self.regions.stripes_of(region).start
    }

    /// Whether a stripe is to be settled before anything is done that has to keep its redundancy.
    pub(crate) fn is_doubtful(&self, stripe: StripeIndex) -> bool {
        let region = self.region_of(stripe);
        self.forced.contains(region) && !self.forced.is_settled(region, self.nth_of_region(region, stripe))
    }

    /// Whether a stripe is of a region that was forced.
    pub(crate) fn is_forced(&self, stripe: StripeIndex) -> bool {
        self.forced.contains(self.region_of(stripe))
    }

    /// Whether by the word the redundancy of a stripe of an unsynced region may be used, with these drives to be read.
    pub(crate) fn is_trusted_by_word(
        &self,
        region: RegionIndex,
        stripe: StripeIndex,
        readable: &DriveSet,
    ) -> bool {
        self.forced.contains(region)
            && (self.forced.is_settled(region, self.nth_of_region(region, stripe))
                || self.missing_by_word(region, stripe, readable).is_some_and(|missing| missing > 0))
    }

    /// How many data strips of a stripe cannot be read, if the word is about all of them.
    fn missing_by_word(
        &self,
        region: RegionIndex,
        stripe: StripeIndex,
        readable: &DriveSet,
    ) -> Option<usize> {
        let mut missing = 0;
        for (cell, role) in self.map(stripe).cells() {
            if matches!(role, Role::Data { .. }) && !readable.contains(cell.drive) {
                if !self.forced.is_about(cell.drive, region) {
                    return None;
                }
                missing += 1;
            }
        }
        Some(missing)
    }

    /// By the rule at the top.
    fn settling(&self, stripe: StripeIndex) -> Settling {
        let health = self.stripe_health(stripe, &DriveSet::EMPTY);
        let map = self.map(stripe);
        let drive_of = |parity: u16| map.parity_cell(ParityIndex(parity)).map(|cell| cell.drive);
        let (p, q) = (drive_of(0), drive_of(1));
        let is_in =
            |set: &DriveSet, drive: Option<DriveIndex>| drive.is_some_and(|drive| set.contains(drive));
        match (self.missing_by_word(self.region_of(stripe), stripe, &health.readable), q) {
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
        let skipped = match self.settling(stripe) {
            Settling::Nothing => DriveSet::EMPTY,
            Settling::Renew(unbelieved) => self.bring_together(stripe, &DriveSet::EMPTY, &unbelieved).await?,
            Settling::Unknown => return Err(IoError::new(IoErrorKind::Medium)),
        };
        let region = self.region_of(stripe);
        self.forced.set_settled(region, self.nth_of_region(region, stripe));
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
            tracing::debug!(volume = %self.spec.name, stripe = stripe.0, "not settled: {error}");
        }
    }
}
