//! The cache's memory is reserved in steps: a shard gets more when half of its blocks are in use.
//!
//! # Order of steps
//! The platform reserves memory and records that; then the shard gets the blocks. After a crash in
//! between, the next process finds them reserved and free.
//!
//! # Fault model
//! A step that fails makes the cache smaller: the shards stop counting on more blocks, and an
//! event reports it. After [`RETRY`] they may request again. A request is always answered, so a
//! write that waits for a block waits no longer than that.

use crate::arrays::Arrays;
use crate::arrays::cache::{Memory, Open};
use crate::events::EventCode;
use engine::{CELL, CellShare, MoreCells, ShardMessage, Unreserved};
use platform::{Buf, Words, mailbox};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// The largest step.
const LARGEST_STEP: ByteCount = ByteCount(256 << 20);

/// The delay until memory is requested again after a step failed.
const RETRY: Duration = Duration::from_secs(60);

/// The blocks of the cache that have no memory yet.
pub(super) struct Growth {
    unreserved: Unreserved,
    /// Of each shard: how many it may still get, and how many it has.
    shards: Vec<ShardPart>,
    requests: mailbox::Sender<usize>,
    /// Whether the last step failed.
    is_short: bool,
}

#[derive(Clone, Copy)]
struct ShardPart {
    left: u64,
    has: u64,
}

impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Growth({:?})", self.unreserved)
    }
}

impl Growth {
    /// Every shard may get an equal part of the unreserved blocks. `None`: all have memory.
    pub(super) fn new(
        unreserved: Unreserved,
        has: &[u64],
        requests: mailbox::Sender<usize>,
    ) -> Option<Growth> {
        let left = unreserved.cells().div_ceil(has.len().max(1) as u64);
        let shards = has.iter().map(|has| ShardPart { left, has: *has }).collect();
        (left > 0).then_some(Growth { unreserved, shards, requests, is_short: false })
    }

    /// What a shard may still get.
    pub(super) fn more(&self, shard: usize) -> MoreCells {
        let cells = self.shards[shard].left.min(self.unreserved.cells());
        MoreCells { cells, requests: self.requests.clone(), shard }
    }

    fn none_for(&self, shard: usize) -> MoreCells {
        MoreCells { cells: 0, ..self.more(shard) }
    }

    /// Reserves the next blocks of a shard: as many as it has, at least `step`.
    async fn grow(&mut self, shard: usize, step: ByteCount) -> platform::Result<Vec<(u32, Buf)>> {
        let ShardPart { left, has } = self.shards[shard];
        let count = has.max(step.0 / CELL.0).clamp(1, LARGEST_STEP.0 / CELL.0).min(left);
        let free = self.unreserved.reserve(count).await?;
        let part = &mut self.shards[shard];
        part.left -= count;
        part.has += free.len() as u64;
        Ok(free)
    }
}

impl Arrays {
    /// Answers the requests of shards for memory, until no shard can send one.
    pub(super) async fn grow_cache(self: Rc<Self>, mut requests: mailbox::Receiver<usize>) {
        while let Some(shard) = requests.receive().await {
            if self.grow_share(shard).await {
                continue;
            }
            self.env.sleep(RETRY).await;
            while requests.try_receive().is_some() {}
            self.offer_to_all(Growth::more);
        }
    }

    /// Answers a request. False: memory is missing.
    async fn grow_share(&self, shard: usize) -> bool {
        // The memory is neither removed nor created meanwhile.
        let _turn = self.memory_turn.take(1).await;
        let growth = self.with_open(|open| open.growth.take());
        let Some(mut growth) = growth else { return true };
        let grown = growth.grow(shard, self.cache_step).await;
        let outcome = match grown {
            Ok(free) => {
                growth.is_short = false;
                let more = growth.more(shard);
                self.with_open(|open| {
                    open.reserved += ByteCount(free.len() as u64 * CELL.0);
                    self.share(shard, &open.words, free, more);
                    Some(())
                });
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut growth.is_short, true) {
                    let (size, has) = self.cache_sizes();
                    let text = format!("the write cache has {has} instead of {size}: {error}");
                    let effect = "the cache works with the memory that it has; SoftROC tries every \
                                  minute to get the rest";
                    self.events.report(
                        EventCode::CacheMemoryShort,
                        "cache",
                        &error.to_string(),
                        effect,
                        text,
                    );
                }
                false
            }
        };
        self.with_open(|open| {
            open.growth = Some(growth);
            Some(())
        });
        if !outcome {
            self.offer_to_all(Growth::none_for);
        }
        outcome
    }

    /// Updates what the shards may get.
    fn offer_to_all(&self, more: impl Fn(&Growth, usize) -> MoreCells) {
        self.with_open(|open| {
            let growth = open.growth.as_ref()?;
            for shard in 0..self.shards.len() {
                self.share(shard, &open.words, Vec::new(), more(growth, shard));
            }
            Some(())
        });
    }

    fn share(&self, shard: usize, words: &Words, free: Vec<(u32, Buf)>, more: MoreCells) {
        let share = CellShare { words: words.clone(), free, sequence: 0, more: Some(more) };
        if self.shards[shard].send(ShardMessage::Cells(share)).is_err() {
            tracing::error!("a thread of SoftROC did not accept its part of the cache memory");
        }
    }

    fn with_open<T>(&self, work: impl FnOnce(&mut Open) -> Option<T>) -> Option<T> {
        match &mut *self.memory.borrow_mut() {
            Memory::Open(open) => work(open),
            Memory::None | Memory::Unusable(_) => None,
        }
    }

    /// The largest size of the write cache, and how much memory is reserved for it.
    pub(crate) fn cache_sizes(&self) -> (ByteCount, ByteCount) {
        match &*self.memory.borrow() {
            Memory::Open(open) => (open.size, open.reserved),
            Memory::None | Memory::Unusable(_) => (self.cache_size, ByteCount::ZERO),
        }
    }
}
