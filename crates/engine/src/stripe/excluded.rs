//! Excluded blocks: blocks that a drive refused or lost are neither read nor used in computations.
//!
//! # Invariants
//! - A refused block is listed durably before its write is acknowledged, before the write's record
//!   retires and before the region's mark is cleared.
//! - An excluded, punctured block counts as zeros: redundancy includes the zeros that its drive
//!   refused. The content of any other excluded block is in redundancy alone.
//! - A write does not begin if it would leave its content, or that of an excluded block in its
//!   columns, on excluded blocks alone.
//! - An exclusion ends after a flush of the drive. The flush must begin when the drive already
//!   holds the block and can read it.
//!
//! # Fault model
//! A drive refuses a write, or accepts it and cannot read it afterwards, once or always. Old data
//! that a drive returns without an error for an acknowledged block is not detected here.

use crate::members::Places;
use crate::messages::ReportKind;
use crate::stripe::Stripes;
use crate::stripe::drive_ops::DriveOp;
use crate::stripe::memory::Memory;
use crate::stripe::payload::Payload;
use crate::stripe::trouble::{Told, Trouble};
use layout::{CopyIndex, Role};
use plan::{Plan, Read, Request};
use platform::{Buf, Bufs, Durability, IoError, IoErrorKind, Member, Slice, Slices};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// A write that the drive of a slot refused: its range and its data.
pub(super) struct Refusal {
    pub(super) drive: DriveIndex,
    pub(super) member: Rc<Member>,
    pub(super) error: IoError,
    pub(super) offset: ByteOffset,
    pub(super) slices: Slices,
}

/// The read size when testing which blocks a drive kept.
const READ_AT_ONCE: ByteCount = ByteCount(64 << 10);

/// Ranges of one drive's part of the volume.
pub(crate) type Ranges = SmallVec<[ByteRange; 2]>;

/// Slices joined into one.
fn joined(slices: &Slices, len: ByteCount) -> Slice {
    if let [slice] = &slices[..] {
        return slice.clone();
    }
    let mut whole = Buf::unpooled(len);
    let mut at = 0;
    for slice in slices {
        slice.copy_to(&mut whole.bytes_mut()[at..at + slice.len().as_usize()]);
        at += slice.len().as_usize();
    }
    whole.freeze()
}

impl Stripes {
    /// Whether blocks of a stripe are excluded on any drive.
    pub(crate) fn has_excluded(&self, stripe: StripeIndex) -> bool {
        let state = self.state();
        if state.excluded_somewhere().is_empty() {
            return false;
        }
        let strip = self.geometry().strip().bytes();
        self.map(stripe)
            .cells()
            .any(|(cell, _)| state.is_excluded(cell.drive, ByteRange::new(cell.offset, strip)))
    }

    /// The columns of a stripe that a request touches.
    pub(super) fn columns_of(&self, request: &Request<'_>) -> ByteRange {
        let strip = self.geometry().strip().bytes();
        let whole = ByteRange::new(ByteOffset::ZERO, strip);
        let range = match request {
            Request::Read { range, .. } => Some(*range),
            other => match other.columns() {
                Some(columns) => return columns.intersection(whole),
                None => self.changed_by(other),
            },
        };
        let Some(range) = range.filter(|range| !range.is_empty()) else { return whole };
        let start = range.start.align_down(strip);
        match range.end() <= start + strip {
            true => ByteRange::new(ByteOffset(range.start.0 - start.0), range.len),
            false => whole,
        }
    }

    /// Drives that a request must not read: the content of excluded blocks in its columns is in
    /// redundancy alone.
    pub(super) fn unreadable_for(&self, stripe: StripeIndex, request: &Request<'_>) -> DriveSet {
        match self.state().excluded_somewhere().is_empty() {
            true => DriveSet::EMPTY,
            false => self
                .unknown_places(stripe, self.columns_of(request))
                .iter()
                .map(|(drive, _)| *drive)
                .collect(),
        }
    }

    /// Whether some content of a stripe is in redundancy alone; such blocks are not compared.
    pub(crate) fn lacks_blocks(&self, stripe: StripeIndex) -> bool {
        !self.lacking(stripe).is_empty()
    }

    /// Excluded blocks of a stripe whose content is in redundancy alone.
    pub(crate) fn lacking_places(&self, stripe: StripeIndex) -> Places {
        let strip = ByteRange::new(ByteOffset::ZERO, self.geometry().strip().bytes());
        self.unknown_places(stripe, strip)
    }

    /// The drives of [`Stripes::lacking_places`].
    pub(crate) fn lacking(&self, stripe: StripeIndex) -> DriveSet {
        if self.state().excluded_somewhere().is_empty() {
            return DriveSet::EMPTY;
        }
        self.lacking_places(stripe).iter().map(|(drive, _)| *drive).collect()
    }

    /// Excluded blocks in columns of a stripe whose content is in redundancy alone.
    pub(crate) fn unknown_places(&self, stripe: StripeIndex, columns: ByteRange) -> Places {
        let mut unknown = Places::new();
        let excluded = self.state().excluded_somewhere();
        for (cell, _) in self.map(stripe).cells().filter(|(cell, _)| excluded.contains(cell.drive))
        {
            let range = ByteRange::new(cell.offset + ByteCount(columns.start.0), columns.len);
            unknown.extend(
                self.unknown_within(cell.drive, range).into_iter().map(|range| (cell.drive, range)),
            );
        }
        unknown
    }

    /// Excluded blocks in a range of a drive whose content is in redundancy alone.
    fn unknown_within(&self, drive: DriveIndex, range: ByteRange) -> Ranges {
        let zeros = self.zeros_within(drive, range);
        let mut unknown = Ranges::new();
        for excluded in self.state().excluded_within(drive, range) {
            let mut at = excluded.start;
            for zero in zeros.iter().filter(|zero| zero.overlaps(excluded)) {
                unknown.push(ByteRange::from_to(at, zero.start));
                at = zero.end();
            }
            unknown.push(ByteRange::from_to(at, excluded.end()));
        }
        unknown.retain(|range| !range.is_empty());
        unknown
    }

    /// Excluded blocks in a range of a drive that count as zeros, ascending.
    pub(crate) fn zeros_within(&self, drive: DriveIndex, range: ByteRange) -> Ranges {
        let mut zeros = Ranges::new();
        let strip = self.geometry().strip().bytes();
        let excluded: Ranges = self.state().excluded_within(drive, range).collect();
        for mut rest in excluded {
            while !rest.is_empty() {
                let cell_end = (rest.start + ByteCount(1)).align_up(strip);
                let part = ByteRange::from_to(rest.start, cell_end.min(rest.end()));
                rest = ByteRange::from_to(part.end(), rest.end());
                let Some((home, named)) = self.home_of(drive, part) else { continue };
                let state = self.state();
                let punctured = state.punctured_within(home, named);
                let here =
                    |of: ByteRange| ByteRange::new(part.start + (of.start - named.start), of.len);
                zeros.extend(punctured.map(here));
            }
        }
        zeros
    }

    /// The drive and range that identify the punctured blocks of a part of a strip: those of its
    /// first copy. `None` if it is not data.
    pub(crate) fn home_of(
        &self,
        drive: DriveIndex,
        part: ByteRange,
    ) -> Option<(DriveIndex, ByteRange)> {
        let located = self.locate(drive, part.start)?;
        let Role::Data { index, .. } = located.role else { return None };
        let home = self.geometry().stripe_map(located.stripe).data_cell(index, CopyIndex(0));
        Some((home.drive, ByteRange::new(home.offset + located.within, part.len)))
    }

    /// Performs a read of a plan, and skips blocks that count as zeros.
    pub(super) async fn read_around(
        self: &Rc<Self>,
        plan: &Plan,
        slot: usize,
        member: &Rc<Member>,
        memory: &mut Memory,
        zeros: &Ranges,
    ) -> Result<(), IoError> {
        let read: &Read = &plan.reads()[slot];
        let mut buffers = Bufs::new();
        self.add_buffers(plan, read, memory, &mut buffers);
        let (mut at, mut result, mut back) = (read.offset, Ok(()), Bufs::new());
        for buf in buffers {
            let range = ByteRange::new(at, buf.len());
            at = range.end();
            let (buf, read) = self.read_part_around(member, range, buf, zeros).await;
            back.push(buf);
            result = result.and(read);
        }
        memory.take_buffers(plan, slot, &mut back.into_iter(), result.is_ok());
        result
    }

    async fn read_part_around(
        self: &Rc<Self>,
        member: &Rc<Member>,
        range: ByteRange,
        buf: Buf,
        zeros: &Ranges,
    ) -> (Buf, Result<(), IoError>) {
        let is_hollow = buf.is_hollow();
        let (mut rest, mut at, mut result) = (buf, range.start, Ok(()));
        let mut parts: Vec<Buf> = Vec::new();
        while at < range.end() {
            let zero = zeros.iter().find(|zero| zero.end() > at && zero.start < range.end());
            let is_zero = zero.is_some_and(|zero| zero.start <= at);
            let end = match zero {
                Some(zero) if is_zero => zero.end().min(range.end()),
                Some(zero) => zero.start,
                None => range.end(),
            };
            let after = rest.split_off(end - at);
            let mut part = std::mem::replace(&mut rest, after);
            let len = part.len();
            if !is_zero {
                let outcome = member.read(self.raw(at), SmallVec::from_iter([part])).await;
                result = result.and(outcome.result.map(drop));
                // A drive that timed out keeps the buffer.
                part = outcome
                    .buffers
                    .into_iter()
                    .next()
                    .unwrap_or_else(|| self.take_scratch(len, is_hollow));
            } else if !is_hollow {
                part.bytes_mut().fill(0);
            }
            parts.push(part);
            at = end;
        }
        match parts.into_iter().reduce(Buf::join_or_keep).filter(|buf| buf.len() == range.len) {
            Some(buf) => (buf, result),
            None => {
                let error = Err(IoError::new(IoErrorKind::TimedOut));
                (self.take_scratch(range.len, is_hollow), result.and(error))
            }
        }
    }

    /// The buffers of a read of a block whose known content replaces the drive's content.
    pub(super) fn read_told(
        &self,
        plan: &Plan,
        slot: usize,
        memory: &mut Memory,
        told: &Told,
    ) -> Result<(), IoError> {
        let read: &Read = &plan.reads()[slot];
        let mut buffers = Bufs::new();
        self.add_buffers(plan, read, memory, &mut buffers);
        let mut at = read.offset;
        let mut result = Ok(());
        for buf in &mut buffers {
            let range = ByteRange::new(at, buf.len());
            at = range.end();
            match told.range.contains(range) {
                true if buf.is_hollow() => {}
                true => told
                    .bytes
                    .cut(range.start - told.range.start, range.len)
                    .copy_to(buf.bytes_mut()),
                false => result = Err(IoError::new(IoErrorKind::Medium)),
            }
        }
        memory.take_buffers(plan, slot, &mut buffers.into_iter(), result.is_ok());
        result
    }

    /// Whether a write may begin: its content, and that of each excluded block in its columns, must
    /// be available without the excluded blocks that it writes. Otherwise these are added to
    /// `trouble`.
    pub(super) fn may_write(&self, plan: &Plan, trouble: &mut Trouble) -> bool {
        let is_put_back = trouble.told.is_some();
        if self.state().excluded_somewhere().is_empty() || !plan.request().is_write() || is_put_back
        {
            return true;
        }
        let mut over = Places::new();
        for write in plan.writes() {
            let range = ByteRange::new(write.offset, write.len);
            over.extend(
                self.state()
                    .excluded_within(write.drive, range)
                    .map(|excluded| (write.drive, excluded)),
            );
        }
        let may = over.is_empty()
            || self.is_had_without(plan, &over.iter().map(|(drive, _)| *drive).collect());
        if !may {
            trouble.places.extend(over);
        }
        may
    }

    /// Whether all data of a plan's columns is available without its writes to these drives.
    fn is_had_without(&self, plan: &Plan, refusing: &DriveSet) -> bool {
        let columns = self.columns_of(&plan.request());
        let unknown =
            self.unknown_places(plan.stripe(), columns).iter().map(|(drive, _)| *drive).collect();
        let all = DriveSet::first(self.geometry().drives());
        let out = all.minus(&plan.health().writable).union(refusing).union(&unknown);
        let is_on_hand = |drive: DriveIndex| !out.contains(drive);
        let mut parity = 0;
        let mut had = vec![false; usize::from(self.geometry().data_strips())];
        for (cell, role) in self.map(plan.stripe()).cells() {
            match role {
                Role::Data { index, .. } => had[usize::from(index.0)] |= is_on_hand(cell.drive),
                Role::P | Role::Q => parity += usize::from(is_on_hand(cell.drive)),
                Role::Spare => {}
            }
        }
        let parity = if plan.health().parity_trusted { parity } else { 0 };
        had.iter().filter(|had| !**had).count() <= parity
    }

    /// Whether a failed write is a refusal of blocks that leaves the drive online. The drive must
    /// be present. One of these must also hold: the blocks are excluded already, the volume cannot
    /// lose the drive, or redundancy does not cover the drive's content yet.
    pub(super) fn is_refusal(
        &self,
        drive: DriveIndex,
        member: Option<&Rc<Member>>,
        range: ByteRange,
        error: &IoError,
    ) -> bool {
        error.is_refusal()
            && self.is_redundant()
            && self.in_service().contains(drive)
            && member.is_some_and(|member| self.members.is_in_slot(drive, member))
            && (self.state().is_excluded(drive, range)
                || !self.may_lose(drive)
                || self.geometry().parity_strips() > 0 && !self.is_synced_at(drive, range.start))
    }

    fn is_synced_at(&self, drive: DriveIndex, offset: ByteOffset) -> bool {
        let located = self.locate(drive, offset);
        located.is_none_or(|located| self.state().is_synced(self.region_of(located.stripe)))
    }

    /// Finds the blocks of a write that a drive refuses, and writes the others.
    ///
    /// # Errors
    /// When the drive fails during this.
    pub(super) async fn narrow(
        self: &Rc<Self>,
        refusal: &Refusal,
        durability: Durability,
    ) -> Result<Vec<Told>, IoError> {
        let Refusal { drive, member, offset, slices, .. } = refusal;
        let payload = Payload::of(slices.iter().cloned());
        let sector = self.spec.sector.bytes();
        let mut rest = vec![ByteRange::new(ByteOffset::ZERO, payload.len())];
        let mut refused = Vec::new();
        while let Some(range) = rest.pop() {
            let part = payload.cut(range.start - ByteOffset::ZERO, range.len);
            let mut bytes = Slices::new();
            bytes.extend(part.parts(0, range.len.0).map(|(slice, skip, len)| {
                slice.cut(ByteCount(skip as u64), ByteCount(len as u64))
            }));
            let at = *offset + ByteCount(range.start.0);
            let mut write: DriveOp = self.start_slices(member, at, bytes.clone(), durability);
            match write.result().await {
                Ok(()) => {}
                Err(error) if !error.is_refusal() => return Err(error),
                Err(_) if range.len > sector => {
                    let middle = (range.start + ByteCount(range.len.0 / 2)).align_up(sector);
                    rest.push(ByteRange::from_to(middle, range.end()));
                    rest.push(ByteRange::from_to(range.start, middle));
                }
                Err(_) => {
                    let range = ByteRange::new(at, range.len);
                    refused.push(Told { drive: *drive, range, bytes: joined(&bytes, range.len) });
                }
            }
        }
        Ok(refused)
    }

    /// Adds blocks of a drive to the exclusion list. Returns when the list is durable and all
    /// shards have it. Does nothing if another drive has taken the slot: writes went to both.
    ///
    /// # Errors
    /// When the list cannot be updated.
    pub(crate) async fn exclude(
        self: &Rc<Self>,
        drive: DriveIndex,
        member: &Rc<Member>,
        ranges: Vec<ByteRange>,
    ) -> Result<(), IoError> {
        if !self.members.is_in_slot(drive, member) {
            return Ok(());
        }
        let is_new = |range: &ByteRange| {
            let listed: u64 =
                self.state().excluded_within(drive, *range).map(|part| part.len.0).sum();
            listed < range.len.0
        };
        let ranges: Vec<ByteRange> = ranges.into_iter().filter(is_new).collect();
        if ranges.is_empty() {
            return Ok(());
        }
        let swaps = self.members.drives_of(drive);
        let kind = ReportKind::ExcludedBlocks { drive, ranges, swaps, excluded: true };
        self.shard.report(self.spec.id, kind).await
    }

    /// Ends the exclusion of blocks that a drive accepted, if it can read them after a flush.
    /// Blocks stay excluded if the test or the record fails.
    pub(crate) async fn include_what_is_kept(
        self: &Rc<Self>,
        drive: DriveIndex,
        member: &Rc<Member>,
        range: ByteRange,
    ) {
        let excluded: Vec<ByteRange> = self.state().excluded_within(drive, range).collect();
        let mut kept = Vec::new();
        for part in excluded {
            kept.extend(self.readable_within(member, part).await);
        }
        if kept.is_empty() {
            return;
        }
        let flushed = DriveOp::Flush(member.flush()).result().await;
        let is_same = self.members.is_in_slot(drive, member);
        if let (Ok(()), true) = (flushed, is_same) {
            let swaps = self.members.drives_of(drive);
            let kind = ReportKind::ExcludedBlocks { drive, ranges: kept, swaps, excluded: false };
            if let Err(error) = self.shard.report(self.spec.id, kind).await {
                tracing::debug!(volume = %self.name(), drive = drive.0, "blocks stay excluded: \
                    {error}");
            }
        }
    }

    /// The sectors of a range that a drive can read.
    async fn readable_within(
        self: &Rc<Self>,
        member: &Rc<Member>,
        range: ByteRange,
    ) -> Vec<ByteRange> {
        let sector = self.spec.sector.bytes();
        let (mut rest, mut readable) = (vec![range], Vec::new());
        while let Some(mut range) = rest.pop() {
            if range.len > READ_AT_ONCE {
                rest.push(ByteRange::from_to(range.start + READ_AT_ONCE, range.end()));
                range.len = READ_AT_ONCE;
            }
            // Unpooled: the caller may hold scratch memory, and must not wait for more.
            let buf = Buf::unpooled(range.len);
            match member.read(self.raw(range.start), SmallVec::from_iter([buf])).await.result {
                Ok(_) => readable.push(range),
                Err(error) if !error.is_of_blocks() => return Vec::new(),
                Err(_) if range.len > sector => {
                    let middle = (range.start + ByteCount(range.len.0 / 2)).align_up(sector);
                    rest.push(ByteRange::from_to(middle, range.end()));
                    rest.push(ByteRange::from_to(range.start, middle));
                }
                Err(_) => {}
            }
        }
        readable
    }

    /// Whether a plan writes new content to the drive of a slot. The source of a copy already has
    /// the content, unless the plan writes it back from elsewhere.
    pub(super) fn is_for_drive_of(&self, plan: &Plan, slot: DriveIndex) -> bool {
        let comes_back = plan.health().relocated == Some(slot);
        let is_copy = matches!(plan.request(), Request::Copy { .. });
        !is_copy || comes_back || self.members.replacement(slot).is_none()
    }

    /// Ends the exclusion of blocks that a completed plan wrote and the drives kept. Blocks in
    /// `refused` stay excluded: their readable content is older.
    pub(super) async fn look_at_excluded(self: &Rc<Self>, plan: &Plan, refused: &[Told]) {
        if self.state().excluded_somewhere().is_empty() {
            return;
        }
        for write in plan.writes().iter().filter(|write| self.is_for_drive_of(plan, write.drive)) {
            let Ok(member) = self.member(write.drive) else { continue };
            let of_drive =
                refused.iter().filter(|told| told.drive == write.drive).map(|told| told.range);
            let taken = outside(ByteRange::new(write.offset, write.len), of_drive.collect());
            for range in taken {
                if self.state().is_excluded(write.drive, range) {
                    self.include_what_is_kept(write.drive, &member, range).await;
                }
            }
        }
    }

    /// Whether the written data is available although drives refused some of its blocks.
    pub(super) fn is_kept_without(&self, plan: &Plan, refusing: &DriveSet) -> bool {
        if refusing.is_empty() {
            return true;
        }
        match plan.request().is_write() {
            true => self.is_had_without(plan, refusing),
            // The content is computed from existing data: a refusal loses nothing.
            false => true,
        }
    }
}

/// The parts of a range outside all of `others`.
fn outside(range: ByteRange, mut others: Vec<ByteRange>) -> Vec<ByteRange> {
    others.sort_by_key(|other| other.start);
    let (mut parts, mut at) = (Vec::new(), range.start);
    for other in others.into_iter().filter(|other| other.overlaps(range)) {
        if other.start > at {
            parts.push(ByteRange::from_to(at, other.start));
        }
        at = at.max(other.end());
    }
    if at < range.end() {
        parts.push(ByteRange::from_to(at, range.end()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_outside_of_ranges_is_all_the_rest(
            start in 0u64..40,
            len in 0u64..40,
            others in prop::collection::vec((0u64..80, 0u64..20), 0..20),
        ) {
            let range_of = |(start, len)| ByteRange::new(ByteOffset(start), ByteCount(len));
            let range: ByteRange = range_of((start, len));
            let others: Vec<ByteRange> = others.into_iter().map(range_of).collect();
            let parts = outside(range, others.clone());
            let covered = |ranges: &[ByteRange], at: u64| {
                let byte = ByteRange::new(ByteOffset(at), ByteCount(1));
                ranges.iter().filter(|range| range.contains(byte)).count()
            };
            for at in 0..120 {
                let is_left = covered(&[range], at) > 0 && covered(&others, at) == 0;
                prop_assert_eq!(covered(&parts, at), usize::from(is_left));
            }
            prop_assert!(
                parts.len() <= others.len() + 1,
                "a drive that refused a strip of sectors took all memory once"
            );
            prop_assert!(parts.iter().all(|part| !part.is_empty()));
        }
    }
}
