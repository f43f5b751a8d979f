//! The resync: after a crash the redundancy of the lanes that were being written is made to agree with
//! their data again.
//!
//! The window is one stripe: it is locked whole, planned and executed like any request, and released. A lane is
//! synced when all its stripes are; until then its parity is not used, and one designated mirror speaks.
//! A stripe that cannot be resynced (a drive it needs is missing) leaves its lane unsynced, and reads that need
//! its redundancy fail: what is unknown is not guessed.

use crate::execute::Host;
use crate::lanes::LaneIndex;
use crate::volume::Volume;
use env::locks::{ALL_COLUMNS, Mode};
use plan::{Request, WHOLE_STRIP};
use std::rc::Rc;
use std::time::Duration;
use units::StripeIndex;

/// How long to wait before lanes that could not be resynced are tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Resyncs every unsynced lane of this shard, until none is left or the volume is detached.
pub(crate) async fn resync(volume: Rc<Volume>) {
    loop {
        let mut left = false;
        for lane in volume.dirty.unsynced().minus(&volume.dirty.unwritten()).iter() {
            if volume.closing.get() {
                return;
            }
            if volume.lanes.owner(lane, volume.shard.count()) != volume.shard.index() {
                continue; // Its owner resyncs it, and the controller tells us.
            }
            if resync_lane(&volume, lane).await {
                volume.set_synced(&lane.into());
                volume.report_synced(lane);
            } else {
                left = true;
            }
        }
        if !left {
            return;
        }
        volume.shard.env().sleep(RETRY_AFTER).await;
    }
}

/// Whether every stripe of the lane agrees with its redundancy afterwards.
async fn resync_lane(volume: &Rc<Volume>, lane: LaneIndex) -> bool {
    let gaps = volume.dirty.gaps();
    let end = volume.geometry().stripes().0;
    for stripe in volume.lanes.stripes_of(lane) {
        if stripe >= end {
            break;
        }
        let stripe = StripeIndex(stripe);
        let Ok(_user) = volume.enter() else { return false };
        let key = volume.lock_key(stripe);
        let _guard = volume.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
        let (result, _) =
            volume.run_request(stripe, Request::Resync { columns: WHOLE_STRIP }, Host::None).await;
        match result {
            Ok(skipped) => {
                if volume.health.recorded(volume.shard.env(), &skipped).await.is_err() {
                    return false;
                }
            }
            Err(error) => {
                tracing::warn!(volume = %volume.spec.name, stripe = stripe.0, "resync stopped: {error}");
                return false;
            }
        }
        volume.count(|counters| counters.resynced_stripes += 1);
    }
    volume.dirty.gaps() == gaps
}
