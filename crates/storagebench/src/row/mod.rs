//! Result rows: what one point came to, with the field names that `bench` and `predict` share.
//!
//! | module | what it holds |
//! | --- | --- |
//! | this one | [`Row`] and its parts |
//! | `detail` | what lies behind a row: histograms whole, the course over time |
//! | `notes` | what makes a row doubtful |

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

/// How long requests took, from their start to their completion, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// The mean, exact.
    pub mean: f64,
    /// Half of the requests took no longer. Percentiles are exact to 0.1 %.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// 99 of 100 took no longer; `null` of fewer than 100 requests, which do not show it.
    pub p99: Option<f64>,
    /// 999 of 1,000 took no longer; `null` of fewer than 1,000 requests.
    pub p999: Option<f64>,
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
    /// Where the run was long enough to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<Interval95>,
}

/// When the requests of an open loop were due, and whether the target kept up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct OpenLoop {
    /// How many were due a second.
    pub rate: f64,
    /// Whether they came like independent users or evenly.
    pub poisson: bool,
    /// How many of a hundred had to wait because as many as may be were outstanding already.
    pub waited_percent: f64,
    /// How far behind the schedule the target was at the end, in seconds: it grows where the rate is more than
    /// the target can serve.
    pub behind_s: f64,
}

/// One measured (or predicted) point: a target under one profile with one number of outstanding I/Os.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// How the target was named.
    pub target: String,
    /// The profile's name.
    pub profile: String,
    /// Random, sequential, or mixed.
    pub access: Access,
    /// How many of a hundred requests were to read, to the nearest whole number.
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
    /// When requests were due, where that did not depend on the target. Latencies then count from when a request
    /// was due, and `outstanding` is how many there may be at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// Whether the target did the same from round to round: over the run's fifths, or over the rounds that were
    /// asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_state: Option<SteadyState>,
    /// What makes the figures doubtful.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// The histograms and how it went over time: what merging and drawing take.
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

/// What a row says besides what was counted.
pub(crate) struct About<'a> {
    pub(crate) target: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) outstanding: u32,
    pub(crate) workers: u32,
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) steady_state: Option<SteadyState>,
}

impl Row {
    /// The row of a point; `None` when its window never opened.
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
        ) -> crate::statistics::meter::Part| { batches.interval(direction, parts) };
        let all = Split::of(&both, seconds, interval(&both, &|slice| slice.both()));
        let read = Split::of(&reading.read, seconds, interval(&reading.read, &|slice| slice.read.clone()));
        let write =
            Split::of(&reading.write, seconds, interval(&reading.write, &|slice| slice.write.clone()));
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
                behind_s: rounded(point.meter.window_end_ns().saturating_sub(schedule.due_ns()) as f64 / 1e9),
            }),
            steady_state: about.steady_state,
            notes: Vec::new(),
            detail: Some(Box::new(Detail::of(reading))),
        })
    }
}
