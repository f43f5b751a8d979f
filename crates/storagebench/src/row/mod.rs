//! Result rows: the result of one point, with the field names that `bench` and `predict` share.
//!
//! | module | contents |
//! | --- | --- |
//! | this one | [`Row`] and its parts |
//! | `detail` | full histograms, time series |
//! | `notes` | doubts about a row |

pub(crate) mod detail;
pub(crate) mod notes;

use crate::generator::loops::Point;
use crate::load::profile::{Access, Arrivals, BlockShare, Profile};
use crate::row::detail::Detail;
use crate::row::notes::Note;
use crate::statistics::intervals::{Batches, Interval95};
use crate::statistics::meter::{Direction, Reading};
use crate::statistics::steady::SteadyState;
use crate::text::rounded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::ByteCount;

/// The latencies of requests, from start to completion, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// The mean, exact.
    pub mean: f64,
    /// The median. Percentiles are exact to 0.1 %.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile; `null` for fewer than 100 requests.
    pub p99: Option<f64>,
    /// The 99.9th percentile; `null` for fewer than 1,000 requests.
    pub p999: Option<f64>,
    /// The maximum, exact.
    pub max: f64,
}

/// A row's part for reads, or for writes.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Split {
    /// Requests completed.
    pub ios: u64,
    /// Requests completed per second.
    pub iops: f64,
    /// 2^20 bytes per second.
    pub throughput_mib_s: f64,
    /// `null` without completions.
    pub latency_us: Option<Latency>,
    /// Requests that failed.
    pub errors: u64,
    /// If the run was long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<Interval95>,
}

/// The schedule of an open loop, and whether the target kept up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Due requests per second.
    pub rate: f64,
    /// Whether arrivals were independent, or at equal intervals.
    pub poisson: bool,
    /// The percentage of requests that waited because the maximum was outstanding.
    pub waited_percent: f64,
    /// The delay behind the schedule at the end, in seconds: it grows if the rate exceeds the
    /// target's capacity.
    pub behind_s: f64,
}

/// One measured (or predicted) point: a target under one profile with one number of outstanding
/// I/Os.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The user's name for the target.
    pub target: String,
    /// The profile's name.
    pub profile: String,
    /// Random, sequential, or mixed.
    pub access: Access,
    /// The profile's percentage of reads, rounded.
    pub read_percent: u8,
    /// The length of every request; `null` if lengths differ, which are then in `blocks`.
    pub block_bytes: Option<u64>,
    /// The lengths of a mixed workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<BlockShare>>,
    /// Outstanding I/Os, over all workers.
    pub outstanding: u32,
    /// The number of workers.
    pub workers: u32,
    /// The length of the window.
    pub duration_s: f64,
    /// Requests completed in the window.
    pub ios: u64,
    /// Requests completed per second.
    pub iops: f64,
    /// 2^20 bytes per second.
    pub throughput_mib_s: f64,
    /// `null` without completions.
    pub latency_us: Option<Latency>,
    /// CPU share of the measuring process over the window, 100 = one core; `null` if unknown.
    pub cpu_percent: Option<f64>,
    /// Requests that failed in the window.
    pub errors: u64,
    /// The reads.
    pub read: Split,
    /// The writes.
    pub write: Split,
    /// If the run was long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<Interval95>,
    /// The utilisation of each resource in percent, for predictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, f64>>,
    /// The first failed request, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// The schedule of an open loop. Latencies then count from the due time, and `outstanding` is
    /// the maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// Whether the target was steady: over the run's fifths, or over the requested rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_state: Option<SteadyState>,
    /// Doubts about the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// The histograms and time series, for merging and drawing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

const NS_PER_US: f64 = 1000.0;

fn mib_per_s(bytes: u64, seconds: f64) -> f64 {
    (bytes as f64 / seconds / ByteCount::MIB.0 as f64 * 1e6).round() / 1e6
}

impl Latency {
    pub(crate) fn of(direction: &Direction) -> Option<Latency> {
        let count = &direction.count;
        if count.ios == 0 {
            return None;
        }
        let quantile = |quantile: f64| direction.quantile_ns(quantile) as f64 / NS_PER_US;
        Some(Latency {
            mean: rounded(count.latency_sum_ns as f64 / count.ios as f64 / NS_PER_US),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: (count.ios >= 100).then(|| quantile(0.99)),
            p999: (count.ios >= 1000).then(|| quantile(0.999)),
            max: count.latency_max_ns as f64 / NS_PER_US,
        })
    }
}

impl Split {
    pub(crate) fn of(direction: &Direction, seconds: f64, ci95: Option<Interval95>) -> Split {
        let count = &direction.count;
        Split {
            ios: count.ios,
            iops: rounded(count.ios as f64 / seconds),
            throughput_mib_s: mib_per_s(count.bytes, seconds),
            latency_us: Latency::of(direction),
            errors: count.errors,
            ci95,
        }
    }
}

/// The parts of a row other than counters.
pub(crate) struct About<'a> {
    pub(crate) target: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) outstanding: u32,
    pub(crate) workers: u32,
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) steady_state: Option<SteadyState>,
}

impl Row {
    /// The row of a point; `None` if its window never opened.
    pub(crate) fn of(about: &About<'_>, point: &Point, reading: &Reading) -> Option<Row> {
        if reading.duration_ns == 0 {
            return None;
        }
        let seconds = reading.duration_ns as f64 / 1e9;
        let both = reading.read.sum(&reading.write);
        let batches = Batches::of(reading);
        let interval = |direction: &Direction,
                        parts: &dyn Fn(
            &crate::statistics::meter::Slice,
        ) -> crate::statistics::meter::Part| {
            batches.interval(direction, parts)
        };
        let all = Split::of(&both, seconds, interval(&both, &|slice| slice.both()));
        let read =
            Split::of(&reading.read, seconds, interval(&reading.read, &|slice| slice.read.clone()));
        let write = Split::of(
            &reading.write,
            seconds,
            interval(&reading.write, &|slice| slice.write.clone()),
        );
        Some(Row {
            target: about.target.to_owned(),
            profile: about.profile.name().to_owned(),
            access: about.profile.access(),
            read_percent: about.profile.read_percent(),
            block_bytes: about.profile.block().map(|block| block.0),
            blocks: about.profile.block().is_none().then(|| about.profile.blocks()),
            outstanding: about.outstanding,
            workers: about.workers,
            duration_s: seconds,
            ios: all.ios,
            iops: all.iops,
            throughput_mib_s: all.throughput_mib_s,
            latency_us: all.latency_us,
            cpu_percent: about.cpu_percent.map(rounded),
            errors: all.errors,
            read,
            write,
            ci95: all.ci95,
            resources: None,
            first_error: point.first_failure().map(|failure| failure.to_string()),
            open_loop: point.schedule().map(|schedule| OpenLoop {
                rate: schedule.rate(),
                poisson: schedule.arrivals() == Arrivals::Poisson,
                waited_percent: rounded(schedule.overdue_percent()),
                behind_s: rounded(
                    point.meter.window_end_ns().saturating_sub(schedule.due_ns()) as f64 / 1e9,
                ),
            }),
            steady_state: about.steady_state,
            notes: Vec::new(),
            detail: Some(Box::new(Detail::of(reading))),
        })
    }
}
