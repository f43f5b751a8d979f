//! Initialisation: makes the redundancy of a new volume agree with its data.
//!
//! *Full*: zeroes are written everywhere, whole stripes at a time; hosts cannot use the volume
//! meanwhile. *Fast*: only the first and last MiB are zeroed, where hosts look for partition tables
//! and file systems. Redundancy follows with first writes and in the background
//! ([`resync`](super::resync)).

use crate::background::Running;
use crate::background::walk::{self, Step, Walked};
use crate::host::Volume;
use crate::task::TaskOutcome;
use platform::locks::{ALL_COLUMNS, Mode};
use platform::{Durability, IoError};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};
use volume_state::RegionSet;

/// The length that a fast initialisation zeroes at each end.
const ENDS: ByteCount = ByteCount::MIB;

/// Initialises this shard's regions.
pub(crate) async fn initialise(task: &Rc<Running>, host: &Rc<Volume>, full: bool) -> TaskOutcome {
    if !full {
        return zero_ends(host).await;
    }
    let volume = &task.volume;
    let regions = task.take_on(RegionSet::first(volume.regions.count));
    for region in regions.iter() {
        if task.must_end() {
            return TaskOutcome::Stopped;
        }
        match walk::walk(task, region, zero_stripe).await {
            Walked::Whole => {
                volume.apply(&volume_state::Change::Synced(region.into()));
                volume.report_synced(region);
                task.finished(region);
            }
            Walked::Stopped => return TaskOutcome::Stopped,
            Walked::Failed(error) => return TaskOutcome::Failed(error),
        }
    }
    TaskOutcome::Done
}

async fn zero_stripe(task: Rc<Running>, stripe: StripeIndex) -> Result<Step, IoError> {
    let volume = &task.volume;
    let _user = volume.enter()?;
    let whole = ByteRange::new(ByteOffset::ZERO, volume.geometry().stripe_bytes());
    let _closed = volume.close_beside().await;
    let key = volume.lock_key(stripe);
    let _guard = volume.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
    match volume.is_initialised(stripe) {
        true => volume.write_zeroes(stripe, whole).await?,
        false => volume.initialise_with_zeros(&[stripe]).await?,
    }
    Ok(Step::Done { drive_bytes: walk::stripe_bytes(volume) })
}

/// The first shard writes the ends, like a host.
async fn zero_ends(volume: &Rc<Volume>) -> TaskOutcome {
    if volume.shard.index().0 != 0 {
        return TaskOutcome::Done;
    }
    let capacity = volume.spec.capacity;
    let len = ENDS.min(capacity);
    for start in [ByteOffset::ZERO, ByteOffset(capacity.0 - len.0)] {
        let range = ByteRange::new(start, len);
        if let Err(error) = volume.write_zeroes(range, Durability::Durable).await {
            return TaskOutcome::Failed(error);
        }
    }
    TaskOutcome::Done
}
