//! From a line to the drives.

use crate::cache::{Cache, Told, Waiting, lock_columns};
use crate::recovery::{Recovery, WRITE};
use crate::stripe::{Attempt, Host, Payload, begin_write};
use ::cache::{Destage, Extent, RequestTag, Write, merge};
use env::{Durability, IoError, Slice};
use plan::Request;
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteRange, StripeIndex};

/// The writes of a destage.
type Writes = SmallVec<[Write<Rc<Waiting>>; 1]>;

/// Writes whole sectors of one stripe of a level with redundancy: alone, or with others that wait for the same columns.
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
    let waiting = Waiting::new(data, durability);
    let (columns, held) = (cache.columns(range), waiting.clone());
    cache.admit(stripe, Write { range, columns, request, held });
    loop {
        match waiting.hear(cache.shard.env()).await {
            Told::CarryOut(destage) => Box::pin(carry_out(cache, &destage)).await,
            Told::Done(result) => return result,
        }
    }
}

/// Carries out a destage for all whose writes it takes, and tells them.
async fn carry_out(cache: &Rc<Cache>, destage: &Destage) {
    let stripe = destage.stripe;
    let held = lock_columns(cache, stripe, destage.columns.clone()).await;
    let _by_journal = cache.go_by_journal();
    let marked = begin_write(cache, cache.region_of(stripe)).await;
    let writes = cache.lines.borrow_mut().take(destage, cache.most_to_keep());
    match marked {
        Ok(_writing) => carry_out_held(cache, stripe, &writes).await,
        Err(error) => tell_all(cache, &writes, Err(error)),
    }
    drop(held);
    cache.end(destage);
}

async fn carry_out_held(cache: &Rc<Cache>, stripe: StripeIndex, writes: &Writes) {
    if writes.len() > 1 {
        let joined = Box::pin(put_together(cache, stripe, writes)).await;
        if joined.is_ok() {
            cache.count(|counters| counters.joined_writes += writes.len() as u64);
            return tell_all(cache, writes, joined);
        }
    }
    for write in writes {
        let Waiting { data, durability, .. } = &*write.held;
        let result = put(cache, stripe, write.range, data.clone().into(), *durability).await;
        write.held.tell(cache.shard.env(), Told::Done(result));
    }
}

fn tell_all(cache: &Cache, writes: &Writes, result: Result<(), IoError>) {
    writes.iter().for_each(|write| write.held.tell(cache.shard.env(), Told::Done(result)));
}

/// Writes what several writes come to, by one plan.
async fn put_together(cache: &Rc<Cache>, stripe: StripeIndex, writes: &Writes) -> Result<(), IoError> {
    let ranges: SmallVec<[ByteRange; 16]> = writes.iter().map(|write| write.range).collect();
    let extents = merge(&ranges);
    let slice_of = |extent: &Extent| writes[extent.write].held.data.cut(extent.at, extent.range.len);
    let payload = Payload::of(extents.iter().map(slice_of));
    let is_durable = writes.iter().any(|write| write.held.durability == Durability::Durable);
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
