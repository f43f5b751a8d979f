//! Copies: a write inside one strip of a mirror goes to each of its copies as it is. There is nothing to read, to compute or to
//! choose, so no plan is made.

use crate::stripe::Stripes;
use crate::stripe::drive_ops::{DriveOp, DriveOps};
use crate::stripe::execute::Host;
use layout::CopyIndex;
use plan::Request;
use smallvec::smallvec;
use std::rc::Rc;
use units::{ByteCount, StripeIndex};

impl Stripes {
    /// Carries out a request, if it is such a write and all is well with the drives; `None`: it has to be planned, and was not begun. False: some
    /// drive did not take it, which is known by now: the plan writes the same bytes again, to whoever is left.
    pub(super) async fn write_to_copies(
        self: &Rc<Self>,
        stripe: StripeIndex,
        request: &Request<'_>,
        host: &Host,
    ) -> Option<bool> {
        let (Request::Write { range }, Host::Payload(payload, durability)) = (request, host) else {
            return None;
        };
        let geometry = self.geometry();
        let (index, at) = geometry.strip_of(ByteCount(range.start.0));
        let slice = payload.only_slice()?;
        let is_mirrored = geometry.copies() > 1 && geometry.parity_strips() == 0;
        let is_simple = is_mirrored && self.all_well.get() && self.state().being_replaced().is_empty();
        if !is_simple || at + range.len > geometry.strip().bytes() {
            return None;
        }
        let map = geometry.stripe_map(stripe);
        let mut ops = DriveOps::default();
        for copy in (0..geometry.copies()).map(CopyIndex) {
            let cell = map.data_cell(index, copy);
            let offset = self.raw(cell.offset) + at;
            ops.ask(self, cell.drive, |member| {
                DriveOp::Io(member.write(offset, smallvec![slice.clone()], *durability))
            });
        }
        let mut is_done = true;
        let lacking = ops.finish(self, |answered| {
            if let Err(error) = answered.result {
                is_done = false;
                // Whether the write can be done without the drive is the plan's to find out.
                let _ = self.write_fault(answered.slot, answered.member.as_ref(), error);
            }
        });
        Some(lacking.await.settled(self).await.is_ok() && is_done)
    }
}
