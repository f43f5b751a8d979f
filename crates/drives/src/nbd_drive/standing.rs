//! What is at stake when a connection breaks, over all attachments of an export, on whatever thread.
//!
//! NBD tells nothing about whether the server at the other end of a new connection is the one that was there
//! before, still with its cache. So a write counts as kept only once a flush has covered it, and an export that
//! breaks off with others outstanding is lost.
//!
//! # Invariants
//! - A connection belongs to an *age*: the number of breaks before it was made. What it is told counts only while
//!   the age lasts: whoever breaks off ends it for all attachments, and they connect anew.
//! - Nothing is at stake when an age ends, or the export is lost: a flush in a later age therefore covers, truly,
//!   everything acknowledged before it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

// One order of all steps: an acknowledgement that an ending age does not see must itself see that it ended.
const ORDER: Ordering = Ordering::SeqCst;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Standing {
    age: AtomicU64,
    /// Writes acknowledged to the engine that a flush has yet to cover, or had to: counted up.
    acknowledged: AtomicU64,
    /// How many of them a flush has covered.
    flushed: AtomicU64,
    lost: AtomicBool,
}

impl Standing {
    pub fn age(&self) -> u64 {
        self.age.load(ORDER)
    }

    /// Whether what a connection of that age is told counts.
    pub fn holds(&self, age: u64) -> bool {
        self.age() == age && !self.is_lost()
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(ORDER)
    }

    /// Gives the export up, for all attachments.
    pub fn lose(&self) {
        self.lost.store(true, ORDER);
    }

    /// The server has taken a write into its cache. False: too late, it has to be written again.
    pub fn acknowledge(&self, age: u64) -> bool {
        self.acknowledged.fetch_add(1, ORDER);
        let counts = self.holds(age);
        if !counts {
            self.acknowledged.fetch_sub(1, ORDER);
        }
        counts
    }

    /// A mark of everything acknowledged by now, for a flush that starts.
    pub fn mark(&self) -> u64 {
        self.acknowledged.load(ORDER)
    }

    /// A flush has covered everything up to `mark`. False: too late, it has to be done again.
    pub fn flushed(&self, mark: u64, age: u64) -> bool {
        let counts = self.holds(age);
        if counts {
            self.flushed.fetch_max(mark, ORDER);
        }
        counts
    }

    /// A connection of that age broke off. False: the export is lost, because something was at stake.
    pub fn broke(&self, age: u64) -> bool {
        // Of those that break off together only the first ends the age.
        let first = self.age.compare_exchange(age, age + 1, ORDER, ORDER).is_ok();
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
        let standing = Standing::default();
        assert!(standing.acknowledge(0));
        assert!(standing.flushed(standing.mark(), 0));
        assert!(standing.broke(0), "nothing was at stake");
        assert!(standing.holds(1) && standing.acknowledge(1));
        let mark = standing.mark();
        assert!(standing.acknowledge(1));
        assert!(standing.flushed(mark, 1));
        assert!(!standing.broke(1), "the second write was");
        assert!(!standing.holds(2));
    }

    #[test]
    fn what_comes_from_an_earlier_age_does_not_count_and_ends_no_other() {
        let standing = Standing::default();
        assert!(standing.broke(0));
        assert!(!standing.acknowledge(0));
        assert!(standing.acknowledge(1));
        assert!(!standing.flushed(standing.mark(), 0));
        // Another connection of the first age, later: the write of the new age is at no stake.
        assert!(standing.broke(0));
        assert_eq!(standing.age(), 1);
        assert!(!standing.broke(1));
    }
}
