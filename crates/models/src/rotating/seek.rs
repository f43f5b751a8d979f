//! The seek time between two cylinders.
//!
//! Lee's curve through three points of a data sheet (DiskSim's `curve`): one cylinder, the average
//! over random pairs, the full stroke. With `x` cylinders of distance and `N` in total,
//! `t(x) = a·√(x−1) + b·(x−1) + min`, `a = (−10·min + 15·avg − 5·max) / (3·√N)`,
//! `b = (7·min − 15·avg + 8·max) / (3·N)`; `t(0) = 0`.

/// Steps per power of two of the distance: the error of a step is below 1 %.
const STEPS: u64 = 64;

/// The curve as a table over distances, in nanoseconds.
#[derive(Debug)]
pub(crate) struct SeekCurve {
    table: Vec<u64>,
}

fn index(distance: u64) -> usize {
    let octave = distance.checked_ilog2().unwrap_or(0);
    let step = if octave >= 6 {
        (distance >> (octave - 6)) - STEPS
    } else {
        (distance << (6 - octave)) - STEPS
    };
    (u64::from(octave) * STEPS + step) as usize
}

fn distance_of(index: usize) -> f64 {
    let (octave, step) = (index as u64 / STEPS, index as u64 % STEPS);
    (STEPS + step) as f64 / STEPS as f64 * 2_f64.powi(octave as i32)
}

impl SeekCurve {
    /// The curve of a drive with this number of cylinders. Its square roots are exact to the last
    /// bit on every machine, so that the table is the same everywhere.
    pub fn new(cylinders: u64, min_ns: u64, avg_ns: u64, max_ns: u64) -> SeekCurve {
        let n = cylinders.max(2) as f64;
        let (min, avg, max) = (min_ns as f64, avg_ns as f64, max_ns as f64);
        let a = (-10.0 * min + 15.0 * avg - 5.0 * max) / (3.0 * n.sqrt());
        let b = (7.0 * min - 15.0 * avg + 8.0 * max) / (3.0 * n);
        let mut table: Vec<u64> = Vec::new();
        for i in 0..=index(cylinders.max(2)) {
            let x = distance_of(i) - 1.0;
            let ns = (a * x.sqrt() + b * x + min).max(min) as u64;
            // The curve is monotonic for any three points.
            table.push(table.last().map_or(ns, |last| ns.max(*last)));
        }
        SeekCurve { table }
    }

    pub fn ns(&self, from: u64, to: u64) -> u64 {
        match from.abs_diff(to) {
            0 => 0,
            distance => self.table[index(distance).min(self.table.len() - 1)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_goes_through_its_three_points() {
        let (n, min, avg, max) = (80_000, 300_000, 3_800_000, 7_800_000);
        let curve = SeekCurve::new(n, min, avg, max);
        assert_eq!(curve.ns(5, 5), 0);
        assert_eq!(curve.ns(5, 6), min);
        assert!(curve.ns(0, n).abs_diff(max) < max / 100);
        let pairs = 20_000;
        let mut rng = platform_sim::Rng::new(1, "seek", "");
        let sum: u64 = (0..pairs).map(|_| curve.ns(rng.below(n), rng.below(n))).sum();
        assert!((sum / pairs).abs_diff(avg) < avg / 50, "{}", sum / pairs);
        assert!((1..n).map(|x| curve.ns(0, x)).is_sorted());
    }
}
