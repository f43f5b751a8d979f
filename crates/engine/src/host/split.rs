//! A request for several stripes, or for a stripe of another shard: it is split into stripe
//! requests for the shards that own their stripes, and reassembled. All of them run in parallel.

use crate::cache::Cache;
use crate::host::direct::LONGEST;
use crate::host::status::Extents;
use crate::host::{Exchange, Job, Then, Volume};
use crate::messages::{ShardIndex, StripeOutcome, StripeRequest, StripeWork};
use ::block_cache::RequestTag;
use layout::Geometry;
use platform::sync::{Signal, Taken};
use platform::{Buf, Durability, Env, IoError, IoErrorKind, Slice, StatusExtent};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};
use volume_state::RegionIndex;

/// A request with stripe requests in progress.
#[derive(Default)]
pub(crate) struct Parent {
    pub(crate) request: Cell<Option<u64>>,
    unfinished: Cell<u32>,
    error: Cell<Option<IoError>>,
    parts: RefCell<SmallVec<[Part; 4]>>,
    done: Signal,
}

/// The results of one stripe request.
#[derive(Default)]
struct Part {
    /// Its read buffer, once it is done.
    buffer: Option<Buf>,
    /// The block status, if that was requested.
    extents: Vec<StatusExtent>,
    /// Returned when it is done, not with the whole request: otherwise requests could starve each
    /// other.
    credit: Option<Taken>,
}

impl Parent {
    /// Counts one more stripe request in progress.
    fn begin(&self) {
        self.unfinished.set(self.unfinished.get() + 1);
        self.parts.borrow_mut().push(Part::default());
    }

    pub(crate) fn hold_credit(&self, number: u32, credit: Taken) {
        self.parts.borrow_mut()[number as usize].credit = Some(credit);
    }

    pub(crate) fn finish(&self, env: &Env, number: u32, outcome: StripeOutcome) {
        if let Err(error) = outcome.result {
            self.error.set(Some(self.error.get().unwrap_or(error)));
        }
        let done = Part { buffer: outcome.buffer, extents: outcome.extents, credit: None };
        let before = std::mem::replace(&mut self.parts.borrow_mut()[number as usize], done);
        drop(before.credit);
        self.unfinished.set(self.unfinished.get() - 1);
        if self.unfinished.get() == 0 {
            self.done.notify(env);
        }
    }
}

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

/// The stripes that a range touches, and the bytes of each.
pub(super) fn stripes(
    geometry: &Geometry,
    range: ByteRange,
) -> impl Iterator<Item = (StripeIndex, ByteRange)> + use<> {
    let geometry = *geometry;
    let mut rest = range;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (stripe, within) = geometry.stripe_of(rest.start);
        let len = (geometry.stripe_bytes() - within).min(rest.len);
        rest = ByteRange::from_to(rest.start + len, rest.end());
        Some((stripe, ByteRange::new(ByteOffset(within.0), len)))
    })
}

/// The same, with consecutive whole stripes of a region as one part of at most `most` stripes.
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

/// Takes the first bytes off a slice.
pub(super) fn take_slice(slice: &mut Slice, len: ByteCount) -> Slice {
    let first = slice.cut(ByteCount::ZERO, len);
    *slice = slice.cut(len, slice.len() - len);
    first
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
    parent.done.wait_until(volume.shard.env(), || parent.unfinished.get() == 0).await;
    if let Some(request) = parent.request.get() {
        volume.exchange.forget_away(request);
    }
    here.and(parent.error.get().map_or(Ok(()), Err))
}

/// Runs work for a stripe on another shard, and waits for it. The outcome is ignored.
pub(super) async fn ask_one(
    cache: &Cache,
    exchange: &Exchange,
    owner: ShardIndex,
    request: StripeRequest,
    parent: &Rc<Parent>,
) {
    parent.begin();
    exchange.send_away(&cache.shard, owner, request, (parent, 0)).await;
    parent.done.wait_until(cache.shard.env(), || parent.unfinished.get() == 0).await;
    if let Some(request) = parent.request.get() {
        exchange.forget_away(request);
    }
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
    let result = parent.error.get().map_or(Ok(()), Err);
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

/// The block status of a range, from the shards that own its stripes.
///
/// # Errors
/// The first error of a shard.
pub(super) async fn status(
    volume: &Volume,
    range: ByteRange,
    of: RequestTag,
) -> Result<Vec<StatusExtent>, IoError> {
    let parent = deal(volume, range, &mut Whole::Status, of).await;
    parent.error.get().map_or(Ok(()), Err)?;
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
    parent.done.wait_until(volume.shard.env(), || parent.unfinished.get() == 0).await;
    if let Some(request) = parent.request.get() {
        volume.exchange.forget_away(request);
    }
    parent
}
