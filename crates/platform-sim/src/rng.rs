//! Random numbers: one seed, many streams.
//!
//! Each purpose has a stream, whose state is a hash of the seed, the purpose and an instance (a
//! drive's name, a process and shard). So an additional draw for one purpose affects no other.
//!
//! | purpose | instance | determines |
//! | --- | --- | --- |
//! | `random` | process, shard | the results of `Env::random` |
//! | `schedule` | process, shard | the next ready task |
//! | `turn` | | the next executor, and whether a due event precedes a ready task |
//! | `latency` | drive | the duration of an operation |
//! | `fault` | drive | the writes that survive a power cut, a kill or a failure |
//! | `trim` | drive | the content of trimmed blocks |
//! | `unreadable`, `rot`, `slow` | drive | spontaneous faults of sectors, slow periods |
//! | `stray` | drive | lost and misdirected writes, and the target of the latter |
//! | `unwritable` | drive | the unwritable sectors |
//! | `network` | connection | latencies and fragments of a stream |
//! | `state` | | latencies and losses of the state store |
//! | `kept` | | durations of taking and removing persistent memory |
//! | `boot` | process; empty for the machine | boot numbers |

use platform::sync::split_mix;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The stream of `purpose` and `instance` for `seed`.
    pub fn new(seed: u64, purpose: &str, instance: &str) -> Rng {
        let mut hash = Fold::new(seed);
        hash.text(purpose);
        hash.text(instance);
        Rng { state: hash.value() }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let (state, value) = split_mix(self.state);
        self.state = state;
        value
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of a product: the bias of 64-bit draws is too small to matter.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True in `times` of `of` cases.
    pub fn chance(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }

    /// Puts `items` in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// A running 64-bit hash. Not cryptographic, but every input bit affects every bit of the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold(u64);

impl Fold {
    pub fn new(seed: u64) -> Fold {
        Fold(seed ^ 0x6A09_E667_F3BC_C908)
    }

    pub fn number(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        self.0 = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(23);
    }

    pub fn text(&mut self, text: &str) {
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
        self.number(text.len() as u64);
    }

    pub fn value(self) -> u64 {
        split_mix(self.0).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_by_purpose_and_instance() {
        let first = |purpose, instance| Rng::new(7, purpose, instance).next_u64();
        assert_eq!(first("latency", "a"), first("latency", "a"));
        assert_ne!(first("latency", "a"), first("latency", "b"));
        assert_ne!(first("latency", "a"), first("fault", "a"));
        assert_ne!(Rng::new(8, "latency", "a").next_u64(), first("latency", "a"));
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_it() {
        let mut rng = Rng::new(1, "test", "");
        let mut seen = [0; 6];
        (0..6000).for_each(|_| seen[rng.below(6) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert_eq!(rng.between(5, 5), 5);
        rng.between(0, u64::MAX);
    }
}
