//! Host I/O of each volume over the last 15 minutes, for the console: differences of the metrics'
//! counters, sampled every ten seconds. Samples do not survive a restart. They are taken only with
//! a management port: with many volumes a query costs the controller milliseconds.

use crate::desk::AppState;
use controller::{Command, Error, ErrorKind, MetricsInfo, Reply, VolumeMetrics, WorkInfo};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use webconsole::{Rate, Sample};

/// The sampling interval.
const EVERY: Duration = Duration::from_secs(10);

/// Number of samples per volume: 15 minutes.
const KEPT: usize = 90;

/// See the module.
#[derive(Default)]
pub(crate) struct Traffic {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Time of the last sample, in nanoseconds of the controller's clock.
    looked_ns: u64,
    /// By volume UUID.
    volumes: BTreeMap<String, VolumeSamples>,
}

/// The samples of a volume.
struct VolumeSamples {
    name: String,
    counters: [Counter; 2],
    samples: VecDeque<Sample>,
}

/// The counters of one operation.
#[derive(Clone, Copy, Default)]
struct Counter {
    completed: u64,
    bytes: u64,
    time_ns: u64,
}

impl Counter {
    fn of(work: &[WorkInfo], operation: &str) -> Counter {
        let work = work.iter().find(|work| work.operation == operation);
        work.map_or_else(Counter::default, |work| Counter {
            completed: work.completed,
            bytes: work.bytes,
            time_ns: work.time_ns,
        })
    }

    /// The rate since the counters `before`, over this time.
    fn since(self, before: Counter, took_ns: u64) -> Rate {
        let a_second = |count: u64| {
            u64::try_from(u128::from(count) * 1_000_000_000 / u128::from(took_ns.max(1)))
                .unwrap_or(u64::MAX)
        };
        // The counters of a restarted volume start at zero.
        let completed = self.completed.saturating_sub(before.completed);
        let time_ns = self.time_ns.saturating_sub(before.time_ns);
        Rate {
            per_s: a_second(completed),
            bytes_per_s: a_second(self.bytes.saturating_sub(before.bytes)),
            mean_us: (completed > 0).then(|| time_ns / completed / 1000),
        }
    }
}

impl Traffic {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent after each statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The samples of a volume, newest last.
    pub(crate) fn of(&self, volume: &str) -> Vec<Sample> {
        let state = self.state();
        let seen = state.volumes.values().find(|seen| seen.name == volume);
        seen.map(|seen| seen.samples.iter().cloned().collect()).unwrap_or_default()
    }

    fn note(&self, now_unix_s: u64, metrics: &MetricsInfo) {
        let mut state = self.state();
        let took_ns = metrics.taken_ns.saturating_sub(state.looked_ns);
        let mut before = std::mem::take(&mut state.volumes);
        state.looked_ns = metrics.taken_ns;
        for VolumeMetrics { volume, work, .. } in &metrics.volumes {
            let counters = ["read", "write"].map(|operation| Counter::of(work, operation));
            let mut samples = VecDeque::new();
            if let Some(seen) = before.remove(&volume.uuid) {
                samples = seen.samples;
                let rate = |kind: usize| counters[kind].since(seen.counters[kind], took_ns);
                samples.push_back(Sample {
                    at_unix_s: now_unix_s,
                    reads: rate(0),
                    writes: rate(1),
                });
                while samples.len() > KEPT {
                    samples.pop_front();
                }
            }
            let seen = VolumeSamples { name: volume.name.clone(), counters, samples };
            state.volumes.insert(volume.uuid.clone(), seen);
        }
    }
}

/// Takes samples until the controller has stopped.
pub(crate) async fn watch(desk: AppState) {
    loop {
        match desk.look(Command::Metrics {}).await {
            Ok(Reply::Metrics { metrics }) => {
                desk.traffic.note(crate::keeper::unix_time(), &metrics)
            }
            Ok(_) => {
                return tracing::error!(
                    "the controller sent an unexpected reply: charts are no longer updated"
                );
            }
            Err(error) if is_the_end(&error) => {
                return tracing::debug!("charts are no longer updated: {error}");
            }
            Err(error) => tracing::debug!("a sample of host I/O is missing: {error}"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Whether the controller has stopped. A busy controller responds later; the next sample covers the
/// gap.
fn is_the_end(error: &Error) -> bool {
    error.kind == ErrorKind::Stopping
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: one busy reply ended the charts until the next start.
    #[test]
    fn a_controller_that_is_busy_is_asked_again() {
        assert!(!is_the_end(&Error::new(ErrorKind::Busy, "too many commands wait")));
        assert!(is_the_end(&Error::new(ErrorKind::Stopping, "the controller is gone")));
    }

    #[test]
    fn rates_are_of_the_time_between_and_never_below_nothing() {
        let before = Counter { completed: 100, bytes: 1000, time_ns: 5_000_000 };
        let after = Counter { completed: 120, bytes: 5000, time_ns: 45_000_000 };
        let rate = after.since(before, 2_000_000_000);
        assert_eq!(rate, Rate { per_s: 10, bytes_per_s: 2000, mean_us: Some(2000) });
        assert_eq!(
            before.since(after, 2_000_000_000),
            Rate { per_s: 0, bytes_per_s: 0, mean_us: None }
        );
        assert_eq!(before.since(before, 0).per_s, 0);
    }
}
