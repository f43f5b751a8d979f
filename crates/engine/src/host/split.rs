//! A request for several stripes, or for a stripe of another shard: it is split into stripe
//! requests for the shards that own their stripes, and reassembled. All of them run in parallel.

use crate::host::direct::LONGEST;
use crate::host::exchange::Parent;
use crate::host::parts::{stripes, take_slice};
use crate::host::status::Extents;
use crate::host::{Job, Then, Volume};
use crate::messages::{ShardIndex, StripeRequest, StripeWork};
use ::block_cache::RequestTag;
use platform::{Buf, Durability, IoError, IoErrorKind, Slice, StatusExtent};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};
use volume_state::RegionIndex;

/// The most strips in one reply about block status.
const MOST_STRIPS: u64 = 256;

impl StripeWork {
    /// The buffer of a stripe request that did not run.
    pub(crate) fn into_buffer(self) -> Option<Buf> {
        match self {
            StripeWork::Read(buf) => Some(buf),
            StripeWork::ReadAhead { .. }
            | StripeWork::Write(..)
            | StripeWork::Lay(_)
            | StripeWork::Trim
            | StripeWork::Status
            | StripeWork::Secure { .. } => None,
        }
    }
}

/// The [`stripes`] of a range, with consecutive whole stripes of a region as one part of at most
/// `most` stripes.
fn shares(
    volume: &Volume,
    range: ByteRange,
    most: u64,
) -> impl Iterator<Item = (StripeIndex, ByteRange)> {
    let whole = volume.geometry().stripe_bytes();
    let mut each = stripes(volume.geometry(), range).peekable();
    std::iter::from_fn(move || {
        let (first, mut within) = each.next()?;
        while within.len.0.is_multiple_of(whole.0) && within.len.0 / whole.0 < most {
            let goes_on = |next: &(StripeIndex, ByteRange)| {
                next.1.len == whole && volume.region_of(next.0) == volume.region_of(first)
            };
            let Some((_, next)) = each.next_if(goes_on) else { break };
            within.len += next.len;
        }
        Some((first, within))
    })
}

/// The rest of a request's payload to distribute.
pub(super) enum Whole {
    Read(Buf),
    Write(Slice, Durability),
    Lay(Slice),
    Trim,
    Status,
}

impl Whole {
    /// The most whole stripes in one stripe request: for a host's write, as many as are written
    /// together; for a block status, all.
    fn most_stripes(&self, volume: &Volume, region: RegionIndex) -> u64 {
        match self {
            Whole::Write(data, _)
                if !data.is_zero() && !volume.is_hidden() && volume.writes_together(region) =>
            {
                let (geometry, strip) = (volume.geometry(), volume.geometry().strip().bytes().0);
                // The other shards compute in parallel.
                let parity = strip * u64::from(geometry.parity_strips());
                let by_memory =
                    (volume.shard().scratch_total().0 / 2).checked_div(parity).unwrap_or(u64::MAX);
                (LONGEST.0 / (strip * u64::from(geometry.rows_per_stripe()))).min(by_memory).max(1)
            }
            Whole::Status => u64::MAX,
            _ => 1,
        }
    }

    /// The work of the next stripe request, of `len` bytes.
    fn take(&mut self, len: ByteCount) -> StripeWork {
        match self {
            Whole::Read(buf) => {
                let rest = buf.split_off(len);
                StripeWork::Read(std::mem::replace(buf, rest))
            }
            Whole::Write(slice, durability) => {
                StripeWork::Write(take_slice(slice, len), *durability)
            }
            Whole::Lay(slice) => StripeWork::Lay(take_slice(slice, len)),
            Whole::Trim => StripeWork::Trim,
            Whole::Status => StripeWork::Status,
        }
    }
}

/// Makes all acknowledged writes durable on every shard. Each takes its cut-off when it is asked,
/// before any of them is done. `drives_are_flushed`: the caller flushes the drives afterwards.
///
/// # Errors
/// The first error of a shard.
pub(super) async fn secure(
    volume: &Volume,
    of: RequestTag,
    drives_are_flushed: bool,
) -> Result<(), IoError> {
    let parent = Rc::new(Parent::default());
    let shards = (0..volume.shard.count()).map(ShardIndex);
    for (number, shard) in (0..).zip(shards.filter(|shard| *shard != volume.shard.index())) {
        let (stripe, within) = (StripeIndex(0), ByteRange::new(ByteOffset::ZERO, ByteCount::ZERO));
        let work = StripeWork::Secure { drives_are_flushed };
        let request = StripeRequest { volume: volume.spec().id, stripe, within, of, work };
        parent.begin();
        volume.exchange.send_away(&volume.shard, shard, request, (&parent, number)).await;
    }
    let here = volume.secure(drives_are_flushed).await;
    volume.exchange.wait_for(&parent).await;
    here.and(parent.result())
}

/// Runs a request as stripe requests. Returns the buffer of a read, unless a drive keeps it after a
/// timeout.
pub(super) async fn run(
    volume: &Volume,
    range: ByteRange,
    mut whole: Whole,
    of: RequestTag,
) -> (Result<(), IoError>, Option<Buf>) {
    let read = if matches!(whole, Whole::Read(_)) { range.len } else { ByteCount::ZERO };
    let parent = deal(volume, range, &mut whole, of).await;
    let result = parent.result();
    if read.is_zero() {
        return (result, None);
    }
    let buffer =
        volume.put_together(parent.parts.take().into_iter().filter_map(|part| part.buffer));
    match buffer.filter(|buffer| buffer.len() == read) {
        Some(buffer) => (result, Some(buffer)),
        // A drive that did not respond in time keeps some of it, and there is no memory for another
        // buffer.
        None => (result.and(Err(IoError::new(IoErrorKind::TimedOut))), None),
    }
}

/// The block status of a range from its start, at most the strips of one reply, from the shards
/// that own its stripes.
///
/// # Errors
/// The first error of a shard.
pub(super) async fn status(
    volume: &Volume,
    range: ByteRange,
    of: RequestTag,
) -> Result<Vec<StatusExtent>, IoError> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let strip = volume.geometry().strip().bytes();
    let end = range.start.align_down(strip) + strip * MOST_STRIPS;
    let looked_at = ByteRange::from_to(range.start, range.end().min(end));
    let parent = deal(volume, looked_at, &mut Whole::Status, of).await;
    parent.result()?;
    let mut extents = Extents::default();
    for extent in parent.parts.take().into_iter().flat_map(|part| part.extents) {
        extents.add(extent.len, extent.status);
    }
    Ok(extents.into_vec())
}

/// Distributes a request as stripe requests, and waits for all of them.
async fn deal(volume: &Volume, range: ByteRange, whole: &mut Whole, of: RequestTag) -> Rc<Parent> {
    let parent = Rc::new(Parent::default());
    let most =
        whole.most_stripes(volume, volume.region_of(volume.geometry().stripe_of(range.start).0));
    for (number, (stripe, within)) in (0..).zip(shares(volume, range, most)) {
        let work = whole.take(within.len);
        let request = StripeRequest { volume: volume.spec().id, stripe, within, of, work };
        parent.begin();
        if volume.is_mine(stripe) {
            volume.exchange.enqueue(Job { request, then: Then::Local(parent.clone(), number) });
        } else {
            let owner = ShardIndex::owning(volume.region_of(stripe), volume.shard.count());
            volume.exchange.send_away(&volume.shard, owner, request, (&parent, number)).await;
        }
    }
    volume.exchange.wait_for(&parent).await;
    parent
}
