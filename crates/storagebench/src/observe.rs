//! What happens while a measurement runs: progress, the processor's clock, and the wish to stop.

use crate::profile::Profile;
use crate::row::Row;
use std::time::Duration;

/// Where a point stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
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
    /// How long the point will take, the ramp included.
    pub total: Duration,
    /// Requests per second since the last look.
    pub iops: f64,
    /// 2^20 bytes per second since the last look.
    pub throughput_mib_s: f64,
    /// Mean latency since the last look, in microseconds; `None` when nothing completed.
    pub latency_us: Option<f64>,
    /// Requests that failed so far in this point's window.
    pub errors: u64,
}

impl Progress<'_> {
    /// How much of the target's whole measurement is done, from 0 to 1.
    pub fn fraction(&self) -> f64 {
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

    /// When a point has its row.
    fn row(&self, row: &Row) {
        let _ = row;
    }
}

/// Sees nothing.
impl Observer for () {}

/// Reads the processor time of the measuring process.
pub trait CpuClock {
    /// User and system time of all threads so far, in nanoseconds; `None` where that is unknown.
    fn cpu_ns(&self) -> Option<u64>;
}

impl<F: Fn() -> Option<u64>> CpuClock for F {
    fn cpu_ns(&self) -> Option<u64> {
        self()
    }
}
