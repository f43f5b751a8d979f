//! Slow requests of a volume's hosts on one shard, measured while tasks run.
//!
//! Requests that began while all tasks were [quiet](crate::shard::cycle) adjust a *usual limit*
//! that one in [`SLOW_ONE_IN`] of them exceeds. A request that began while tasks worked is slow if
//! it exceeds that limit by [`SLOW_PERCENT`]. If no more than one in [`SLOW_ONE_IN`] is slow, tasks
//! have raised this percentile by less.
//!
//! The mean would not do: on disks, a batch delays few requests, but these for long; on flash it
//! delays many requests a little.
//!
//! Classes by the start of a request are unbiased: slow requests overlap more batches than fast
//! ones, whatever their reason.

use crate::messages::HostRequests;
use crate::shard::cycle::{Cycle, Part};
use crate::volume::VolumeId;
use platform::Instant;
use std::cell::Cell;
use std::time::Duration;

/// The percentile that is measured: p99.
pub(crate) const SLOW_ONE_IN: u64 = 100;

/// A request is slow if it takes more than this percentage of the usual limit.
const SLOW_PERCENT: u64 = 140;

/// The least usual limit: the clock is read once per round of the loop.
const LEAST_NS: u64 = 20_000;

/// The number of quiet requests after which the limit is used. Its steps get smaller.
const LEARNT: u64 = 64;

/// The limit is learnt again after this time without quiet requests.
const FORGET_AFTER: Duration = Duration::from_secs(10);

/// The requests of a volume's hosts on one shard.
pub(crate) struct HostMeter {
    requests: Cell<HostRequests>,
    usual: Cell<Usual>,
}

/// The usual limit.
#[derive(Clone, Copy, Default)]
struct Usual {
    ns: u64,
    /// The number of requests that adjusted it, and the time of the last one.
    learnt: u64,
    at: Instant,
}

impl HostMeter {
    pub(crate) fn new(volume: VolumeId) -> HostMeter {
        let requests = Cell::new(HostRequests { volume, all: 0, slow: 0 });
        HostMeter { requests, usual: Cell::default() }
    }

    pub(crate) fn requests(&self) -> HostRequests {
        self.requests.get()
    }

    /// A request has ended. `cycle`: that of the volume's drives.
    pub(crate) fn note(&self, cycle: Cycle, began: Instant, now: Instant) {
        let took = now.since(began).as_nanos() as u64;
        let usual = self.usual.get();
        match cycle.part_at(began) {
            Part::Quiet => self.usual.set(usual.after(took, now)),
            Part::Working if usual.learnt >= LEARNT => {
                let requests = self.requests.get();
                let is_slow = took > usual.ns.max(LEAST_NS) * SLOW_PERCENT / 100;
                let (all, slow) = (requests.all + 1, requests.slow + u64::from(is_slow));
                self.requests.set(HostRequests { all, slow, ..requests });
            }
            Part::Working | Part::Settling => {}
        }
    }
}

impl Usual {
    fn after(self, took: u64, at: Instant) -> Usual {
        if self.learnt == 0 || at.since(self.at) > FORGET_AFTER {
            return Usual { ns: took, learnt: 1, at };
        }
        let step = self.ns / (8 + self.learnt / 8).min(64);
        let ns = match took > self.ns {
            true => self.ns + step.max(1),
            false => self.ns - step / (SLOW_ONE_IN - 1),
        };
        Usual { ns, learnt: self.learnt + 1, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Notes a request that began `at_ms` milliseconds after the start of a cycle.
    fn note(meter: &HostMeter, cycle: u64, at_ms: u64, took_us: u64) {
        let began = Instant { ns: (cycle * 470 + at_ms) * MS };
        meter.note(Cycle::of(false), began, began + Duration::from_micros(took_us));
    }

    #[test]
    fn requests_beside_tasks_are_compared_with_those_without() {
        let meter = HostMeter::new(VolumeId(1));
        let counts = || (meter.requests().all, meter.requests().slow);
        note(&meter, 0, 10, 99_000);
        assert_eq!(counts(), (0, 0), "nothing to compare with");
        for nth in 0..2000 {
            // Quiet requests of up to 10 ms: one in a hundred takes more than 9.9 ms.
            note(&meter, 1, 420 + nth % 50, nth * 7919 % 10_000);
        }
        for took_us in [5000, 12_000, 12_500] {
            note(&meter, 1, 300, took_us);
        }
        assert_eq!(counts(), (3, 0));
        note(&meter, 2, 0, 14_500);
        note(&meter, 2, 380, 99_000);
        assert_eq!(counts(), (4, 1), "not those while the last batches end");
        note(&meter, 100, 420, 1);
        note(&meter, 100, 10, 99_000);
        assert_eq!(counts(), (4, 1), "the limit is out of date");
    }
}
