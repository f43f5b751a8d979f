//! Estimates the remaining time of a measurement from its course so far.
//!
//! At first only the minimum is known: the settings' time of each point. Points take longer while
//! intervals are too wide, a target is not steady, or the last requests are slow. The mean duration
//! of completed points is therefore a better estimate for the next ones. The same applies to
//! preconditioning, including the one in progress.

use super::observe::{Phase, Progress};
use super::precondition::Precondition;
use super::settings::Settings;
use std::time::Duration;

/// The durations of one kind of step.
#[derive(Clone, Copy, Default, Debug)]
struct Durations {
    count: u32,
    took: Duration,
}

impl Durations {
    fn add(&mut self, took: Duration) {
        self.count += 1;
        self.took += took;
    }

    /// The mean, including the step in progress if that takes longer than the previous ones.
    fn mean_with(self, under_way: Duration, least: Duration) -> Duration {
        let mean = self.took.checked_div(self.count).unwrap_or(under_way);
        let with =
            (self.took.saturating_add(under_way)).checked_div(self.count + 1).unwrap_or(mean);
        if under_way > mean { with.max(least) } else { mean.max(least) }
    }
}

/// The remaining time. It receives the same events as an [`Observer`](super::observe::Observer).
#[derive(Clone, Debug)]
pub struct Remaining {
    /// Of all targets.
    points: u32,
    targets: u32,
    /// The minimum duration of a point.
    least: Duration,
    preconditions: bool,
    points_done: Durations,
    preconditioned: Durations,
}

impl Remaining {
    /// For `targets` targets in sequence.
    pub fn new(settings: &Settings, targets: usize) -> Remaining {
        let points = settings.points();
        Remaining {
            points: u32::try_from(points * targets).unwrap_or(u32::MAX),
            targets: u32::try_from(targets).unwrap_or(u32::MAX),
            least: settings.duration() / points.max(1) as u32,
            preconditions: settings.precondition != Precondition::None,
            points_done: Durations::default(),
            preconditioned: Durations::default(),
        }
    }

    /// A point is complete; `took`: its duration from ramp to last request.
    pub fn point_took(&mut self, took: Duration) {
        self.points_done.add(took);
    }

    /// A target's preconditioning is complete; `took`: its duration.
    pub fn preconditioning_took(&mut self, took: Duration) {
        self.preconditioned.add(took);
    }

    /// The number of completed points.
    pub fn points_done(&self) -> usize {
        self.points_done.count as usize
    }

    /// The remaining time between two points.
    pub fn left(&self) -> Duration {
        self.of_points(0, Duration::ZERO) + self.of_preconditioning(0, Duration::ZERO)
    }

    /// The remaining time during a point, or during preconditioning.
    pub fn left_in(&self, progress: &Progress<'_>) -> Duration {
        let (total, rest) = (progress.total, progress.total.saturating_sub(progress.elapsed));
        let others = match progress.phase {
            Phase::Precondition => {
                self.of_points(0, Duration::ZERO).saturating_add(self.of_preconditioning(1, total))
            }
            Phase::Ramp | Phase::Run => {
                self.of_points(1, total).saturating_add(self.of_preconditioning(0, Duration::ZERO))
            }
        };
        rest.saturating_add(others)
    }

    /// The time of the points after those in progress, which take `total` each.
    fn of_points(&self, under_way: u32, total: Duration) -> Duration {
        let count = self.points.saturating_sub(self.points_done.count + under_way);
        self.points_done.mean_with(total, self.least).saturating_mul(count)
    }

    fn of_preconditioning(&self, under_way: u32, total: Duration) -> Duration {
        let of_targets = if self.preconditions { self.targets } else { 0 };
        let count = of_targets.saturating_sub(self.preconditioned.count + under_way);
        self.preconditioned.mean_with(total, Duration::ZERO).saturating_mul(count)
    }
}
