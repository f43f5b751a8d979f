//! Invalidates the read cache before the data of a stripe changes on the drives.
//!
//! # Invariant
//! A task that writes data of a stripe to drives holds a [`Changing`] for these bytes, from before
//! its first write until its last write is complete. Bytes are read into the cache only while no
//! [`Changing`] covers them ([`Stripes::may_fill`]).
//!
//! For a volume that the read cache does not hold, changes are only counted.

use crate::shard;
use crate::stripe::stripes::{CleanUse, Stripes};
use ::block_cache::LineName;
use plan::Request;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// Guard: bytes of a stripe are being changed.
pub(crate) enum Changing {
    /// The read cache is notified.
    Seen { _change: shard::Change },
    /// The read cache holds no data of the volume, and will not before this has ended.
    Unseen(Rc<CleanUse>),
}

impl Drop for Changing {
    fn drop(&mut self) {
        if let Changing::Unseen(of) = self {
            of.unseen.set(of.unseen.get() - 1);
        }
    }
}

impl Stripes {
    /// Whether data read now may enter the read cache.
    pub(crate) fn may_fill(&self) -> bool {
        self.clean.keeps.get() && self.clean.unseen.get() == 0 && !self.beside.is_written()
    }

    /// Sets whether the read cache holds data of the volume.
    pub(crate) fn set_keeps(&self, keeps: bool) {
        self.clean.keeps.set(keeps);
        let closed = keeps.then(|| self.beside.close());
        drop(self.clean.closed.replace(closed));
    }

    /// The read cache's name for a stripe.
    pub(crate) fn line_name(&self, stripe: StripeIndex) -> LineName {
        LineName { volume: self.spec.id.0, stripe }
    }

    /// The data range of a whole stripe.
    pub(crate) fn whole_stripe(&self) -> ByteRange {
        ByteRange::new(ByteOffset(0), self.geometry().stripe_bytes())
    }

    /// Begins a change of bytes of a stripe on the drives.
    pub(crate) fn begin_change(&self, stripe: StripeIndex, range: ByteRange) -> Changing {
        if self.clean.keeps.get() {
            let change = self.shard.clean().begin_change(self.line_name(stripe), range);
            return Changing::Seen { _change: change };
        }
        self.clean.unseen.set(self.clean.unseen.get() + 1);
        Changing::Unseen(self.clean.clone())
    }

    /// Removes these stripes from the read cache.
    pub(crate) async fn forget_read(&self, stripes: std::ops::Range<u64>) {
        if !self.clean.keeps.get() {
            return;
        }
        for (stripe, nth) in
            stripes.map(StripeIndex).filter(|stripe| self.is_mine(*stripe)).zip(1_u64..)
        {
            drop(self.begin_change(stripe, self.whole_stripe()));
            self.give_way_after(nth).await;
        }
    }

    /// The range of a stripe's data that a request changes, if any. Recomputation may give other
    /// content than the drive held, so it counts as a change of the whole stripe.
    pub(super) fn changed_by(&self, request: &Request<'_>) -> Option<ByteRange> {
        match request {
            Request::Read { .. } | Request::Verify { .. } | Request::Copy { .. } => None,
            Request::Write { range } | Request::WriteZeroes { range } => Some(*range),
            Request::WriteExtents { extents, .. } => {
                let (first, last) = (extents.first()?, extents.last()?);
                Some(ByteRange::from_to(first.start, last.end()))
            }
            Request::Resync { .. } | Request::Repair { .. } => Some(self.whole_stripe()),
        }
        .filter(|range| range.len > ByteCount::ZERO)
    }
}
