//! RAID 5EE: moves the content of a failed drive into the distributed spare, and back to its
//! replacement.
//!
//! Every stripe has a spare strip, each on another drive. *Relocating* computes the failed drive's
//! strip from the others and writes it to the spare strip, which holds it from then on; the array
//! survives another failure. *Restoring* copies it back.
//!
//! The window is a region. While it is open, host writes to it wait ([`Volume::pass_gate`]) and
//! reads use the old side. When all its stripes are moved, the controller flushes the drives,
//! records the region's side, and notifies every shard; then the window closes. A crash or failure
//! before that leaves the region on its old side, with all acknowledged data.
//!
//! Every written stripe of a region is locked once while the window is open: earlier writes,
//! including first writes, have ended by then. Background initialisation waits until the window
//! closes. Since host writes wait, a region is moved at full speed; the task sleeps between
//! regions.

use crate::background::Running;
use crate::background::copy::copy_stripe;
use crate::background::walk::{self, Step, Walked};
use crate::messages::ReportKind;
use crate::recovery::MOVE;
use crate::stripe::Attempt;
use crate::task::TaskOutcome;
use plan::Request;
use platform::locks::{ALL_COLUMNS, Mode};
use platform::{IoError, IoErrorKind};
use std::rc::Rc;
use units::{DriveIndex, StripeIndex};
use volume_state::{RegionIndex, RegionSet};

/// Moves the content of `slot` into the distributed spare, or back.
pub(crate) async fn relocate(task: &Rc<Running>, slot: DriveIndex, to_spare: bool) -> TaskOutcome {
    let volume = &task.volume;
    if volume.geometry().spare_strips() == 0 {
        return TaskOutcome::Failed(IoError::new(IoErrorKind::NotSupported));
    }
    let moved = match volume.state().relocated() {
        Some(relocated) if relocated.slot == slot => relocated.regions.clone(),
        Some(_) => return TaskOutcome::Failed(IoError::new(IoErrorKind::Invalid)),
        None => RegionSet::EMPTY,
    };
    let all = RegionSet::first(volume.regions.count);
    let regions = task.take_on(if to_spare { all.minus(&moved) } else { moved });
    for region in regions.iter() {
        let batch = match task.pace.turn(volume).await {
            Some(batch) if !task.must_end() => batch,
            _ => return TaskOutcome::Stopped,
        };
        volume.close_gate(region);
        let result = move_region(task, slot, region, to_spare).await;
        volume.open_gate(region);
        match result {
            Ok(()) => task.finished(region),
            Err(error) => return TaskOutcome::Failed(error),
        }
        let stripes = volume.stripes_of(region);
        batch.took(volume, (stripes.end - stripes.start) * walk::stripe_bytes(volume));
    }
    TaskOutcome::Done
}

async fn move_region(
    task: &Rc<Running>,
    slot: DriveIndex,
    region: RegionIndex,
    to_spare: bool,
) -> Result<(), IoError> {
    let volume = &task.volume;
    // A region that was never written has no data to move: only its side changes.
    if !volume.is_untouched(region) {
        move_stripes(task, slot, region, to_spare).await?;
    }
    // After this another drive may fail: every drive that holds records of interrupted writes must
    // be present.
    volume.renew_journal().await?;
    let kind = ReportKind::Moved { drive: slot, regions: region.into(), to_spare };
    volume.shard.report(volume.spec.id, kind).await
}

async fn move_stripes(
    task: &Rc<Running>,
    slot: DriveIndex,
    region: RegionIndex,
    to_spare: bool,
) -> Result<(), IoError> {
    let volume = &task.volume;
    let initialised = || {
        let stripes = volume.stripes_of(region).map(StripeIndex);
        stripes.filter(|stripe| volume.is_initialised(*stripe)).count()
    };
    loop {
        let before = initialised();
        let step = move |task, stripe| move_stripe(task, slot, stripe, to_spare);
        match walk::walk_unpaced(task, region, step).await {
            Walked::Whole => {}
            Walked::Stopped => return Err(IoError::new(IoErrorKind::Gone)),
            Walked::Failed(error) => return Err(error),
        }
        // A first write that had passed the gate may have initialised skipped stripes.
        if initialised() == before {
            return Ok(());
        }
    }
}

async fn move_stripe(
    task: Rc<Running>,
    slot: DriveIndex,
    stripe: StripeIndex,
    to_spare: bool,
) -> Result<Step, IoError> {
    let volume = &task.volume;
    let _user = volume.enter()?;
    let key = volume.lock_key(stripe);
    let _guard = volume.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
    if !volume.is_initialised(stripe) {
        return Ok(Step::Skipped); // No data to move: only the side changes.
    }
    if !to_spare {
        return copy_stripe(&task, slot, stripe).await;
    }
    let spare = volume.geometry().stripe_map(stripe).spare_cell();
    let Some(spare) = spare.filter(|spare| spare.drive != slot) else {
        return Ok(Step::Skipped); // The failed strip was the spare strip.
    };
    let settled = volume.settle_by_word(stripe).await?;
    volume.recorded(&settled).await?;
    let how = Attempt { moving: Some((slot, spare.drive)), ..Attempt::HELD };
    let request = |columns| Request::Resync { columns };
    let moved = volume.recover_by_columns(stripe, plan::WHOLE_STRIP, request, &how, &MOVE).await?;
    match moved.skipped.contains(spare.drive) {
        true => Err(IoError::new(IoErrorKind::Gone)),
        false => Ok(Step::Done { drive_bytes: walk::stripe_bytes(volume) }),
    }
}
