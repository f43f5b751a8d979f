//! One stripe request, bytes of one stripe: its locks, from the start to the acknowledgement.
//!
//! | request | holds |
//! | --- | --- |
//! | read | nothing; the columns, shared, where bytes have to be computed |
//! | write acknowledged from the cache | nothing; its destage takes the locks of a normal write |
//! | write without redundancy | the columns, shared: concurrent with its kind, but not with a write that reads a sector to complete it; exclusively while a replacement drive is being filled, since two overlapping writes must reach both drives in the same order |
//! | any other write, trim | the columns, exclusively, and its region's mark |
//! | write of several whole stripes | all of them, if all locks are free, and their region's mark; otherwise each takes its own locks |

use crate::cache::{Cache, lock_to_write, put, put_alone, put_part, put_stripes, write_stripe};
use crate::host::parts::take_slice;
use crate::host::status;
use crate::members::{Places, is_gone};
use crate::messages::{StripeOutcome, StripeRequest, StripeWork};
use crate::recovery::Recovery;
use crate::stripe::{DriveOp, DriveOps, begin_write};
use ::block_cache::RequestTag;
use plan::Request;
use platform::locks::{Guard, Mode};
use platform::{Durability, IoError, IoErrorKind, Member, Slice, Work};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteRange, DriveSet, StripeIndex};

/// Runs a stripe request of another shard, or of a split request. This shard owns its stripe.
pub(super) async fn run(volume: &Rc<Cache>, request: StripeRequest) -> StripeOutcome {
    let StripeRequest { stripe, within, work, of, .. } = request;
    let Ok(_user) = volume.enter() else {
        return StripeOutcome::new(Err(IoError::new(IoErrorKind::Gone)), work.into_buffer());
    };
    let (result, buffer) = match work {
        StripeWork::Read(buf) => volume.read_cached(stripe, within, buf).await,
        StripeWork::Write(data, durability) if within.len > volume.geometry().stripe_bytes() => {
            (Box::pin(write_stripes(volume, stripe, data, durability, of)).await, None)
        }
        StripeWork::Write(data, durability) => {
            (Box::pin(write(volume, stripe, within, data, durability, of)).await, None)
        }
        StripeWork::Lay(data) => (Box::pin(lay(volume, stripe, within, data)).await, None),
        StripeWork::ReadAhead { .. } => panic!("the volume reads ahead, not its cache"),
        StripeWork::Trim => (Box::pin(trim(volume, stripe, within)).await, None),
        StripeWork::Status => {
            let extents = Box::pin(status::of_stripes(volume, stripe, within)).await;
            return StripeOutcome { extents, ..StripeOutcome::new(Ok(()), None) };
        }
        StripeWork::Secure { drives_are_flushed } => {
            (Box::pin(volume.secure(drives_are_flushed)).await, None)
        }
    };
    StripeOutcome::new(result, buffer)
}

/// Writes bytes of one stripe.
///
/// # Errors
/// Those of [`Volume::write`](crate::Volume::write).
pub(super) async fn write(
    volume: &Rc<Cache>,
    stripe: StripeIndex,
    within: ByteRange,
    data: Slice,
    durability: Durability,
    of: RequestTag,
) -> Result<(), IoError> {
    let aligned = within.align_out(volume.spec.sector.bytes());
    match (aligned == within, volume.uses_lines()) {
        (true, true) => match put_alone(volume, stripe, within, &data, durability).await {
            Some(done) => done,
            None => write_stripe(volume, stripe, within, data, durability, of).await,
        },
        (true, false) => {
            let _held = lock_to_put(volume, stripe, within).await;
            put_part(volume, stripe, within, data.into(), durability).await
        }
        (false, _) => {
            Box::pin(write_unaligned(volume, stripe, within, aligned, data, durability, of)).await
        }
    }
}

/// Writes consecutive whole stripes, together if possible.
///
/// # Errors
/// Those of [`Volume::write`](crate::Volume::write).
async fn write_stripes(
    volume: &Rc<Cache>,
    first: StripeIndex,
    mut data: Slice,
    durability: Durability,
    of: RequestTag,
) -> Result<(), IoError> {
    let whole = volume.whole_stripe();
    let count = data.len().0 / whole.len.0;
    let stripes: SmallVec<[StripeIndex; 16]> =
        (first.0..first.0 + count).map(StripeIndex).collect();
    if let Some(written) = put_stripes(volume, &stripes, &data, durability).await {
        return written;
    }
    // One of them is locked, or needs a journal record: they run in parallel, like separate
    // requests.
    let each = stripes.into_iter().map(|stripe| {
        let (volume, own) = (volume.clone(), take_slice(&mut data, whole.len));
        let env = volume.shard.env().clone();
        env.spawn("write a stripe", async move {
            write(&volume, stripe, whole, own, durability, of).await
        })
    });
    let each = each.collect::<Vec<_>>();
    let mut result = Ok(());
    for one in each {
        result = one.await.and(result);
    }
    result
}

/// Takes the lock for a write without redundancy.
async fn lock_to_put(volume: &Rc<Cache>, stripe: StripeIndex, within: ByteRange) -> Guard {
    loop {
        let is_single = || volume.state().being_replaced().is_empty();
        let mode = if is_single() { Mode::Shared } else { Mode::Exclusive };
        let held = volume.lock(stripe, mode, within).await;
        // A replacement may have arrived meanwhile.
        if mode == Mode::Exclusive || is_single() {
            return held;
        }
    }
}

/// Writes bytes that are not whole sectors: `aligned` are the sectors around them. With a write
/// cache, it becomes a write of these sectors once they are complete.
async fn write_unaligned(
    volume: &Rc<Cache>,
    stripe: StripeIndex,
    within: ByteRange,
    aligned: ByteRange,
    data: Slice,
    durability: Durability,
    of: RequestTag,
) -> Result<(), IoError> {
    // Both before the lock: a request that waits for memory must not hold a lock that the owners of
    // that memory wait for.
    let _edges = volume.shard.reserve_write_edges(aligned.len).await;
    let room = volume.room_for(stripe, aligned, &data, durability).await;
    if room.is_some() {
        volume.shard.env().compute(Work::Copy(aligned.len)).await;
    }
    let held = lock_to_write(volume, stripe, aligned).await;
    let by_journal = volume.go_by_journal();
    let writing = match volume.is_redundant() {
        true => Some(begin_write(volume, volume.region_of(stripe)).await?),
        false => None,
    };
    let data = complete_sectors(volume, stripe, within, aligned, &data).await?;
    if !volume.uses_lines() {
        return put(volume, stripe, aligned, data.into(), durability).await;
    }
    // No await since the sectors were completed: later writes are ordered after them.
    let admitted = volume.admit(stripe, aligned, data, durability, room, of);
    drop((writing, by_journal, held));
    admitted.done(volume, stripe).await
}

/// Rule (h) of `ARCHITECTURE.md`: partial sectors are completed under the lock.
async fn complete_sectors(
    volume: &Rc<Cache>,
    stripe: StripeIndex,
    within: ByteRange,
    aligned: ByteRange,
    data: &Slice,
) -> Result<Slice, IoError> {
    let missing = IoError::new(IoErrorKind::OutOfSpace);
    let mut whole = volume.take_scratch(aligned.len, data.is_hollow());
    let sector = volume.spec.sector.bytes();
    let first = ByteRange::new(aligned.start, sector);
    let last = ByteRange::new(aligned.end() - sector, sector);
    for edge in [first, last] {
        if within.contains(edge) || (edge == last && last == first && edge != aligned) {
            continue;
        }
        let old = volume.take_scratch(sector, data.is_hollow());
        let mut places = Places::new();
        let (result, old) = volume.read_held(stripe, edge, old, &mut places).await;
        if !places.is_empty() {
            volume.repair_later(stripe, places);
        }
        result?;
        let old = old.ok_or(missing)?;
        if !whole.is_hollow() {
            let at = (edge.start - aligned.start).as_usize();
            whole.bytes_mut()[at..at + sector.as_usize()].copy_from_slice(old.bytes());
        }
    }
    if !whole.is_hollow() {
        volume.lay_over(stripe, aligned, &mut whole);
        let at = (within.start - aligned.start).as_usize();
        data.copy_to(&mut whole.bytes_mut()[at..at + within.len.as_usize()]);
    }
    Ok(whole.freeze())
}

/// Writes a whole stripe without valid content by one plan, never in parts: a partial update would
/// keep redundancy that agrees with nothing. It needs no record: until it is durable, the caller
/// relies on its source.
async fn lay(
    volume: &Rc<Cache>,
    stripe: StripeIndex,
    within: ByteRange,
    data: Slice,
) -> Result<(), IoError> {
    let _held = lock_to_write(volume, stripe, within).await;
    let _by_journal = volume.go_by_journal();
    let _writing = match volume.is_redundant() {
        true => Some(begin_write(volume, volume.region_of(stripe)).await?),
        false => None,
    };
    let laid = put_part(volume, stripe, within, data.into(), Durability::Cached).await;
    volume.note_written(stripe, false);
    laid
}

/// Discards bytes of one stripe where redundancy can follow. Without redundancy each drive is
/// trimmed. With redundancy whole stripes become zeroes on every drive, which agrees on every
/// level; parts of stripes stay as they are. Cached data is destaged first, and its copy dropped.
/// If that fails, or the cache has new data by then, the bytes stay as they are: a destage or a
/// replay would write after the trim.
pub(super) async fn trim(
    volume: &Rc<Cache>,
    stripe: StripeIndex,
    within: ByteRange,
) -> Result<(), IoError> {
    let within = within.align_in(volume.spec.sector.bytes());
    if within.is_empty() || !can_follow(volume, stripe, within) {
        return Ok(());
    }
    volume.give_back(stripe, within).await;
    let held = lock_to_write(volume, stripe, within).await;
    if volume.is_cached(stripe, within) || !can_follow(volume, stripe, within) {
        return Ok(());
    }
    if !volume.is_redundant() {
        // Without redundancy it does not matter which drives discarded it.
        return trim_drives(volume, stripe, within).await.map(drop);
    }
    let trimmed = trim_held(volume, stripe, within).await;
    drop(held);
    volume.note_written(stripe, false);
    trimmed
}

/// Whether redundancy, and drives being filled, can follow a trim for certain.
fn can_follow(volume: &Rc<Cache>, stripe: StripeIndex, within: ByteRange) -> bool {
    let is_whole = within.len == volume.geometry().stripe_bytes();
    let is_well = || volume.is_well(volume.region_of(stripe)) && volume.is_initialised(stripe);
    volume.state().being_replaced().is_empty() && (!volume.is_redundant() || is_whole && is_well())
}

/// The same, for a stripe that the caller holds.
async fn trim_held(
    volume: &Rc<Recovery>,
    stripe: StripeIndex,
    within: ByteRange,
) -> Result<(), IoError> {
    let _by_journal = volume.go_by_journal();
    let _writing = begin_write(volume, volume.region_of(stripe)).await?;
    volume.silence(stripe).await?;
    if !trim_drives(volume, stripe, within).await? {
        // Only some drives discarded the stripe: write real zeroes to all.
        return volume.write_zeroes(stripe, within).await;
    }
    volume.note_whole_stripe(stripe);
    Ok(())
}

/// Trims these bytes on every drive; with redundancy, zeroes are read there afterwards. Returns
/// whether all drives did it.
///
/// # Errors
/// When the failure of drives cannot be recorded.
async fn trim_drives(
    volume: &Rc<Recovery>,
    stripe: StripeIndex,
    within: ByteRange,
) -> Result<bool, IoError> {
    let _changing = volume.begin_change(stripe, within);
    let mut plan = volume.take_plan();
    let health = volume.stripe_health(stripe, &DriveSet::EMPTY);
    let request = Request::WriteZeroes { range: within };
    let planned = plan::plan_into(&mut plan, volume.geometry(), stripe, request, &health);
    let mut ops = DriveOps::default();
    if planned.is_ok() && plan.reads().is_empty() {
        for write in plan.writes() {
            let range = ByteRange::new(volume.raw(write.offset), write.len);
            ops.ask(volume, write.drive, |member: &Rc<Member>| match volume.is_redundant() {
                true => DriveOp::zeroes(member.write_zeroes(range, true, Durability::Cached)),
                false => DriveOp::Io(member.trim(range)),
            });
        }
    }
    let mut skipped = volume.left_out(&plan);
    volume.put_plan(plan);
    let mut did_all = true;
    let lacking = ops
        .finish(volume, |answered| match answered.result {
            Ok(()) => {}
            Err(_) if answered.is_swapped(volume) => {}
            Err(error) if is_gone(&error) => {
                volume.fail_drive(answered.slot, error, "trim");
                skipped.insert(answered.slot);
            }
            Err(_) => did_all = false,
        })
        .await;
    lacking.settled(volume).await?;
    // Rule (a) applies to trims as to writes.
    volume.recorded(&skipped).await?;
    Ok(did_all)
}
