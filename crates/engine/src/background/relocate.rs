//! RAID 5EE: what a failed drive held moves into the distributed spare, and back to the drive that takes its place.
//!
//! Every stripe has a spare strip, on another drive each time. *Relocating* computes the failed drive's strip of a
//! stripe from the others and writes it to the spare strip; from then on that is where it lives, and the array
//! survives another loss. *Restoring* copies it back.
//!
//! The window is a region. While it is open, host writes to it wait ([`Volume::pass_gate`]) and reads go where they
//! went before; when all its stripes are moved the controller flushes the drives, remembers on which side the region
//! is, and tells every shard; then the window closes. A crash or a failure before that leaves the region on the
//! side it was on, with everything that was acknowledged.
//!
//! Every stripe of a region that was written is locked once while the window is open: writes that began before have ended
//! by then, first writes included. The background initialisation waits until the window closes. Since host writes wait, the
//! stripes of one region are moved at full speed; the task rests between regions.

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

/// Moves what `slot` held into the distributed spare, or back.
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
        if !task.pace.turn(&volume.shard).await || task.must_end() {
            return TaskOutcome::Stopped;
        }
        let began = volume.shard.env().now();
        volume.close_gate(region);
        let result = move_region(task, slot, region, to_spare).await;
        volume.open_gate(region);
        match result {
            Ok(()) => task.finished(region),
            Err(error) => return TaskOutcome::Failed(error),
        }
        let stripes = volume.stripes_of(region);
        task.pace.took(&volume.shard, began, (stripes.end - stripes.start) * walk::stripe_bytes(volume));
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
    // A region that was never written has nothing to be moved: it merely changes sides.
    if !volume.is_untouched(region) {
        move_stripes(task, slot, region, to_spare).await?;
    }
    // From now on a further drive may go out: none of those that have to tell what was interrupted may be missing.
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
        // A first write that had passed the gate may have initialised stripes that had been passed over.
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
        return Ok(Step::Skipped); // Nothing of it is to be moved: it merely changes sides.
    }
    if !to_spare {
        return copy_stripe(&task, slot, stripe).await;
    }
    let spare = volume.geometry().stripe_map(stripe).spare_cell();
    let Some(spare) = spare.filter(|spare| spare.drive != slot) else {
        return Ok(Step::Skipped); // What failed was the spare strip itself.
    };
    let settled = volume.settle_by_word(stripe).await?;
    volume.recorded(&settled).await?;
    let how = Attempt { moving: Some((slot, spare.drive)), ..Attempt::HELD };
    let request = |columns| Request::Resync { columns };
    let moved = volume.recover_by_columns(stripe, request, &how, &MOVE).await?;
    match moved.skipped.contains(spare.drive) {
        true => Err(IoError::new(IoErrorKind::Gone)),
        false => Ok(Step::Done { drive_bytes: walk::stripe_bytes(volume) }),
    }
}
