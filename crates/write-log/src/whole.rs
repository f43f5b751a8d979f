//! Full-stripe writes without a record that drives may still lose in a power cut.
//!
//! A record of some columns of a stripe relies on the content of the other drives. So the drives
//! are flushed before a durability token is given for such a record, if the stripe may be listed
//! here: the list may contain too many stripes, but never too few.

use std::cell::{Cell, RefCell};
use units::StripeIndex;

/// The number of places; stripes with one place share an entry.
const PLACES: usize = 1024;

/// See the module's documentation.
pub struct WholeStripes {
    /// The latest full-stripe write at each place: a count of such writes, from 1 on.
    written: RefCell<Vec<u64>>,
    count: Cell<u64>,
    /// The number of these writes that were done when the latest successful flush began.
    flushed: Cell<u64>,
}

impl Default for WholeStripes {
    fn default() -> WholeStripes {
        WholeStripes::new()
    }
}

impl WholeStripes {
    /// An empty list.
    #[must_use]
    pub fn new() -> WholeStripes {
        WholeStripes {
            written: RefCell::new(vec![0; PLACES]),
            count: Cell::new(0),
            flushed: Cell::new(0),
        }
    }

    fn place(stripe: StripeIndex) -> usize {
        // Neighbours have different places.
        (stripe.0 % PLACES as u64) as usize
    }

    /// Reports a full-stripe write as written to all drives.
    pub fn note(&self, stripe: StripeIndex) {
        self.count.set(self.count.get() + 1);
        self.written.borrow_mut()[Self::place(stripe)] = self.count.get();
    }

    /// Whether drives may still lose a part of a stripe.
    pub fn may_lose(&self, stripe: StripeIndex) -> bool {
        self.written.borrow()[Self::place(stripe)] > self.flushed.get()
    }

    /// The number of writes so far: a flush that begins now covers them.
    pub fn done(&self) -> u64 {
        self.count.get()
    }

    /// Reports a successful flush that began after `done` writes.
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
