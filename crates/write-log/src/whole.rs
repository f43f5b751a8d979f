//! Stripes that were written as a whole, without a record, and of which drives may still lose a part with the power.
//!
//! A record of some of their columns stands on what the other drives hold of these. So before one promises anything, the drives are
//! flushed, if such a stripe may be among those that are remembered here: too many may be, none is missing.

use std::cell::{Cell, RefCell};
use units::StripeIndex;

/// Stripes that share one place are remembered together.
const PLACES: usize = 1024;

/// See the top.
pub struct WholeStripes {
    /// By place, when a stripe of it was written last: a count of such writes, from 1 on.
    written: RefCell<Vec<u64>>,
    count: Cell<u64>,
    /// How many of these writes had been done when a flush began that has succeeded.
    flushed: Cell<u64>,
}

impl Default for WholeStripes {
    fn default() -> WholeStripes {
        WholeStripes::new()
    }
}

impl WholeStripes {
    /// None is remembered.
    #[must_use]
    pub fn new() -> WholeStripes {
        WholeStripes { written: RefCell::new(vec![0; PLACES]), count: Cell::new(0), flushed: Cell::new(0) }
    }

    fn place(stripe: StripeIndex) -> usize {
        // Neighbours have places of their own.
        (stripe.0 % PLACES as u64) as usize
    }

    /// All drives have been written.
    pub fn note(&self, stripe: StripeIndex) {
        self.count.set(self.count.get() + 1);
        self.written.borrow_mut()[Self::place(stripe)] = self.count.get();
    }

    /// Whether drives may still lose a part of a stripe.
    pub fn may_lose(&self, stripe: StripeIndex) -> bool {
        self.written.borrow()[Self::place(stripe)] > self.flushed.get()
    }

    /// How many were written by now: what a flush that begins now makes certain.
    pub fn done(&self) -> u64 {
        self.count.get()
    }

    /// A flush has succeeded that began when so many had been written.
    pub fn flushed(&self, done: u64) {
        self.flushed.set(self.flushed.get().max(done));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_was_written_before_it_began() {
        let stripes = WholeStripes::new();
        assert!(!stripes.may_lose(StripeIndex(3)));
        stripes.note(StripeIndex(3));
        let done = stripes.done();
        stripes.note(StripeIndex(4));
        assert!(stripes.may_lose(StripeIndex(3)) && stripes.may_lose(StripeIndex(4)));
        assert!(stripes.may_lose(StripeIndex(3 + PLACES as u64)), "they share a place");
        stripes.flushed(done);
        assert!(!stripes.may_lose(StripeIndex(3)) && stripes.may_lose(StripeIndex(4)));
        stripes.note(StripeIndex(3));
        stripes.flushed(done);
        assert!(stripes.may_lose(StripeIndex(3)), "it was written again");
    }
}
