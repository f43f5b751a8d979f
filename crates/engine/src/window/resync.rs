//! The resync: after a crash the redundancy of the lanes that were being written is made to agree with
//! their data again.
//!
//! The window is one stripe: it is locked whole, planned and executed like any request, and released. A lane is
//! synced when all its stripes are; until then its parity is not used, and one designated mirror speaks.
//! A stripe that cannot be resynced (a drive it needs is missing) leaves its lane unsynced, and reads that need
//! its redundancy fail: what is unknown is not guessed.

use crate::lanes::LaneIndex;
use crate::volume::Volume;
use env::locks::{ALL_COLUMNS, Mode};
use std::rc::Rc;
use std::time::Duration;
use units::{DriveSet, StripeIndex};

/// How long to wait before lanes that could not be resynced are tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Resyncs every unsynced lane of this shard that was ever written, until none is left or the volume is detached.
/// One task of a volume does it; a second one ends at once.
pub(crate) async fn resync(volume: Rc<Volume>) {
    if volume.resyncing.replace(true) {
        return;
    }
    let mine = |lane: &LaneIndex| {
        // The owner of another one resyncs it, and the controller tells us.
        volume.lanes.owner(*lane, volume.shard.count()) == volume.shard.index()
    };
    loop {
        let unsynced = volume.dirty.unsynced().minus(&volume.dirty.unwritten());
        let lanes: Vec<LaneIndex> = unsynced.iter().filter(mine).collect();
        let mut left = false;
        for lane in &lanes {
            if volume.closing.get() {
                break;
            }
            if resync_lane(&volume, *lane).await {
                volume.set_synced(&(*lane).into());
                volume.report_synced(*lane);
            } else {
                left = true;
            }
        }
        if lanes.is_empty() || volume.closing.get() {
            break;
        }
        if left {
            volume.shard.env().sleep(RETRY_AFTER).await;
        }
    }
    volume.resyncing.set(false);
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
        let restored = match volume.restore_stripe(stripe, &DriveSet::EMPTY).await {
            Ok(skipped) => volume.recorded(&skipped).await,
            Err(error) => Err(error),
        };
        if let Err(error) = restored {
            tracing::warn!(volume = %volume.spec.name, stripe = stripe.0, "resync stopped: {error}");
            return false;
        }
        volume.count(|counters| counters.resynced_stripes += 1);
    }
    volume.dirty.gaps() == gaps
}
