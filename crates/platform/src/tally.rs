//! Counters of several threads, each in a row of its own; any thread may read their sums.
//!
//! Each counting thread has a [`TallyRow`] and is its only writer, so that counting needs no lock
//! and no locked instruction. Readers add all rows without waiting. The counts of a dropped row are
//! kept: sums never decrease.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A row in use.
type Numbers = Arc<[AtomicU64]>;

struct Rows {
    counting: Vec<Numbers>,
    /// The sums of dropped rows.
    ended: Vec<u64>,
}

/// Counters of several threads. Clones share them, and may move to any thread.
#[derive(Clone)]
pub struct Tally {
    rows: Arc<Mutex<Rows>>,
}

impl Tally {
    /// That many counters, all zero.
    pub fn new(numbers: usize) -> Tally {
        Tally { rows: Arc::new(Mutex::new(Rows { counting: Vec::new(), ended: vec![0; numbers] })) }
    }

    /// A row for a thread.
    pub fn row(&self) -> TallyRow {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers: Numbers = (0..rows.ended.len()).map(|_| AtomicU64::new(0)).collect();
        rows.counting.push(numbers.clone());
        TallyRow { tally: self.clone(), numbers }
    }

    /// The sums over all rows.
    pub fn sums(&self) -> Vec<u64> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = rows.ended.clone();
        rows.counting.iter().for_each(|numbers| add_up(&mut sums, numbers));
        sums
    }
}

/// Wrapping: a counter may rise in one row and fall in another.
fn add_up(sums: &mut [u64], numbers: &[AtomicU64]) {
    for (sum, number) in sums.iter_mut().zip(numbers) {
        *sum = sum.wrapping_add(number.load(Ordering::Relaxed));
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tally").field(&self.sums()).finish()
    }
}

/// One thread's row of a [`Tally`].
pub struct TallyRow {
    tally: Tally,
    numbers: Numbers,
}

impl TallyRow {
    /// Adds to a counter. Only for the row's thread.
    #[inline]
    pub fn add(&self, index: usize, more: u64) {
        if let Some(number) = self.numbers.get(index) {
            number.store(number.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    /// The counters of this row.
    pub fn counted(&self) -> Vec<u64> {
        self.numbers.iter().map(|number| number.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for TallyRow {
    fn drop(&mut self) {
        let mut rows = self.tally.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.counting.retain(|numbers| !Arc::ptr_eq(numbers, &self.numbers));
        add_up(&mut rows.ended, &self.numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added_up_and_what_was_counted_stays() {
        let tally = Tally::new(2);
        let (first, second) = (tally.row(), tally.clone().row());
        first.add(0, 3);
        second.add(0, 4);
        second.add(1, 1);
        assert_eq!((tally.sums(), second.counted()), (vec![7, 1], vec![4, 1]));
        drop(second);
        assert_eq!(tally.sums(), [7, 1], "a row that ends takes nothing with it");
        tally.row().add(1, 10);
        assert_eq!(tally.sums(), [7, 11]);
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn who_reads_while_others_count_never_sees_a_sum_go_back() {
        let tally = Tally::new(1);
        let counts = |tally: Tally| {
            std::thread::spawn(move || (0..1000).for_each(|_| tally.row().add(0, 1)))
        };
        let counting = [counts(tally.clone()), counts(tally.clone())];
        let mut last = 0;
        while counting.iter().any(|thread| !thread.is_finished()) {
            let sum = tally.sums()[0];
            assert!(sum >= last, "{sum} after {last}");
            last = sum;
        }
        counting.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(tally.sums(), [2000]);
    }
}
