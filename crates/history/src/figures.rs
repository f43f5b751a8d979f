//! The figures of an interval, for display.
//!
//! The position of a percentile within its bucket is unknown. As `histogram_quantile` of Prometheus
//! does, the times in a bucket are assumed to be evenly spread.

use crate::interval::{BUCKETS, Done, Interval};
use platform::BUCKET_BOUNDS_NS;
use serde::{Deserialize, Serialize};

const MIB: f64 = 1_048_576.0;

/// Operations of one kind, or all of them.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct OperationFigures {
    /// Completed operations per second.
    pub iops: f64,
    /// Their throughput.
    pub throughput_mib_s: f64,
    /// Failed operations per second.
    pub failed_per_s: f64,
    /// The average latency; absent if none completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<f64>,
    /// The median latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// The p99 latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
}

/// The figures of an interval.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// The recorded time, in seconds.
    pub covered_s: f64,
    /// Reads and writes together.
    pub all: OperationFigures,
    /// Reads.
    pub read: OperationFigures,
    /// Writes, including write-zeroes.
    pub write: OperationFigures,
    /// Trims.
    pub trim: OperationFigures,
    /// Flushes.
    pub flush: OperationFigures,
    /// The average number of outstanding operations: their total latency divided by the elapsed
    /// time.
    pub queue: f64,
    /// Reads of a stripe per second that hit the cache.
    pub cache_hits_per_s: f64,
    /// Writes per second that were acknowledged from the cache.
    pub cache_writes_per_s: f64,
    /// The lowest temperature, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_least_c: Option<i16>,
    /// The highest temperature, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_most_c: Option<i16>,
}

impl Figures {
    /// Calculates the figures of an interval.
    pub fn of(interval: &Interval) -> Figures {
        let seconds = interval.covered_ms as f64 / 1000.0;
        let a_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let [read, write, trim, flush] = &interval.done;
        let mut all = *read;
        all.merge(write);
        let of = |done: &Done| operation(done, a_second);
        let busy_s: f64 = interval.done.iter().map(|done| done.time_ns as f64 / 1e9).sum();
        Figures {
            covered_s: seconds,
            all: of(&all),
            read: of(read),
            write: of(write),
            trim: of(trim),
            flush: of(flush),
            queue: a_second(busy_s),
            cache_hits_per_s: a_second(interval.cache_hits as f64),
            cache_writes_per_s: a_second(interval.cache_writes as f64),
            temperature_least_c: interval.temperatures.map(|temperatures| temperatures.least),
            temperature_most_c: interval.temperatures.map(|temperatures| temperatures.most),
        }
    }
}

fn operation(done: &Done, a_second: impl Fn(f64) -> f64) -> OperationFigures {
    let completed = done.completed();
    let any = completed > 0;
    OperationFigures {
        iops: a_second(completed as f64),
        throughput_mib_s: a_second(done.bytes as f64 / MIB),
        failed_per_s: a_second(done.failed as f64),
        mean_us: any.then(|| done.time_ns as f64 / 1e3 / completed as f64),
        p50_us: any.then(|| percentile_us(&done.buckets, 0.5)),
        p99_us: any.then(|| percentile_us(&done.buckets, 0.99)),
    }
}

/// The latency that a share of the operations did not exceed. Latencies above the last bound count
/// as that bound.
fn percentile_us(counts: &[u64; BUCKETS], share: f64) -> f64 {
    let all: f64 = counts.iter().map(|count| *count as f64).sum();
    let rank = share * all;
    let (mut below, mut lower_ns) = (0.0, 0_u64);
    for (count, upper_ns) in counts.iter().zip(BUCKET_BOUNDS_NS) {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            let part = (rank - below) / count;
            return (lower_ns as f64 + (upper_ns - lower_ns) as f64 * part) / 1e3;
        }
        below += count;
        lower_ns = upper_ns;
    }
    lower_ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(bucket: usize, count: u64, time_us: u64) -> Interval {
        let mut interval = Interval { covered_ms: 10_000, ..Interval::default() };
        interval.done[0].buckets[bucket] = count;
        interval.done[0].bytes = count * 4096;
        interval.done[0].time_ns = count * time_us * 1000;
        interval
    }

    /// An hour of fast reads merged with ten seconds of slow ones: p99 is that of all reads, not
    /// the average of two percentiles.
    #[test]
    fn a_percentile_of_merged_intervals_is_that_of_all_operations() {
        let (quick, slow) = (reads(3, 10_000, 80), reads(9, 50, 8000));
        let mut both = quick.clone();
        both.merge(&slow);
        let of = |interval: &Interval| Figures::of(interval).read.p99_us.unwrap();
        let average = (of(&quick) + of(&slow)) / 2.0;
        assert!(of(&both) < 100.0, "99.5 % were fast: {}", of(&both));
        assert!(average > 4000.0, "{average}");
        let figures = Figures::of(&both);
        assert_eq!((figures.covered_s, figures.read.iops), (20.0, 502.5));
        assert_eq!(figures.read.throughput_mib_s, 10_050.0 * 4096.0 / MIB / 20.0);
        let busy_us = 10_000.0 * 80.0 + 50.0 * 8000.0;
        assert!((figures.queue - busy_us / 20e6).abs() < 1e-9, "{}", figures.queue);
        assert!((figures.read.mean_us.unwrap() - busy_us / 10_050.0).abs() < 1e-9);
    }

    #[test]
    fn what_did_nothing_has_no_latency() {
        let figures = Figures::of(&Interval { covered_ms: 10_000, ..Interval::default() });
        assert_eq!((figures.all.iops, figures.all.p99_us, figures.queue), (0.0, None, 0.0));
        assert_eq!(Figures::of(&Interval::default()), Figures::default(), "no time elapsed");
    }
}
