//! Regions that are changing sides between the distributed spare and home, and journals that come and go: writes to them wait. And stripes
//! that are not in use any more, on the way to another layout.

use crate::stripe::Stripes;
use platform::locks::{ALL_COLUMNS, Mode};
use units::StripeIndex;
use volume_state::RegionIndex;

/// After how many stripes others of the shard go on.
const AT_A_TIME: u64 = 256;

impl Stripes {
    /// Has writes to a region wait until it has changed sides.
    pub(crate) fn close_gate(&self, region: RegionIndex) {
        *self.gated.borrow_mut().entry(region).or_default() += 1;
    }

    /// A region may be on its way back, its report not answered yet, when the drive fails and it is moved away again: writes wait
    /// until both have ended.
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

    /// Whether writes to a stripe have to wait, because its region is changing sides, or the journal is. Asked by whoever holds the stripe:
    /// until he lets go, the answer stands.
    pub(crate) fn is_gated(&self, stripe: StripeIndex) -> bool {
        let gated = self.gated.borrow();
        self.journal.is_changing() || !gated.is_empty() && gated.contains_key(&self.region_of(stripe))
    }

    /// Whether the region of a stripe is changing sides: what its spare strips hold is not said yet. Asked as [`Stripes::is_gated`].
    pub(crate) fn is_changing_sides(&self, stripe: StripeIndex) -> bool {
        self.gated.borrow().contains_key(&self.region_of(stripe))
    }

    /// Waits until the region of a stripe has changed sides. Nothing may be held meanwhile.
    pub(crate) async fn sides_are_changed(&self, stripe: StripeIndex) {
        self.gate_opened.wait_until(self.shard.env(), || !self.is_changing_sides(stripe)).await;
    }

    /// Only these stripes are in use from now on. Done when nobody holds one any more that was in use before.
    pub(crate) async fn confine_to(&self, live: std::ops::Range<u64>) {
        let before = self.set_live(live.clone());
        let _closed = self.close_beside().await;
        let end = before.end.min(self.geometry().stripes().0);
        let gone = (before.start..live.start.min(end)).chain(live.end.max(before.start)..end);
        for (stripe, nth) in gone.map(StripeIndex).filter(|stripe| self.is_mine(*stripe)).zip(1_u64..) {
            let key = self.lock_key(stripe);
            drop(self.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await);
            self.give_way_after(nth).await;
        }
    }

    /// Has others of the shard go on, after some of very many stripes with which something is done that waits for nothing.
    pub(crate) async fn give_way_after(&self, nth: u64) {
        if nth.is_multiple_of(AT_A_TIME) {
            self.shard.env().give_way().await;
        }
    }

    /// Waits until a stripe may be written. Nothing may be held meanwhile.
    pub(crate) async fn pass_gate(&self, stripe: StripeIndex) {
        self.gate_opened.wait_until(self.shard.env(), || !self.is_gated(stripe)).await;
    }
}
