//! What the cache has of a stripe: for block status, trims and zeros, which go by it and leave everything else dirty.

use crate::cache::Cache;
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteRange, StripeIndex};
use write_log::CELL;

impl Cache {
    /// The bytes of a stripe that are dirty, in order: hosts were answered for them, and the drives may have something else.
    pub(crate) fn dirty_within(&self, stripe: StripeIndex, range: ByteRange) -> SmallVec<[ByteRange; 4]> {
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

    /// Whether the cache has bytes of a stripe: dirty, or destaged and kept until the drives are flushed.
    pub(crate) fn is_cached(&self, stripe: StripeIndex, range: ByteRange) -> bool {
        self.is_dirty(stripe, range) || self.is_kept_beneath(stripe, range)
    }

    /// Destages a line if any of these bytes is dirty, and flushes the drives, so that the cache has nothing of them. What is dirty in other
    /// lines stays. Where that fails, the cache keeps what it has: [`Cache::is_cached`].
    pub(crate) async fn give_back(self: &Rc<Self>, stripe: StripeIndex, range: ByteRange) {
        // What else is in these cells keeps them.
        let cells = range.align_out(CELL);
        if self.is_dirty(stripe, cells) {
            Box::pin(self.destage_line(stripe)).await;
        }
        if self.is_kept_beneath(stripe, cells)
            && !self.is_dirty(stripe, cells)
            && let Err(error) = Box::pin(self.flush_destaged()).await
        {
            tracing::warn!(volume = %self.name(), "the cache keeps what was destaged: {error}");
        }
    }

    /// Whether the drives are given these bytes at once, as they cost them little and much memory: zeros of which the cache has nothing, and
    /// for which no parity is read. That is a whole stripe, one that reads as zeros anyway, or a strip's length of a level without parity.
    pub(super) fn is_cheap_for_drives(&self, stripe: StripeIndex, range: ByteRange, is_zero: bool) -> bool {
        let geometry = self.geometry();
        let has_parity = geometry.parity_strips() > 0;
        let least = if has_parity { geometry.stripe_bytes() } else { geometry.strip().bytes() };
        is_zero && (range.len >= least || !self.is_initialised(stripe)) && !self.is_cached(stripe, range)
    }
}
