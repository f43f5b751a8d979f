//! What is due, by when: a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, 1990).
//!
//! A simulation only ever asks for the first of what is due, and never schedules anything before that: what a heap
//! spends on order that nobody asks for is saved. Actions wait in *buckets*, by the highest bit in which their instant
//! differs from the *base*, which is the instant of what was taken last. What is in a lower bucket is due earlier. When nothing
//! is left that is due at the base itself, the base moves to the first instant of the lowest bucket that has any, whose
//! content falls into lower buckets: each action moves a few times, along memory that lies in order.
//!
//! # Invariants
//! - Nothing is put in before the base.
//! - Actions of one instant are always in one bucket, in the order in which they were put in: that is the order in which they are
//!   taken.

use crate::core::Action;
use env::Instant;
use std::collections::VecDeque;

/// One for each bit in which an instant may differ.
const BUCKETS: usize = 64;

/// The place of an action.
type Place = u32;

struct Bucket {
    first_ns: u64,
    entries: Vec<(u64, Place)>,
}

/// Actions by when they are due; of those due at one instant, the first put in comes first.
pub(crate) struct Agenda {
    base_ns: u64,
    /// Due at the base.
    now: VecDeque<Place>,
    /// Which buckets have some, bit by bit.
    filled: u64,
    buckets: [Bucket; BUCKETS],
    actions: Vec<Option<Action>>,
    free: Vec<Place>,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            base_ns: 0,
            now: VecDeque::new(),
            filled: 0,
            buckets: std::array::from_fn(|_| Bucket { first_ns: u64::MAX, entries: Vec::new() }),
            actions: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl Agenda {
    /// Puts an action in. It is due at `at`, which is not before what was taken last.
    pub fn put(&mut self, at: Instant, action: Action) {
        let place = match self.free.pop() {
            Some(place) => {
                self.actions[place as usize] = Some(action);
                place
            }
            None => {
                self.actions.push(Some(action));
                self.actions.len() as Place - 1
            }
        };
        debug_assert!(at.ns >= self.base_ns, "nothing is due in the past");
        self.file(at.ns.max(self.base_ns), place);
    }

    fn file(&mut self, at_ns: u64, place: Place) {
        match (at_ns ^ self.base_ns).checked_ilog2() {
            None => self.now.push_back(place),
            Some(bit) => {
                self.buckets[bit as usize].put(at_ns, place);
                self.filled |= 1 << bit;
            }
        }
    }

    /// When the first action is due.
    pub fn first(&self) -> Option<Instant> {
        if !self.now.is_empty() {
            return Some(Instant { ns: self.base_ns });
        }
        let lowest = self.filled.trailing_zeros() as usize;
        self.buckets.get(lowest).map(|bucket| Instant { ns: bucket.first_ns })
    }

    /// Takes the first action out, if it is due by `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<Action> {
        let place = match self.now.pop_front() {
            Some(place) => place,
            None => self.move_base(now.ns)?,
        };
        self.free.push(place);
        self.actions[place as usize].take()
    }

    /// Moves the base to the first instant that anything is due at, if that is not after `now_ns`, and takes out the first
    /// action of it.
    fn move_base(&mut self, now_ns: u64) -> Option<Place> {
        let lowest = self.filled.trailing_zeros() as usize;
        let (lower, from) = self.buckets.split_at_mut(lowest.min(BUCKETS));
        let bucket = from.first_mut().filter(|bucket| bucket.first_ns <= now_ns)?;
        let base_ns = std::mem::replace(&mut bucket.first_ns, u64::MAX);
        self.base_ns = base_ns;
        self.filled &= !(1 << lowest);
        if bucket.entries.len() == 1 {
            return bucket.entries.pop().map(|(_, place)| place);
        }
        // The bit in which they differed is the base's now: they fall into lower buckets.
        for (at_ns, place) in bucket.entries.drain(..) {
            match (at_ns ^ base_ns).checked_ilog2() {
                None => self.now.push_back(place),
                Some(bit) => {
                    lower[bit as usize].put(at_ns, place);
                    self.filled |= 1 << bit;
                }
            }
        }
        self.now.pop_front()
    }
}

impl Bucket {
    fn put(&mut self, at_ns: u64, place: Place) {
        self.first_ns = self.first_ns.min(at_ns);
        self.entries.push((at_ns, place));
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
                while let Some(action) = agenda.take_due(Instant { ns: now_ns }) {
                    let Action::Call(call) = action else { panic!("calls alone were put in") };
                    call();
                    let (at_ns, number) = sorted.pop_first().expect("as many");
                    assert!(at_ns <= now_ns, "seed {seed}");
                    assert_eq!(met.borrow_mut().pop(), Some(number), "seed {seed}");
                }
                assert!(sorted.first().is_none_or(|(at_ns, _)| *at_ns > now_ns), "seed {seed}");
            }
        }
    }
}
