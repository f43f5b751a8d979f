//! Rates between two samples, from the counters and histograms of `/metrics`.
//!
//! A percentile lies in a bucket of a histogram; its position there is interpolated linearly.
//! Prometheus' `histogram_quantile` does the same, so that a dashboard shows the same values.

use controller::{
    CacheInfo, DriveMetrics, DriveState, MetricsInfo, VolumeMetrics, VolumeState, WorkInfo,
};
use serde::Serialize;

/// Rates between two samples.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// The time between them.
    pub seconds: f64,
    /// Volumes by name.
    pub volumes: Vec<VolumeRates>,
    /// Drives: those of volumes by slot, then the others by name.
    pub drives: Vec<DriveRates>,
}

/// The host I/O of a volume.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeRates {
    /// Its name.
    pub volume: String,
    /// Its UUID.
    pub uuid: String,
    /// Its state.
    pub state: VolumeState,
    /// Connections of hosts.
    pub hosts: usize,
    /// Its I/O.
    #[serde(flatten)]
    pub work: WorkRates,
    /// Its cache activity.
    pub cache: CacheRates,
}

/// The I/O of a drive: for hosts, tasks and metadata.
#[derive(Clone, Debug, Serialize)]
pub struct DriveRates {
    /// Its name.
    pub drive: String,
    /// Its state in the controller.
    pub state: DriveState,
    /// The volumes on it.
    pub volumes: Vec<String>,
    /// Its slot in its array.
    pub slot: Option<u16>,
    /// Its temperature at the last query.
    pub temperature_c: Option<i32>,
    /// Its I/O.
    #[serde(flatten)]
    pub work: WorkRates,
}

/// I/O rates.
#[derive(Clone, Default, Debug, Serialize)]
pub struct WorkRates {
    /// Outstanding operations at the end.
    pub outstanding: u64,
    /// The mean number of outstanding operations: the total latency of completed ones divided by
    /// the elapsed time.
    pub queue: f64,
    /// Operations that failed.
    pub failed_per_s: f64,
    /// Reads.
    pub read: OperationRates,
    /// Writes, including write zeroes.
    pub write: OperationRates,
    /// Trims.
    pub trim: OperationRates,
    /// Flushes.
    pub flush: OperationRates,
}

/// Operations of one kind.
#[derive(Clone, Default, Debug, Serialize)]
pub struct OperationRates {
    /// Completed operations.
    pub per_s: f64,
    /// Their bytes.
    pub bytes_per_s: f64,
    /// Their latency; `None`: none completed.
    pub latency: Option<Latency>,
}

/// Latencies of operations, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 95th percentile.
    pub p95_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
}

/// The cache use of a volume.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct CacheRates {
    /// Acknowledged data that is not on the drives yet.
    pub dirty_bytes: u64,
    /// Preserved cache: dirty data that could not be written.
    pub pinned_bytes: u64,
    /// Cached data that is also on the drives.
    pub clean_bytes: u64,
    /// Reads of a stripe that found all or part of it in the cache.
    pub hits_per_s: f64,
    /// Writes to a stripe that were acknowledged from the cache.
    pub absorbed_per_s: f64,
    /// Destages.
    pub destages_per_s: f64,
    /// Read-ahead data that hosts then read.
    pub ahead_used_bytes_per_s: f64,
    /// Read-ahead data that was discarded unused.
    pub ahead_wasted_bytes_per_s: f64,
}

/// No elapsed time: the controller was restarted, or both samples have the same time.
pub struct NoTime;

impl Rates {
    /// The rates between an earlier and a later sample.
    pub fn between(before: &MetricsInfo, after: &MetricsInfo) -> Result<Rates, NoTime> {
        let is_same = before.controller.started_unix_s == after.controller.started_unix_s
            && before.controller.serial == after.controller.serial;
        let passed = after.taken_ns.checked_sub(before.taken_ns).filter(|ns| is_same && *ns > 0);
        let span = Span {
            seconds: passed.ok_or(NoTime)? as f64 / 1e9,
            bounds_ns: &after.bucket_bounds_ns,
        };
        let volume = |now: &VolumeMetrics| {
            let then = before.volumes.iter().find(|then| then.volume.uuid == now.volume.uuid);
            span.volume(then, now)
        };
        let drive = |now: &DriveMetrics| {
            // The counters belong to the drive, in any array.
            let is_it = |then: &&DriveMetrics| then.drive.name == now.drive.name;
            span.drive(before.drives.iter().find(is_it), now)
        };
        Ok(Rates {
            seconds: span.seconds,
            volumes: after.volumes.iter().map(volume).collect(),
            drives: after.drives.iter().map(drive).collect(),
        })
    }
}

/// The elapsed time, and the bounds of all histograms.
struct Span<'b> {
    seconds: f64,
    bounds_ns: &'b [u64],
}

impl Span<'_> {
    fn per_s(&self, before: u64, after: u64) -> f64 {
        // A counter that restarted in between counts from zero.
        let more = if after < before { after } else { after - before };
        more as f64 / self.seconds
    }

    fn volume(&self, then: Option<&VolumeMetrics>, now: &VolumeMetrics) -> VolumeRates {
        let of = &now.volume;
        let before = then.map(|then| then.volume.cache).unwrap_or_default();
        VolumeRates {
            volume: of.name.clone(),
            uuid: of.uuid.clone(),
            state: of.state,
            hosts: of.hosts.len(),
            work: self.work(then.map_or(&[], |then| &then.work), &now.work),
            cache: self.cache(&before, &of.cache),
        }
    }

    fn drive(&self, then: Option<&DriveMetrics>, now: &DriveMetrics) -> DriveRates {
        let of = &now.drive;
        DriveRates {
            drive: of.name.clone(),
            state: of.state,
            volumes: of.volumes.clone(),
            slot: of.slot,
            temperature_c: of
                .health
                .as_ref()
                .and_then(|health| health.temperature_c.map(i32::from)),
            work: self.work(then.map_or(&[], |then| &then.work), &now.work),
        }
    }

    fn cache(&self, before: &CacheInfo, after: &CacheInfo) -> CacheRates {
        CacheRates {
            dirty_bytes: after.dirty_bytes,
            pinned_bytes: after.pinned_bytes,
            clean_bytes: after.clean_bytes,
            hits_per_s: self.per_s(before.hits, after.hits),
            absorbed_per_s: self.per_s(before.absorbed, after.absorbed),
            destages_per_s: self.per_s(before.destages, after.destages),
            ahead_used_bytes_per_s: self.per_s(before.ahead_used_bytes, after.ahead_used_bytes),
            ahead_wasted_bytes_per_s: self
                .per_s(before.ahead_wasted_bytes, after.ahead_wasted_bytes),
        }
    }

    fn work(&self, before: &[WorkInfo], after: &[WorkInfo]) -> WorkRates {
        let none = WorkInfo::default();
        let mut rates = WorkRates::default();
        let (mut busy_ns, mut failed) = (0_u64, 0_u64);
        for now in after {
            let then = before.iter().find(|then| then.operation == now.operation).unwrap_or(&none);
            // A reopened drive counts from zero.
            let then = if now.completed < then.completed { &none } else { then };
            busy_ns += now.time_ns.saturating_sub(then.time_ns);
            failed += now.failed.saturating_sub(then.failed);
            rates.outstanding += now.outstanding;
            let of = match now.operation.as_str() {
                "read" => &mut rates.read,
                "write" => &mut rates.write,
                "trim" => &mut rates.trim,
                "flush" => &mut rates.flush,
                _ => continue,
            };
            *of = self.operation(then, now);
        }
        rates.queue = busy_ns as f64 / 1e9 / self.seconds;
        rates.failed_per_s = failed as f64 / self.seconds;
        rates
    }

    fn operation(&self, then: &WorkInfo, now: &WorkInfo) -> OperationRates {
        let counts: Vec<u64> = (0..now.buckets.len())
            .map(|at| now.buckets[at].saturating_sub(then.buckets.get(at).copied().unwrap_or(0)))
            .collect();
        let time_us = now.time_ns.saturating_sub(then.time_ns) as f64 / 1e3;
        let ended = now.completed.saturating_sub(then.completed);
        OperationRates {
            per_s: self.per_s(then.completed, now.completed),
            bytes_per_s: self.per_s(then.bytes, now.bytes),
            latency: (ended > 0).then(|| Latency {
                mean_us: time_us / ended as f64,
                p50_us: percentile_us(self.bounds_ns, &counts, 0.5),
                p95_us: percentile_us(self.bounds_ns, &counts, 0.95),
                p99_us: percentile_us(self.bounds_ns, &counts, 0.99),
                p999_us: percentile_us(self.bounds_ns, &counts, 0.999),
            }),
        }
    }
}

/// The latency below which a share of the operations completed, in microseconds. Longer latencies
/// than the last bound count as that bound.
fn percentile_us(bounds_ns: &[u64], counts: &[u64], share: f64) -> f64 {
    let all: u64 = counts.iter().sum();
    let rank = share * all as f64;
    let (mut below, mut lower_ns) = (0_u64, 0_u64);
    for (count, upper_ns) in counts.iter().zip(bounds_ns) {
        if *count > 0 && (below + count) as f64 >= rank {
            let part = (rank - below as f64) / *count as f64;
            return (lower_ns as f64 + (*upper_ns - lower_ns) as f64 * part) / 1e3;
        }
        below += count;
        lower_ns = *upper_ns;
    }
    lower_ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [u64; 4] = [10_000, 20_000, 50_000, 100_000];

    fn work(operation: &str, buckets: [u64; 5], time_us: u64, bytes: u64) -> WorkInfo {
        WorkInfo {
            operation: operation.to_owned(),
            outstanding: 2,
            completed: buckets.iter().sum(),
            failed: 0,
            bytes,
            time_ns: time_us * 1000,
            buckets: buckets.to_vec(),
            slow: None,
        }
    }

    #[test]
    fn a_percentile_lies_where_prometheus_puts_it() {
        // histogram_quantile(0.5|0.9|0.99|1, {10: 0, 20: 50, 50: 90, 100: 100}) says the same.
        let counts = [0, 50, 40, 10, 0];
        for (share, us) in [(0.5, 20.0), (0.9, 50.0), (0.99, 95.0), (1.0, 100.0), (0.25, 15.0)] {
            assert_eq!(percentile_us(&BOUNDS, &counts, share), us, "{share}");
        }
        assert_eq!(percentile_us(&BOUNDS, &[0, 0, 0, 0, 5], 0.5), 100.0, "longer than all bounds");
        assert_eq!(percentile_us(&BOUNDS, &[8, 0, 0, 0, 0], 0.5), 5.0);
    }

    #[test]
    fn rates_are_of_what_came_since_and_a_counter_that_began_anew_counts_from_there() {
        let span = Span { seconds: 2.0, bounds_ns: &BOUNDS };
        let before =
            [work("read", [10, 0, 0, 0, 0], 50, 40_960), work("flush", [1, 0, 0, 0, 0], 9, 0)];
        let after =
            [work("read", [10, 4, 0, 0, 0], 110, 57_344), work("flush", [1, 0, 0, 0, 0], 9, 0)];
        let rates = span.work(&before, &after);
        assert_eq!((rates.read.per_s, rates.read.bytes_per_s), (2.0, 8192.0));
        let latency = rates.read.latency.expect("reads ended");
        assert_eq!((latency.mean_us, latency.p50_us), (15.0, 15.0));
        assert_eq!((rates.flush.per_s, rates.flush.latency), (0.0, None), "none ended");
        assert_eq!(rates.outstanding, 4);
        assert!((rates.queue - 60e-6 / 2.0).abs() < 1e-12, "{}", rates.queue);
        let anew = [work("read", [2, 0, 0, 0, 0], 10, 8192)];
        let rates = span.work(&before, &anew);
        assert_eq!((rates.read.per_s, rates.read.bytes_per_s), (1.0, 4096.0));
    }
}
