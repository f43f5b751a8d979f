//! Throughput over the last ten seconds.

use platform::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// The time span of the rate.
const SPAN: Duration = Duration::from_secs(10);

/// The minimum distance of samples.
const SPACING: Duration = Duration::from_millis(250);

/// The rate of a byte count that only grows.
#[derive(Default)]
pub(crate) struct Rate {
    samples: VecDeque<(Instant, u64)>,
}

impl Rate {
    /// Adds a sample: the bytes done so far.
    pub(super) fn sample(&mut self, now: Instant, done_bytes: u64) {
        let near = |&(at, _): &(Instant, u64)| now.since(at) < SPACING;
        // The newest sample is replaced while it is close to the previous one.
        if self.samples.len() > 1 && self.samples.iter().nth_back(1).is_some_and(near) {
            self.samples.pop_back();
        }
        self.samples.push_back((now, done_bytes));
        while self.samples.len() > 2 && now.since(self.samples[1].0) >= SPAN {
            self.samples.pop_front();
        }
    }

    /// Resets the rate after a pause or a new start.
    pub(super) fn forget(&mut self) {
        self.samples.clear();
    }

    /// Bytes per second; `None` without enough samples.
    pub(super) fn bytes_per_s(&self, now: Instant) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        // Without progress, the rate falls.
        let until = if now.since(last.0) > SPAN { now } else { last.0 };
        let seconds = until.since(first.0).as_secs_f64();
        (seconds > 0.0).then(|| last.1.saturating_sub(first.1) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant { ns: ms * 1_000_000 }
    }

    #[test]
    fn it_looks_ten_seconds_back() {
        let mut rate = Rate::default();
        assert_eq!(rate.bytes_per_s(at(0)), None);
        for second in 0..60 {
            // 10 bytes a second for half a minute, then 100.
            let done = if second < 30 { second * 10 } else { 300 + (second - 30) * 100 };
            rate.sample(at(second * 1000), done);
        }
        assert_eq!(rate.bytes_per_s(at(59_000)), Some(100.0));
        assert!(
            rate.bytes_per_s(at(159_000)).is_some_and(|slow| slow < 20.0),
            "nothing came for long"
        );
        assert!(rate.samples.len() < 15);
    }

    #[test]
    fn many_samples_take_no_more_memory() {
        let mut rate = Rate::default();
        (0..100_000).for_each(|ms| rate.sample(at(ms), ms * 7));
        assert!(rate.samples.len() <= 10_000 / 250 + 3, "{}", rate.samples.len());
        let speed = rate.bytes_per_s(at(99_999)).unwrap();
        assert!((speed - 7000.0).abs() < 1.0, "{speed}");
    }
}
