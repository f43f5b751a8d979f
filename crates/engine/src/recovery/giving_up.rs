//! Blocks that cannot be restored: listed, filled with zeros, and covered by new redundancy.
//!
//! # Invariants
//! - All unreadable data blocks of the columns are listed as punctured, durably and on every shard,
//!   before zeros take their places.
//! - If a drive refuses the zeros, or cannot read them afterwards, the block is excluded: it still
//!   counts as zeros.
//! - Blocks that become unreadable while redundancy is computed over the zeros are lost as well,
//!   and handled in the same way.

use crate::members::{Places, is_gone};
use crate::messages::ReportKind;
use crate::recovery::{Mend, Recovery};
use crate::stripe::{Attempt, DriveOp, DriveOps, Ended, Host, Trouble, begin_write};
use layout::{Cell, CopyIndex, DataIndex, Role};
use plan::Request;
use platform::{Durability, IoError, IoErrorKind, Member, Slice};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// Whether a block can be read.
enum Reach {
    Readable,
    /// Its drive is present and cannot read it.
    Unreadable,
    /// Its drive is out of service, or stale.
    Absent,
}

impl Recovery {
    /// Handles lost blocks in these columns, one sector of each strip. Blocks that cannot be
    /// restored are listed, if the loss is certain or they must be given up. Blocks given up are
    /// filled with zeroes, and redundancy is computed over them.
    pub(super) async fn take_for_lost(
        self: &Rc<Self>,
        stripe: StripeIndex,
        columns: ByteRange,
        how: Mend,
    ) -> Result<(), IoError> {
        let health = self.stripe_health(stripe, &DriveSet::EMPTY);
        let everybody_is_here = health.readable.contains_first(self.geometry().drives());
        if how == Mend::Look && !(everybody_is_here && health.parity_trusted) {
            return Ok(());
        }
        let mut cells: SmallVec<[(Cell, Role, Reach); 8]> = SmallVec::new();
        for (cell, role) in self.map(stripe).cells().filter(|(_, role)| *role != Role::Spare) {
            let place = ByteRange::new(cell.offset + ByteCount(columns.start.0), columns.len);
            let reach = match self.member(cell.drive) {
                Ok(member) if health.readable.contains(cell.drive) => {
                    match self.can_read(cell.drive, &member, place).await {
                        Ok(true) => Reach::Readable,
                        Ok(false) => Reach::Unreadable,
                        // The state is uncertain now: the caller handles that.
                        Err(_) => return Ok(()),
                    }
                }
                _ => Reach::Absent,
            };
            cells.push((cell, role, reach));
        }
        let in_reach = |index: DataIndex| {
            cells.iter().any(|(_, role, reach)| {
                matches!(role, Role::Data { index: other, .. } if *other == index)
                    && matches!(reach, Reach::Readable)
            })
        };
        let home = self.geometry().stripe_map(stripe);
        for index in
            (0..self.geometry().data_strips()).map(DataIndex).filter(|index| !in_reach(*index))
        {
            // Listed at its home, wherever it is now.
            let cell = home.data_cell(index, CopyIndex(0));
            let place = ByteRange::new(cell.offset + ByteCount(columns.start.0), columns.len);
            self.list_lost(cell.drive, place).await?;
        }
        if how == Mend::Look {
            return Ok(());
        }
        let _by_journal = self.go_by_journal();
        // A replay must not restore the old content: new parity is computed over the zeroes.
        // Settling invalidates records as well, but not if it writes nothing because a drive is
        // offline.
        self.silence(stripe).await?;
        // A crash between the first zero and the new parity must cause a resync.
        let _writing = match self.is_redundant() {
            true => Some(begin_write(self, self.region_of(stripe)).await?),
            false => None,
        };
        for (cell, role, reach) in &cells {
            if matches!(role, Role::Data { index, .. } if in_reach(*index)) {
                continue; // Another copy has the data, and repairs it.
            }
            if matches!(reach, Reach::Unreadable) {
                let place = ByteRange::new(cell.offset + ByteCount(columns.start.0), columns.len);
                self.fill_with_zeroes(cell.drive, place).await?;
            }
        }
        self.settle(stripe, columns, &DriveSet::EMPTY).await
    }

    /// Computes redundancy anew in columns where zeroes replaced lost blocks. `filled`: drives that
    /// are stale in the stripe, but current in these columns.
    pub(crate) async fn settle(
        self: &Rc<Self>,
        stripe: StripeIndex,
        columns: ByteRange,
        filled: &DriveSet,
    ) -> Result<(), IoError> {
        if self.geometry().parity_strips() == 0 {
            return Ok(());
        }
        let how = Attempt { filling: *filled, settle: true, ..Attempt::HELD };
        let request = Request::Resync { columns };
        // Blocks that become unreadable in columns with lost blocks are lost as well. Each attempt
        // has fewer blocks to read.
        for _ in 0..self.geometry().drives().0 {
            let mut trouble = Trouble::default();
            let (ended, _) = self.attempt(stripe, request, Host::None, &mut trouble, &how).await;
            if matches!(ended, Ended::Done { .. }) || trouble.is_empty() || trouble.unread.is_some()
            {
                return self.settled_as(stripe, columns, filled, (ended, how)).await;
            }
            for (drive, place) in trouble.places {
                self.give_up_place(drive, place).await?;
            }
        }
        let (ended, _) =
            self.attempt(stripe, request, Host::None, &mut Trouble::default(), &how).await;
        self.settled_as(stripe, columns, filled, (ended, how)).await
    }

    /// A place in a column with lost blocks is unreadable: it is listed, and counts as zeros.
    async fn give_up_place(
        self: &Rc<Self>,
        drive: DriveIndex,
        place: ByteRange,
    ) -> Result<(), IoError> {
        if let Some((home, named)) = self.home_of(drive, place) {
            for sector in self.sectors_of(named) {
                self.list_lost(home, sector).await?;
            }
        }
        self.fill_with_zeroes(drive, place).await
    }

    async fn settled_as(
        self: &Rc<Self>,
        stripe: StripeIndex,
        columns: ByteRange,
        filled: &DriveSet,
        (ended, how): (Ended, Attempt),
    ) -> Result<(), IoError> {
        match ended {
            Ended::Done { skipped, .. } => self.recorded(&skipped).await,
            // As many strips are absent as there is parity: parity gives the listed content for
            // them.
            Ended::Lost | Ended::NeedsLock | Ended::Failed(_)
                if self.is_determined(stripe, filled) =>
            {
                Ok(())
            }
            Ended::Lost | Ended::NeedsLock | Ended::Failed(_) => {
                match self.absent_strip(stripe, filled) {
                    Some(absent) => self.settle_absent(stripe, columns, absent, how).await,
                    None => {
                        self.distrust(stripe).await;
                        Ok(())
                    }
                }
            }
        }
    }

    /// There is more parity than absent strips, and one of those is data. Its content in these
    /// columns is lost too: parity is computed as if it were zeroes.
    async fn settle_absent(
        self: &Rc<Self>,
        stripe: StripeIndex,
        columns: ByteRange,
        absent: DataIndex,
        how: Attempt,
    ) -> Result<(), IoError> {
        let start = self.geometry().strip().bytes().0 * u64::from(absent.0) + columns.start.0;
        let request =
            Request::WriteZeroes { range: ByteRange::new(ByteOffset(start), columns.len) };
        let host = Host::Payload(Slice::zero(columns.len).into(), Durability::Durable);
        let (ended, _) = self.attempt(stripe, request, host, &mut Trouble::default(), &how).await;
        match ended {
            Ended::Done { skipped, .. } => self.recorded(&skipped).await,
            Ended::Lost | Ended::NeedsLock | Ended::Failed(_) => {
                self.distrust(stripe).await;
                Ok(())
            }
        }
    }

    /// The one data strip of a stripe that is absent.
    fn absent_strip(&self, stripe: StripeIndex, filled: &DriveSet) -> Option<DataIndex> {
        let readable = self.stripe_health(stripe, &DriveSet::EMPTY).readable.union(filled);
        let mut absent = self.map(stripe).cells().filter_map(|(cell, role)| match role {
            Role::Data { index, .. } if !readable.contains(cell.drive) => Some(index),
            _ => None,
        });
        absent.next().filter(|_| absent.next().is_none())
    }

    /// Whether the absent strips use all parity: then parity cannot disagree.
    pub(super) fn is_determined(&self, stripe: StripeIndex, filled: &DriveSet) -> bool {
        let readable = self.stripe_health(stripe, &DriveSet::EMPTY).readable.union(filled);
        let (mut absent, mut parity) = (0, 0);
        for (cell, role) in self.map(stripe).cells() {
            match role {
                Role::Data { .. } => absent += u16::from(!readable.contains(cell.drive)),
                Role::P | Role::Q => parity += u16::from(readable.contains(cell.drive)),
                Role::Spare => {}
            }
        }
        absent >= parity
    }

    /// Lists these bytes as lost, since their source is lost; their places hold zeroes. All reports
    /// are sent at once: each writes labels, and hosts wait for the window. The caller has
    /// exclusive use of their stripes.
    ///
    /// # Errors
    /// When they cannot be listed: then zeroes would be read instead of an error.
    pub(crate) async fn carry_lost(self: &Rc<Self>, lost: &[ByteRange]) -> Result<(), IoError> {
        let sector = self.spec.sector.bytes();
        let mut places: BTreeMap<DriveIndex, Vec<ByteRange>> = BTreeMap::new();
        for bytes in lost {
            let mut at = bytes.start;
            while at < bytes.end() {
                let (stripe, within) = self.geometry().stripe_of(at);
                let (index, within) = self.geometry().strip_of(within);
                let home = self.geometry().data_cell(stripe, index, CopyIndex(0));
                let place = ByteRange::new(home.offset + within, sector);
                if !self.state().is_punctured(home.drive, place) {
                    places.entry(home.drive).or_default().push(place);
                }
                at += sector;
            }
        }
        let report = |(drive, ranges): (DriveIndex, Vec<ByteRange>)| {
            let this = self.clone();
            let report = async move { this.list_all_lost(drive, ranges).await };
            self.shard.env().spawn("lost blocks are carried along", report)
        };
        let reports: Vec<_> = places.into_iter().map(report).collect();
        let mut listed = Ok(());
        for report in reports {
            listed = listed.and(report.await);
        }
        listed
    }

    async fn list_all_lost(
        self: &Rc<Self>,
        drive: DriveIndex,
        ranges: Vec<ByteRange>,
    ) -> Result<(), IoError> {
        let count = ranges.len() as u64;
        let kind = ReportKind::PuncturedBlocks { drive, ranges, punctured: true };
        self.shard.report(self.spec.id, kind).await?;
        self.count(|counters| counters.lost_blocks += count);
        Ok(())
    }

    /// Lists a sector as lost. The list has whole sectors.
    pub(super) async fn list_lost(
        self: &Rc<Self>,
        drive: DriveIndex,
        sector: ByteRange,
    ) -> Result<(), IoError> {
        if self.state().is_punctured(drive, sector) {
            return Ok(());
        }
        self.list_all_lost(drive, vec![sector]).await
    }

    /// Fills an unreadable place with zeroes, on its drive and on its replacement: otherwise
    /// redundancy would not agree. If a drive refuses them, the place is excluded: it still counts
    /// as zeros.
    ///
    /// # Errors
    /// When the drive is gone, or the exclusion cannot be listed.
    async fn fill_with_zeroes(
        self: &Rc<Self>,
        drive: DriveIndex,
        place: ByteRange,
    ) -> Result<(), IoError> {
        let raw = ByteRange::new(self.raw(place.start), place.len);
        let start = |member: &Rc<Member>| {
            DriveOp::zeroes(member.write_zeroes(raw, false, Durability::Durable))
        };
        let member = self.member(drive);
        let mut ops = DriveOps::default();
        ops.ask(self, drive, start);
        ops.ask_replacement(self, drive, start);
        let mut filled = Ok(());
        let lacking = ops.finish(self, |answered| filled = answered.result).await;
        lacking.settled(self).await?;
        match filled {
            Ok(()) => {
                let Ok(member) = member else { return Err(IoError::new(IoErrorKind::Gone)) };
                self.include_what_is_kept(drive, &member, place).await;
                let unkept = match self.probe(drive, &member, place).await {
                    // It has accepted the zeros; its state is otherwise unknown.
                    Err(error) if !is_gone(&error) => return Ok(()),
                    unkept => unkept?,
                };
                let unkept =
                    unkept.iter().map(|run| run.intersection(place)).filter(|run| !run.is_empty());
                self.exclude(drive, &member, unkept.collect()).await
            }
            Err(error) => {
                self.not_repaired(drive, error);
                match member {
                    Ok(member) if error.is_refusal() => {
                        self.exclude(drive, &member, vec![place]).await
                    }
                    _ => Err(error),
                }
            }
        }
    }

    /// A host has rewritten lost blocks: they are no longer lost. Done when that is durable.
    ///
    /// # Errors
    /// When it cannot be made durable: then they would be lost after a restart.
    pub(crate) async fn healed_by_host(self: &Rc<Self>, healed: &Places) -> Result<(), IoError> {
        for (drive, range) in healed {
            self.apply(&volume_state::Change::Rewritten { slot: *drive, ranges: vec![*range] });
            let kind = ReportKind::PuncturedBlocks {
                drive: *drive,
                ranges: vec![*range],
                punctured: false,
            };
            self.shard.report(self.spec.id, kind).await?;
        }
        Ok(())
    }

    /// The sectors of some columns of a stripe in which blocks are punctured.
    pub(super) fn punctured_columns(
        &self,
        stripe: StripeIndex,
        columns: ByteRange,
    ) -> Vec<ByteRange> {
        let home = self.geometry().stripe_map(stripe);
        let state = self.state();
        let is_punctured = |sector: &ByteRange| {
            (0..self.geometry().data_strips()).any(|index| {
                let cell = home.data_cell(DataIndex(index), CopyIndex(0));
                let place = ByteRange::new(cell.offset + ByteCount(sector.start.0), sector.len);
                state.is_punctured(cell.drive, place)
            })
        };
        self.sectors_of(columns).filter(is_punctured).collect()
    }
}
