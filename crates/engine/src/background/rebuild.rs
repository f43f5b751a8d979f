//! The rebuild: computes the content of a stale drive from the others and writes it.
//!
//! A region's window opens at its first stripe. Each stripe is locked exclusively while it is
//! computed and written; it is current from then on, and host writes reach the drive. When the
//! region is complete the controller flushes the drive, records the region as current and notifies
//! every shard: a crash before that repeats the region, not the rebuild. Regions that no host has
//! written stay for their first write. Blocks that cannot be restored are listed as lost, and the
//! rebuild continues.
//!
//! A rebuild belongs to the drive that has the slot when it begins. When the slot is swapped, the
//! rebuild ends and does not touch the new drive: another rebuild may be running on it.

use crate::background::Running;
use crate::background::walk::{self, Held, Step, Walked};
use crate::messages::ReportKind;
use crate::recovery::Recovery;
use crate::task::TaskOutcome;
use platform::locks::Mode;
use platform::{IoError, IoErrorKind};
use std::ops::Range;
use std::rc::Rc;
use units::{DriveIndex, DriveSet, StripeIndex};
use volume_state::RegionIndex;

/// Rebuilds every written region of this shard in which the drive is stale.
pub(crate) async fn rebuild(task: &Rc<Running>, slot: DriveIndex) -> TaskOutcome {
    let outcome = rebuild_regions(task, slot).await;
    // Reports in progress concern the drive that has the slot now: the task ends after them.
    task.background_done().await;
    outcome
}

async fn rebuild_regions(task: &Rc<Running>, slot: DriveIndex) -> TaskOutcome {
    let volume = &task.volume;
    let regions =
        task.take_on(volume.stale_regions(slot).minus(&volume.state().unwritten().clone()));
    let swaps = volume.members.drives_of(slot);
    for region in regions.iter() {
        if task.must_end() {
            return TaskOutcome::Stopped;
        }
        if volume.members.drives_of(slot) != swaps {
            return TaskOutcome::Failed(IoError::new(IoErrorKind::Gone));
        }
        volume.members.open_window(slot, region, StripeIndex(volume.stripes_of(region).start));
        let step = move |task, stripes| stripes_of(task, (slot, swaps), region, stripes);
        let walked = walk::walk_together(task, region, step).await;
        match walked {
            Walked::Whole => finished(task, slot, region, swaps).await,
            Walked::Stopped => {
                close(volume, (slot, swaps), region);
                return TaskOutcome::Stopped;
            }
            Walked::Failed(error) => {
                close(volume, (slot, swaps), region);
                if !volume.in_service().contains(slot) {
                    return TaskOutcome::Failed(error);
                }
                task.note_error(error);
            }
        }
    }
    TaskOutcome::Done
}

/// Closes a region's window: stripes not recorded as current are stale again. After a swap the
/// window belongs to another rebuild.
fn close(volume: &Recovery, (slot, swaps): (DriveIndex, u64), region: RegionIndex) {
    if volume.members.drives_of(slot) == swaps {
        volume.members.close_window(slot, region);
    }
}

/// The region is current; the controller records that asynchronously. The window stays open until
/// then.
async fn finished(task: &Rc<Running>, slot: DriveIndex, region: RegionIndex, swaps: u64) {
    let running = task.clone();
    task.in_background(async move {
        let volume = &running.volume;
        let kind =
            ReportKind::Current { drive: slot, regions: region.into(), swaps, is_awaited: false };
        let current = async {
            // After this another drive may fail, which must not be the last one with a record.
            volume.renew_journal().await?;
            volume.shard.report(volume.spec.id, kind).await
        };
        match current.await {
            Ok(()) => running.finished(region),
            Err(error) => {
                close(volume, (slot, swaps), region);
                running.note_error(error);
            }
        }
    })
    .await;
}

/// Makes stripes of a region current on the slot's drive, as many at a time as can be locked at
/// once. `drive`: the slot, and its number of swaps when the rebuild began.
async fn stripes_of(
    task: Rc<Running>,
    drive: (DriveIndex, u64),
    region: RegionIndex,
    mut left: Range<u64>,
) -> Result<Step, IoError> {
    let volume = &task.volume;
    let _user = volume.enter()?;
    let mut restored = 0;
    while !left.is_empty() {
        let held = walk::hold_next(volume, &mut left, Mode::Exclusive).await;
        restored += restore_held(&task, drive, region, &held).await?;
    }
    Ok(match restored {
        0 => Step::Skipped,
        stripes => Step::Done { drive_bytes: stripes * walk::stripe_bytes(volume) },
    })
}

/// The number of stripes that needed work.
async fn restore_held(
    task: &Rc<Running>,
    (slot, swaps): (DriveIndex, u64),
    region: RegionIndex,
    held: &Held,
) -> Result<u64, IoError> {
    let volume = &task.volume;
    let is_same = || volume.members.drives_of(slot) == swaps;
    if !is_same() {
        return Err(IoError::new(IoErrorKind::Gone));
    }
    let stale: Vec<StripeIndex> =
        held.each().filter(|stripe| !volume.is_current(slot, *stripe)).collect();
    // Some stripes are on another span's drives.
    let has_a_part = |stripe: &StripeIndex| volume.map(*stripe).drives().any(|drive| drive == slot);
    let parts: Vec<StripeIndex> = stale.iter().copied().filter(has_a_part).collect();
    if !parts.is_empty() {
        let skipped = volume.restore_stripes(&parts, &DriveSet::EMPTY.with(slot)).await?;
        if skipped.contains(slot) {
            return Err(IoError::new(IoErrorKind::Gone));
        }
        volume.recorded(&skipped).await?;
    }
    for stripe in stale {
        if !is_same() || !volume.members.stripe_current(slot, region, stripe) {
            return Err(IoError::new(IoErrorKind::Gone)); // The drive was swapped, or failed.
        }
    }
    Ok(parts.len() as u64)
}
