//! Counters in, intervals out. Pure: the caller passes the time.
//!
//! Intervals of ten seconds stay in memory for two hours, encoded. Sums by minute wait for the
//! store.

use crate::encoding::{decode, encode};
use crate::interval::{Done, Interval, OPERATIONS, Temperatures};
use crate::store::{Kind, Row, Subject};
use std::collections::{BTreeMap, VecDeque};

/// The length of an interval in memory.
pub(crate) const TICK_S: u64 = 10;

/// How long intervals stay in memory.
const KEPT_S: u64 = 2 * 3600;

/// The length of an interval of the store.
pub(crate) const MINUTE_S: u64 = 60;

/// The limit of subjects; further ones have no history.
pub const MOST_SUBJECTS: usize = 1024;

/// The limit of minutes per subject that wait for the store; the oldest is dropped.
const MOST_PENDING: usize = 120;

/// The counters of a volume or a drive since their start.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Operations by kind.
    pub done: [Done; OPERATIONS],
    /// Reads of a stripe that hit the cache, at least in part.
    pub cache_hits: u64,
    /// Writes that were acknowledged from the cache.
    pub cache_writes: u64,
    /// The current temperature, in degrees Celsius.
    pub temperature_c: Option<i16>,
}

impl Counters {
    fn since(&self, before: &Counters, covered_ms: u64) -> Interval {
        let mut interval = Interval {
            covered_ms,
            cache_hits: since(self.cache_hits, before.cache_hits),
            cache_writes: since(self.cache_writes, before.cache_writes),
            temperatures: self.temperature_c.map(|now| Temperatures { least: now, most: now }),
            ..Interval::default()
        };
        let pairs = self.done.iter().zip(&before.done);
        interval.done.iter_mut().zip(pairs).for_each(|(of, (now, then))| *of = now.since(then));
        interval
    }
}

/// The increase of a counter. A counter that decreased has restarted at zero.
fn since(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// A reading of the counters of a volume or a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The volume or drive.
    pub subject: Subject,
    /// Its counters.
    pub counters: Counters,
}

/// The record of a subject.
#[derive(Default)]
struct Known {
    name: String,
    last: Counters,
    /// Encoded intervals by start time, oldest first.
    ticks: VecDeque<(u64, Box<[u8]>)>,
    /// Sums by the start of their minute, not yet passed to the store.
    pending: BTreeMap<u64, Interval>,
}

/// See the module documentation.
#[derive(Default)]
pub struct Recorder {
    known: BTreeMap<(Kind, String), Known>,
    /// The counters' clock at the last reading.
    looked_ns: Option<u64>,
}

impl Recorder {
    /// Records counters. `now_unix_s` is the wall clock, `now_ns` the monotonic clock of the
    /// counters. The first reading is the baseline; subjects that appear later count from zero.
    ///
    /// Returns the number of subjects left out because of the limit.
    pub fn note(&mut self, now_unix_s: u64, now_ns: u64, readings: &[Reading]) -> usize {
        let is_first = self.looked_ns.is_none();
        let before = self.looked_ns.unwrap_or(now_ns);
        let covered_ms = now_ns.saturating_sub(before) / 1_000_000;
        if !is_first && covered_ms == 0 {
            // The next reading counts it.
            return 0;
        }
        self.looked_ns = Some(before + covered_ms * 1_000_000);
        let mut left_out = 0;
        for Reading { subject, counters } in readings {
            let key = (subject.kind, subject.key.clone());
            if !self.known.contains_key(&key) {
                if self.known.len() >= MOST_SUBJECTS {
                    left_out += 1;
                    continue;
                }
                // A new subject counts from zero.
                let last = if is_first { counters.clone() } else { Counters::default() };
                let known = Known { name: subject.name.clone(), last, ..Known::default() };
                self.known.insert(key.clone(), known);
            }
            let Some(known) = self.known.get_mut(&key) else { continue };
            known.name.clone_from(&subject.name);
            if covered_ms > 0 {
                known.add(now_unix_s, &counters.since(&known.last, covered_ms));
            }
            known.last.clone_from(counters);
        }
        self.prune(now_unix_s, readings);
        left_out
    }

    /// Removes intervals older than two hours, and absent subjects without data.
    fn prune(&mut self, now_unix_s: u64, readings: &[Reading]) {
        let oldest = now_unix_s.saturating_sub(KEPT_S);
        let there: std::collections::BTreeSet<(Kind, &str)> =
            readings.iter().map(|one| (one.subject.kind, one.subject.key.as_str())).collect();
        self.known.retain(|(kind, key), known| {
            while known.ticks.front().is_some_and(|(at_s, _)| at_s + TICK_S <= oldest) {
                known.ticks.pop_front();
            }
            let is_empty = known.ticks.is_empty() && known.pending.is_empty();
            !is_empty || there.contains(&(*kind, key.as_str()))
        });
    }

    /// Takes the rows that wait for the store.
    pub fn take_pending(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        for ((kind, key), known) in &mut self.known {
            for (at_s, interval) in std::mem::take(&mut known.pending) {
                let subject = Subject { kind: *kind, key: key.clone(), name: known.name.clone() };
                rows.push(Row { subject, at_s, interval });
            }
        }
        rows
    }

    /// Returns rows that the store rejected.
    pub fn give_back(&mut self, rows: Vec<Row>) {
        for Row { subject, at_s, interval } in rows {
            if let Some(known) = self.known.get_mut(&(subject.kind, subject.key)) {
                known.wait(at_s, &interval);
            }
        }
    }

    /// Whether a subject has that kind, and that name or key.
    pub fn knows(&self, kind: Kind, name: &str) -> bool {
        self.known
            .iter()
            .any(|((of, key), known)| *of == kind && (key == name || known.name == name))
    }

    /// The start of the oldest interval in memory; `None` before the first.
    pub fn since_s(&self) -> Option<u64> {
        self.known.values().filter_map(|known| known.ticks.front().map(|(at_s, _)| *at_s)).min()
    }

    /// The intervals of ten seconds that start in a range of time.
    pub(crate) fn ticks(
        &self,
        wanted: impl Fn(&Subject) -> bool,
        (from_s, to_s): (u64, u64),
        mut take: impl FnMut(&Subject, u64, &Interval),
    ) {
        for ((kind, key), known) in &self.known {
            let subject = Subject { kind: *kind, key: key.clone(), name: known.name.clone() };
            if !wanted(&subject) {
                continue;
            }
            let inside = known.ticks.iter().filter(|(at_s, _)| (from_s..to_s).contains(at_s));
            for (at_s, bytes) in inside {
                // `add` encoded them.
                if let Some(interval) = decode(bytes) {
                    take(&subject, *at_s, &interval);
                }
            }
        }
    }

    /// The memory of the intervals, in bytes, without the fixed part.
    pub fn bytes(&self) -> usize {
        let of = |known: &Known| {
            known
                .ticks
                .iter()
                .map(|(_, bytes)| bytes.len() + size_of::<(u64, Box<[u8]>)>())
                .sum::<usize>()
        };
        self.known.values().map(of).sum()
    }
}

impl Known {
    fn add(&mut self, now_unix_s: u64, interval: &Interval) {
        let at_s = now_unix_s / TICK_S * TICK_S;
        // The clock was set back: drop intervals with a future start.
        while self.ticks.back().is_some_and(|(last, _)| *last > at_s) {
            self.ticks.pop_back();
        }
        match self.ticks.back_mut() {
            Some((last, bytes)) if *last == at_s => {
                let mut both = decode(bytes).unwrap_or_default();
                both.merge(interval);
                *bytes = encode(&both).into();
            }
            _ => self.ticks.push_back((at_s, encode(interval).into())),
        }
        self.wait(now_unix_s / MINUTE_S * MINUTE_S, interval);
    }

    fn wait(&mut self, at_s: u64, interval: &Interval) {
        self.pending.entry(at_s).or_default().merge(interval);
        while self.pending.len() > MOST_PENDING {
            self.pending.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_700_000_040; // A whole minute.

    fn reading(key: &str, reads: u64) -> Reading {
        let mut counters = Counters { temperature_c: Some(40), ..Counters::default() };
        counters.done[0].buckets[4] = reads;
        counters.done[0].bytes = reads * 512;
        let subject =
            Subject { kind: Kind::Volume, key: key.into(), name: format!("name of {key}") };
        Reading { subject, counters }
    }

    fn ticks(recorder: &Recorder) -> Vec<(u64, u64, u64)> {
        let mut seen = Vec::new();
        recorder.ticks(
            |_| true,
            (0, u64::MAX),
            |_, at_s, interval| {
                seen.push((at_s, interval.done[0].completed(), interval.covered_ms));
            },
        );
        seen
    }

    #[test]
    fn counters_become_intervals_and_minutes_add_them_up() {
        let mut recorder = Recorder::default();
        for (tick, reads) in [(0, 100), (1, 107), (2, 107), (6, 120)] {
            recorder.note(NOON + tick * 10, tick * 10_000_000_000, &[reading("a", reads)]);
        }
        let expected = [(NOON + 10, 7, 10_000), (NOON + 20, 0, 10_000), (NOON + 60, 13, 40_000)];
        assert_eq!(ticks(&recorder), expected);
        let rows = recorder.take_pending();
        let of = |row: &Row| (row.at_s, row.interval.done[0].completed(), row.interval.covered_ms);
        assert_eq!(
            rows.iter().map(of).collect::<Vec<_>>(),
            [(NOON, 7, 20_000), (NOON + 60, 13, 40_000)]
        );
        assert!(recorder.take_pending().is_empty(), "rows are taken once");
        recorder.give_back(rows.clone());
        assert_eq!(recorder.take_pending(), rows);
    }

    #[test]
    fn a_counter_that_began_anew_counts_from_there_and_a_clock_that_was_set_back_loses_nothing_older()
     {
        let mut recorder = Recorder::default();
        for (at_s, ns, reads) in [(NOON, 1, 100), (NOON + 10, 2, 110), (NOON + 20, 3, 4)] {
            recorder.note(at_s, ns * 10_000_000_000, &[reading("a", reads)]);
        }
        assert_eq!(ticks(&recorder).last(), Some(&(NOON + 20, 4, 10_000)));
        recorder.note(NOON + 15, 40_000_000_000, &[reading("a", 5)]);
        assert_eq!(
            ticks(&recorder),
            [(NOON + 10, 11, 20_000)],
            "both readings fall into the same ten seconds"
        );
    }

    #[test]
    fn two_hours_are_kept_and_what_is_gone_is_forgotten_in_the_end() {
        let mut recorder = Recorder::default();
        for tick in 0..2000_u64 {
            let mut readings = vec![reading("a", tick * 5)];
            readings.extend((tick < 10).then(|| reading("b", tick)));
            recorder.note(NOON + tick * 10, tick * 10_000_000_000, &readings);
            recorder.take_pending();
        }
        assert_eq!(recorder.known.len(), 1);
        let kept = ticks(&recorder);
        assert!((720..=721).contains(&kept.len()), "{}", kept.len());
        assert_eq!(recorder.since_s(), Some(kept[0].0));
    }

    #[test]
    fn more_subjects_than_there_is_room_for_are_left_out() {
        let mut recorder = Recorder::default();
        let readings: Vec<Reading> =
            (0..MOST_SUBJECTS + 5).map(|at| reading(&at.to_string(), 0)).collect();
        assert_eq!(recorder.note(NOON, 0, &readings), 5);
    }

    #[test]
    fn what_waits_for_the_store_is_bounded() {
        let mut recorder = Recorder::default();
        for minute in 0..500_u64 {
            recorder.note(NOON + minute * 60, minute * 60_000_000_000, &[reading("a", minute)]);
        }
        assert_eq!(recorder.take_pending().len(), MOST_PENDING);
    }

    /// 64 volumes and 128 drives, all busy: the documented memory bound.
    #[test]
    fn two_hours_of_a_large_machine_fit_into_32_mib() {
        let mut recorder = Recorder::default();
        let reads = |tick: u64| {
            let one = |at: u64| {
                let mut reading = reading(&at.to_string(), 0);
                for done in &mut reading.counters.done[..2] {
                    (3..13).for_each(|bucket| done.buckets[bucket] = tick * (5000 + at * 7));
                    (done.bytes, done.time_ns) = (tick * (1 << 30), tick * 9_000_000_000);
                }
                reading
            };
            (0..192).map(one).collect::<Vec<Reading>>()
        };
        for tick in 0..722 {
            recorder.note(NOON + tick * 10, tick * 10_000_000_000, &reads(tick));
            recorder.take_pending();
        }
        assert!(recorder.bytes() < 32 << 20, "{}", recorder.bytes());
    }
}
