//! What becomes of blocks that a drive could not read.
//!
//! They are looked for (the drive may not say which of a strip's blocks it was), computed from redundancy, written
//! anew in place (a drive then uses other sectors for them), and read again. Where redundancy cannot help, their
//! content is lost, and that is listed (see [`BlockList`](crate::BlockList)) before anything is done that
//! could pass for it.
//!
//! # Invariants
//! - All of it happens while the columns concerned are held exclusively: no write comes between looking and listing.
//! - A drive that refuses the zeros, or cannot read them afterwards, has the block *excluded*: it counts as zeros all the same
//!   ([`stripe::excluded`](crate::stripe)). So does one that does not take what redundancy gave back: there it is in redundancy.
//! - Blocks are *given up* only by whoever cannot go on with them: a rebuild, a resync, a write to their stripe. Then all
//!   data blocks of these columns that cannot be had are listed, durably and on every shard; only then their places
//!   are filled with zeroes, so that redundancy can be computed again and protects all others.
//! - A reader lists what is lost only where that is beyond doubt: nobody is absent who might come back with it, and
//!   redundancy is to be trusted.

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

/// Stripes of a volume that may wait to be repaired at a time; what is beyond is met again when it is read again.
const REPAIRS_WAITING: usize = 64;

/// What to do with blocks that redundancy cannot give back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mend {
    /// List them, if it is beyond doubt that they are lost.
    Look,
    /// List them, and fill their places with zeroes, so that the rest of the stripe can be worked with.
    GiveUp,
}

/// How the repair of a run of blocks ended.
enum Repaired {
    /// They hold what they should, and can be read.
    Healed,
    /// The drive does not take them.
    Refused(IoError),
    /// What it takes cannot be read or written for now: nothing is known, and the next read meets them again.
    NotNow,
    /// Nothing has their content.
    Lost,
}

impl Recovery {
    /// Repairs places of a stripe that could not be read, in a task of its own. On a drive that is read-only nothing
    /// can be: what it cannot read is computed whenever it is read.
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
                let _guard = volume.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
                if let Err(error) = volume.mend(stripe, &places, Mend::Look).await {
                    tracing::debug!(volume = %volume.name(), stripe = stripe.0, "not repaired: {error}");
                }
            }
            volume.repairing.borrow_mut().remove(&stripe);
        });
    }

    /// Repairs places of a stripe whose columns the caller holds exclusively.
    ///
    /// # Errors
    /// When blocks that had to be given up could not be listed, or their places not be filled.
    pub(crate) async fn mend(
        self: &Rc<Self>,
        stripe: StripeIndex,
        places: &Places,
        how: Mend,
    ) -> Result<(), IoError> {
        if !self.is_live(stripe) || !self.is_initialised(stripe) {
            return Ok(()); // What lies there is another layout's, or nobody's.
        }
        // All that can be had first: what is filled with zeroes then must not be taken for a source.
        let mut lost = Places::new();
        for (drive, range) in merged(places) {
            let Ok(member) = self.member(drive) else { continue };
            let Ok(unreadable) = self.probe(drive, &member, range).await else { continue };
            if unreadable.is_empty() {
                // It can be read now, whatever it was.
                self.report_medium_error(drive, range, true, true);
            }
            for run in unreadable {
                // What counts as zeros is known to be lost, and redundancy gives back the others of its columns.
                let zeros = self.zeros_within(drive, run);
                let mut at = run.start;
                for zero in zeros.iter().copied().chain([ByteRange::new(run.end(), ByteCount::ZERO)]) {
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
        (0..range.len.0 / sector.0).map(move |nth| ByteRange::new(range.start + sector * nth, sector))
    }

    /// The sectors that a drive cannot read among those of the units, as it writes them, that a range touches.
    ///
    /// # Errors
    /// Those of [`Recovery::can_read`].
    pub(super) async fn probe(
        self: &Rc<Self>,
        drive: DriveIndex,
        member: &Rc<Member>,
        range: ByteRange,
    ) -> Result<Vec<ByteRange>, IoError> {
        let unit = self.spec.sector.bytes();
        let mut rest = vec![range.align_out(self.repair_unit)];
        let mut unreadable: Vec<ByteRange> = Vec::new();
        while let Some(range) = rest.pop() {
            if self.can_read(drive, member, range).await? {
                continue;
            }
            if range.len <= unit {
                match unreadable.last_mut() {
                    Some(last) if last.end() == range.start => last.len += range.len,
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
    /// # Errors
    /// When it is out of use, or goes out for not answering: it is not asked for sector after sector then. When nothing can be
    /// said of the blocks, as the system could not carry out the read for now.
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
        let _scratch = self.shard.reserve_scratch(platform::BufferPool::block_size(range.len)).await;
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

    /// Repairs blocks that a drive cannot read: all at once, or as many of them as can be had. Those that cannot
    /// are added to `lost`, sector by sector.
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
                    // It was not written anew, and would be met again with every read: it does not count against its
                    // drive, or one lost block would cost the drive its place in time.
                    self.report_medium_error(drive, range, false, false);
                    lost.push((drive, range));
                }
            }
        }
        Ok(())
    }

    /// A drive did not take what redundancy gave back of a range: what it cannot read of that is excluded, so that whoever writes it
    /// looks whether it was kept. A punctured block is not: redundancy need not count it as zeros yet.
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
            self.home_of(drive, *sector).is_some_and(|(home, named)| self.state().is_punctured(home, named))
        };
        let sectors: Vec<ByteRange> = sectors.filter(|sector| !is_punctured(sector)).collect();
        self.exclude(drive, member, sectors).await
    }

    /// Computes some blocks of a drive from the others of their stripe, writes them, and reads them again.
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
            Ended::Failed(error) if trouble.unread.is_some() || error.spares_drive() => Repaired::NotNow,
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

    /// Brings the redundancy of a stripe in order, and what it holds on the drives in `filling`, which are stale in it.
    /// The caller holds the stripe exclusively. Blocks that nothing can give back are given up for lost. Which drives
    /// were not written although they have a part in the stripe.
    ///
    /// # Errors
    /// When it cannot be done.
    pub(crate) async fn restore_stripe(
        self: &Rc<Self>,
        stripe: StripeIndex,
        filling: &DriveSet,
    ) -> Result<DriveSet, IoError> {
        if !self.is_forced(stripe) {
            return self.bring_together(stripe, filling, &DriveSet::EMPTY).await;
        }
        let skipped = self.settle_by_word(stripe).await?.minus(filling);
        match filling.is_empty() {
            true => Ok(skipped),
            false => Ok(skipped.union(&self.bring_together(stripe, filling, &DriveSet::EMPTY).await?)),
        }
    }

    /// The same of several stripes of a region, each of which the caller holds exclusively: together where nothing stands in the way.
    ///
    /// # Errors
    /// When it cannot be done of one of them.
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

    /// The same of a stripe whose redundancy is trusted, or all of whose data can be read. `unbelieved`: drives whose
    /// part of it is not to be read, but computed anew.
    pub(crate) async fn bring_together(
        self: &Rc<Self>,
        stripe: StripeIndex,
        filling: &DriveSet,
        unbelieved: &DriveSet,
    ) -> Result<DriveSet, IoError> {
        let ladder = if self.is_doubtful(stripe) { &RESTORE_DOUBTFUL } else { &RESTORE };
        let how = Attempt { filling: *filling, unbelieved: *unbelieved, ..Attempt::HELD };
        let request = |columns| Request::Resync { columns };
        let done = self.recover_by_columns(stripe, request, &how, ladder).await?;
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

/// The places that touch or overlap as one.
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
