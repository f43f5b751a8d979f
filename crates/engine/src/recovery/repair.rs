//! Repair of unreadable blocks.
//!
//! A repair locates the blocks (the drive may not report which ones of a strip failed), computes
//! them from redundancy, rewrites them in place (the drive then remaps the sectors), and reads them
//! again. If redundancy cannot restore them, their content is lost. The loss is listed (see
//! [`BlockList`](crate::BlockList)) before other content can take their place.
//!
//! # Invariants
//! - The columns are held exclusively throughout: no write happens between the search and the
//!   listing.
//! - If a drive refuses the zeros, or cannot read them afterwards, the block is *excluded*: it
//!   still counts as zeros ([`stripe::excluded`](crate::stripe)). A block that refuses restored
//!   data is excluded too: redundancy has its content.
//! - Blocks are *given up* only by work that cannot continue with them: a rebuild, a resync, a
//!   write to their stripe. Then all unreadable data blocks of these columns are listed, durably
//!   and on every shard; only then their places are filled with zeroes, so that new redundancy
//!   protects all others.
//! - A reader lists blocks as lost only if the loss is certain: no absent drive may return with
//!   them, and redundancy is trusted.

use crate::members::{Places, is_gone};
use crate::messages::ReportKind;
use crate::recovery::Recovery;
use crate::recovery::ladder::{RESTORE, RESTORE_DOUBTFUL};
use crate::stripe::{Attempt, Ended, Host, Trouble};
use plan::Request;
use platform::locks::{ALL_COLUMNS, Mode};
use platform::{IoError, IoErrorKind, Member};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// The most stripes of a volume that are queued for repair; others are found again by later reads.
const REPAIRS_WAITING: usize = 64;

/// The handling of blocks that redundancy cannot restore.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mend {
    /// List them, if they are certainly lost.
    Look,
    /// List them, and fill their places with zeroes, so that the rest of the stripe is usable.
    GiveUp,
}

/// The outcome of the repair of a run of blocks.
enum Repaired {
    /// They hold the correct data, and are readable.
    Healed,
    /// The drive refuses them.
    Refused(IoError),
    /// The sources cannot be read or written for now: the state is unknown, and a later read tries
    /// again.
    NotNow,
    /// Their content is lost.
    Lost,
}

impl Recovery {
    /// Repairs unreadable places of a stripe in a separate task. A read-only drive cannot be
    /// repaired: each read computes its unreadable blocks.
    pub(crate) fn repair_later(self: &Rc<Self>, stripe: StripeIndex, places: Places) {
        let is_read_only = |drive| self.drive_info(drive).is_some_and(|info| info.read_only);
        if places.iter().all(|(drive, _)| is_read_only(*drive)) {
            return;
        }
        let is_new = {
            let mut repairing = self.repairing.borrow_mut();
            repairing.len() < REPAIRS_WAITING && repairing.insert(stripe)
        };
        if !is_new {
            return;
        }
        let volume = self.clone();
        self.shard.env().spawn("repair", async move {
            if let Ok(_user) = volume.enter() {
                let _closed = volume.close_beside().await;
                let key = volume.lock_key(stripe);
                let _guard =
                    volume.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
                if let Err(error) = volume.mend(stripe, &places, Mend::Look).await {
                    tracing::debug!(
                        volume = %volume.name(),
                        stripe = stripe.0,
                        "not repaired: {error}"
                    );
                }
            }
            volume.repairing.borrow_mut().remove(&stripe);
        });
    }

    /// Repairs places of a stripe whose columns the caller holds exclusively.
    ///
    /// # Errors
    /// When blocks that had to be given up could not be listed, or their places could not be
    /// filled.
    pub(crate) async fn mend(
        self: &Rc<Self>,
        stripe: StripeIndex,
        places: &Places,
        how: Mend,
    ) -> Result<(), IoError> {
        if !self.is_live(stripe) || !self.is_initialised(stripe) {
            return Ok(()); // The place belongs to another layout, or is unused.
        }
        // Restorable blocks first: places filled with zeroes must not become sources.
        let mut lost = Places::new();
        for (drive, range) in merged(places) {
            let Ok(member) = self.member(drive) else { continue };
            let Ok(unreadable) = self.probe(drive, &member, range).await else { continue };
            if unreadable.is_empty() {
                // It is readable now, whatever the fault was.
                self.report_medium_error(drive, range, true, true);
            }
            for run in unreadable {
                // Blocks that count as zeros are known to be lost; redundancy restores the others
                // of their columns.
                let zeros = self.zeros_within(drive, run);
                let mut at = run.start;
                for zero in
                    zeros.iter().copied().chain([ByteRange::new(run.end(), ByteCount::ZERO)])
                {
                    let before = ByteRange::from_to(at, zero.start);
                    at = zero.end();
                    if !before.is_empty() {
                        self.mend_run(stripe, drive, &member, before, &mut lost).await?;
                    }
                }
            }
        }
        let mut columns: Vec<ByteRange> = Vec::new();
        for (drive, range) in lost {
            let Some(located) = self.locate(drive, range.start) else { continue };
            columns.push(ByteRange::new(ByteOffset(located.within.0), range.len));
        }
        columns.sort_unstable_by_key(|range| range.start);
        columns.dedup();
        for columns in columns {
            self.take_for_lost(stripe, columns, how).await?;
        }
        Ok(())
    }

    pub(super) fn sectors_of(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + use<> {
        let sector = self.spec.sector.bytes();
        (0..range.len.0 / sector.0)
            .map(move |nth| ByteRange::new(range.start + sector * nth, sector))
    }

    /// The unreadable sectors of a drive in a range, extended to its write units. A run ends with
    /// its strip: with as many copies as drives, a drive has several strips of a stripe.
    ///
    /// # Errors
    /// Those of [`Recovery::can_read`].
    pub(super) async fn probe(
        self: &Rc<Self>,
        drive: DriveIndex,
        member: &Rc<Member>,
        range: ByteRange,
    ) -> Result<Vec<ByteRange>, IoError> {
        let (unit, strip) = (self.spec.sector.bytes(), self.geometry().strip().bytes());
        let begins_strip = |at: ByteOffset| at.0.is_multiple_of(strip.0);
        let mut rest = vec![range.align_out(self.repair_unit)];
        let mut unreadable: Vec<ByteRange> = Vec::new();
        while let Some(range) = rest.pop() {
            if self.can_read(drive, member, range).await? {
                continue;
            }
            if range.len <= unit {
                match unreadable.last_mut() {
                    Some(last) if last.end() == range.start && !begins_strip(range.start) => {
                        last.len += range.len;
                    }
                    _ => unreadable.push(range),
                }
                continue;
            }
            let middle = (range.start + ByteCount(range.len.0 / 2)).align_up(unit);
            rest.push(ByteRange::from_to(middle, range.end()));
            rest.push(ByteRange::from_to(range.start, middle));
        }
        Ok(unreadable)
    }

    /// Whether a drive can read a range, and none of it is excluded.
    ///
    /// When the drive is out of use, or fails because it does not respond: further sectors are not
    /// tried. When the state of the blocks is unknown, as the system temporarily could not carry
    /// out the read.
    pub(super) async fn can_read(
        self: &Rc<Self>,
        drive: DriveIndex,
        member: &Rc<Member>,
        range: ByteRange,
    ) -> Result<bool, IoError> {
        if !self.in_service().contains(drive) {
            return Err(IoError::new(IoErrorKind::Gone));
        }
        if self.state().is_excluded(drive, range) {
            return Ok(false);
        }
        let _scratch =
            self.shard.reserve_scratch(platform::BufferPool::block_size(range.len)).await;
        let buf = self.take_scratch(range.len, false);
        match member.read(self.raw(range.start), SmallVec::from_iter([buf])).await.result {
            Ok(_) => Ok(true),
            Err(error) if is_gone(&error) => {
                if self.members.is_in_slot(drive, member) {
                    self.fail_drive(drive, error, "read");
                }
                Err(error)
            }
            Err(error) if error.is_of_blocks() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Repairs unreadable blocks of a drive: all at once, or as many as possible. Adds the others
    /// to `lost`, sector by sector.
    async fn mend_run(
        self: &Rc<Self>,
        stripe: StripeIndex,
        drive: DriveIndex,
        member: &Rc<Member>,
        run: ByteRange,
        lost: &mut Places,
    ) -> Result<(), IoError> {
        let unit = self.spec.sector.bytes();
        let mut rest = vec![run];
        while let Some(range) = rest.pop() {
            match self.repair_run(stripe, drive, member, range).await {
                Repaired::Healed => self.report_medium_error(drive, range, true, true),
                Repaired::Refused(error) => {
                    self.report_medium_error(drive, range, true, false);
                    self.not_repaired(drive, error);
                    self.exclude_unrepaired(drive, member, range).await?;
                }
                Repaired::NotNow => {}
                Repaired::Lost if range.len > unit => {
                    let middle = (range.start + ByteCount(range.len.0 / 2)).align_up(unit);
                    rest.push(ByteRange::from_to(middle, range.end()));
                    rest.push(ByteRange::from_to(range.start, middle));
                }
                Repaired::Lost => {
                    // It was not rewritten, and every read would find it again: counting it would
                    // take the drive out of use because of one lost block.
                    self.report_medium_error(drive, range, false, false);
                    lost.push((drive, range));
                }
            }
        }
        Ok(())
    }

    /// A drive refused restored data of a range: the sectors that it cannot read are excluded, so
    /// that later writes of them are verified. Punctured blocks are not: redundancy may not count
    /// them as zeros yet.
    ///
    /// # Errors
    /// When it cannot be listed.
    async fn exclude_unrepaired(
        self: &Rc<Self>,
        drive: DriveIndex,
        member: &Rc<Member>,
        range: ByteRange,
    ) -> Result<(), IoError> {
        let Ok(unreadable) = self.probe(drive, member, range).await else { return Ok(()) };
        let sectors = unreadable.iter().flat_map(|run| self.sectors_of(run.intersection(range)));
        let is_punctured = |sector: &ByteRange| {
            self.home_of(drive, *sector)
                .is_some_and(|(home, named)| self.state().is_punctured(home, named))
        };
        let sectors: Vec<ByteRange> = sectors.filter(|sector| !is_punctured(sector)).collect();
        self.exclude(drive, member, sectors).await
    }

    /// Computes blocks of a drive from the others of their stripe, writes them, and reads them
    /// again.
    async fn repair_run(
        self: &Rc<Self>,
        stripe: StripeIndex,
        drive: DriveIndex,
        member: &Rc<Member>,
        range: ByteRange,
    ) -> Repaired {
        let Some(located) = self.locate(drive, range.start) else { return Repaired::Lost };
        let columns = ByteRange::new(ByteOffset(located.within.0), range.len);
        let request = Request::Repair { culprit: located.role, columns };
        let how = Attempt { unbelieved: DriveSet::EMPTY.with(drive), ..Attempt::HELD };
        let mut trouble = Trouble::default();
        let (ended, _) = self.attempt(stripe, request, Host::None, &mut trouble, &how).await;
        match ended {
            Ended::Done { skipped, .. } if skipped.contains(drive) => {
                Repaired::Refused(IoError::new(IoErrorKind::Gone))
            }
            Ended::Done { .. } => match self.can_read(drive, member, range).await {
                Ok(true) => {
                    self.count(|counters| counters.repaired += 1);
                    Repaired::Healed
                }
                Ok(false) => Repaired::Refused(IoError::new(IoErrorKind::Medium)),
                Err(error) if is_gone(&error) => Repaired::Refused(error),
                Err(_) => Repaired::NotNow,
            },
            Ended::Lost | Ended::NeedsLock => Repaired::Lost,
            Ended::Failed(error) if trouble.unread.is_some() || error.spares_drive() => {
                Repaired::NotNow
            }
            Ended::Failed(error) => Repaired::Refused(error),
        }
    }

    fn report_medium_error(
        self: &Rc<Self>,
        drive: DriveIndex,
        range: ByteRange,
        recovered: bool,
        healed: bool,
    ) {
        let kind = ReportKind::MediumError { drive, range, recovered, healed };
        self.shard.report_later(self.spec.id, self.name(), kind);
    }

    /// Makes the redundancy of a stripe agree, and writes its parts on the drives in `filling`,
    /// which are stale in it. The caller holds the stripe exclusively. Blocks that cannot be
    /// restored are given up. Returns the drives that were not written although they have a part in
    /// the stripe.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) async fn restore_stripe(
        self: &Rc<Self>,
        stripe: StripeIndex,
        filling: &DriveSet,
    ) -> Result<DriveSet, IoError> {
        if !self.is_forced(stripe) {
            return self.bring_together(stripe, plan::WHOLE_STRIP, filling, &DriveSet::EMPTY).await;
        }
        let skipped = self.settle_by_word(stripe).await?.minus(filling);
        match filling.is_empty() {
            true => Ok(skipped),
            false => Ok(skipped.union(
                &self.bring_together(stripe, plan::WHOLE_STRIP, filling, &DriveSet::EMPTY).await?,
            )),
        }
    }

    /// The same for several stripes of a region, each held exclusively by the caller: together
    /// where possible.
    ///
    /// # Errors
    /// When it fails for one of them.
    pub(crate) async fn restore_stripes(
        self: &Rc<Self>,
        stripes: &[StripeIndex],
        filling: &DriveSet,
    ) -> Result<DriveSet, IoError> {
        let how = Attempt { filling: *filling, ..Attempt::HELD };
        let request = Request::Resync { columns: plan::WHOLE_STRIP };
        if !stripes.iter().any(|stripe| self.is_forced(*stripe))
            && let Some(done) = self.attempt_together(stripes, request, None, &how).await
        {
            return done;
        }
        let mut skipped = DriveSet::EMPTY;
        for stripe in stripes {
            skipped = skipped.union(&self.restore_stripe(*stripe, filling).await?);
        }
        Ok(skipped)
    }

    /// The same for columns of a stripe ([`plan::WHOLE_STRIP`]: all) whose redundancy is trusted,
    /// or whose data is all readable.
    /// `unbelieved`: drives whose part is computed anew, not read.
    pub(crate) async fn bring_together(
        self: &Rc<Self>,
        stripe: StripeIndex,
        columns: ByteRange,
        filling: &DriveSet,
        unbelieved: &DriveSet,
    ) -> Result<DriveSet, IoError> {
        let ladder = if self.is_doubtful(stripe) { &RESTORE_DOUBTFUL } else { &RESTORE };
        let how = Attempt { filling: *filling, unbelieved: *unbelieved, ..Attempt::HELD };
        let request = |columns| Request::Resync { columns };
        let done = self.recover_by_columns(stripe, columns, request, &how, ladder).await?;
        if !done.around.is_empty() {
            self.mend(stripe, &done.around, Mend::Look).await?;
        }
        for (drive, range) in done.given_up.into_iter().filter(|_| !filling.is_empty()) {
            let Some(located) = self.locate(drive, range.start) else { continue };
            let columns = ByteRange::new(ByteOffset(located.within.0), range.len);
            for columns in self.punctured_columns(stripe, columns) {
                self.settle(stripe, columns, filling).await?;
            }
        }
        Ok(done.skipped)
    }
}

/// Merges places that touch or overlap.
pub(super) fn merged(places: &Places) -> Places {
    let mut sorted = places.clone();
    sorted.sort_unstable_by_key(|(drive, range)| (drive.0, range.start));
    let mut merged = Places::new();
    for (drive, range) in sorted {
        match merged.last_mut() {
            Some((last_drive, last)) if *last_drive == drive && range.start <= last.end() => {
                *last = ByteRange::from_to(last.start, last.end().max(range.end()));
            }
            _ => merged.push((drive, range)),
        }
    }
    merged
}
