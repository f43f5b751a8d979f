//! Reading ahead of hosts' streams, on whichever shards these lie.
//!
//! The shard that owns a stripe sees every read of it, from whichever connection it came. So it follows streams as far as its
//! stripes go; where they go on is another shard's, it has that shard read ahead there, which follows the stream from then on.

use crate::cache::{AheadRead, Cache};
use crate::host::{Exchange, Parent, Volume, split};
use crate::messages::{ShardIndex, StripeOutcome, StripeRequest, StripeWork};
use ::block_cache::{Ahead, RequestTag, StreamName};
use platform::{Env, IoError, IoErrorKind, Runners};
use std::rc::Rc;
use units::{ByteCount, ByteRange, StripeIndex};

/// Reads ahead that are under way at a time, of one volume on a shard.
const MOST_READS: usize = 1024;

/// What is done for streams.
pub(super) enum AheadWork {
    /// Read a part of a stripe of this shard.
    Here(AheadRead),
    /// Have another shard read: what stripes it has of a range, which lies in one region.
    There { range: ByteRange, window: ByteCount, is_hollow: bool },
}

/// Reads ahead of a volume's streams on a shard.
pub(super) struct ReadingAhead {
    work: Runners<AheadWork>,
}

impl ReadingAhead {
    pub(super) fn new(env: &Env, cache: &Rc<Cache>, exchange: &Rc<Exchange>) -> ReadingAhead {
        let work = Runners::new(env, "read-ahead", MOST_READS);
        let (cache, exchange) = (Rc::downgrade(cache), Rc::downgrade(exchange));
        work.run(async move |work| {
            let (Some(cache), Some(exchange)) = (cache.upgrade(), exchange.upgrade()) else { return };
            // A volume that goes away needs nothing any more.
            let Ok(_user) = cache.enter() else { return };
            match work {
                AheadWork::Here(read) => Box::pin(cache.read_ahead(read)).await,
                AheadWork::There { range, window, is_hollow } => {
                    Box::pin(have_read(&cache, &exchange, range, window, is_hollow)).await;
                }
            }
        });
        ReadingAhead { work }
    }

    /// Reads nothing more.
    pub(super) fn close(&self) {
        self.work.close();
    }
}

/// Has the shard that owns a region read stripes of it ahead. That costs nothing if it is not done.
async fn have_read(
    cache: &Rc<Cache>,
    exchange: &Exchange,
    range: ByteRange,
    window: ByteCount,
    is_hollow: bool,
) {
    for (stripe, within) in split::stripes(cache.geometry(), range) {
        let owner = ShardIndex::owning(cache.region_of(stripe), cache.shard.count());
        let (parent, work) = (Rc::new(Parent::default()), StripeWork::ReadAhead { window, is_hollow });
        let request = StripeRequest { volume: cache.spec().id, stripe, within, of: RequestTag(0), work };
        split::ask_one(cache, exchange, owner, request, &parent).await;
    }
}

/// A host reads bytes of a stripe of this shard: what it will ask for next is read ahead.
pub(super) fn follow(
    volume: &Volume,
    stripe: StripeIndex,
    within: ByteRange,
    of: RequestTag,
    is_hollow: bool,
) {
    let Some(Ahead { stream, range, window }) = volume.follow(stripe, within, of) else { return };
    let mut there: Option<ByteRange> = None;
    for (stripe, within) in split::stripes(volume.geometry(), range) {
        if volume.is_mine(stripe) {
            read_here(volume, stripe, within, stream, is_hollow);
            continue;
        }
        let part = volume.in_volume(stripe, within);
        let region = |range: ByteRange| volume.region_of(volume.geometry().stripe_of(range.start).0);
        match &mut there {
            Some(run) if run.end() == part.start && region(*run) == region(part) => run.len += part.len,
            _ => read_there(volume, there.replace(part), window, is_hollow),
        }
    }
    read_there(volume, there, window, is_hollow);
}

/// Another shard's stream goes on here: begins to read ahead of it.
pub(super) fn go_on(
    volume: &Volume,
    stripe: StripeIndex,
    within: ByteRange,
    window: ByteCount,
    is_hollow: bool,
) -> StripeOutcome {
    let Ok(_user) = volume.enter() else {
        return StripeOutcome::new(Err(IoError::new(IoErrorKind::Gone)), None);
    };
    if volume.follows_reads() && volume.is_mine(stripe) {
        let stream = volume.expect(stripe, within, window);
        read_here(volume, stripe, within, stream, is_hollow);
    }
    StripeOutcome::new(Ok(()), None)
}

fn read_here(volume: &Volume, stripe: StripeIndex, within: ByteRange, stream: StreamName, is_hollow: bool) {
    for read in volume.begin_ahead(stripe, within, stream, is_hollow) {
        volume.ahead.work.give(AheadWork::Here(read));
    }
}

fn read_there(volume: &Volume, range: Option<ByteRange>, window: ByteCount, is_hollow: bool) {
    if let Some(range) = range {
        volume.ahead.work.give(AheadWork::There { range, window, is_hollow });
    }
}
