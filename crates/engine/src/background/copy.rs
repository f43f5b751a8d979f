//! The copy: a drive is filled with what another one holds, while that one serves.
//!
//! From the moment the new drive is there it gets every write that the old one gets ([`Replacement`](crate::members::slots)); what
//! was there before is copied here, stripe by stripe, each held exclusively, so that no write comes between the
//! read and the write. What the old drive cannot read is computed from the others, or listed as lost. Regions that were finished are
//! named in the progress: were the old drive to fail now, they are what need not be rebuilt.
//!
//! RAID 5EE comes back from its distributed spare the same way (`relocate.rs`): what is copied there is what lies in
//! the spare strips.

use crate::background::Running;
use crate::background::walk::{self, Step, Walked};
use crate::recovery::MOVE;
use crate::stripe::{Attempt, Host};
use crate::task::TaskOutcome;
use env::locks::{ALL_COLUMNS, Mode};
use env::{IoError, IoErrorKind};
use plan::{Request, WHOLE_STRIP};
use state::RegionSet;
use std::rc::Rc;
use units::{DriveIndex, StripeIndex};

/// Copies every region of this shard that was ever written to the drive that is being filled for `slot`.
pub(crate) async fn copy(task: &Rc<Running>, slot: DriveIndex) -> TaskOutcome {
    let volume = &task.volume;
    // Records go to the new drive as well by now. Those from before must not be missed there when it takes the slot.
    if let Err(error) = volume.renew_journal().await {
        return TaskOutcome::Failed(error);
    }
    let all = RegionSet::first(volume.regions.count);
    let stale = volume.stale_regions(slot);
    // Where the old drive is stale there is nothing to copy: the new one is as stale.
    let regions = task.take_on(all.minus(&volume.state().unwritten().clone()).minus(&stale));
    for region in regions.iter() {
        if task.must_end() {
            return TaskOutcome::Stopped;
        }
        match walk::walk(task, region, move |task, stripe| to_replacement(task, slot, stripe)).await {
            Walked::Whole => task.finished(region),
            Walked::Stopped => return TaskOutcome::Stopped,
            // A copy that is not whole is no use.
            Walked::Failed(error) => return TaskOutcome::Failed(error),
        }
    }
    TaskOutcome::Done
}

async fn to_replacement(task: Rc<Running>, slot: DriveIndex, stripe: StripeIndex) -> Result<Step, IoError> {
    let volume = &task.volume;
    let _user = volume.enter()?;
    let key = volume.lock_key(stripe);
    let _guard = loop {
        // A strip that was moved into the spare strip of this slot before the new drive came is not on the new drive, and the map
        // has it when the region has changed sides.
        volume.sides_are_changed(stripe).await;
        let guard = volume.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
        if !volume.is_changing_sides(stripe) {
            break guard;
        }
    };
    if !volume.map(stripe).drives().any(|drive| drive == slot) {
        return Ok(Step::Skipped);
    }
    if volume.members.replacement(slot).is_none_or(|replacement| replacement.failed.get().is_some()) {
        return Err(IoError::new(IoErrorKind::Gone));
    }
    copy_stripe(&task, slot, stripe).await
}

/// Copies what `slot` has of a stripe to its place. The caller holds it exclusively.
pub(crate) async fn copy_stripe(
    task: &Rc<Running>,
    slot: DriveIndex,
    stripe: StripeIndex,
) -> Result<Step, IoError> {
    let volume = &task.volume;
    // Otherwise its parity might be copied as it was before redundancy is computed anew.
    let settled = volume.settle_by_word(stripe).await?;
    volume.recorded(&settled).await?;
    let request = Request::Copy { drive: slot, columns: WHOLE_STRIP };
    let copied = volume.recover(stripe, request, Host::None, &Attempt::HELD, &MOVE).await?;
    if copied.skipped.contains(slot) {
        return Err(IoError::new(IoErrorKind::Gone));
    }
    let rows = u64::from(volume.geometry().rows_per_stripe());
    Ok(Step::Done { drive_bytes: 2 * rows * volume.geometry().strip().bytes().0 })
}
