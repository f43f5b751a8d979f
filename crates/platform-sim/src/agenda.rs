//! What is due, by when: a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, 1990) of six bits a digit.
//!
//! A simulation only ever asks for the first of what is due, and never schedules anything before that: what a heap
//! spends on order that nobody asks for is saved. Actions wait in *buckets*, by the highest digit in which their instant
//! differs from the *base*, which is the instant of what was taken last, and by what that digit is. What differs in a lower
//! digit is due earlier, and so is what has less in the same one. When nothing is left that is due at the base itself, the
//! base moves to the first instant of the first bucket that has any, whose content falls into buckets of lower digits: an
//! action moves once or twice in all.
//!
//! # Invariants
//! - Nothing is put in before the base.
//! - Actions of one instant are always in one bucket, in the order in which they were put in: that is the order in which they are
//!   taken.

use crate::core::Action;
use platform::Instant;

/// Bits of a digit.
const BITS: u32 = 6;
/// Buckets of a digit.
const SLOTS: usize = 1 << BITS;
/// Digits of an instant.
const DIGITS: usize = (u64::BITS as usize).div_ceil(BITS as usize);

/// The place of an action.
type Place = u32;
const NONE: Place = Place::MAX;

/// An action, in a chain of those of one bucket, or of free places.
struct Entry {
    at_ns: u64,
    next: Place,
    action: Option<Action>,
}

/// A chain of entries, the first put in first, and the earliest instant among them.
#[derive(Clone, Copy)]
struct Bucket {
    first_ns: u64,
    head: Place,
    tail: Place,
}

const EMPTY: Bucket = Bucket { first_ns: u64::MAX, head: NONE, tail: NONE };

/// Actions by when they are due; of those due at one instant, the first put in comes first.
pub(crate) struct Agenda {
    base_ns: u64,
    /// Due at the base.
    now: Bucket,
    /// Which digits have any, bit by bit.
    filled: u16,
    /// By digit, which of its buckets have any, bit by bit.
    filled_slots: [u64; DIGITS],
    buckets: Vec<[Bucket; SLOTS]>,
    entries: Vec<Entry>,
    /// A chain.
    free: Place,
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
    /// Puts an action in. It is due at `at`, which is not before what was taken last.
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
                self.entries.len() as Place - 1
            }
        };
        self.file(at_ns, place);
    }

    /// Adds an entry, whose `next` is none, to the chain it belongs to.
    fn file(&mut self, at_ns: u64, place: Place) {
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

    /// The digit and the slot of the bucket that has the first of what is not due at the base.
    fn first_bucket(&self) -> Option<(usize, usize)> {
        let digit = self.filled.trailing_zeros() as usize;
        self.filled_slots.get(digit).map(|slots| (digit, slots.trailing_zeros() as usize % SLOTS))
    }

    /// When the first action is due.
    pub fn first(&self) -> Option<Instant> {
        if self.now.head != NONE {
            return Some(Instant { ns: self.base_ns });
        }
        let (digit, slot) = self.first_bucket()?;
        Some(Instant { ns: self.buckets[digit][slot].first_ns })
    }

    /// Takes the first action out, if it is due by `latest`; when it is due.
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

    /// Moves the base to the first instant that anything is due at, if that is not after `latest_ns`.
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
            // All of one instant.
            self.now = bucket;
            return Some(());
        }
        // What they differed in from the base is the base's now: they fall into lower digits.
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

    /// Whatever is put in, and whenever: what comes out is what a sorted list gives.
    #[test]
    fn what_is_due_comes_in_the_order_of_time_and_of_being_put_in() {
        for seed in 0..40 {
            let mut rng = Rng::new(seed, "agenda", "");
            let (mut agenda, mut sorted) = (Agenda::default(), BTreeSet::new());
            let met = Rc::new(RefCell::new(Vec::new()));
            let mut now_ns = 0;
            for number in 0..4000_u64 {
                // Near and far, and often the same instant.
                let span = 1 << rng.below(40);
                let ahead = rng.below(span) / 7 * 7;
                let noted = met.clone();
                let note = move || noted.borrow_mut().push(number);
                agenda.put(Instant { ns: now_ns + ahead }, Action::Call(Box::new(note)));
                sorted.insert((now_ns + ahead, number));
                if rng.below(3) > 0 {
                    // Not always to where something is due.
                    let span = 1 << rng.below(30);
                    now_ns += rng.below(span);
                }
                assert_eq!(agenda.first().map(|at| at.ns), sorted.first().map(|(at_ns, _)| *at_ns));
                while let Some((at, action)) = agenda.take_due(Instant { ns: now_ns }) {
                    let Action::Call(call) = action else { panic!("calls alone were put in") };
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
