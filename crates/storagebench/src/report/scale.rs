//! Maps values to positions on a chart, and selects ticks.

/// A linear axis from zero up.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Linear {
    pub(super) top: f64,
    pub(super) ticks: Vec<f64>,
}

impl Linear {
    /// The smallest axis for `highest` with three to five steps between round values.
    pub(super) fn holding(highest: f64) -> Linear {
        let highest = if highest > 0.0 && highest.is_finite() { highest } else { 1.0 };
        let axis = |steps: u32| {
            let step = round_step(highest / f64::from(steps));
            let count = (highest / step * 0.999_999).ceil().max(1.0);
            let ticks: Vec<f64> = (0..=count as u32).map(|at| f64::from(at) * step).collect();
            Linear { top: count * step, ticks }
        };
        let lowest =
            |best: Linear, other: Linear| if other.top < best.top * 0.999 { other } else { best };
        [3, 5].into_iter().map(axis).fold(axis(4), lowest)
    }

    /// The position of `value` on the axis, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        (value / self.top).clamp(0.0, 1.0)
    }
}

/// The smallest of 1, 2, 2.5, 5 × 10^n that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factor =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|factor| factor * power >= least * 0.999_999);
    factor.unwrap_or(10.0) * power
}

/// A logarithmic axis.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Log {
    low: f64,
    high: f64,
    pub(super) ticks: Vec<f64>,
}

impl Log {
    /// An axis for all values from `low` to `high`: whole decades, with ticks at 2 and 5 if there
    /// are few.
    pub(super) fn holding(low: f64, high: f64) -> Log {
        let low = if low > 0.0 && low.is_finite() { low } else { 1.0 };
        let high = if high.is_finite() { high.max(low) } else { low };
        let steps = |factors: &[f64]| -> Vec<f64> {
            let decades = low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1;
            decades
                .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
                .collect()
        };
        let around = |steps: Vec<f64>| {
            let first = steps.iter().rposition(|step| *step <= low * 1.000_001).unwrap_or(0);
            let last =
                steps.iter().position(|step| *step >= high * 0.999_999).unwrap_or(steps.len() - 1);
            steps[first..=last.max(first + 1)].to_vec()
        };
        let mut ticks = around(steps(&[1.0]));
        if ticks.len() < 4 {
            ticks = around(steps(&[1.0, 2.0, 5.0]));
        }
        Log { low: ticks[0], high: ticks[ticks.len() - 1], ticks }
    }

    /// The position of `value` on the axis, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        ((value / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }
}

/// The axis of outstanding I/Os: logarithmic.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Rungs {
    low: f64,
    span: f64,
}

impl Rungs {
    pub(super) fn holding(rungs: &[u32]) -> Rungs {
        let log = |rung: Option<&u32>| f64::from(*rung.unwrap_or(&1)).max(1.0).log2();
        let (low, high) = (log(rungs.iter().min()), log(rungs.iter().max()));
        // A single queue depth is in the middle.
        if high - low < 0.5 {
            Rungs { low: low - 1.0, span: 2.0 }
        } else {
            Rungs { low, span: high - low }
        }
    }

    /// The position of `rung` on the axis, from 0 to 1.
    pub(super) fn share(&self, rung: u32) -> f64 {
        (f64::from(rung).log2() - self.low) / self.span
    }

    /// The queue depths with space for a label, at least `room` of the axis apart, from the last
    /// one down.
    pub(super) fn labelled(&self, rungs: &[u32], room: f64) -> Vec<u32> {
        let mut sorted = rungs.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut labelled: Vec<u32> = Vec::new();
        for rung in sorted.into_iter().rev() {
            if labelled.last().is_none_or(|next| self.share(*next) - self.share(rung) >= room) {
                labelled.push(rung);
            }
        }
        labelled.reverse();
        labelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_little_above_the_highest_value() {
        for (highest, top, count) in [
            (20_000.0, 20_000.0, 5),
            (22_100.0, 25_000.0, 6),
            (19_001.0, 20_000.0, 5),
            (3.2, 4.0, 5),
            (0.7, 0.75, 4),
            (0.0, 1.0, 5),
        ] {
            let axis = Linear::holding(highest);
            assert!((axis.top - top).abs() < 1e-9, "{highest}: {axis:?}");
            assert_eq!(axis.ticks.len(), count, "{highest}: {axis:?}");
        }
        let axis = Linear::holding(10.0);
        assert!((axis.share(5.0) * axis.top - 5.0).abs() < 1e-9);
    }

    #[test]
    fn log_ticks_hold_all_values() {
        assert_eq!(Log::holding(80.0, 90_000.0).ticks, [10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
        assert_eq!(Log::holding(130.0, 400.0).ticks, [100.0, 200.0, 500.0]);
        assert_eq!(Log::holding(100.0, 100.0).ticks, [100.0, 200.0]);
        for (low, high) in [(0.0, 0.0), (f64::NAN, 1.0), (1e-3, 1e9), (3.0, f64::INFINITY)] {
            let axis = Log::holding(low, high);
            assert!(axis.ticks.len() >= 2 && axis.share(high.min(1e9)).is_finite(), "{axis:?}");
        }
        let axis = Log::holding(80.0, 90_000.0);
        assert!((axis.share(1000.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn each_doubling_is_as_far_and_crowded_labels_give_way() {
        let axis = Rungs::holding(&[1, 2, 4, 512]);
        assert!((axis.share(2) - 1.0 / 9.0).abs() < 1e-9 && (axis.share(512) - 1.0).abs() < 1e-9);
        assert_eq!(axis.labelled(&[1, 2, 3, 4, 512], 0.1), [1, 2, 4, 512]);
        assert!((Rungs::holding(&[8]).share(8) - 0.5).abs() < 1e-9);
        assert!(Rungs::holding(&[]).share(1).is_finite());
    }
}
