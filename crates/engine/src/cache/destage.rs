//! From a line to the drives.

use crate::cache::held::Held;
use crate::cache::{Cache, Told, Waiting, lock_columns};
use crate::recovery::{Recovery, WRITE};
use crate::stripe::{Attempt, Host, Payload, begin_write};
use ::cache::{Destage, Extent, Held as _, RequestTag, Write, merge};
use env::locks::{Guard, Mode};
use env::{Durability, IoError, Slice, Work};
use log::CELL;
use plan::Request;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;
use units::{ByteRange, StripeIndex};

/// The writes of a destage.
type Writes = SmallVec<[Write<Held>; 1]>;

/// What became of each.
type Results = SmallVec<[Result<(), IoError>; 1]>;

/// Writes whole sectors of one stripe: alone, or with others that wait for the same columns. Done when the host may be
/// answered.
///
/// # Errors
/// Those of [`Volume::write`](crate::Volume::write).
pub(crate) async fn write_stripe(
    cache: &Rc<Cache>,
    stripe: StripeIndex,
    range: ByteRange,
    data: Slice,
    durability: Durability,
    request: RequestTag,
) -> Result<(), IoError> {
    let room = cache.room_for(stripe, range, &data, durability).await;
    if room.is_some() {
        cache.shard.env().compute(Work::Copy(range.len)).await;
    }
    cache.admit(stripe, range, data, durability, room, request).done(cache, stripe).await
}

/// Waits until a write is destaged. Whoever is told to does that.
pub(super) async fn wait(cache: &Rc<Cache>, waiting: &Rc<Waiting>) -> Result<(), IoError> {
    loop {
        match waiting.hear(cache.shard.env()).await {
            Told::CarryOut(destage) => Box::pin(carry_out(cache, &destage)).await,
            Told::Done(result) => return result,
        }
    }
}

/// Carries out a destage for all whose writes it takes, and tells them.
pub(super) async fn carry_out(cache: &Rc<Cache>, destage: &Destage) {
    let stripe = destage.stripe;
    let held = lock_columns(cache, stripe, destage.columns.clone()).await;
    let _by_journal = cache.go_by_journal();
    let marked = match cache.is_redundant() {
        true => begin_write(cache, cache.region_of(stripe)).await.map(Some),
        false => Ok(None),
    };
    let writes = cache.lines.borrow_mut().take(destage, cache.most_to_keep());
    let results = match marked {
        Ok(_writing) => carry_out_held(cache, stripe, &writes).await,
        Err(error) => smallvec![Err(error); writes.len()],
    };
    drop(held);
    for (write, result) in writes.iter().zip(&results) {
        cache.note_written(stripe, write.answered && write.held.write.is_logged.get());
        if write.answered {
            cache.note_destaged(*result);
        }
    }
    let failed = (0..writes.len()).filter(|index| results[*index].is_err());
    // Before any host is told: what lies beneath its write is forgotten by that.
    cache.end(destage, &failed.collect::<SmallVec<[usize; 4]>>());
    for (write, result) in writes.iter().zip(results).filter(|(write, _)| !write.answered) {
        write.held.write.tell(cache.shard.env(), Told::Done(result));
    }
}

/// Writes whole stripes of a region that follow one another, each by a plan of its own, together. `None`: something stands in the way, or
/// somebody is there, and nothing was begun. Whoever waits in the stripes' lines is not asked: no host was answered for anything there,
/// so any order is right.
pub(crate) async fn put_stripes(
    cache: &Rc<Cache>,
    stripes: &[StripeIndex],
    data: &Slice,
    durability: Durability,
) -> Option<Result<(), IoError>> {
    let first = *stripes.first()?;
    let whole = cache.whole_stripe();
    let mut held: SmallVec<[Guard; 4]> = SmallVec::new();
    for stripe in stripes {
        let key = cache.lock_key(*stripe);
        held.push(cache.shard.locks().try_lock_columns(key, Mode::Exclusive, cache.columns(whole))?);
        if cache.is_gated(*stripe) || cache.is_doubtful(*stripe) || cache.is_said(*stripe) {
            return None;
        }
    }
    let _by_journal = cache.go_by_journal();
    let _writing = match begin_write(cache, cache.region_of(first)).await {
        Ok(writing) => writing,
        Err(error) => return Some(Err(error)),
    };
    // It may be otherwise since the mark was asked for.
    if !cache.writes_together() {
        return None;
    }
    let request = Request::Write { range: whole };
    let payload = Some((data, durability));
    let done = match cache.attempt_together(stripes, request, payload, &Attempt::HELD).await? {
        Ok(skipped) => cache.recorded(&skipped).await,
        Err(error) => Err(error),
    };
    drop(held);
    stripes.iter().for_each(|stripe| cache.note_written(*stripe, false));
    Some(done)
}

async fn carry_out_held(cache: &Rc<Cache>, stripe: StripeIndex, writes: &Writes) -> Results {
    if writes.len() > 1 {
        let joined = Box::pin(put_together(cache, stripe, writes)).await;
        if joined.is_ok() {
            cache.count(|counters| counters.joined_writes += writes.len() as u64);
            return smallvec![joined; writes.len()];
        }
    }
    let mut results = Results::new();
    for (index, write) in writes.iter().enumerate() {
        let failed = behind(&writes[..index], &results, write);
        results.push(match failed {
            Some(error) => Err(error),
            None => {
                let (durability, bytes) = (write.held.write.durability, Payload::of(write.held.slices()));
                put(cache, stripe, write.range, bytes, durability).await
            }
        });
    }
    results
}

/// Why a write whose host waits cannot be tried: something older of its cells was answered, is not on the drives, and would be laid
/// over it after a kill.
fn behind(older: &[Write<Held>], results: &Results, write: &Write<Held>) -> Option<IoError> {
    let cells = write.range.align_out(CELL);
    let mut failed =
        older.iter().zip(results).filter(|(older, _)| older.answered && older.range.overlaps(cells));
    failed.find_map(|(_, result)| result.err()).filter(|_| !write.answered)
}

/// Writes what several writes come to, by one plan.
async fn put_together(cache: &Rc<Cache>, stripe: StripeIndex, writes: &Writes) -> Result<(), IoError> {
    let ranges: SmallVec<[ByteRange; 16]> = writes.iter().map(|write| write.range).collect();
    let extents = merge(&ranges);
    let slices_of = |extent: &Extent| writes[extent.write].held.cut(extent.at, extent.range.len).slices();
    let payload = Payload::of(extents.iter().flat_map(slices_of));
    let is_durable = writes.iter().any(|write| write.held.write.durability == Durability::Durable);
    let durability = if is_durable { Durability::Durable } else { Durability::Cached };
    let runs = runs_of(&extents);
    if let [range] = runs[..] {
        return put(cache, stripe, range, payload, durability).await;
    }
    let request = Request::WriteExtents { extents: &runs, cached: &[] };
    cache.recover(stripe, request, Host::Payload(payload, durability), &Attempt::HELD, &WRITE).await.map(drop)
}

/// Extents as the runs of bytes that they make up.
fn runs_of(extents: &[Extent]) -> SmallVec<[ByteRange; 16]> {
    let mut runs: SmallVec<[ByteRange; 16]> = SmallVec::new();
    for Extent { range, .. } in extents {
        match runs.last_mut() {
            Some(last) if last.end() == range.start => last.len += range.len,
            _ => runs.push(*range),
        }
    }
    runs
}

/// Writes a run of bytes of a stripe, in as many parts as can each be kept as a whole. What has to be held is held.
///
/// # Errors
/// Those of [`Volume::write`](crate::Volume::write).
pub(crate) async fn put(
    volume: &Rc<Recovery>,
    stripe: StripeIndex,
    range: ByteRange,
    payload: Payload,
    durability: Durability,
) -> Result<(), IoError> {
    for part in volume.parts_to_keep(range) {
        let bytes = match part == range {
            true => payload.clone(),
            false => payload.cut(part.start - range.start, part.len),
        };
        put_part(volume, stripe, part, bytes, durability).await?;
    }
    Ok(())
}

/// Writes a run of bytes of a stripe at once.
///
/// # Errors
/// Those of [`Volume::write`](crate::Volume::write).
pub(crate) async fn put_part(
    volume: &Rc<Recovery>,
    stripe: StripeIndex,
    range: ByteRange,
    payload: Payload,
    durability: Durability,
) -> Result<(), IoError> {
    let request = match payload.is_zero() {
        true => Request::WriteZeroes { range },
        false => Request::Write { range },
    };
    let host = Host::Payload(payload, durability);
    volume.recover(stripe, request, host, &Attempt::HELD, &WRITE).await.map(drop)
}
