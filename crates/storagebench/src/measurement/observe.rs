//! Events of a running measurement: progress and new rows.

use crate::load::profile::Profile;
use crate::row::Row;
use crate::statistics::meter::LatencyShape;
use std::time::Duration;

/// The phase of a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Preconditioning before the measurement.
    Precondition,
    /// Running, not yet measured.
    Ramp,
    /// Being measured.
    Run,
}

/// The progress of a measurement, about five times per second.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The target's name.
    pub target: &'a str,
    /// The running profile.
    pub profile: &'a Profile,
    /// The number of outstanding I/Os.
    pub outstanding: u32,
    /// The index of the point, from zero.
    pub point: usize,
    /// The number of points of this target.
    pub points: usize,
    /// Ramp or run.
    pub phase: Phase,
    /// Time since the start of the point, including the ramp.
    pub elapsed: Duration,
    /// The expected duration of the point, including the ramp. It grows while the intervals are too
    /// wide, or the target is not steady.
    pub total: Duration,
    /// Requests per second since the previous report.
    pub iops: f64,
    /// 2^20 bytes per second since the previous report.
    pub throughput_mib_s: f64,
    /// Mean latency since the previous report, in microseconds; `None` without completions.
    pub latency_us: Option<f64>,
    /// The histogram of the latest latencies by powers of two of nanoseconds; empty during the
    /// ramp.
    pub latency_shape: &'a LatencyShape,
    /// Failed requests in this point's window so far.
    pub errors: u64,
}

impl Progress<'_> {
    /// The completed share of the target's whole measurement, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        if self.phase == Phase::Precondition {
            return 0.0;
        }
        let point = self.elapsed.as_secs_f64() / self.total.as_secs_f64().max(1e-9);
        ((self.point as f64 + point.min(1.0)) / self.points.max(1) as f64).clamp(0.0, 1.0)
    }
}

/// Receives the events of a measurement, for a progress display for example. It runs on the
/// measuring thread, so it must be fast.
pub trait Observer {
    /// Progress, about five times per second of the environment's clock.
    fn progress(&self, progress: &Progress<'_>) {
        let _ = progress;
    }

    /// A target's preconditioning is complete; `took`: its duration.
    fn preconditioned(&self, took: Duration) {
        let _ = took;
    }

    /// A point is complete, before its row; `took`: its duration from ramp to last request.
    fn point_took(&self, took: Duration) {
        let _ = took;
    }

    /// A row is complete.
    fn row(&self, row: &Row) {
        let _ = row;
    }
}

/// Ignores all events.
impl Observer for () {}
