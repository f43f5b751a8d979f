//! Unflushed writes of an export, over all attachments and threads; decides whether a lost
//! connection loses the drive.
//!
//! NBD does not reveal whether a new connection reaches the same server with its cache intact. So a
//! write is durable only after a flush, and an export that disconnects with unflushed writes is
//! lost.
//!
//! # Invariants
//! - A connection belongs to an *epoch*: the number of disconnects before it was made. Its replies
//!   count only in that epoch. A disconnect ends the epoch for all attachments, and they reconnect.
//! - When an epoch ends, no write is unflushed, or the export is lost. So a flush in a later epoch
//!   covers every write acknowledged before it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

// Sequentially consistent: an acknowledgement that the end of an epoch misses must see that end.
const ORDER: Ordering = Ordering::SeqCst;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct FlushTracker {
    epoch: AtomicU64,
    /// The number of writes acknowledged to the engine.
    acknowledged: AtomicU64,
    /// The number of those that a flush has covered.
    flushed: AtomicU64,
    lost: AtomicBool,
}

impl FlushTracker {
    pub fn epoch(&self) -> u64 {
        self.epoch.load(ORDER)
    }

    /// Whether replies of a connection of that epoch count.
    pub fn holds(&self, epoch: u64) -> bool {
        self.epoch() == epoch && !self.is_lost()
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(ORDER)
    }

    /// Marks the export as lost, for all attachments.
    pub fn lose(&self) {
        self.lost.store(true, ORDER);
    }

    /// The server acknowledged a write from its cache. False: the epoch is over; the write must be
    /// resent.
    pub fn acknowledge(&self, epoch: u64) -> bool {
        self.acknowledged.fetch_add(1, ORDER);
        let counts = self.holds(epoch);
        if !counts {
            self.acknowledged.fetch_sub(1, ORDER);
        }
        counts
    }

    /// The number of acknowledged writes, for a flush that starts.
    pub fn mark(&self) -> u64 {
        self.acknowledged.load(ORDER)
    }

    /// A flush covered the writes up to `mark`. False: the epoch is over; the flush must be resent.
    pub fn flushed(&self, mark: u64, epoch: u64) -> bool {
        let counts = self.holds(epoch);
        if counts {
            self.flushed.fetch_max(mark, ORDER);
        }
        counts
    }

    /// A connection of that epoch broke. False: the export is lost, because writes were unflushed.
    pub fn broke(&self, epoch: u64) -> bool {
        // Several connections may break together; only the first ends the epoch.
        let first = self.epoch.compare_exchange(epoch, epoch + 1, ORDER, ORDER).is_ok();
        if first && self.acknowledged.load(ORDER) > self.flushed.load(ORDER) {
            self.lose();
        }
        !self.is_lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_with_something_at_stake_loses_the_export() {
        let standing = FlushTracker::default();
        assert!(standing.acknowledge(0));
        assert!(standing.flushed(standing.mark(), 0));
        assert!(standing.broke(0), "no write was unflushed");
        assert!(standing.holds(1) && standing.acknowledge(1));
        let mark = standing.mark();
        assert!(standing.acknowledge(1));
        assert!(standing.flushed(mark, 1));
        assert!(!standing.broke(1), "the second write was unflushed");
        assert!(!standing.holds(2));
    }

    #[test]
    fn what_comes_from_an_earlier_age_does_not_count_and_ends_no_other() {
        let standing = FlushTracker::default();
        assert!(standing.broke(0));
        assert!(!standing.acknowledge(0));
        assert!(standing.acknowledge(1));
        assert!(!standing.flushed(standing.mark(), 0));
        // A second connection of the first epoch breaks later: the unflushed write of the new epoch
        // is safe.
        assert!(standing.broke(0));
        assert_eq!(standing.epoch(), 1);
        assert!(!standing.broke(1));
    }
}
