//! The first write to a region: a region that was never written reads as zeros, even without
//! drives.
//!
//! # Invariants
//! - In a region that was never written each drive of the volume holds zeros or is stale. Such
//!   regions exist only in volumes whose drives held zeros at creation. A drive that joins later is
//!   stale in all of them. So any drive returns zeros, and redundancy agrees.
//! - A drive that is stale there needs no rebuild. The region reads as zeros even if no drive is
//!   left.
//! - The first write *blanks* each drive in use that is stale in the region: it writes zeros to the
//!   drive's part. The controller flushes the drive and records it as current. Then the region is
//!   marked and written, so the write has full redundancy.
//! - A drive stays stale if blanking fails, or if it joins between blanking and mark. The write
//!   skips it; a rebuild makes it current.

use crate::messages::ReportKind;
use crate::stripe::Stripes;
use platform::{Durability, IoError, IoErrorKind};
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex, StripeIndex};
use volume_state::RegionIndex;

/// The bytes zeroed per request: a short operation on any drive.
const AT_A_TIME: ByteCount = ByteCount(4 << 20);

impl Stripes {
    /// Blanks the stale drives of a region before its first write. The region is not yet marked,
    /// and no write to it starts before.
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
                tracing::warn!(
                    volume = %name, drive = slot.0, region = region.0,
                    "blanking failed, the drive stays stale here: {error}"
                );
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
                if let Err(error) =
                    member.write_zeroes(range, false, Durability::Cached).await.result
                {
                    self.write_fault(slot, Some(&member), error)?;
                    return Err(error);
                }
            }
        }
        if self.members.drives_of(slot) != swaps {
            return Err(IoError::new(IoErrorKind::Gone)); // The drive was replaced meanwhile.
        }
        // From here on writes reach the drive: the record is true as soon as it is made.
        self.members.open_window(slot, region, StripeIndex(self.stripes_of(region).end));
        let kind =
            ReportKind::Current { drive: slot, regions: region.into(), swaps, is_awaited: true };
        let recorded = self.shard.report(self.spec.id, kind).await;
        if recorded.is_err() {
            self.members.close_window(slot, region);
        }
        recorded
    }

    /// A drive's part of a region, as contiguous ranges.
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
