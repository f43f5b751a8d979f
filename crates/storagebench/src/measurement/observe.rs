//! What happens while a measurement runs: progress, and rows as they come.

use crate::load::profile::Profile;
use crate::row::Row;
use crate::statistics::meter::LatencyShape;
use std::time::Duration;

/// Where a point stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Being written, before anything is measured.
    Precondition,
    /// Running, not measured yet.
    Ramp,
    /// Being measured.
    Run,
}

/// How far a measurement is, about five times a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// How the target is named.
    pub target: &'a str,
    /// Which profile is running.
    pub profile: &'a Profile,
    /// With how many outstanding I/Os.
    pub outstanding: u32,
    /// Which point this is, counted from zero.
    pub point: usize,
    /// How many points this target has.
    pub points: usize,
    /// Ramp or run.
    pub phase: Phase,
    /// Time since the point began, the ramp included.
    pub elapsed: Duration,
    /// How long the point will take, the ramp included, as far as is known now: it grows when the figures are not
    /// sure enough yet, or the target not steady.
    pub total: Duration,
    /// Requests per second since the last look.
    pub iops: f64,
    /// 2^20 bytes per second since the last look.
    pub throughput_mib_s: f64,
    /// Mean latency since the last look, in microseconds; `None` when nothing completed.
    pub latency_us: Option<f64>,
    /// How many of the latest latencies lie between the powers of two of nanoseconds; none during the ramp.
    pub latency_shape: &'a LatencyShape,
    /// Requests that failed so far in this point's window.
    pub errors: u64,
}

impl Progress<'_> {
    /// How much of the target's whole measurement is done, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        if self.phase == Phase::Precondition {
            return 0.0;
        }
        let point = self.elapsed.as_secs_f64() / self.total.as_secs_f64().max(1e-9);
        ((self.point as f64 + point.min(1.0)) / self.points.max(1) as f64).clamp(0.0, 1.0)
    }
}

/// Is told how a measurement goes on: draws the bars. Both are called on the measuring thread, so they must
/// be quick.
pub trait Observer {
    /// About five times a second, in the world's time.
    fn progress(&self, progress: &Progress<'_>) {
        let _ = progress;
    }

    /// When a target is preconditioned: how long that took.
    fn preconditioned(&self, took: Duration) {
        let _ = took;
    }

    /// Before a point has its row: how long it took, from its ramp to its last request.
    fn point_took(&self, took: Duration) {
        let _ = took;
    }

    /// When a point has its row.
    fn row(&self, row: &Row) {
        let _ = row;
    }
}

/// Sees nothing.
impl Observer for () {}
