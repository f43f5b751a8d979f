//! A write inside one strip of a mirror goes unchanged to each copy. It needs no read, computation
//! or choice, so no plan is made.

use crate::stripe::Stripes;
use crate::stripe::drive_ops::{DriveOp, DriveOps};
use layout::CopyIndex;
use platform::{Durability, Slice};
use smallvec::smallvec;
use std::rc::Rc;
use units::{ByteCount, ByteRange, StripeIndex};

impl Stripes {
    /// Whether a write is inside one strip of a mirror, and the stripe is healthy.
    pub(crate) fn may_go_to_copies(&self, stripe: StripeIndex, within: ByteRange) -> bool {
        let geometry = self.geometry();
        let is_mirrored = geometry.copies() > 1 && geometry.parity_strips() == 0;
        let (_, at) = geometry.strip_of(ByteCount(within.start.0));
        // In a healthy region no drive is being filled.
        let is_well = || self.is_well(self.region_of(stripe)) && self.is_initialised(stripe);
        is_mirrored && is_well() && at + within.len <= geometry.strip().bytes()
    }

    /// Writes bytes that [may](Stripes::may_go_to_copies). The caller holds them, and has announced
    /// the change. False: some drive failed the write, and this is noted. The caller must write the
    /// same bytes again by a plan.
    pub(crate) async fn write_to_copies(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        slice: &Slice,
        durability: Durability,
    ) -> bool {
        let geometry = self.geometry();
        let (index, at) = geometry.strip_of(ByteCount(within.start.0));
        let map = geometry.stripe_map(stripe);
        let mut ops = DriveOps::default();
        for copy in (0..geometry.copies()).map(CopyIndex) {
            let cell = map.data_cell(index, copy);
            let offset = self.raw(cell.offset) + at;
            ops.ask(self, cell.drive, |member| {
                DriveOp::Io(member.write(offset, smallvec![slice.clone()], durability))
            });
        }
        let mut is_done = true;
        let lacking = ops.finish(self, |answered| {
            if let Err(error) = answered.result {
                is_done = false;
                // The plan decides whether the write succeeds without this drive.
                let _ = self.write_fault(answered.slot, answered.member.as_ref(), error);
            }
        });
        lacking.await.settled(self).await.is_ok() && is_done
    }
}
