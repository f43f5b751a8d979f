//! Blocks that nothing gives back: listed, their places filled with zeros, and redundancy computed over these.
//!
//! # Invariants
//! - All data blocks of the columns that cannot be had are listed as punctured, durably and on every shard, before zeros take their
//!   places.
//! - A drive that refuses the zeros, or cannot read them afterwards, has the place excluded: it counts as zeros all the same.
//! - What cannot be read any more while redundancy is computed over the zeros is lost as well, and is dealt with in the same way.

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

/// Whether a cell can be had.
enum Reach {
    Readable,
    /// Its drive is there and cannot read it.
    Unreadable,
    /// Its drive is out, or stale.
    Absent,
}

impl Recovery {
    /// In these columns, one sector of each strip, blocks are lost. Those that nothing can give back are listed, if that is beyond
    /// doubt or they have to be given up; what has to be given up is filled with zeroes, and redundancy computed over them.
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
                        // Less is known now than before: the caller sees what to do about that.
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
        for index in (0..self.geometry().data_strips()).map(DataIndex).filter(|index| !in_reach(*index)) {
            // Listed where it belongs, wherever it lies now.
            let cell = home.data_cell(index, CopyIndex(0));
            let place = ByteRange::new(cell.offset + ByteCount(columns.start.0), columns.len);
            self.list_lost(cell.drive, place).await?;
        }
        if how == Mend::Look {
            return Ok(());
        }
        let _by_journal = self.go_by_journal();
        // A replay must not put back what was here: parity that is written from now on stands on the zeroes. Settling silences as
        // well, but not where it has nothing to write, as a drive is out.
        self.silence(stripe).await?;
        // From the first zero to the new parity a crash must be followed by a resync.
        let _writing = match self.is_redundant() {
            true => Some(begin_write(self, self.region_of(stripe)).await?),
            false => None,
        };
        for (cell, role, reach) in &cells {
            if matches!(role, Role::Data { index, .. } if in_reach(*index)) {
                continue; // Another copy has it: it is no zeroes, and is repaired from there.
            }
            if matches!(reach, Reach::Unreadable) {
                let place = ByteRange::new(cell.offset + ByteCount(columns.start.0), columns.len);
                self.fill_with_zeroes(cell.drive, place).await?;
            }
        }
        self.settle(stripe, columns, &DriveSet::EMPTY).await
    }

    /// Computes redundancy anew in columns where zeroes have taken the place of what was lost. `filled`: drives that
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
        // What cannot be read any more in columns where something is lost is lost as well. Each time there is less to be read.
        for _ in 0..self.geometry().drives().0 {
            let mut trouble = Trouble::default();
            let (ended, _) = self.attempt(stripe, request, Host::None, &mut trouble, &how).await;
            if matches!(ended, Ended::Done { .. }) || trouble.is_empty() || trouble.unread.is_some() {
                return self.settled_as(stripe, columns, filled, (ended, how)).await;
            }
            for (drive, place) in trouble.places {
                self.give_up_place(drive, place).await?;
            }
        }
        let (ended, _) = self.attempt(stripe, request, Host::None, &mut Trouble::default(), &how).await;
        self.settled_as(stripe, columns, filled, (ended, how)).await
    }

    /// A place of a column in which blocks are lost cannot be read: it is listed, and counts as zeros.
    async fn give_up_place(self: &Rc<Self>, drive: DriveIndex, place: ByteRange) -> Result<(), IoError> {
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
            // As many are absent as there is parity: what that gives for them is what was listed as lost.
            Ended::Lost | Ended::NeedsLock | Ended::Failed(_) if self.is_determined(stripe, filled) => Ok(()),
            Ended::Lost | Ended::NeedsLock | Ended::Failed(_) => match self.absent_strip(stripe, filled) {
                Some(absent) => self.settle_absent(stripe, columns, absent, how).await,
                None => {
                    self.distrust(stripe).await;
                    Ok(())
                }
            },
        }
    }

    /// There is more parity than strips are absent, one of them data. What that held in these columns is lost too:
    /// parity is computed as if it had become zeroes.
    async fn settle_absent(
        self: &Rc<Self>,
        stripe: StripeIndex,
        columns: ByteRange,
        absent: DataIndex,
        how: Attempt,
    ) -> Result<(), IoError> {
        let start = self.geometry().strip().bytes().0 * u64::from(absent.0) + columns.start.0;
        let request = Request::WriteZeroes { range: ByteRange::new(ByteOffset(start), columns.len) };
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

    /// Whether what is absent of a stripe takes all the parity there is to be computed: then parity cannot disagree.
    fn is_determined(&self, stripe: StripeIndex, filled: &DriveSet) -> bool {
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

    /// What is to lie here is lost where it comes from: the places of these bytes hold zeroes, and are listed as lost, all at once: each
    /// report is a write of labels, and hosts wait for the window. The caller is alone with their stripes.
    ///
    /// # Errors
    /// When it cannot be listed: then zeroes would pass for what is lost.
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

    /// Lists a sector as lost. The list has whole sectors: this one is in it, or no byte of it is.
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

    /// Fills a place that its drive could not read with zeroes, on that drive and on what takes its place: redundancy
    /// would not agree with it otherwise.
    /// A drive that does not take them has the place excluded: it counts as zeros all the same.
    ///
    /// # Errors
    /// When the drive is gone, or that cannot be listed.
    async fn fill_with_zeroes(self: &Rc<Self>, drive: DriveIndex, place: ByteRange) -> Result<(), IoError> {
        let raw = ByteRange::new(self.raw(place.start), place.len);
        let start =
            |member: &Rc<Member>| DriveOp::zeroes(member.write_zeroes(raw, false, Durability::Durable));
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
                    // It has taken the zeros, and nothing else is known.
                    Err(error) if !is_gone(&error) => return Ok(()),
                    unkept => unkept?,
                };
                let unkept = unkept.iter().map(|run| run.intersection(place)).filter(|run| !run.is_empty());
                self.exclude(drive, &member, unkept.collect()).await
            }
            Err(error) => {
                self.not_repaired(drive, error);
                match member {
                    Ok(member) if error.is_refusal() => self.exclude(drive, &member, vec![place]).await,
                    _ => Err(error),
                }
            }
        }
    }

    /// A host has written blocks that were lost: they are not any more. Done when that is durable.
    ///
    /// # Errors
    /// When it cannot be made durable: then the next start would call them lost.
    pub(crate) async fn healed_by_host(self: &Rc<Self>, healed: &Places) -> Result<(), IoError> {
        for (drive, range) in healed {
            self.apply(&volume_state::Change::Rewritten { slot: *drive, ranges: vec![*range] });
            let kind = ReportKind::PuncturedBlocks { drive: *drive, ranges: vec![*range], punctured: false };
            self.shard.report(self.spec.id, kind).await?;
        }
        Ok(())
    }

    /// The sectors of some columns of a stripe in which blocks are punctured.
    pub(super) fn punctured_columns(&self, stripe: StripeIndex, columns: ByteRange) -> Vec<ByteRange> {
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
