//! The confidence intervals of a row: slices are combined to batches, whose spread gives each
//! interval.

use crate::statistics::estimate::{self, BATCHES, Estimate};
use crate::statistics::meter::{Direction, Part, Reading, Slice};
use crate::text::rounded;
use serde::{Deserialize, Serialize};

/// The intervals that contain the target's true values in 95 of 100 measurements: low, high.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Interval95 {
    /// Of the requests per second.
    pub iops: [f64; 2],
    /// Of the mean latency, in microseconds.
    pub latency_us_mean: [f64; 2],
    /// Of the 2^20 bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_mib_s: Option<[f64; 2]>,
    /// Of the median, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us_p50: Option<[f64; 2]>,
    /// Of the 90th percentile, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us_p90: Option<[f64; 2]>,
    /// Of the 99th percentile, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us_p99: Option<[f64; 2]>,
    /// Of the 99.9th percentile, in microseconds; absent if too few requests are beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us_p999: Option<[f64; 2]>,
    /// The degrees of freedom of Student's t: batches minus one.
    #[serde(default)]
    pub freedom: f64,
    /// The correlation of neighbouring batches, for the rate or the mean latency, whichever is
    /// larger; the intervals are widened for it.
    #[serde(default)]
    pub correlation: f64,
}

/// With fewer requests beyond a percentile it has no interval.
const FEWEST_BEYOND: f64 = 10.0;
/// The same for the equivalent number of independent requests.
const FEWEST_INDEPENDENT_BEYOND: f64 = 5.0;

/// A window in batches of equal time.
pub(crate) struct Batches<'a> {
    groups: Vec<&'a [Slice]>,
    batch_s: f64,
}

impl<'a> Batches<'a> {
    /// The batches of a complete window.
    pub(crate) fn of(reading: &'a Reading) -> Batches<'a> {
        Batches::of_slices(&reading.slices, reading.slice_ns)
    }

    /// Batches of the same number of slices each: [`BATCHES`] of them, or up to twice as many. The
    /// remainder at the end is not part of the spread.
    pub(crate) fn of_slices(slices: &'a [Slice], slice_ns: u64) -> Batches<'a> {
        let each = (slices.len() / BATCHES).max(1);
        Batches {
            groups: slices.chunks_exact(each).collect(),
            batch_s: each as f64 * slice_ns as f64 / 1e9,
        }
    }

    fn sums(&self, value: impl Fn(&Slice) -> u64) -> Vec<f64> {
        self.groups.iter().map(|group| group.iter().map(&value).sum::<u64>() as f64).collect()
    }

    fn per_second(&self, sums: &[f64]) -> Option<Estimate> {
        let rates: Vec<f64> = sums.iter().map(|sum| sum / self.batch_s).collect();
        estimate::mean(&rates)
    }

    /// Requests per second, reads and writes together.
    pub(crate) fn iops(&self) -> Option<Estimate> {
        self.per_second(&self.sums(Slice::ios))
    }

    /// The mean latency in nanoseconds, reads and writes together.
    pub(crate) fn latency_ns(&self) -> Option<Estimate> {
        estimate::ratio(&self.sums(Slice::latency_sum_ns), &self.sums(Slice::ios))
    }

    /// The intervals of `direction`; `part` selects its part of a slice.
    pub(crate) fn interval(
        &self,
        direction: &Direction,
        part: &dyn Fn(&Slice) -> Part,
    ) -> Option<Interval95> {
        let parts: Vec<Vec<Part>> =
            self.groups.iter().map(|group| group.iter().map(part).collect()).collect();
        let sums = |value: &dyn Fn(&Part) -> u64| -> Vec<f64> {
            parts.iter().map(|group| group.iter().map(value).sum::<u64>() as f64).collect()
        };
        let ios = sums(&|part| part.count.ios);
        let rate = self.per_second(&ios)?;
        let latency = estimate::ratio(&sums(&|part| part.count.latency_sum_ns), &ios)?;
        let bytes = self.per_second(&sums(&|part| part.count.bytes))?;
        let percentile = |quantile: f64| -> Option<[f64; 2]> {
            if direction.count.ios as f64 * (1.0 - quantile).min(quantile) < FEWEST_BEYOND {
                return None;
            }
            let latency_ns = direction.latencies_ns.value_at_quantile(quantile);
            let share = estimate::ratio(&sums(&|part| part.at_most(latency_ns)), &ios)?;
            // Correlated requests count as fewer independent ones.
            let independent = quantile * (1.0 - quantile) / share.error.powi(2);
            if independent * (1.0 - quantile).min(quantile) < FEWEST_INDEPENDENT_BEYOND {
                return None;
            }
            let half = share.half_width();
            Some(
                [quantile - half, quantile + half]
                    .map(|end| rounded(direction.quantile_ns(end.clamp(0.0, 1.0)) as f64 / 1e3)),
            )
        };
        Some(Interval95 {
            iops: rate.interval().map(rounded),
            latency_us_mean: latency.interval().map(|ns| rounded(ns / 1e3)),
            throughput_mib_s: Some(
                bytes.interval().map(|bytes| rounded(bytes / f64::from(1 << 20))),
            ),
            latency_us_p50: percentile(0.5),
            latency_us_p90: percentile(0.9),
            latency_us_p99: percentile(0.99),
            latency_us_p999: percentile(0.999),
            freedom: rate.freedom,
            correlation: rounded(rate.correlation.max(latency.correlation)),
        })
    }
}
