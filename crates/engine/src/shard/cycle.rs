//! The cycle of tasks beside hosts: all shards are quiet at the same time.
//!
//! In the last fifth of a cycle no task begins a batch. Requests of hosts that begin there, after
//! the last batches have ended, are the comparison for the others. The cycle is a function of the
//! clock, which all shards share: no shard needs to know when another one works.
//!
//! A task that may use less than four fifths of the time loses none of it: its rests are counted
//! without the quiet parts.

use platform::Instant;
use std::time::Duration;

/// A cycle of tasks, by the drives of their volume.
#[derive(Clone, Copy)]
pub(crate) struct Cycle {
    ns: u64,
    /// The part after the last batches in which they end, and requests that waited for them.
    settle_ns: u64,
}

/// A second is no multiple of either: hosts' periodic work is not always in the same part.
const FLASH: Cycle = Cycle { ns: 470_000_000, settle_ns: 40_000_000 };
/// A queue of a busy disk takes a tenth of a second to become as short as it is without tasks.
const ROTATING: Cycle = Cycle { ns: 2_350_000_000, settle_ns: 200_000_000 };

/// The shortest cycle.
pub(crate) const SHORTEST: Duration = Duration::from_nanos(FLASH.ns);

/// The parts of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Tasks work.
    Working,
    /// The last batches end.
    Settling,
    /// No task works.
    Quiet,
}

impl Cycle {
    pub(crate) fn of(rotates: bool) -> Cycle {
        if rotates { ROTATING } else { FLASH }
    }

    /// The part in which tasks may begin batches.
    fn work_ns(self) -> u64 {
        self.ns / 5 * 4
    }

    pub(crate) fn part_at(self, time: Instant) -> Part {
        match time.ns % self.ns {
            at if at < self.work_ns() => Part::Working,
            at if at < self.work_ns() + self.settle_ns => Part::Settling,
            _ => Part::Quiet,
        }
    }

    /// The first time from `time` on at which a batch may begin.
    pub(crate) fn next_work(self, time: Instant) -> Instant {
        self.after(time, Duration::ZERO)
    }

    /// When a batch may begin so that batches begin once per `period` on average.
    pub(crate) fn after(self, began: Instant, period: Duration) -> Instant {
        let work = self.work_ns();
        let worked = began.ns / self.ns * work + (began.ns % self.ns).min(work);
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let due = worked.saturating_add(period / 5 * 4);
        Instant { ns: (due / work).saturating_mul(self.ns).saturating_add(due % work) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant { ns: ms * MS }
    }

    #[test]
    fn batches_begin_in_the_first_part_of_a_cycle() {
        assert_eq!(FLASH.next_work(at(375)), at(375));
        assert_eq!(FLASH.next_work(at(376)), at(470));
        assert_eq!(FLASH.next_work(at(469)), at(470));
        assert_eq!(FLASH.next_work(at(470 * 7 + 1)), at(470 * 7 + 1));
        for cycle in [FLASH, ROTATING] {
            for (ms, period) in (0..6000).flat_map(|ms| [0, 1, 50, 333, 5000].map(|of| (ms, of))) {
                let due = cycle.after(at(ms), Duration::from_millis(period));
                let part = cycle.part_at(due);
                assert!(due >= at(ms) && part == Part::Working, "{ms} {period}: {due:?}");
            }
        }
    }

    #[test]
    fn quiet_parts_do_not_change_the_mean_period() {
        for period_ms in [1, 10, 47, 100, 1000] {
            let mut time = at(3);
            for _ in 0..1000 {
                time = FLASH.after(time, Duration::from_millis(period_ms));
            }
            let mean = time.since(at(3)) / 1000;
            let exact = Duration::from_millis(period_ms);
            assert!(mean.abs_diff(exact) < exact / 50 + Duration::from_micros(100), "{mean:?}");
        }
    }

    #[test]
    fn a_time_that_never_comes_is_not_exceeded() {
        assert!(ROTATING.after(at(1), Duration::MAX) > at(u64::MAX / MS / 2));
    }
}
