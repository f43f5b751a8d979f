//! What was done between two moments, from the counters and histograms that `/metrics` tells.
//!
//! A percentile lies in a bucket of a histogram; where in it is not known, and it is taken to lie as if the times were spread evenly
//! over the bucket. That is what `histogram_quantile` of Prometheus does, so that a dashboard shows the same.

use controller::{CacheInfo, DriveMetrics, DriveState, MetricsInfo, VolumeMetrics, VolumeState, WorkInfo};
use serde::Serialize;

/// What was done between two moments.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// The time between them.
    pub seconds: f64,
    /// Volumes by name.
    pub volumes: Vec<VolumeRates>,
    /// Drives: those of volumes by slot, then the others by name.
    pub drives: Vec<DriveRates>,
}

/// What hosts asked of a volume.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeRates {
    /// Its name.
    pub volume: String,
    /// Its UUID.
    pub uuid: String,
    /// How it is.
    pub state: VolumeState,
    /// Connections of hosts.
    pub hosts: usize,
    /// What was asked of it.
    #[serde(flatten)]
    pub work: WorkRates,
    /// What the cache did.
    pub cache: CacheRates,
}

/// What was asked of a drive: by hosts, by tasks, and for its metadata.
#[derive(Clone, Debug, Serialize)]
pub struct DriveRates {
    /// Its name.
    pub drive: String,
    /// What it is to the controller.
    pub state: DriveState,
    /// The volumes on it.
    pub volumes: Vec<String>,
    /// Its place in its array.
    pub slot: Option<u16>,
    /// What it told of its temperature when it was asked last.
    pub temperature_c: Option<i32>,
    /// What was asked of it.
    #[serde(flatten)]
    pub work: WorkRates,
}

/// What was asked.
#[derive(Clone, Default, Debug, Serialize)]
pub struct WorkRates {
    /// Operations that are under way at the end.
    pub outstanding: u64,
    /// How many were under way on average: the time that those took which ended, over the time that passed.
    pub queue: f64,
    /// Operations that failed.
    pub failed_per_s: f64,
    /// Reads.
    pub read: OperationRates,
    /// Writes, zeroes included.
    pub write: OperationRates,
    /// Space that was given up.
    pub trim: OperationRates,
    /// Flushes.
    pub flush: OperationRates,
}

/// Operations of one kind.
#[derive(Clone, Default, Debug, Serialize)]
pub struct OperationRates {
    /// How many ended.
    pub per_s: f64,
    /// Bytes that they were about.
    pub bytes_per_s: f64,
    /// How long they took; `None`: none ended.
    pub latency: Option<Latency>,
}

/// How long operations took, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latency {
    /// On average.
    pub mean_us: f64,
    /// Half of them no longer than this.
    pub p50_us: f64,
    /// 95 of 100.
    pub p95_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
}

/// What the cache has of a volume, and did.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct CacheRates {
    /// What hosts were told is written, and the drives do not have yet.
    pub dirty_bytes: u64,
    /// What of that could not be written.
    pub pinned_bytes: u64,
    /// What is kept of what the drives hold too.
    pub clean_bytes: u64,
    /// Reads of a stripe of which the cache had a part, or all.
    pub hits_per_s: f64,
    /// Writes to a stripe that were answered from the cache.
    pub absorbed_per_s: f64,
    /// Destages.
    pub destages_per_s: f64,
    /// What was read ahead of hosts and asked for then.
    pub ahead_used_bytes_per_s: f64,
    /// What was read ahead of hosts and given up.
    pub ahead_wasted_bytes_per_s: f64,
}

/// What does not tell of any time between: the controller was started anew, or both are of one moment.
pub struct NoTime;

impl Rates {
    /// What was done from one moment to a later one.
    pub fn between(before: &MetricsInfo, after: &MetricsInfo) -> Result<Rates, NoTime> {
        let is_same = before.controller.started_unix_s == after.controller.started_unix_s
            && before.controller.serial == after.controller.serial;
        let passed = after.taken_ns.checked_sub(before.taken_ns).filter(|ns| is_same && *ns > 0);
        let span = Span { seconds: passed.ok_or(NoTime)? as f64 / 1e9, bounds_ns: &after.bucket_bounds_ns };
        let volume = |now: &VolumeMetrics| {
            let then = before.volumes.iter().find(|then| then.volume.uuid == now.volume.uuid);
            span.volume(then, now)
        };
        let drive = |now: &DriveMetrics| {
            // What is counted is the drive's, whichever array it joins or leaves meanwhile.
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

/// The time between, and the bounds of all histograms.
struct Span<'b> {
    seconds: f64,
    bounds_ns: &'b [u64],
}

impl Span<'_> {
    fn per_s(&self, before: u64, after: u64) -> f64 {
        // What began anew in between counts from there.
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
            temperature_c: of.health.as_ref().and_then(|health| health.temperature_c.map(i32::from)),
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
            ahead_wasted_bytes_per_s: self.per_s(before.ahead_wasted_bytes, after.ahead_wasted_bytes),
        }
    }

    fn work(&self, before: &[WorkInfo], after: &[WorkInfo]) -> WorkRates {
        let none = WorkInfo::default();
        let mut rates = WorkRates::default();
        let (mut busy_ns, mut failed) = (0_u64, 0_u64);
        for now in after {
            let then = before.iter().find(|then| then.operation == now.operation).unwrap_or(&none);
            // A drive that was opened anew counts anew.
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

/// The time within which a share of the operations ended, in microseconds. What took longer than the last bound counts as that bound.
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
        let before = [work("read", [10, 0, 0, 0, 0], 50, 40_960), work("flush", [1, 0, 0, 0, 0], 9, 0)];
        let after = [work("read", [10, 4, 0, 0, 0], 110, 57_344), work("flush", [1, 0, 0, 0, 0], 9, 0)];
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
