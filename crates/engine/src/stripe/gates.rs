//! Gates for writes: regions that move between the distributed spare and their home drives, and
//! changes of the journal. Also removes stripes from use during a reshape.

use crate::stripe::Stripes;
use platform::locks::{ALL_COLUMNS, Mode};
use units::StripeIndex;
use volume_state::RegionIndex;

/// The number of stripes after which the loop yields to other tasks of the shard.
const AT_A_TIME: u64 = 256;

impl Stripes {
    /// Blocks writes to a region until its move is complete.
    pub(crate) fn close_gate(&self, region: RegionIndex) {
        *self.gated.borrow_mut().entry(region).or_default() += 1;
    }

    /// Two moves of a region may overlap: the drive may fail again before the first move is
    /// reported. Writes wait until both have ended.
    pub(crate) fn open_gate(&self, region: RegionIndex) {
        let mut gated = self.gated.borrow_mut();
        if let Some(tasks) = gated.get_mut(&region) {
            *tasks -= 1;
            if *tasks == 0 {
                gated.remove(&region);
            }
        }
        drop(gated);
        self.gate_opened.notify(self.shard.env());
    }

    /// Whether writes to a stripe must wait because its region moves or the journal changes. The
    /// caller holds the stripe; the result stays valid until it unlocks.
    pub(crate) fn is_gated(&self, stripe: StripeIndex) -> bool {
        let gated = self.gated.borrow();
        self.journal.is_changing()
            || !gated.is_empty() && gated.contains_key(&self.region_of(stripe))
    }

    /// Whether the region of a stripe moves: the content of its spare strips is not yet recorded.
    /// The caller holds the stripe, as for [`Stripes::is_gated`].
    pub(crate) fn is_changing_sides(&self, stripe: StripeIndex) -> bool {
        self.gated.borrow().contains_key(&self.region_of(stripe))
    }

    /// Waits until the region of a stripe has moved. The caller must hold no lock.
    pub(crate) async fn sides_are_changed(&self, stripe: StripeIndex) {
        self.gate_opened.wait_until(self.shard.env(), || !self.is_changing_sides(stripe)).await;
    }

    /// Limits use to these stripes. Returns when no task holds any other stripe.
    pub(crate) async fn confine_to(&self, live: std::ops::Range<u64>) {
        let before = self.set_live(live.clone());
        let _closed = self.close_beside().await;
        let end = before.end.min(self.geometry().stripes().0);
        let gone = (before.start..live.start.min(end)).chain(live.end.max(before.start)..end);
        for (stripe, nth) in
            gone.map(StripeIndex).filter(|stripe| self.is_mine(*stripe)).zip(1_u64..)
        {
            let key = self.lock_key(stripe);
            drop(self.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await);
            self.give_way_after(nth).await;
        }
    }

    /// Yields to other tasks of the shard once per batch, in loops that never wait.
    pub(crate) async fn give_way_after(&self, nth: u64) {
        if nth.is_multiple_of(AT_A_TIME) {
            self.shard.env().give_way().await;
        }
    }

    /// Waits until a stripe may be written. The caller must hold no lock.
    pub(crate) async fn pass_gate(&self, stripe: StripeIndex) {
        self.gate_opened.wait_until(self.shard.env(), || !self.is_gated(stripe)).await;
    }
}
