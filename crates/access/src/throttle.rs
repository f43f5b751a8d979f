//! Limits on wrong passwords, per source and per source and account.
//!
//! Invariants:
//! - A source cannot delay or lock another source.
//! - A lock ends `lock_s` after it began.
//! - An attempt counts as a failure until it is settled: parallel attempts get no more tries than
//!   sequential ones.
//! - Unknown names count exactly as accounts do.
//! - [`MOST_SOURCES`] and [`MOST_NAMES`] bound the memory. The least recently used entry is
//!   evicted; sources with a correct password are evicted last.
//!
//! Times are seconds of a monotonic clock.

use crate::Source;
use crate::accounts::LONGEST_NAME;
use std::collections::BTreeMap;

/// The limit of sources.
pub const MOST_SOURCES: usize = 2048;

/// The limit of names per source.
pub const MOST_NAMES: usize = 16;

/// How long a source counts as known after a correct password: a day.
const KNOWN_S: u64 = 86_400;

/// The limits, and the lock times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Consecutive wrong passwords that lock an account for their source.
    pub failures: u32,
    /// The duration of a lock.
    pub lock_s: u64,
    /// Wrong passwords of a source, for all accounts, before it is limited.
    pub source_failures: u32,
    /// The interval after which a limited source may try once more.
    pub source_interval_s: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { failures: 5, lock_s: 300, source_failures: 30, source_interval_s: 10 }
    }
}

/// The admission of an attempt. The password is hashed in both cases, so that the response time is
/// equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The password is checked.
    Counts {
        /// Whether a wrong password locks the account for this source.
        is_last: bool,
    },
    /// The account is locked for this source; any password is rejected.
    Locked,
}

/// Failures of one name from one source.
#[derive(Clone, Copy, Default, Debug)]
struct Failures {
    in_a_row: u32,
    locked_until_s: u64,
    /// Until when a correct password exempts the name from the limit of the source.
    right_until_s: u64,
    used_s: u64,
}

/// The record of a source.
#[derive(Debug)]
struct Tries {
    /// The wrong passwords it has left.
    left: u32,
    /// When `left` was last refilled.
    refilled_s: u64,
    used_s: u64,
    /// Until when the source counts as known.
    known_until_s: u64,
    names: BTreeMap<String, Failures>,
}

/// See the module documentation.
#[derive(Debug)]
pub struct Throttle {
    limits: Limits,
    sources: BTreeMap<Source, Tries>,
}

impl Throttle {
    /// No attempts recorded.
    pub fn new(limits: Limits) -> Throttle {
        Throttle { limits, sources: BTreeMap::new() }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Admits an attempt of a source for `name`, and counts it.
    ///
    /// # Errors
    /// The source has reached its limit: the seconds it has to wait.
    pub fn begin(&mut self, source: Source, name: &str, now_s: u64) -> Result<Admission, u64> {
        let limits = self.limits;
        let tries = self.of(source, now_s);
        tries.used_s = now_s;
        if !tries.was_right(name, now_s) {
            if tries.left == 0 {
                return Err((tries.refilled_s + limits.source_interval_s)
                    .saturating_sub(now_s)
                    .max(1));
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

    /// Records that the password was correct: clears this attempt and the wrong ones before it.
    pub fn was_right(&mut self, source: Source, name: &str, now_s: u64) {
        let most = self.limits.source_failures;
        let tries = self.of(source, now_s);
        // An exempt name was not counted.
        if !tries.was_right(name, now_s) {
            tries.left = (tries.left + 1).min(most);
        }
        tries.known_until_s = now_s + KNOWN_S;
        *tries.of_name(name, now_s) =
            Failures { right_until_s: now_s + KNOWN_S, used_s: now_s, ..Failures::default() };
    }

    /// Whether attempts for `name` from this source are rejected without a check. This includes a
    /// password that was correct just before: accepting it would reveal it.
    pub fn is_held(&self, source: Source, name: &str, now_s: u64) -> bool {
        let Some(tries) = self.sources.get(&source) else { return false };
        let is_empty = tries.left == 0 && now_s < tries.refilled_s + self.limits.source_interval_s;
        let waits = is_empty && !tries.was_right(name, now_s);
        let locked =
            tries.names.get(key(name)).is_some_and(|failures| now_s < failures.locked_until_s);
        waits || locked
    }

    /// Whether a correct password came from this source within the last day.
    pub fn is_known(&self, source: Source, now_s: u64) -> bool {
        self.sources.get(&source).is_some_and(|tries| now_s < tries.known_until_s)
    }

    /// Removes the locks of an account, and resets the limits of the sources that caused them.
    pub fn unlock(&mut self, name: &str) {
        let most = self.limits.source_failures;
        for tries in self.sources.values_mut() {
            if let Some(failures) = tries.names.get_mut(key(name)) {
                (failures.in_a_row, failures.locked_until_s) = (0, 0);
                tries.left = most;
            }
        }
    }

    /// The sources an account is locked for, and the remaining seconds; longest first.
    pub fn locks(&self, name: &str, now_s: u64) -> Vec<(Source, u64)> {
        let left = |(source, tries): (&Source, &Tries)| {
            let until_s = tries.names.get(key(name))?.locked_until_s;
            (now_s < until_s).then(|| (*source, until_s - now_s))
        };
        let mut locks: Vec<(Source, u64)> = self.sources.iter().filter_map(left).collect();
        locks.sort_by_key(|(source, left)| (std::cmp::Reverse(*left), *source));
        locks
    }

    /// The number of sources and of names: at most [`MOST_SOURCES`], with [`MOST_NAMES`] each.
    pub fn remembered(&self) -> (usize, usize) {
        (self.sources.len(), self.sources.values().map(|tries| tries.names.len()).sum())
    }

    /// The record of a source, refilled. A new record may evict another.
    fn of(&mut self, source: Source, now_s: u64) -> &mut Tries {
        let limits = self.limits;
        if !self.sources.contains_key(&source) && self.sources.len() >= MOST_SOURCES {
            let oldest =
                |(_, tries): &(&Source, &Tries)| (now_s < tries.known_until_s, tries.used_s);
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

    /// Whether the password of this name was correct within the last day.
    fn was_right(&self, name: &str, now_s: u64) -> bool {
        self.names.get(key(name)).is_some_and(|failures| now_s < failures.right_until_s)
    }

    /// The failures of a name. A new name may evict another; locked or correct names are evicted
    /// last.
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

/// The key of a name: names too long for an account share one entry.
fn key(name: &str) -> &str {
    if name.len() > LONGEST_NAME { "" } else { name }
}
