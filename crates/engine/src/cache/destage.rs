//! Destages: writes from cache lines to the drives.

use crate::cache::held::{Held, Told, Waiting};
use crate::cache::{Absorbed, Admitted, Cache, Waits, lock_columns};
use crate::recovery::{Recovery, WRITE};
use crate::stripe::{Attempt, ByJournal, Host, Payload, Writing, begin_marked_write, begin_write};
use ::block_cache::{Destage, Extent, Held as _, RequestTag, Write, merge};
use plan::Request;
use platform::locks::{Guard, Mode};
use platform::{Durability, IoError, Slice, Work};
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;
use units::{ByteRange, StripeIndex};
use write_log::CELL;

/// The writes of a destage.
type Writes = SmallVec<[Write<Held>; 1]>;

/// The result of each write.
type Results = SmallVec<[Result<(), IoError>; 1]>;

/// Writes whole sectors of one stripe, alone or with waiting writes of the same columns. Returns
/// when the write may be acknowledged.
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

impl Admitted {
    /// Waits until the write may be acknowledged.
    ///
    /// # Errors
    /// Those of [`Volume::write`](crate::Volume::write).
    pub(crate) async fn done(self, cache: &Rc<Cache>, stripe: StripeIndex) -> Result<(), IoError> {
        match self {
            Admitted::Answered(Absorbed(write)) => {
                match cache.is_kept(&write) && !cache.logs_every_write() {
                    true => Ok(()),
                    false => Box::pin(cache.promise_absorbed(stripe, &write)).await,
                }
            }
            Admitted::Waits(Waits(waiting)) => {
                wait(cache, &waiting).await?;
                match cache.is_kept(&waiting) || !cache.uses_write_back() {
                    true => Ok(()),
                    false => Box::pin(cache.promise_written(stripe)).await,
                }
            }
        }
    }
}

/// Waits until a write is destaged; carries out the destage if selected for it.
async fn wait(cache: &Rc<Cache>, waiting: &Rc<Waiting>) -> Result<(), IoError> {
    loop {
        match waiting.hear(cache.shard.env()).await {
            Told::CarryOut(destage) => Box::pin(carry_out(cache, &destage)).await,
            Told::Done(result) => return result,
        }
    }
}

/// Carries out a destage, and notifies the waiting writes. A waiting write is in no cache block. If
/// cache blocks keep older data of its bytes until a flush, a restart would restore that data over
/// it. So these cache blocks are cleared before its acknowledgement.
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
    cache.end(destage, &failed.collect::<SmallVec<[usize; 4]>>());
    let waits = || writes.iter().zip(&results).filter(|(write, _)| !write.answered);
    let cleared = match waits()
        .any(|(write, result)| result.is_ok() && cache.is_kept_beneath(stripe, write.range))
    {
        true => Box::pin(cache.flush_destaged()).await,
        false => Ok(()),
    };
    for (write, result) in waits() {
        write.held.write.tell(cache.shard.env(), Told::Done(result.and(cleared)));
    }
}

/// Writes consecutive whole stripes of a region together, each by its own plan. `None`: the stripes
/// are in use or not healthy, and nothing was begun. Writes that enter the stripes' lines meanwhile
/// are not considered: none is acknowledged, so any order is right.
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
        held.push(cache.shard.locks().try_lock_columns(
            key,
            Mode::Exclusive,
            cache.columns(*stripe, whole),
        )?);
        if cache.is_gated(*stripe) || cache.is_doubtful(*stripe) || cache.is_said(*stripe) {
            return None;
        }
        // The line may hold a completed sector with older bytes around its host's data.
        if cache.lines.borrow().has_any(*stripe) {
            return None;
        }
    }
    let _by_journal = cache.go_by_journal();
    let _writing = match begin_write(cache, cache.region_of(first)).await {
        Ok(writing) => writing,
        Err(error) => return Some(Err(error)),
    };
    // The state may have changed since the mark was requested.
    if !cache.writes_together(cache.region_of(first)) {
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

/// The locks of a write to an idle, healthy stripe.
pub(crate) struct Alone {
    _writing: Writing,
    _held: Guard,
    _by_journal: ByJournal,
}

/// Takes all locks of a write if they are free. `None`: the write goes through its line, where it
/// may wait or be joined.
pub(crate) fn alone(cache: &Rc<Cache>, stripe: StripeIndex, range: ByteRange) -> Option<Alone> {
    if cache.uses_write_back() || !cache.lines.borrow().may_be_passed(stripe, range) {
        return None;
    }
    let (key, columns) = (cache.lock_key(stripe), cache.columns(stripe, range));
    let held = cache.shard.locks().try_lock_columns(key, Mode::Exclusive, columns)?;
    if !cache.is_live(stripe) || cache.is_gated(stripe) || cache.is_doubtful(stripe) {
        return None;
    }
    let by_journal = cache.go_by_journal();
    let writing = begin_marked_write(cache, cache.region_of(stripe))?;
    Some(Alone { _writing: writing, _held: held, _by_journal: by_journal })
}

/// Writes whole sectors of an idle stripe without its line. `None`: the stripe is in use or not
/// healthy, and nothing was begun.
pub(crate) async fn put_alone(
    cache: &Rc<Cache>,
    stripe: StripeIndex,
    range: ByteRange,
    data: &Slice,
    durability: Durability,
) -> Option<Result<(), IoError>> {
    let alone = alone(cache, stripe, range)?;
    let done = put(cache, stripe, range, data.clone().into(), durability).await;
    drop(alone);
    Some(written_alone(cache, stripe, durability, done).await)
}

/// Completes such a write. Write-back may have been enabled during it.
pub(crate) async fn written_alone(
    cache: &Rc<Cache>,
    stripe: StripeIndex,
    durability: Durability,
    done: Result<(), IoError>,
) -> Result<(), IoError> {
    cache.note_written(stripe, false);
    match done.is_ok() && durability == Durability::Durable && cache.uses_write_back() {
        true => Box::pin(cache.promise_written(stripe)).await,
        false => done,
    }
}

/// Repeats a failed write to copies by a plan; the caller holds its locks. If that fails too,
/// copies may differ.
pub(crate) async fn put_after_copies(
    cache: &Rc<Cache>,
    stripe: StripeIndex,
    range: ByteRange,
    data: Slice,
    durability: Durability,
) -> Result<(), IoError> {
    let done = put_part(cache, stripe, range, data.into(), durability).await;
    if done.is_err() {
        cache.distrust(stripe).await;
    }
    done
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
                let (durability, bytes) =
                    (write.held.write.durability, Payload::of(write.held.slices()));
                put(cache, stripe, write.range, bytes, durability).await
            }
        });
    }
    results
}

/// The error that blocks a waiting write: older acknowledged data of its cache blocks failed to
/// destage, and a restart would restore that data over it.
fn behind(older: &[Write<Held>], results: &Results, write: &Write<Held>) -> Option<IoError> {
    let cells = write.range.align_out(CELL);
    let mut failed = older
        .iter()
        .zip(results)
        .filter(|(older, _)| older.answered && older.range.overlaps(cells));
    failed.find_map(|(_, result)| result.err()).filter(|_| !write.answered)
}

/// Writes the merged result of several writes by one plan.
async fn put_together(
    cache: &Rc<Cache>,
    stripe: StripeIndex,
    writes: &Writes,
) -> Result<(), IoError> {
    let ranges: SmallVec<[ByteRange; 16]> = writes.iter().map(|write| write.range).collect();
    let extents = merge(&ranges);
    let slices_of =
        |extent: &Extent| writes[extent.write].held.cut(extent.at, extent.range.len).slices();
    let payload = Payload::of(extents.iter().flat_map(slices_of));
    let is_durable = writes.iter().any(|write| write.held.write.durability == Durability::Durable);
    let durability = if is_durable { Durability::Durable } else { Durability::Cached };
    let runs = runs_of(&extents);
    if let [range] = runs[..] {
        return put(cache, stripe, range, payload, durability).await;
    }
    let request = Request::WriteExtents { extents: &runs, cached: &[] };
    cache
        .recover(stripe, request, Host::Payload(payload, durability), &Attempt::HELD, &WRITE)
        .await
        .map(drop)
}

/// Merges adjacent extents into runs of bytes.
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

/// Writes a run of bytes of a stripe, in parts that each fit one record. The caller holds the
/// locks.
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
    let mut rest = Some(payload);
    for part in volume.parts_to_keep(stripe, range) {
        let bytes = match rest.as_ref() {
            Some(payload) if part != range => payload.cut(part.start - range.start, part.len),
            _ => rest.take().expect("a run is one part, or cut into several"),
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
