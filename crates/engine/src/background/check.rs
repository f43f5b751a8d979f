//! The consistency check: redundancy is compared with data, stripe by stripe.
//!
//! A stripe is locked against writes while it is read. A mismatch is reported to the controller,
//! with the wrong drive where the level can identify it (RAID 6, three copies). If repair was
//! requested, that drive's strip is computed from the others. Without an identified drive,
//! redundancy is computed from the data. Stripes that no host has written are skipped; unsynced,
//! stale or unreadable ones count as not compared. A check also finds unreadable blocks while
//! redundancy can restore them.

use crate::background::Running;
use crate::background::walk::{self, Step, Walked};
use crate::messages::ReportKind;
use crate::recovery::Mend;
use crate::recovery::Recovery;
use crate::stripe::Host;
use crate::stripe::begin_write;
use crate::stripe::{Attempt, Ended, Trouble};
use crate::task::TaskOutcome;
use plan::{Mismatch, Request, WHOLE_STRIP};
use platform::locks::Mode;
use platform::{IoError, IoErrorKind};
use std::ops::Range;
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex, DriveSet, StripeIndex};
use volume_state::{RegionIndex, RegionSet};

/// Checks every region of this shard that has data to compare.
pub(crate) async fn check(task: &Rc<Running>, repair: bool) -> TaskOutcome {
    let volume = &task.volume;
    let all = RegionSet::first(volume.regions.count);
    let regions = task.take_on(all.minus(&volume.state().unwritten().clone()));
    for region in regions.iter() {
        if task.must_end() {
            return TaskOutcome::Stopped;
        }
        let step = move |task, stripes| check_stripes(task, region, stripes, repair);
        match walk::walk_together(task, region, step).await {
            Walked::Whole => task.finished(region),
            Walked::Stopped => return TaskOutcome::Stopped,
            Walked::Failed(error) => task.note_error(error),
        }
    }
    TaskOutcome::Done
}

async fn check_stripes(
    task: Rc<Running>,
    region: RegionIndex,
    mut left: Range<u64>,
    repair: bool,
) -> Result<Step, IoError> {
    let volume = &task.volume;
    let _user = volume.enter()?;
    let mode = if repair { Mode::Exclusive } else { Mode::Shared };
    let mut checked = 0;
    while !left.is_empty() {
        if !volume.state().is_synced(region) {
            task.count(|progress| progress.uncompared += left.end - left.start);
            break;
        }
        let held = walk::hold_next(volume, &mut left, mode).await;
        let stripes: Vec<StripeIndex> = held.each().collect();
        let request = Request::Verify { columns: WHOLE_STRIP };
        match volume.attempt_together(&stripes, request, None, &Attempt::HELD).await {
            Some(agree) => {
                agree?;
                checked += stripes.len() as u64;
            }
            None => {
                for stripe in stripes {
                    checked += u64::from(check_stripe(&task, stripe, mode).await?);
                }
            }
        }
    }
    Ok(match checked {
        0 => Step::Skipped,
        stripes => Step::Done { drive_bytes: stripes * walk::stripe_bytes(volume) },
    })
}

/// Whether there was data to compare. The caller holds the stripe lock; exclusively for a repair.
async fn check_stripe(
    task: &Rc<Running>,
    stripe: StripeIndex,
    mode: Mode,
) -> Result<bool, IoError> {
    let volume = &task.volume;
    let repair = mode == Mode::Exclusive;
    let mut trouble = Trouble::default();
    let request = Request::Verify { columns: WHOLE_STRIP };
    let (mut ended, _) =
        volume.attempt(stripe, request, Host::None, &mut trouble, &Attempt::HELD).await;
    let has_trouble = !trouble.is_empty();
    if has_trouble {
        match mode {
            Mode::Exclusive => {
                volume.mend(stripe, &trouble.places, Mend::Look).await?;
                trouble = Trouble::default();
                (ended, _) =
                    volume.attempt(stripe, request, Host::None, &mut trouble, &Attempt::HELD).await;
            }
            Mode::Shared => volume.repair_later(stripe, trouble.places.clone()),
        }
    }
    // Excluded blocks are not rewritten: another attempt would fail as well.
    let is_repaired = has_trouble && !volume.lacks_blocks(stripe);
    task.count(|progress| progress.repaired += u64::from(is_repaired));
    let is_whole = matches!(ended, Ended::Done { .. })
        && trouble.is_empty()
        && trouble.unread.is_none()
        && !volume.lacks_blocks(stripe);
    task.count(|progress| progress.uncompared += u64::from(!is_whole));
    let mismatch = match ended {
        Ended::Done { mismatch, .. } => mismatch,
        Ended::Lost | Ended::NeedsLock => return Ok(false),
        // The state of temporarily unreadable blocks is unknown: they are not compared, and the
        // task continues.
        Ended::Failed(_) if trouble.unread.is_some() => return Ok(false),
        Ended::Failed(error) => return Err(error),
    };
    if let Some(mismatch) = mismatch {
        let mut repaired = false;
        for part in told_apart(volume, stripe, mismatch).await? {
            repaired |= found(task, stripe, part, repair).await?;
        }
        task.count(|progress| {
            progress.mismatches += 1;
            progress.repaired += u64::from(repaired);
        });
    }
    Ok(true)
}

/// Splits a mismatch into parts that one wrong drive explains each: several drives may be wrong in
/// different columns of a stripe. One part if no single drive explains it.
async fn told_apart(
    volume: &Rc<Recovery>,
    stripe: StripeIndex,
    mismatch: Mismatch,
) -> Result<Vec<Mismatch>, IoError> {
    let tells = volume.geometry().parity_strips() > 1 || volume.geometry().copies() > 2;
    let sector = volume.spec.sector.bytes();
    let columns = mismatch.columns.align_out(sector);
    let mut rest = vec![Mismatch { columns, ..mismatch }];
    let mut parts: Vec<Mismatch> = Vec::new();
    while let Some(part) = rest.pop() {
        if !tells || part.culprit.is_some() || part.columns.len <= sector {
            match parts.last_mut() {
                Some(last)
                    if last.culprit == part.culprit && last.columns.end() == part.columns.start =>
                {
                    last.columns.len += part.columns.len;
                }
                _ => parts.push(part),
            }
            continue;
        }
        let middle = (part.columns.start + ByteCount(part.columns.len.0 / 2)).align_up(sector);
        let halves = [(middle, part.columns.end()), (part.columns.start, middle)];
        for (start, end) in halves {
            let request = Request::Verify { columns: ByteRange::from_to(start, end) };
            let mut trouble = Trouble::default();
            match volume.attempt(stripe, request, Host::None, &mut trouble, &Attempt::HELD).await.0
            {
                Ended::Done { mismatch, .. } => {
                    rest.extend(mismatch.map(|found| Mismatch {
                        columns: found.columns.align_out(sector),
                        ..found
                    }));
                }
                Ended::Failed(error) => return Err(error),
                Ended::Lost | Ended::NeedsLock => {}
            }
        }
    }
    Ok(parts)
}

/// A mismatch in a stripe. For `repair` the caller holds it exclusively. Returns whether it was
/// repaired.
async fn found(
    task: &Rc<Running>,
    stripe: StripeIndex,
    mismatch: Mismatch,
    repair: bool,
) -> Result<bool, IoError> {
    let volume = &task.volume;
    let cell = mismatch.culprit.and_then(|role| volume.map(stripe).cell_of(role));
    let wrong: Option<DriveIndex> = cell.map(|cell| cell.drive);
    let mut repaired = false;
    if repair {
        let _writing = begin_write(volume, volume.region_of(stripe)).await?;
        let request = match mismatch.culprit {
            Some(culprit) => Request::Repair { culprit, columns: mismatch.columns },
            None => Request::Resync { columns: mismatch.columns },
        };
        // Without an identified drive, redundancy follows the data.
        let settle = mismatch.culprit.is_none();
        let how = Attempt { settle, filling: DriveSet::EMPTY, ..Attempt::HELD };
        let (ended, _) =
            volume.attempt(stripe, request, Host::None, &mut Trouble::default(), &how).await;
        match ended {
            Ended::Done { skipped, .. } => {
                volume.recorded(&skipped).await?;
                repaired = true;
            }
            Ended::Failed(error) => return Err(error),
            Ended::Lost | Ended::NeedsLock => return Err(IoError::new(IoErrorKind::Medium)),
        }
    }
    let kind = ReportKind::Mismatch { task: task.id, stripe, wrong, repaired };
    volume.shard.report(volume.spec.id, kind).await?;
    Ok(repaired)
}
