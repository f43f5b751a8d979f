//! Reads ahead of hosts' streams, on the shards that own the stripes.
//!
//! The owner of a stripe sees every read of it, on any connection. It follows a stream within its
//! stripes. Where the stream continues on another shard, it asks that shard to read ahead, which
//! follows the stream from then on.

use crate::cache::{AheadRead, Cache};
use crate::host::Exchange;
use crate::host::parts::stripes;
use crate::messages::{ShardIndex, StripeOutcome, StripeRequest, StripeWork};
use ::block_cache::{Ahead, RequestTag, StreamName};
use platform::{Env, IoError, IoErrorKind, Runners};
use std::rc::Rc;
use units::{ByteCount, ByteRange, StripeIndex};

/// The most reads ahead of a volume in progress on a shard.
const MOST_READS: usize = 1024;

/// A read-ahead operation.
pub(super) enum AheadWork {
    /// Read a part of a stripe of this shard.
    Here(AheadRead),
    /// Another shard reads its stripes of a range, which is in one region.
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
            let (Some(cache), Some(exchange)) = (cache.upgrade(), exchange.upgrade()) else {
                return;
            };
            // A volume that is being detached needs no reads ahead.
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

    /// Stops reading ahead.
    pub(super) fn close(&self) {
        self.work.close();
    }

    /// A host reads bytes of a stripe of this shard: reads ahead of it.
    pub(super) fn follow(
        &self,
        cache: &Cache,
        stripe: StripeIndex,
        within: ByteRange,
        of: RequestTag,
        is_hollow: bool,
    ) {
        let Some(Ahead { stream, range, window }) = cache.follow(stripe, within, of) else {
            return;
        };
        let mut there: Option<ByteRange> = None;
        for (stripe, within) in stripes(cache.geometry(), range) {
            if cache.is_mine(stripe) {
                self.read_here(cache, stripe, within, stream, is_hollow);
                continue;
            }
            let part = cache.in_volume(stripe, within);
            let region =
                |range: ByteRange| cache.region_of(cache.geometry().stripe_of(range.start).0);
            match &mut there {
                Some(run) if run.end() == part.start && region(*run) == region(part) => {
                    run.len += part.len
                }
                _ => self.read_there(there.replace(part), window, is_hollow),
            }
        }
        self.read_there(there, window, is_hollow);
    }

    /// Another shard's stream continues here: begins to read ahead of it.
    pub(super) fn go_on(
        &self,
        cache: &Rc<Cache>,
        stripe: StripeIndex,
        within: ByteRange,
        window: ByteCount,
        is_hollow: bool,
    ) -> StripeOutcome {
        let Ok(_user) = cache.enter() else {
            return StripeOutcome::new(Err(IoError::new(IoErrorKind::Gone)), None);
        };
        if cache.follows_reads() && cache.is_mine(stripe) {
            let stream = cache.expect(stripe, within, window);
            self.read_here(cache, stripe, within, stream, is_hollow);
        }
        StripeOutcome::new(Ok(()), None)
    }

    fn read_here(
        &self,
        cache: &Cache,
        stripe: StripeIndex,
        within: ByteRange,
        stream: StreamName,
        is_hollow: bool,
    ) {
        for read in cache.begin_ahead(stripe, within, stream, is_hollow) {
            self.work.give(AheadWork::Here(read));
        }
    }

    fn read_there(&self, range: Option<ByteRange>, window: ByteCount, is_hollow: bool) {
        if let Some(range) = range {
            self.work.give(AheadWork::There { range, window, is_hollow });
        }
    }
}

/// Asks the owner of a region to read stripes of it ahead. A lost request costs only performance.
async fn have_read(
    cache: &Rc<Cache>,
    exchange: &Exchange,
    range: ByteRange,
    window: ByteCount,
    is_hollow: bool,
) {
    for (stripe, within) in stripes(cache.geometry(), range) {
        let owner = ShardIndex::owning(cache.region_of(stripe), cache.shard.count());
        let work = StripeWork::ReadAhead { window, is_hollow };
        let request =
            StripeRequest { volume: cache.spec().id, stripe, within, of: RequestTag(0), work };
        exchange.ask_one(&cache.shard, owner, request).await;
    }
}
