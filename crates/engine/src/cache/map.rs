//! Cached ranges of a stripe, for block status, trims and zeros, which leave other dirty data
//! alone.

use crate::cache::Cache;
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteRange, StripeIndex};
use write_log::CELL;

impl Cache {
    /// The dirty ranges of a stripe, in order: acknowledged, while the drives may have other data.
    pub(crate) fn dirty_within(
        &self,
        stripe: StripeIndex,
        range: ByteRange,
    ) -> SmallVec<[ByteRange; 4]> {
        let lines = self.lines.borrow();
        let dirty = lines.within(stripe, range).filter(|(_, write)| write.answered);
        let parts: SmallVec<[ByteRange; 4]> = dirty.map(|(part, _)| part).collect();
        let mut runs: SmallVec<[ByteRange; 4]> = SmallVec::new();
        for extent in ::block_cache::merge(&parts) {
            match runs.last_mut() {
                Some(last) if last.end() == extent.range.start => last.len += extent.range.len,
                _ => runs.push(extent.range),
            }
        }
        runs
    }

    fn is_dirty(&self, stripe: StripeIndex, range: ByteRange) -> bool {
        self.lines.borrow().within(stripe, range).any(|(_, write)| write.answered)
    }

    /// Whether the cache has bytes of a stripe: dirty, or destaged and not yet flushed.
    pub(crate) fn is_cached(&self, stripe: StripeIndex, range: ByteRange) -> bool {
        self.is_dirty(stripe, range) || self.is_kept_beneath(stripe, range)
    }

    /// Destages a line if any of these bytes is dirty, and flushes the drives, so that the cache
    /// has none of them. Dirty data of other lines stays. After a failure the cache keeps its data:
    /// [`Cache::is_cached`].
    pub(crate) async fn give_back(self: &Rc<Self>, stripe: StripeIndex, range: ByteRange) {
        // Other data in the same cache blocks keeps them in use.
        let cells = range.align_out(CELL);
        if self.is_dirty(stripe, cells) {
            Box::pin(self.destage_line(stripe)).await;
        }
        if self.is_kept_beneath(stripe, cells)
            && !self.is_dirty(stripe, cells)
            && let Err(error) = Box::pin(self.flush_destaged()).await
        {
            tracing::warn!(volume = %self.name(), "destaged data stays unflushed: {error}");
        }
    }

    /// Whether these bytes go to the drives at once, because this costs the drives little and the
    /// cache much memory. They are zeros that the cache does not hold and that need no parity
    /// reads: a whole stripe, a stripe that reads as zeros, or at least a strip on a level without
    /// parity.
    pub(super) fn is_cheap_for_drives(
        &self,
        stripe: StripeIndex,
        range: ByteRange,
        is_zero: bool,
    ) -> bool {
        let geometry = self.geometry();
        let has_parity = geometry.parity_strips() > 0;
        let least = if has_parity { geometry.stripe_bytes() } else { geometry.strip().bytes() };
        is_zero
            && (range.len >= least || !self.is_initialised(stripe))
            && !self.is_cached(stripe, range)
    }
}
