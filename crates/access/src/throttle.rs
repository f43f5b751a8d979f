//! Limits on wrong passwords, per source and account and per source.
//!
//! Invariants: what one source does delays or locks no other source; a lock ends `lock_s` after it began; every attempt counts
//! as a failure until it is settled, so that attempts at the same time get no more tries than attempts in turn; names that are no
//! account count exactly as accounts do. Memory is bounded by [`MOST_SOURCES`] and [`MOST_NAMES`]: the entry that was used longest
//! ago makes room, those of sources from which a right password came last of all. Times are seconds of a clock that never goes back.

use crate::Source;
use crate::accounts::LONGEST_NAME;
use std::collections::BTreeMap;

/// Sources that are remembered.
pub const MOST_SOURCES: usize = 2048;

/// Names of which failures are remembered, per source.
pub const MOST_NAMES: usize = 16;

/// For so long a source counts as known after a right password: a day.
const KNOWN_S: u64 = 86_400;

/// When wrong passwords are refused, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Wrong passwords in a row that lock an account for the source that they came from.
    pub failures: u32,
    /// For so long.
    pub lock_s: u64,
    /// Wrong passwords of one source, for whatever accounts, before it has to wait.
    pub source_failures: u32,
    /// It may try one more after each of these intervals.
    pub source_interval_s: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { failures: 5, lock_s: 300, source_failures: 30, source_interval_s: 10 }
    }
}

/// What becomes of an attempt. The password is hashed in both cases, so that the time of the answer is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The password counts.
    Counts {
        /// A wrong one locks the account for this source.
        is_last: bool,
    },
    /// The account is locked for this source: no password is right.
    Locked,
}

/// Failures of one name from one source.
#[derive(Clone, Copy, Default, Debug)]
struct Failures {
    in_a_row: u32,
    locked_until_s: u64,
    /// Until when it counts that its password was right: the limit of the source does not concern it.
    right_until_s: u64,
    used_s: u64,
}

/// What is remembered of a source.
#[derive(Debug)]
struct Tries {
    /// Wrong passwords that it may still give.
    left: u32,
    /// When `left` was last refilled.
    refilled_s: u64,
    used_s: u64,
    /// Until when it counts as known.
    known_until_s: u64,
    names: BTreeMap<String, Failures>,
}

/// See the module.
#[derive(Debug)]
pub struct Throttle {
    limits: Limits,
    sources: BTreeMap<Source, Tries>,
}

impl Throttle {
    /// Nothing was tried yet.
    pub fn new(limits: Limits) -> Throttle {
        Throttle { limits, sources: BTreeMap::new() }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A source is about to try a password for `name`.
    ///
    /// # Errors
    /// The source gave too many wrong passwords: how many seconds it has to wait.
    pub fn begin(&mut self, source: Source, name: &str, now_s: u64) -> Result<Admission, u64> {
        let limits = self.limits;
        let tries = self.of(source, now_s);
        tries.used_s = now_s;
        if !tries.was_right(name, now_s) {
            if tries.left == 0 {
                return Err((tries.refilled_s + limits.source_interval_s).saturating_sub(now_s).max(1));
            }
            tries.left -= 1;
        }
        let failures = tries.of_name(name, now_s);
        failures.used_s = now_s;
        if now_s < failures.locked_until_s {
            return Ok(Admission::Locked);
        }
        if failures.locked_until_s > 0 {
            (failures.in_a_row, failures.locked_until_s) = (0, 0);
        }
        failures.in_a_row += 1;
        let is_last = failures.in_a_row >= limits.failures;
        if is_last {
            failures.locked_until_s = now_s + limits.lock_s;
        }
        Ok(Admission::Counts { is_last })
    }

    /// The password of an attempt was right: it does not count, nor do the wrong ones before it.
    pub fn was_right(&mut self, source: Source, name: &str, now_s: u64) {
        let most = self.limits.source_failures;
        let tries = self.of(source, now_s);
        // Otherwise it was not counted.
        if !tries.was_right(name, now_s) {
            tries.left = (tries.left + 1).min(most);
        }
        tries.known_until_s = now_s + KNOWN_S;
        *tries.of_name(name, now_s) =
            Failures { right_until_s: now_s + KNOWN_S, used_s: now_s, ..Failures::default() };
    }

    /// Whether no password for `name` from this source is looked at now: not even one that was right a moment ago, since that
    /// would tell which one it is.
    pub fn is_held(&self, source: Source, name: &str, now_s: u64) -> bool {
        let Some(tries) = self.sources.get(&source) else { return false };
        let is_empty = tries.left == 0 && now_s < tries.refilled_s + self.limits.source_interval_s;
        let waits = is_empty && !tries.was_right(name, now_s);
        let locked = tries.names.get(key(name)).is_some_and(|failures| now_s < failures.locked_until_s);
        waits || locked
    }

    /// Whether a right password came from this source within the last day.
    pub fn is_known(&self, source: Source, now_s: u64) -> bool {
        self.sources.get(&source).is_some_and(|tries| now_s < tries.known_until_s)
    }

    /// Lifts the locks of an account, and lets the sources that caused them try again.
    pub fn unlock(&mut self, name: &str) {
        let most = self.limits.source_failures;
        for tries in self.sources.values_mut() {
            if let Some(failures) = tries.names.get_mut(key(name)) {
                (failures.in_a_row, failures.locked_until_s) = (0, 0);
                tries.left = most;
            }
        }
    }

    /// From where an account is locked, and for how many seconds each, the longest first.
    pub fn locks(&self, name: &str, now_s: u64) -> Vec<(Source, u64)> {
        let left = |(source, tries): (&Source, &Tries)| {
            let until_s = tries.names.get(key(name))?.locked_until_s;
            (now_s < until_s).then(|| (*source, until_s - now_s))
        };
        let mut locks: Vec<(Source, u64)> = self.sources.iter().filter_map(left).collect();
        locks.sort_by_key(|(source, left)| (std::cmp::Reverse(*left), *source));
        locks
    }

    /// Sources that are remembered, and names of all of them: at most [`MOST_SOURCES`], with [`MOST_NAMES`] each.
    pub fn remembered(&self) -> (usize, usize) {
        (self.sources.len(), self.sources.values().map(|tries| tries.names.len()).sum())
    }

    /// What is remembered of a source, refilled. A new one takes the place of another one if there is no more room.
    fn of(&mut self, source: Source, now_s: u64) -> &mut Tries {
        let limits = self.limits;
        if !self.sources.contains_key(&source) && self.sources.len() >= MOST_SOURCES {
            let oldest = |(_, tries): &(&Source, &Tries)| (now_s < tries.known_until_s, tries.used_s);
            let oldest = self.sources.iter().min_by_key(oldest).map(|(source, _)| *source);
            if let Some(source) = oldest {
                self.sources.remove(&source);
            }
        }
        let tries = self.sources.entry(source).or_insert_with(|| Tries {
            left: limits.source_failures,
            refilled_s: now_s,
            used_s: now_s,
            known_until_s: 0,
            names: BTreeMap::new(),
        });
        tries.refill(limits, now_s);
        tries
    }
}

impl Tries {
    fn refill(&mut self, limits: Limits, now_s: u64) {
        let intervals = now_s.saturating_sub(self.refilled_s) / limits.source_interval_s.max(1);
        if intervals == 0 {
            return;
        }
        let more = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(more).min(limits.source_failures);
        self.refilled_s += intervals * limits.source_interval_s.max(1);
    }

    /// Whether the password of this name was right within the last day.
    fn was_right(&self, name: &str, now_s: u64) -> bool {
        self.names.get(key(name)).is_some_and(|failures| now_s < failures.right_until_s)
    }

    /// The failures of a name; a new one takes the place of another one if there is no more room, last of one that is locked or
    /// was right.
    fn of_name(&mut self, name: &str, now_s: u64) -> &mut Failures {
        let name = key(name);
        if !self.names.contains_key(name) && self.names.len() >= MOST_NAMES {
            let oldest = |(_, failures): &(&String, &Failures)| {
                (now_s < failures.locked_until_s.max(failures.right_until_s), failures.used_s)
            };
            let oldest = self.names.iter().min_by_key(oldest).map(|(name, _)| name.clone());
            if let Some(name) = oldest {
                self.names.remove(&name);
            }
        }
        self.names.entry(name.to_owned()).or_default()
    }
}

/// Under what failures of a name are remembered: names that are too long for an account share one entry.
fn key(name: &str) -> &str {
    if name.len() > LONGEST_NAME { "" } else { name }
}
