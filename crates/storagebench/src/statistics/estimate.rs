//! Estimates with their standard errors.
//!
//! Successive I/Os are not independent (they share a queue, a cache, a head position), so the
//! variance of single latencies does not give the error of their mean. The run is therefore divided
//! into batches of equal time. Sums over batches longer than the target's correlation time are
//! nearly independent and normal, and Student's t over them gives the interval (method of batch
//! means: Law, *Simulation Modeling and Analysis*, ch. 9).
//!
//! The remaining correlation *r* between neighbouring batches is measured too. The variance of a
//! mean of *n* values with correlation *r* per step is (1 + r) / (1 − r) times that of independent
//! ones (a first-order autoregressive process; Tafazzoli and Wilson's Skart widens intervals in the
//! same way), and the interval is widened by that. An estimate of *r* from few batches around their
//! own mean is too low by about (1 + 4r) / n (Kendall, *Biometrika* 41, 1954); this bias is
//! corrected for positive *r*, and a negative *r* never narrows an interval. The degrees of freedom
//! of Student's t are reduced to the equivalent number of independent batches.
//!
//! The interval of a percentile: the share of requests at or below it is a ratio with its own
//! interval; the percentiles at the ends of that interval are the interval of the percentile
//! (Woodruff, *JASA* 47, 1952).

/// The minimum number of batches for an interval (fewer after an early end).
pub(crate) const MIN_BATCHES: usize = 10;
/// The approximate number of batches of a run: at least this, and fewer than twice as many.
pub(crate) const BATCHES: usize = 30;
/// The minimum degrees of freedom for any correlation.
const LEAST_FREEDOM: f64 = 3.0;
/// The maximum correlation in the calculation: the widening stays finite.
const MOST_CORRELATION: f64 = 0.9;

/// A figure with its standard error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    /// The standard error, widened for the correlation.
    pub(crate) error: f64,
    /// Degrees of freedom: batches minus one, or the equivalent number of independent batches.
    pub(crate) freedom: f64,
    /// The correlation of neighbouring batches.
    pub(crate) correlation: f64,
}

impl Estimate {
    /// Half the width of the 95 % interval.
    pub(crate) fn half_width(&self) -> f64 {
        student_t_95(self.freedom) * self.error
    }

    /// The 95 % interval of a non-negative quantity.
    pub(crate) fn interval(&self) -> [f64; 2] {
        let half = self.half_width();
        [(self.value - half).max(0.0), self.value + half]
    }

    /// Half the width in percent of the value.
    pub(crate) fn half_width_percent(&self) -> f64 {
        if self.value == 0.0 { f64::INFINITY } else { self.half_width() / self.value.abs() * 100.0 }
    }
}

/// Two-sided 95 % quantile of Student's t with `freedom` degrees of freedom (possibly fractional,
/// as Welch's are).
///
/// Tabulated and interpolated below four; from there Hill's expansion around the normal quantile
/// (Abramowitz and Stegun, 26.7.5), exact to four digits.
pub fn student_t_95(freedom: f64) -> f64 {
    const FEW: [f64; 5] = [f64::INFINITY, 12.706_205, 4.302_653, 3.182_446, 2.776_445];
    if freedom.is_nan() || freedom < 1.0 {
        return f64::INFINITY;
    }
    if freedom <= 4.0 {
        let below = freedom.floor().min(3.0);
        let (low, high) = (FEW[below as usize], FEW[below as usize + 1]);
        // Quantiles are nearly linear in 1/freedom.
        let share = (1.0 / below - 1.0 / freedom) / (1.0 / below - 1.0 / (below + 1.0));
        return low + (high - low) * share;
    }
    let n = freedom;
    let x: f64 = 1.959_963_985;
    let g1 = (x.powi(3) + x) / 4.0;
    let g2 = (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0;
    let g3 = (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0;
    let g4 = (79.0 * x.powi(9) + 776.0 * x.powi(7) + 1482.0 * x.powi(5)
        - 1920.0 * x.powi(3)
        - 945.0 * x)
        / 92_160.0;
    x + g1 / n + g2 / n.powi(2) + g3 / n.powi(3) + g4 / n.powi(4)
}

/// The two-sided quantile of Student's t for probability `level`: the inverse of [`student_p`], by
/// bisection.
pub(crate) fn student_t(level: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_p(high, freedom) > level && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if student_p(middle, freedom) > level { low = middle } else { high = middle }
    }
    high
}

/// The probability that Student's t with `freedom` degrees of freedom is at least `t` away from
/// zero in either direction: the regularised incomplete beta function I(f / (f + t²); f/2, 1/2)
/// (Abramowitz and Stegun, 26.7.1 and 26.5.8).
pub(crate) fn student_p(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom.is_nan() || freedom <= 0.0 {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges quickly on one side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            result *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

/// The logarithm of the gamma function for positive arguments: Stirling's series (Abramowitz and
/// Stegun, 6.1.41), after a shift to the range where it is exact to 14 digits.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 12.0 {
        below += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below
}

/// The mean of batches' values.
pub(crate) fn mean(values: &[f64]) -> Option<Estimate> {
    if values.len() < MIN_BATCHES {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let deviations: Vec<f64> = values.iter().map(|value| value - mean).collect();
    Some(estimate(mean, &deviations))
}

/// The ratio of two sums over the batches: a mean latency (time over requests), a share (some over
/// all). The deviations are those of the ratio estimator: a batch with few requests has a low
/// weight.
pub(crate) fn ratio(over: &[f64], under: &[f64]) -> Option<Estimate> {
    let all: f64 = under.iter().sum();
    if over.len() < MIN_BATCHES || over.len() != under.len() || all <= 0.0 {
        return None;
    }
    let ratio = over.iter().sum::<f64>() / all;
    let per_batch = all / under.len() as f64;
    let deviations: Vec<f64> =
        over.iter().zip(under).map(|(o, u)| (o - ratio * u) / per_batch).collect();
    Some(estimate(ratio, &deviations))
}

/// A value with the standard error from the batches' deviations.
fn estimate(value: f64, deviations: &[f64]) -> Estimate {
    let count = deviations.len() as f64;
    let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    let correlation = correlation(deviations, squares);
    let widening = (1.0 + correlation) / (1.0 - correlation);
    let variance = squares / (count - 1.0) * widening;
    let freedom = (count / widening - 1.0).max(LEAST_FREEDOM);
    Estimate { value, error: (variance / count).sqrt(), freedom, correlation }
}

/// The correlation of neighbouring batches, from 0 to [`MOST_CORRELATION`].
fn correlation(deviations: &[f64], squares: f64) -> f64 {
    if squares <= 0.0 {
        return 0.0;
    }
    let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let seen = products / squares;
    if seen <= 0.0 {
        return 0.0;
    }
    (seen + (1.0 + 4.0 * seen) / deviations.len() as f64).min(MOST_CORRELATION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::random::Random;

    #[test]
    fn the_quantiles_of_student_are_the_tables() {
        for (freedom, value) in [
            (1.0, 12.7062),
            (2.0, 4.3027),
            (4.0, 2.7764),
            (5.0, 2.5706),
            (9.0, 2.2622),
            (19.0, 2.0930),
            (29.0, 2.0452),
            (100.0, 1.9840),
            (100_000.0, 1.9600),
        ] {
            assert!(
                (student_t_95(freedom) - value).abs() < 0.0005,
                "{freedom}: {}",
                student_t_95(freedom)
            );
        }
        assert!(student_t_95(0.5).is_infinite() && student_t_95(f64::NAN).is_infinite());
        assert!((3.2..4.3).contains(&student_t_95(2.5)));
    }

    #[test]
    fn the_probabilities_of_student_are_the_tables() {
        // By definition 5 % at the 95 % quantile; the others from tables of the t distribution.
        for freedom in [1.0, 2.0, 5.0, 29.0, 58.7, 1000.0] {
            let p = student_p(student_t_95(freedom), freedom);
            assert!((p - 0.05).abs() < 0.0002, "{freedom}: {p}");
        }
        for (t, freedom, p) in
            [(1.0, 1.0, 0.5), (2.576, 1e6, 0.01), (3.659, 29.0, 0.001), (0.0, 7.0, 1.0)]
        {
            assert!(
                (student_p(t, freedom) - p).abs() < 1e-4,
                "{t} {freedom}: {}",
                student_p(t, freedom)
            );
        }
        assert_eq!((student_p(f64::INFINITY, 3.0), student_p(f64::NAN, 3.0)), (0.0, 1.0));
        for (level, freedom, t) in
            [(0.05, 29.0, 2.0452), (0.01, 10.0, 3.1693), (0.001, 5.0, 6.8688)]
        {
            assert!((student_t(level, freedom) - t).abs() < 1e-4, "{level} {freedom}");
        }
    }

    /// The number of 2,000 runs whose interval contains the true value: 30 batches of four slices
    /// each, of a process with correlation `memory` from slice to slice.
    fn covered(memory: f64) -> (u32, u32) {
        let mut random = Random::new(11);
        let mut uniform = move || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut normal = move || {
            let (u, v) = (1.0 - uniform(), uniform());
            (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        };
        let (mut means, mut ratios) = (0, 0);
        for _ in 0..2000 {
            let mut state = normal();
            let (mut ios, mut times) = (Vec::new(), Vec::new());
            for _ in 0..30 {
                let (mut count, mut time) = (0.0, 0.0);
                for _ in 0..4 {
                    state = memory * state + (1.0 - memory * memory).sqrt() * normal();
                    let more = 1000.0 + 100.0 * state;
                    count += more;
                    time += more * (5.0 + 0.2 * state) + 20.0 * normal();
                }
                ios.push(count);
                times.push(time);
            }
            let holds = |estimate: Option<Estimate>, truth: f64| {
                let [low, high] = estimate.unwrap().interval();
                u32::from(low <= truth && truth <= high)
            };
            means += holds(mean(&ios), 4000.0);
            // The mean of (1000 + 100 s)(5 + 0.2 s) over that of 1000 + 100 s, with s normal.
            ratios += holds(ratio(&times, &ios), 5.02);
        }
        (means, ratios)
    }

    #[test]
    fn intervals_hold_the_truth_in_about_95_of_100_runs_with_and_without_memory() {
        for memory in [0.0, 0.6, 0.8, 0.9] {
            let (means, ratios) = covered(memory);
            assert!((1860..=1940).contains(&means), "{memory}: {means} of 2000");
            assert!((1860..=1940).contains(&ratios), "{memory}: {ratios} of 2000");
        }
    }

    #[test]
    fn an_interval_that_misses_because_the_target_remembers_longer_than_a_batch_is_rarely_unnoticed()
     {
        let mut random = Random::new(12);
        let mut uniform = move || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut normal = move || {
            let (u, v) = (1.0 - uniform(), uniform());
            (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        };
        // Correlations between batches, and the minimum number of 1,000 runs whose interval
        // contains the true value. If a run is short against the target's correlation time, no
        // interval is reliable, and the note says so.
        for (memory, least) in [(0.3, 920), (0.5, 910), (0.7, 890), (0.9, 820), (0.98, 550)] {
            let (mut held, mut unnoticed) = (0, 0);
            for _ in 0..1000 {
                let mut state = normal();
                let batches: Vec<f64> = (0..30)
                    .map(|_| {
                        state = memory * state + (1.0_f64 - memory * memory).sqrt() * normal();
                        100.0 + state
                    })
                    .collect();
                let estimate = mean(&batches).unwrap();
                let [low, high] = estimate.interval();
                let holds = low <= 100.0 && 100.0 <= high;
                held += u32::from(holds);
                unnoticed +=
                    u32::from(!holds && estimate.correlation < crate::row::notes::SLOW_CORRELATION);
            }
            assert!(held >= least, "{memory}: {held} of 1000");
            assert!(unnoticed <= 80, "{memory}: {unnoticed} of 1000");
        }
    }

    #[test]
    fn too_few_batches_or_none_that_completed_give_no_interval() {
        assert_eq!(mean(&[5.0; 9]), None);
        assert_eq!(ratio(&[500.0; 9], &[5.0; 9]), None);
        assert_eq!(ratio(&[0.0; 30], &[0.0; 30]), None);
        let steady = ratio(&[500.0; 30], &[5.0; 30]).unwrap();
        assert_eq!((steady.interval(), steady.half_width_percent()), ([100.0, 100.0], 0.0));
    }

    #[test]
    fn a_slow_wave_widens_the_interval_and_an_alternation_does_not_narrow_it() {
        let wave: Vec<f64> =
            (0..30).map(|at| (f64::from(at) / 30.0 * std::f64::consts::TAU).sin()).collect();
        let shuffled: Vec<f64> = (0..30).map(|at| wave[at * 7 % 30]).collect();
        let (slow, fast) = (mean(&wave).unwrap(), mean(&shuffled).unwrap());
        assert!(slow.correlation > 0.8 && slow.error > 2.0 * fast.error);
        let zigzag: Vec<f64> = (0..30).map(|at| f64::from(at % 2)).collect();
        assert_eq!(mean(&zigzag).unwrap().correlation, 0.0);
    }
}
