//! The copy: a drive is filled with the content of another one, which stays in use.
//!
//! From the start, the new drive receives every write that the old one receives
//! ([`Replacement`](crate::members::slots)). This task copies the earlier content stripe by stripe,
//! each under its exclusive lock, so that no write happens between read and write. Blocks that the
//! old drive cannot read are computed from the others, or listed as lost. The progress names
//! finished regions: if the old drive fails now, these need no rebuild.
//!
//! Copyback from the distributed spare of RAID 5EE (`relocate.rs`) works the same way, with the
//! spare strips as the source.

use crate::background::Running;
use crate::background::walk::{self, Held, Step, Walked};
use crate::recovery::{MOVE, Recovery};
use crate::stripe::Attempt;
use crate::task::TaskOutcome;
use plan::{Request, WHOLE_STRIP};
use platform::locks::Mode;
use platform::{IoError, IoErrorKind};
use std::ops::Range;
use std::rc::Rc;
use units::{DriveIndex, StripeIndex};
use volume_state::RegionSet;

/// Copies every region of this shard that was ever written to the drive being filled for `slot`.
pub(crate) async fn copy(task: &Rc<Running>, slot: DriveIndex) -> TaskOutcome {
    let volume = &task.volume;
    // New records already go to the new drive as well. It must not lack earlier ones when it takes
    // the slot.
    if let Err(error) = volume.renew_journal().await {
        return TaskOutcome::Failed(error);
    }
    let all = RegionSet::first(volume.regions.count);
    let stale = volume.stale_regions(slot);
    // Where the old drive is stale there is nothing to copy: the new one is stale there too.
    let regions = task.take_on(all.minus(&volume.state().unwritten().clone()).minus(&stale));
    for region in regions.iter() {
        if task.must_end() {
            return TaskOutcome::Stopped;
        }
        let step = move |task, stripes| to_replacement(task, slot, stripes);
        match walk::walk_together(task, region, step).await {
            Walked::Whole => task.finished(region),
            Walked::Stopped => return TaskOutcome::Stopped,
            // An incomplete copy is useless.
            Walked::Failed(error) => return TaskOutcome::Failed(error),
        }
    }
    TaskOutcome::Done
}

async fn to_replacement(
    task: Rc<Running>,
    slot: DriveIndex,
    mut left: Range<u64>,
) -> Result<Step, IoError> {
    let volume = &task.volume;
    let _user = volume.enter()?;
    let mut copied = 0;
    while !left.is_empty() {
        let first = StripeIndex(left.start);
        // The new drive lacks a strip that was moved into the spare strip of this slot before it
        // arrived. The map has it once the region has changed sides.
        volume.sides_are_changed(first).await;
        let mut after = left.clone();
        let held = walk::hold_next(volume, &mut after, Mode::Exclusive).await;
        if !volume.is_changing_sides(first) {
            left = after;
            copied += copy_held(&task, slot, &held).await?;
        }
    }
    Ok(match copied {
        0 => Step::Skipped,
        stripes => Step::Done { drive_bytes: stripes * copied_bytes(volume) },
    })
}

/// The number of these stripes with a part on `slot`, which is copied.
async fn copy_held(task: &Rc<Running>, slot: DriveIndex, held: &Held) -> Result<u64, IoError> {
    let volume = &task.volume;
    let has_a_part = |stripe: &StripeIndex| volume.map(*stripe).drives().any(|drive| drive == slot);
    let parts: Vec<StripeIndex> = held.each().filter(has_a_part).collect();
    if parts.is_empty() {
        return Ok(0);
    }
    let gone = IoError::new(IoErrorKind::Gone);
    if volume.members.replacement(slot).is_none_or(|replacement| replacement.failed.get().is_some())
    {
        return Err(gone);
    }
    let request = Request::Copy { drive: slot, columns: WHOLE_STRIP };
    let are_settled = !parts.iter().any(|stripe| volume.is_doubtful(*stripe));
    let copied = match are_settled {
        true => volume.attempt_together(&parts, request, None, &Attempt::HELD).await,
        false => None,
    };
    match copied {
        Some(skipped) if skipped?.contains(slot) => return Err(gone),
        Some(_) => {}
        None => {
            for stripe in &parts {
                copy_stripe(task, slot, *stripe).await?;
            }
        }
    }
    Ok(parts.len() as u64)
}

/// Drive bytes that copying a stripe moves.
fn copied_bytes(volume: &Recovery) -> u64 {
    2 * u64::from(volume.geometry().rows_per_stripe()) * volume.geometry().strip().bytes().0
}

/// Copies the part of a stripe on `slot` to its place. The caller holds the stripe exclusively.
pub(crate) async fn copy_stripe(
    task: &Rc<Running>,
    slot: DriveIndex,
    stripe: StripeIndex,
) -> Result<Step, IoError> {
    let volume = &task.volume;
    // Otherwise stale parity might be copied before it is computed anew.
    let settled = volume.settle_by_word(stripe).await?;
    volume.recorded(&settled).await?;
    let request = |columns| Request::Copy { drive: slot, columns };
    let copied = volume
        .recover_by_columns(stripe, plan::WHOLE_STRIP, request, &Attempt::HELD, &MOVE)
        .await?;
    if copied.skipped.contains(slot) {
        return Err(IoError::new(IoErrorKind::Gone));
    }
    Ok(Step::Done { drive_bytes: copied_bytes(volume) })
}
