//! Whatever changes what the drives of a stripe hold, so that nothing older of it is kept in the read cache.
//!
//! # Invariant
//! Whoever is about to write data of a stripe to drives has a [`Changing`] of these bytes, from before the first of them is written
//! until nothing is written any more. Only then may the bytes be read to be kept ([`Stripes::may_fill`]).
//!
//! A volume that keeps nothing only counts: the memory of the shard is not asked.

use crate::attachment::Closed;
use crate::shard;
use crate::stripe::Stripes;
use ::block_cache::LineName;
use plan::Request;
use std::cell::{Cell, RefCell};
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// Whether a volume keeps anything in the read cache.
#[derive(Default)]
pub(crate) struct CleanUse {
    keeps: Cell<bool>,
    /// As long as it does, nobody writes beside the owner.
    closed: RefCell<Option<Closed>>,
    /// Writes that began while it kept nothing, and have not ended.
    unseen: Cell<u32>,
}

/// Bytes of a stripe are being changed.
pub(crate) enum Changing<'a> {
    /// The read cache knows.
    Seen { _change: shard::Change },
    /// It keeps nothing of the volume, and will not before this has ended.
    Unseen(&'a CleanUse),
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Changing::Unseen(of) = self {
            of.unseen.set(of.unseen.get() - 1);
        }
    }
}

impl CleanUse {
    /// Whether something may be kept of the volume, or will be soon.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps.get()
    }
}

impl Stripes {
    /// Whether what is read now may be kept.
    pub(crate) fn may_fill(&self) -> bool {
        self.clean.keeps.get() && self.clean.unseen.get() == 0 && !self.beside.is_written()
    }

    /// Whether something of the volume is kept from now on.
    pub(crate) fn set_keeps(&self, keeps: bool) {
        self.clean.keeps.set(keeps);
        let closed = keeps.then(|| self.beside.close());
        drop(self.clean.closed.replace(closed));
    }

    /// What the read cache calls a stripe.
    pub(crate) fn line_name(&self, stripe: StripeIndex) -> LineName {
        LineName { volume: self.spec.id.0, stripe }
    }

    /// All data of a stripe.
    pub(crate) fn whole_stripe(&self) -> ByteRange {
        ByteRange::new(ByteOffset(0), self.geometry().stripe_bytes())
    }

    /// Bytes of a stripe are about to be changed on the drives.
    pub(crate) fn begin_change(&self, stripe: StripeIndex, range: ByteRange) -> Changing<'_> {
        if self.clean.keeps.get() {
            let change = self.shard.clean().begin_change(self.line_name(stripe), range);
            return Changing::Seen { _change: change };
        }
        self.clean.unseen.set(self.clean.unseen.get() + 1);
        Changing::Unseen(&self.clean)
    }

    /// Nothing is kept any more of what was read of these stripes.
    pub(crate) async fn forget_read(&self, stripes: std::ops::Range<u64>) {
        if !self.clean.keeps.get() {
            return;
        }
        for (stripe, nth) in stripes.map(StripeIndex).filter(|stripe| self.is_mine(*stripe)).zip(1_u64..) {
            drop(self.begin_change(stripe, self.whole_stripe()));
            self.give_way_after(nth).await;
        }
    }

    /// What a request changes of a stripe's data, if anything. What computes anew what a drive should hold may give something else
    /// than that drive held, so that counts for the whole stripe.
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
