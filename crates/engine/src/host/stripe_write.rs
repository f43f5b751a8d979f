//! A host's write to one stripe of a level with parity, without a task: a
//! [stripe operation](crate::stripe::StripeOp) with the locks that it needs.
//!
//! # Invariants
//! - It holds the stripe's columns, its region's mark and the announced change until it is complete
//!   or finished, also if it is done by other plans in the end.

use crate::cache::{Alone, Cache, alone, written_alone};
use crate::members::Places;
use crate::stripe::{Changing, StripeOp};
use platform::{Durability, IoError, Slice};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// See the [module](self).
pub(super) struct StripeWrite {
    pub(super) op: StripeOp,
    /// The bytes of its stripe.
    within: ByteRange,
    data: Slice,
    durability: Durability,
    alone: Alone,
    changing: Changing,
}

impl StripeWrite {
    /// Plans a write whose [way](crate::host::way) is that of a stripe operation, and holds its
    /// stripe. `None`: the stripe is in use, or there is no memory, and nothing was begun.
    pub(super) fn plan(
        volume: &Rc<Cache>,
        range: ByteRange,
        data: &Slice,
        durability: Durability,
    ) -> Option<Box<StripeWrite>> {
        let (stripe, at) = volume.geometry().stripe_of(range.start);
        let within = ByteRange::new(ByteOffset(at.0), range.len);
        let alone = alone(volume, stripe, within)?;
        let changing = volume.begin_change(stripe, within);
        let op = StripeOp::plan(volume, stripe, within, data.clone(), durability)?;
        let data = data.clone();
        Some(Box::new(StripeWrite { op, within, data, durability, alone, changing }))
    }

    /// Its length.
    pub(super) fn len(&self) -> ByteCount {
        self.within.len
    }

    /// Whether it is done, and needs no task to be [finished](StripeWrite::finish). Write-back may
    /// have been enabled meanwhile: then a durable write must be promised.
    pub(super) fn is_complete(&self, volume: &Cache) -> bool {
        let must_promise = || self.durability == Durability::Durable && volume.uses_write_back();
        self.op.is_done() && !must_promise()
    }

    /// Ends a write that is [complete](StripeWrite::is_complete). Returns its length.
    pub(super) fn complete(self: Box<Self>, volume: &Cache) -> ByteCount {
        volume.note_written(self.op.stripe(), false);
        self.op.end(volume);
        self.within.len
    }

    /// Finishes a write that is not complete: by its plan if it is committed, else by another one.
    ///
    /// # Errors
    /// Those of [`Volume::write`](crate::Volume::write).
    pub(super) async fn finish(self: Box<Self>, volume: &Rc<Cache>) -> Result<(), IoError> {
        let StripeWrite { mut op, within, data, durability, alone, changing } = *self;
        let stripe = op.stripe();
        let done = if !op.is_committed() {
            let unreadable = op.unreadable();
            op.end(volume);
            volume.count(|counters| counters.replans += 1);
            volume.write_after(unreadable, stripe, within, data, durability).await
        } else if op.is_done() {
            op.end(volume);
            Ok(())
        } else {
            let settled = op.settle(volume).await;
            // Both of these may wait for what holders of plans' memory wait for.
            op.end(volume);
            match settled {
                Ok(skipped) => volume.record_write(&Places::new(), &skipped).await,
                Err((error, refused)) => volume.refused_write(stripe, error, refused).await,
            }
        };
        drop((alone, changing));
        written_alone(volume, stripe, durability, done).await
    }
}
