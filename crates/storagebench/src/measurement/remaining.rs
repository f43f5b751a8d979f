//! How much time a measurement still takes, learned from what it has taken so far.
//!
//! Before anything is measured, only the least is known: what the settings ask of each point. Points take longer where figures are
//! not sure enough, a target is not steady, or the last requests are slow; and who knows how long the points so far took knows
//! better than the settings what the next ones will. Preconditioning is the same: the next target's takes as long as those
//! before, and as the one under way is going to.

use super::observe::{Phase, Progress};
use super::precondition::Precondition;
use super::settings::Settings;
use std::time::Duration;

/// What was measured of one kind of thing that is done several times.
#[derive(Clone, Copy, Default, Debug)]
struct Learned {
    count: u32,
    took: Duration,
}

impl Learned {
    fn add(&mut self, took: Duration) {
        self.count += 1;
        self.took += took;
    }

    /// With one that is under way, if it takes longer than those before: so much is certain.
    fn mean_with(self, under_way: Duration, least: Duration) -> Duration {
        let mean = self.took.checked_div(self.count).unwrap_or(under_way);
        let with = (self.took.saturating_add(under_way)).checked_div(self.count + 1).unwrap_or(mean);
        if under_way > mean { with.max(least) } else { mean.max(least) }
    }
}

/// How much time is left. It is told what happens as an [`Observer`](super::observe::Observer) is.
#[derive(Clone, Debug)]
pub struct Remaining {
    /// Of all targets.
    points: u32,
    targets: u32,
    /// What a point takes at the least.
    least: Duration,
    preconditions: bool,
    points_done: Learned,
    preconditioned: Learned,
}

impl Remaining {
    /// Of `targets` targets that are measured one after the other.
    pub fn new(settings: &Settings, targets: usize) -> Remaining {
        let points = settings.points();
        Remaining {
            points: u32::try_from(points * targets).unwrap_or(u32::MAX),
            targets: u32::try_from(targets).unwrap_or(u32::MAX),
            least: settings.duration() / points.max(1) as u32,
            preconditions: settings.precondition != Precondition::None,
            points_done: Learned::default(),
            preconditioned: Learned::default(),
        }
    }

    /// A point has its row: how long it took, from its ramp to its last request.
    pub fn point_took(&mut self, took: Duration) {
        self.points_done.add(took);
    }

    /// A target is preconditioned: how long that took.
    pub fn preconditioning_took(&mut self, took: Duration) {
        self.preconditioned.add(took);
    }

    /// How many points are done.
    pub fn points_done(&self) -> usize {
        self.points_done.count as usize
    }

    /// How much is left between two points.
    pub fn left(&self) -> Duration {
        self.of_points(0, Duration::ZERO) + self.of_preconditioning(0, Duration::ZERO)
    }

    /// How much is left in the middle of a point, or of preconditioning.
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

    /// Points after those that are under way, of which one takes so long.
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
