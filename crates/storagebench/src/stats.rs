//! Intervals: how far a measured rate and latency may be from the target's own.
//!
//! Successive I/Os are not independent (they share a queue, a cache, a head position), so the variance of
//! single latencies says little about the error of their mean. The run is therefore cut into batches of equal
//! time; sums over batches much longer than the target's memory are nearly independent and nearly normal, and
//! Student's t over them gives the interval (the method of batch means, e.g. Law, *Simulation Modeling and
//! Analysis*, ch. 9).

/// What completed within one batch.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    pub(crate) ios: u64,
    pub(crate) latency_ns: u64,
}

/// Fewer batches than these (a run that was cut short) give no interval.
pub(crate) const MIN_BATCHES: usize = 10;

/// Two-sided 95 % quantile of Student's t with `freedom` degrees of freedom.
///
/// Tabulated up to four, from there on Hill's expansion around the normal quantile (Abramowitz and Stegun,
/// 26.7.5), which is good to four digits.
pub fn student_t_95(freedom: usize) -> f64 {
    const FEW: [f64; 5] = [f64::INFINITY, 12.706_205, 4.302_653, 3.182_446, 2.776_445];
    if let Some(value) = FEW.get(freedom) {
        return *value;
    }
    let n = freedom as f64;
    let x: f64 = 1.959_963_985;
    let g1 = (x.powi(3) + x) / 4.0;
    let g2 = (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0;
    let g3 = (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0;
    let g4 = (79.0 * x.powi(9) + 776.0 * x.powi(7) + 1482.0 * x.powi(5) - 1920.0 * x.powi(3) - 945.0 * x)
        / 92_160.0;
    x + g1 / n + g2 / n.powi(2) + g3 / n.powi(3) + g4 / n.powi(4)
}

/// The 95 % interval of a rate a second, from batches of `batch_ns` each.
pub(crate) fn rate_interval(batches: &[Batch], batch_ns: u64) -> Option<[f64; 2]> {
    if batches.len() < MIN_BATCHES || batch_ns == 0 {
        return None;
    }
    let count = batches.len() as f64;
    let seconds = batch_ns as f64 / 1e9;
    let rates = || batches.iter().map(|batch| batch.ios as f64 / seconds);
    let mean = rates().sum::<f64>() / count;
    let variance = rates().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some(around(mean, variance, batches.len()))
}

/// The 95 % interval of the mean latency in nanoseconds. The mean over all I/Os is a ratio of two sums, so
/// the deviations are those of the ratio estimator: a batch with few I/Os counts little.
pub(crate) fn latency_interval(batches: &[Batch]) -> Option<[f64; 2]> {
    let ios: u64 = batches.iter().map(|batch| batch.ios).sum();
    if batches.len() < MIN_BATCHES || ios == 0 {
        return None;
    }
    let count = batches.len() as f64;
    let mean = batches.iter().map(|batch| batch.latency_ns as f64).sum::<f64>() / ios as f64;
    let ios_per_batch = ios as f64 / count;
    let variance =
        batches.iter().map(|batch| (batch.latency_ns as f64 - mean * batch.ios as f64).powi(2)).sum::<f64>()
            / (count - 1.0)
            / ios_per_batch.powi(2);
    Some(around(mean, variance, batches.len()))
}

fn around(mean: f64, variance: f64, batches: usize) -> [f64; 2] {
    let half = student_t_95(batches - 1) * (variance / batches as f64).sqrt();
    [(mean - half).max(0.0), mean + half]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_quantiles_of_student_are_the_tables() {
        for (freedom, value) in [
            (1, 12.7062),
            (4, 2.7764),
            (5, 2.5706),
            (9, 2.2622),
            (19, 2.0930),
            (29, 2.0452),
            (100, 1.9840),
            (100_000, 1.9600),
        ] {
            assert!((student_t_95(freedom) - value).abs() < 0.0005, "{freedom}: {}", student_t_95(freedom));
        }
    }

    #[test]
    fn intervals_hold_the_truth_in_about_95_of_100_runs() {
        let mut random = Random::new(11);
        let mut uniform = move || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let (mut rates, mut latencies) = (0, 0);
        for _ in 0..2000 {
            // Arrivals of a Poisson process of 1000/s, latencies exponential with mean 5 ms, 30 batches of 0.1 s.
            let mut batches = vec![Batch::default(); 30];
            let mut time = 0.0;
            loop {
                time += -(1.0 - uniform()).ln() / 1000.0;
                let Some(batch) = batches.get_mut((time / 0.1) as usize) else { break };
                batch.ios += 1;
                batch.latency_ns += (-(1.0 - uniform()).ln() * 5e6) as u64;
            }
            let holds = |interval: Option<[f64; 2]>, truth: f64| {
                u32::from(interval.is_some_and(|[low, high]| low <= truth && truth <= high))
            };
            rates += holds(rate_interval(&batches, 100_000_000), 1000.0);
            latencies += holds(latency_interval(&batches), 5e6);
        }
        assert!((1860..=1940).contains(&rates), "{rates} of 2000");
        assert!((1860..=1940).contains(&latencies), "{latencies} of 2000");
    }

    #[test]
    fn too_few_batches_or_none_that_completed_give_no_interval() {
        let batch = Batch { ios: 5, latency_ns: 500 };
        assert_eq!(rate_interval(&[batch; 9], 1000), None);
        assert_eq!(latency_interval(&[batch; 9]), None);
        assert_eq!(latency_interval(&[Batch::default(); 30]), None);
        assert_eq!(latency_interval(&[batch; 30]), Some([100.0, 100.0]));
    }
}
