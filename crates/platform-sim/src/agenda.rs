//! The queue of due actions: a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, 1990) with six bits
//! per digit.
//!
//! A simulation only takes the earliest action, and never schedules one before it. So the queue
//! need not sort later actions. Actions are in *buckets*. The *base* is the instant of the action
//! taken last; the highest digit in which an instant differs from it, and that digit's value,
//! determine the bucket. A difference in a lower digit is earlier, as is a lower value of the same
//! digit. When no action is due at the base, the base moves to the first instant of the first
//! filled bucket. Its actions move to buckets of lower digits: each moves once or twice in all.
//!
//! # Invariants
//! - No action is put in before the base.
//! - Actions of one instant are in one bucket, in the order of their insertion, in which they are
//!   taken.

use crate::core::Action;
use platform::Instant;

/// Bits per digit.
const BITS: u32 = 6;
/// Buckets per digit.
const SLOTS: usize = 1 << BITS;
/// Digits per instant.
const DIGITS: usize = (u64::BITS as usize).div_ceil(BITS as usize);

/// The index of an entry.
type EntryIndex = u32;
const NONE: EntryIndex = EntryIndex::MAX;

/// An action, in a chain of one bucket, or of free entries.
struct Entry {
    at_ns: u64,
    next: EntryIndex,
    action: Option<Action>,
}

/// A chain of entries in order of insertion, and the earliest instant among them.
#[derive(Clone, Copy)]
struct Bucket {
    first_ns: u64,
    head: EntryIndex,
    tail: EntryIndex,
}

const EMPTY: Bucket = Bucket { first_ns: u64::MAX, head: NONE, tail: NONE };

/// Actions in the order of their instants, then of their insertion.
pub(crate) struct Agenda {
    base_ns: u64,
    /// The actions due at the base.
    now: Bucket,
    /// The digits with filled buckets, one bit each.
    filled: u16,
    /// Per digit, the filled buckets, one bit each.
    filled_slots: [u64; DIGITS],
    buckets: Vec<[Bucket; SLOTS]>,
    entries: Vec<Entry>,
    /// The chain of free entries.
    free: EntryIndex,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            base_ns: 0,
            now: EMPTY,
            filled: 0,
            filled_slots: [0; DIGITS],
            buckets: vec![[EMPTY; SLOTS]; DIGITS],
            entries: Vec::new(),
            free: NONE,
        }
    }
}

impl Agenda {
    /// Adds an action at `at`, which is not before the base.
    pub fn put(&mut self, at: Instant, action: Action) {
        debug_assert!(at.ns >= self.base_ns, "nothing is due in the past");
        let at_ns = at.ns.max(self.base_ns);
        let place = self.free;
        let place = match self.entries.get_mut(place as usize) {
            Some(entry) => {
                self.free = entry.next;
                *entry = Entry { at_ns, next: NONE, action: Some(action) };
                place
            }
            None => {
                self.entries.push(Entry { at_ns, next: NONE, action: Some(action) });
                self.entries.len() as EntryIndex - 1
            }
        };
        self.file(at_ns, place);
    }

    /// Adds an unchained entry to its bucket.
    fn file(&mut self, at_ns: u64, place: EntryIndex) {
        let bucket = match (at_ns ^ self.base_ns).checked_ilog2() {
            None => &mut self.now,
            Some(bit) => {
                let digit = (bit / BITS) as usize;
                let slot = (at_ns >> (digit as u32 * BITS)) as usize % SLOTS;
                self.filled |= 1 << digit;
                self.filled_slots[digit] |= 1 << slot;
                &mut self.buckets[digit][slot]
            }
        };
        bucket.first_ns = bucket.first_ns.min(at_ns);
        let last = std::mem::replace(&mut bucket.tail, place);
        match self.entries.get_mut(last as usize) {
            Some(last) => last.next = place,
            None => bucket.head = place,
        }
    }

    /// The digit and slot of the first filled bucket after the base.
    fn first_bucket(&self) -> Option<(usize, usize)> {
        let digit = self.filled.trailing_zeros() as usize;
        self.filled_slots.get(digit).map(|slots| (digit, slots.trailing_zeros() as usize % SLOTS))
    }

    /// The instant of the first action.
    pub fn first(&self) -> Option<Instant> {
        if self.now.head != NONE {
            return Some(Instant { ns: self.base_ns });
        }
        let (digit, slot) = self.first_bucket()?;
        Some(Instant { ns: self.buckets[digit][slot].first_ns })
    }

    /// Takes the first action and its instant, if that is not after `latest`.
    pub fn take_due(&mut self, latest: Instant) -> Option<(Instant, Action)> {
        if self.now.head == NONE {
            self.move_base(latest.ns)?;
        }
        let place = self.now.head;
        let entry = self.entries.get_mut(place as usize)?;
        self.now.head = std::mem::replace(&mut entry.next, self.free);
        self.free = place;
        if self.now.head == NONE {
            self.now = EMPTY;
        }
        entry.action.take().map(|action| (Instant { ns: self.base_ns }, action))
    }

    /// Moves the base to the first instant with actions, if that is not after `latest_ns`.
    fn move_base(&mut self, latest_ns: u64) -> Option<()> {
        let (digit, slot) = self.first_bucket()?;
        let bucket = &mut self.buckets[digit][slot];
        if bucket.first_ns > latest_ns {
            return None;
        }
        let bucket = std::mem::replace(bucket, EMPTY);
        self.filled_slots[digit] &= !(1 << slot);
        if self.filled_slots[digit] == 0 {
            self.filled &= !(1 << digit);
        }
        self.base_ns = bucket.first_ns;
        if digit == 0 || bucket.head == bucket.tail {
            // All have one instant.
            self.now = bucket;
            return Some(());
        }
        // They now differ from the base in lower digits only.
        let mut place = bucket.head;
        while let Some(entry) = self.entries.get_mut(place as usize) {
            let (at_ns, next) = (entry.at_ns, std::mem::replace(&mut entry.next, NONE));
            self.file(at_ns, place);
            place = next;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::rc::Rc;

    /// Random insertions: the queue returns the same order as a sorted list.
    #[test]
    fn what_is_due_comes_in_the_order_of_time_and_of_being_put_in() {
        for seed in 0..40 {
            let mut rng = Rng::new(seed, "agenda", "");
            let (mut agenda, mut sorted) = (Agenda::default(), BTreeSet::new());
            let met = Rc::new(RefCell::new(Vec::new()));
            let mut now_ns = 0;
            for number in 0..4000_u64 {
                // Near and far instants, often equal ones.
                let span = 1 << rng.below(40);
                let ahead = rng.below(span) / 7 * 7;
                let noted = met.clone();
                let note = move || noted.borrow_mut().push(number);
                agenda.put(Instant { ns: now_ns + ahead }, Action::Call(Box::new(note)));
                sorted.insert((now_ns + ahead, number));
                if rng.below(3) > 0 {
                    // Not always the instant of an action.
                    let span = 1 << rng.below(30);
                    now_ns += rng.below(span);
                }
                assert_eq!(agenda.first().map(|at| at.ns), sorted.first().map(|(at_ns, _)| *at_ns));
                while let Some((at, action)) = agenda.take_due(Instant { ns: now_ns }) {
                    let Action::Call(call) = action else { panic!("only calls were put in") };
                    call();
                    let (at_ns, number) = sorted.pop_first().expect("as many");
                    assert!(at_ns <= now_ns && at.ns == at_ns, "seed {seed}");
                    assert_eq!(met.borrow_mut().pop(), Some(number), "seed {seed}");
                }
                assert!(sorted.first().is_none_or(|(at_ns, _)| *at_ns > now_ns), "seed {seed}");
            }
        }
    }
}
