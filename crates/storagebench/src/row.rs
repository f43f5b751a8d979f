//! Result rows: what one point came to, with the field names that `bench` and `predict` share.

use crate::generator::Point;
use crate::meter::{Direction, Reading};
use crate::profile::{Access, Profile};
use crate::stats::{latency_interval, rate_interval};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::ByteCount;

/// How long requests took, from their start to their completion, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// The mean, exact.
    pub mean: f64,
    /// Half of the requests took no longer. Percentiles are exact to 0.1 %.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// 999 of 1,000 took no longer.
    pub p999: f64,
    /// The longest, exact.
    pub max: f64,
}

/// The part of a row that is about reads alone, or writes alone.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Split {
    /// Requests completed.
    pub ios: u64,
    /// Requests completed per second.
    pub iops: f64,
    /// 2^20 bytes per second.
    pub throughput_mib_s: f64,
    /// `null` when nothing completed.
    pub latency_us: Option<Latency>,
    /// Requests that failed.
    pub errors: u64,
}

/// The interval that holds the target's true value in 95 of 100 measurements.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Interval95 {
    /// Of [`Row::iops`]: low, high.
    pub iops: [f64; 2],
    /// Of the mean latency, in microseconds: low, high.
    pub latency_us_mean: [f64; 2],
}

/// One block size of a mixed workload.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct BlockShare {
    /// How long such requests are.
    pub bytes: u64,
    /// Which part of all requests, from 0 to 1.
    pub share: f64,
}

/// One measured (or predicted) point: a target under one profile with one number of outstanding I/Os.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// How the target was named.
    pub target: String,
    /// The profile's name.
    pub profile: String,
    /// Random or sequential.
    pub access: Access,
    /// How many of a hundred requests were to read.
    pub read_percent: u8,
    /// The length of every request; `null` when they are of several, which are then in `blocks`.
    pub block_bytes: Option<u64>,
    /// The lengths of a mixed workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<BlockShare>>,
    /// Requests in flight, over all workers.
    pub outstanding: u32,
    /// How many workers shared them.
    pub workers: u32,
    /// How long the window was.
    pub duration_s: f64,
    /// Requests completed in the window.
    pub ios: u64,
    /// Requests completed per second.
    pub iops: f64,
    /// 2^20 bytes per second.
    pub throughput_mib_s: f64,
    /// `null` when nothing completed.
    pub latency_us: Option<Latency>,
    /// Of the measuring process over the window, 100 = one core; `null` where unknown.
    pub cpu_percent: Option<f64>,
    /// Requests that failed in the window.
    pub errors: u64,
    /// The same for reads alone.
    pub read: Split,
    /// The same for writes alone.
    pub write: Split,
    /// Where the run was long enough to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<Interval95>,
    /// How busy each resource was, in percent, where a model knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, f64>>,
    /// What the first failed request was, if any failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
}

const NS_PER_US: f64 = 1000.0;

/// Figures are kept to the nanosecond, the thousandth of an I/O and the byte: what is behind that is noise of
/// the arithmetic, and makes files long.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn mib_per_s(iops: f64, block: ByteCount) -> f64 {
    (iops * block.0 as f64 / ByteCount::MIB.0 as f64 * 1e6).round() / 1e6
}

impl Latency {
    fn of(direction: &Direction) -> Option<Latency> {
        if direction.ios == 0 {
            return None;
        }
        // A percentile is the upper end of its histogram bin, which for the last may be above the maximum.
        let quantile = |quantile: f64| {
            let value = direction.latencies_ns.value_at_quantile(quantile);
            value.min(direction.latency_max_ns) as f64 / NS_PER_US
        };
        Some(Latency {
            mean: rounded(direction.latency_sum_ns as f64 / direction.ios as f64 / NS_PER_US),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: direction.latency_max_ns as f64 / NS_PER_US,
        })
    }
}

impl Split {
    fn of(direction: &Direction, seconds: f64, block: ByteCount) -> Split {
        let iops = direction.ios as f64 / seconds;
        Split {
            ios: direction.ios,
            iops: rounded(iops),
            throughput_mib_s: mib_per_s(iops, block),
            latency_us: Latency::of(direction),
            errors: direction.errors,
        }
    }
}

/// What a row says besides what was counted.
pub(crate) struct About<'a> {
    pub(crate) target: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) outstanding: u32,
    pub(crate) workers: u32,
    pub(crate) cpu_percent: Option<f64>,
}

impl Row {
    /// The row of a point; `None` when its window never opened.
    pub(crate) fn of(about: &About<'_>, point: &Point, reading: &Reading) -> Option<Row> {
        if reading.duration_ns == 0 {
            return None;
        }
        let seconds = reading.duration_ns as f64 / 1e9;
        let block = about.profile.block();
        let all = Split::of(&reading.read.sum(&reading.write), seconds, block);
        let interval = rate_interval(&reading.batches, reading.batch_ns)
            .zip(latency_interval(&reading.batches))
            .map(|(iops, latency)| Interval95 {
                iops: iops.map(rounded),
                latency_us_mean: latency.map(|ns| rounded(ns / NS_PER_US)),
            });
        Some(Row {
            target: about.target.to_owned(),
            profile: about.profile.name().to_owned(),
            access: about.profile.access(),
            read_percent: about.profile.read_percent(),
            block_bytes: Some(block.0),
            blocks: None,
            outstanding: about.outstanding,
            workers: about.workers,
            duration_s: seconds,
            ios: all.ios,
            iops: all.iops,
            throughput_mib_s: all.throughput_mib_s,
            latency_us: all.latency_us,
            cpu_percent: about.cpu_percent.map(rounded),
            errors: all.errors,
            read: Split::of(&reading.read, seconds, block),
            write: Split::of(&reading.write, seconds, block),
            ci95: interval,
            resources: None,
            first_error: point.first_failure().map(|failure| failure.to_string()),
        })
    }
}
