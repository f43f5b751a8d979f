//! What nobody ever wrote: it is zeroes, for ever, whichever drives are out.
//!
//! # Invariants
//! - In a region that was never written every drive of the volume holds zeroes, or is stale there: such regions exist only
//!   in volumes whose drives held nothing but zeroes when they were made, and a drive that takes a place later is stale
//!   in all of them. So they read as zeroes from any drive, and their redundancy agrees.
//! - A drive that is stale there is of no consequence: nothing is missed, and nothing has to be rebuilt. Where none is
//!   left that could tell, the answer is known all the same.
//! - Before the first write to a region, each drive in use that is stale there is *blanked*: zeroes are written to all of
//!   its part of the region, and the controller flushes it and records that it is current there. Then the region is
//!   marked, and written. So a write is as redundant as any other, wherever it goes.
//! - A drive that cannot be blanked, or takes a place between that and the mark, stays stale: it is written without,
//!   and rebuilt as after any write that it missed.

use crate::messages::ReportKind;
use crate::stripe::Stripes;
use platform::{Durability, IoError, IoErrorKind};
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex, StripeIndex};
use volume_state::RegionIndex;

/// What a drive is asked to zero at a time: none takes long for it.
const AT_A_TIME: ByteCount = ByteCount(4 << 20);

impl Stripes {
    /// A region is about to be marked to be written, and nobody writes to it before. If that is for the first time: makes
    /// every drive in use current there.
    pub(crate) async fn blank_before_first_write(self: &Rc<Self>, region: RegionIndex) {
        if !self.state().is_unwritten(region) || self.state().initialisation().is_some() {
            return;
        }
        let stale = self.state().stale_somewhere().intersection(&self.in_service());
        for slot in stale.iter() {
            if self.stale_regions(slot).contains(region)
                && let Err(error) = self.blank(slot, region).await
            {
                let name = self.name();
                tracing::warn!(volume = %name, drive = slot.0, region = region.0, "it stays stale: {error}");
            }
        }
    }

    async fn blank(self: &Rc<Self>, slot: DriveIndex, region: RegionIndex) -> Result<(), IoError> {
        let (member, swaps) = (self.member(slot)?, self.members.drives_of(slot));
        for part in self.parts_of(slot, region) {
            let mut rest = part;
            while !rest.is_empty() {
                let piece = ByteRange::new(rest.start, rest.len.min(AT_A_TIME));
                rest = ByteRange::from_to(piece.end(), rest.end());
                let range = ByteRange::new(self.raw(piece.start), piece.len);
                if let Err(error) = member.write_zeroes(range, false, Durability::Cached).await.result {
                    self.write_fault(slot, Some(&member), error)?;
                    return Err(error);
                }
            }
        }
        if self.members.drives_of(slot) != swaps {
            return Err(IoError::new(IoErrorKind::Gone)); // It was swapped meanwhile.
        }
        // What is recorded of it soon is true already.
        self.members.open_window(slot, region, StripeIndex(self.stripes_of(region).end));
        let kind = ReportKind::Current { drive: slot, regions: region.into(), swaps, is_awaited: true };
        let recorded = self.shard.report(self.spec.id, kind).await;
        if recorded.is_err() {
            self.members.close_window(slot, region);
        }
        recorded
    }

    /// All that a drive has of a region, in runs.
    fn parts_of(&self, slot: DriveIndex, region: RegionIndex) -> Vec<ByteRange> {
        let strip = self.geometry().strip().bytes();
        let mut parts: Vec<ByteRange> = Vec::new();
        for stripe in self.stripes_of(region) {
            let map = self.geometry().stripe_map(StripeIndex(stripe));
            for (cell, _) in map.cells().filter(|(cell, _)| cell.drive == slot) {
                match parts.last_mut() {
                    Some(last) if last.end() == cell.offset => last.len += strip,
                    _ => parts.push(ByteRange::new(cell.offset, strip)),
                }
            }
        }
        parts
    }
}
