//! Offsets of random requests with unequal popularity.

use crate::generator::pattern::divisor;
use crate::generator::random::Random;

/// Draws ranks from 1 to `count` with probability proportional to rank^-theta, in constant time and
/// memory.
///
/// Rejection-inversion (W. Hörmann, G. Derflinger, *Rejection-inversion to generate variates from
/// monotone discrete distributions*, ACM TOMACS 6(3), 1996). The histogram of the law is below the
/// curve x^-theta, whose integral is invertible. A rank drawn under the curve is accepted if it is
/// below the histogram too, which is nearly always true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    count: f64,
    theta: f64,
    /// The integral of the curve at 1.5, minus the height of rank 1.
    low: f64,
    /// The integral at the right end of the last rank.
    high: f64,
    /// A point closer to its rank than this is always below the histogram.
    safe: f64,
}

impl Zipf {
    pub(crate) fn new(count: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { count: count.max(1) as f64, theta, low: 0.0, high: 0.0, safe: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.count + 0.5);
        zipf.safe = 2.0 - zipf.inverse(zipf.integral(2.5) - 2.0_f64.powf(-theta));
        zipf
    }

    /// The integral of x^-theta, up to a constant: (x^(1-theta) - 1) / (1-theta), or ln x for theta
    /// = 1.
    fn integral(&self, x: f64) -> f64 {
        let (power, log) = (1.0 - self.theta, x.ln());
        if (power * log).abs() < 1e-8 { log } else { (power * log).exp_m1() / power }
    }

    /// The x with this integral.
    fn inverse(&self, integral: f64) -> f64 {
        let power = 1.0 - self.theta;
        // Rounding must not leave the logarithm's domain.
        let product = (power * integral).max(-1.0);
        if product.abs() < 1e-8 { integral.exp() } else { (product.ln_1p() / power).exp() }
    }

    /// A rank, from 1 to the count.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let place = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(place);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            let below = place >= self.integral(rank + 0.5) - rank.powf(-self.theta);
            if rank - x <= self.safe || below {
                return rank as u64;
            }
        }
    }
}

/// The probability of each rank from 1 to a count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Law {
    Zipf(Zipf),
    /// The rank is the count times a uniform draw to the power of `power`.
    Pareto {
        count: u64,
        power: f64,
    },
    /// The rank is the mean of twelve uniform draws, plus a uniform draw over this share of the
    /// count, centred.
    Normal {
        count: u64,
        part: f64,
    },
}

impl Law {
    /// The share `share` of the ranks gets 1 - `share` of the draws.
    pub(crate) fn pareto(count: u64, share: f64) -> Law {
        Law::Pareto { count: count.max(1), power: share.ln() / (1.0 - share).ln() }
    }

    pub(crate) fn normal(count: u64, percent: f64) -> Law {
        Law::Normal { count: count.max(1), part: percent.min(50.0) / 100.0 }
    }

    /// A rank, from 1 to the count.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let (count, place) = match self {
            Law::Zipf(zipf) => return zipf.draw(random),
            Law::Pareto { count, power } => (*count, random.unit().powf(*power)),
            Law::Normal { count, part } => {
                let mean = (0..12).map(|_| random.unit()).sum::<f64>() / 12.0;
                (*count, mean + (random.unit() - 0.5) * part)
            }
        };
        ((place * count as f64) as u64).min(count - 1) + 1
    }
}

/// Scatters ranks over offsets: a permutation of 0..count that separates neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    count: u64,
    factor: u64,
}

impl Scatter {
    pub(crate) fn new(count: u64) -> Scatter {
        let count = count.max(1);
        // The golden ratio spreads multiples evenly; a factor coprime to the count makes it a
        // permutation.
        let mut factor = ((count as f64 * 0.618_033_988_749_895) as u64).max(1);
        while divisor(factor, count) != 1 {
            factor += 1;
        }
        Scatter { count, factor }
    }

    pub(crate) fn place(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.factor) % u128::from(self.count)) as u64
    }
}

/// A part of the range and its probability.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The cumulative probability up to this part, in units of 2^-32.
    pub(crate) until: u64,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// A hot spot, optionally moving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    /// Its probability, in units of 2^-32.
    pub(crate) likelihood: u64,
    pub(crate) len: u64,
    /// The interval at which it moves by its length, in nanoseconds; 0: never.
    pub(crate) moves_every_ns: u64,
}

impl Hot {
    /// Its start, `elapsed_ns` after the beginning.
    pub(crate) fn start(&self, total: u64, unit: u64, elapsed_ns: u64) -> u64 {
        let room = total - self.len;
        let moves = elapsed_ns.checked_div(self.moves_every_ns).unwrap_or(0);
        // It wraps to the start before it would exceed the end.
        let turns = room / self.len.max(1) + 1;
        let start = (moves % turns) * self.len;
        start - start % unit
    }
}

/// The distribution of random offsets within a range.
#[derive(Clone, Debug)]
pub(crate) enum Spread {
    Uniform,
    /// In granules of this many bytes.
    Ranked {
        law: Law,
        scatter: Scatter,
        granule: u64,
    },
    Hot(Hot),
    Slots(Vec<Slot>),
}

/// A uniform multiple of `align` such that `block` bytes from there are within `len`; they must
/// fit.
pub(crate) fn uniform(random: &mut Random, len: u64, block: u64, align: u64) -> u64 {
    random.below((len - block) / align + 1) * align
}

impl Spread {
    /// An offset for `block` bytes within `len`, a multiple of `align`. All alignments of the range
    /// are multiples of `unit`.
    pub(crate) fn offset(
        &self,
        random: &mut Random,
        (len, unit): (u64, u64),
        (block, align): (u64, u64),
        elapsed_ns: u64,
    ) -> u64 {
        match self {
            Spread::Uniform => uniform(random, len, block, align),
            Spread::Ranked { law, scatter, granule } => {
                let at = scatter.place(law.draw(random) - 1) * granule;
                (at - at % align).min((len - block) / align * align)
            }
            Spread::Hot(hot) => {
                let start = hot.start(len, unit, elapsed_ns);
                if random.next() >> 32 < hot.likelihood {
                    return start + uniform(random, hot.len, block, align);
                }
                let at = uniform(random, len - hot.len, block, align);
                if at >= start { at + hot.len } else { at }
            }
            Spread::Slots(slots) => {
                let draw = random.next() >> 32;
                let slot = slots.iter().find(|slot| draw < slot.until).or(slots.last());
                slot.map_or(0, |slot| slot.start + uniform(random, slot.len, block, align))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square of observed counts against likelihoods, as deviations from its mean.
    fn chi_square(counts: &[u64], likelihood: impl Fn(usize) -> f64) -> f64 {
        let all: u64 = counts.iter().sum();
        let chi: f64 = counts
            .iter()
            .enumerate()
            .map(|(at, count)| {
                let expected = likelihood(at) * all as f64;
                (*count as f64 - expected).powi(2) / expected
            })
            .sum();
        let freedom = counts.len() as f64 - 1.0;
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.1, 2.5] {
            let (law, mut random) = (Zipf::new(200, theta), Random::new(5));
            let mut counts = [0_u64; 200];
            for _ in 0..400_000 {
                counts[law.draw(&mut random) as usize - 1] += 1;
            }
            let sum: f64 = (1..=200).map(|rank| f64::from(rank).powf(-theta)).sum();
            // The tail of a steep law is too rare for chi-square: it is one bin.
            let tail = counts.iter().position(|count| *count < 20).unwrap_or(200);
            let mut bins = counts[..tail].to_vec();
            let likelihood = |rank: usize| (rank as f64).powf(-theta) / sum;
            if tail < 200 {
                bins.push(counts[tail..].iter().sum());
            }
            let deviations = chi_square(&bins, |at| match at < tail {
                true => likelihood(at + 1),
                false => (tail + 1..=200).map(likelihood).sum(),
            });
            assert!(deviations.abs() < 4.0, "theta {theta}: {deviations} deviations");
        }
    }

    #[test]
    fn ranks_of_huge_and_tiny_targets_are_in_range() {
        let mut random = Random::new(1);
        for count in [1, 2, 3, 1 << 40] {
            for theta in [0.0, 1.0, 1.2, 10.0] {
                let law = Zipf::new(count, theta);
                assert!(
                    (0..2000).all(|_| (1..=count).contains(&law.draw(&mut random))),
                    "{count} {theta}"
                );
            }
        }
    }

    /// The most popular quarters of the ranks get the shares that fio 3.33 gives with these
    /// parameters.
    #[test]
    fn popular_ranks_get_what_fio_gives_them() {
        for (law, shares) in [
            (Law::pareto(1024, 0.2), [0.826, 0.909, 0.961]),
            (Law::pareto(1024, 0.9), [0.998, 1.0, 1.0]),
            (Law::normal(1024, 0.0), [0.865, 0.998, 1.0]),
            (Law::normal(1024, 10.0), [0.842, 0.996, 1.0]),
            (Law::normal(1024, 50.0), [0.491, 0.867, 0.99]),
        ] {
            let (mut random, mut counts) = (Random::new(3), vec![0_u64; 1024]);
            for _ in 0..400_000 {
                counts[law.draw(&mut random) as usize - 1] += 1;
            }
            counts.sort_unstable_by(|one, other| other.cmp(one));
            for (quarter, share) in shares.into_iter().enumerate() {
                let most = 256 * (quarter + 1);
                let drawn = counts[..most].iter().sum::<u64>() as f64 / 400_000.0;
                assert!(
                    (drawn - share).abs() < 0.02,
                    "{law:?}: {drawn} of {most} ranks, not {share}"
                );
            }
        }
        let mut random = Random::new(1);
        for count in [1, 2, 1 << 40] {
            for law in
                [Law::pareto(count, 0.01), Law::pareto(count, 0.99), Law::normal(count, 100.0)]
            {
                assert!((0..2000).all(|_| (1..=count).contains(&law.draw(&mut random))), "{law:?}");
            }
        }
    }

    #[test]
    fn scattering_is_a_permutation_that_parts_neighbours() {
        for count in [1, 2, 3, 10, 1000, 1024, 99_991] {
            let scatter = Scatter::new(count);
            let mut places: Vec<u64> = (0..count).map(|rank| scatter.place(rank)).collect();
            if count > 100 {
                assert!(places.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > count / 4));
            }
            places.sort_unstable();
            assert!(places.iter().copied().eq(0..count));
        }
    }

    #[test]
    fn a_hot_spot_gets_its_share_and_the_rest_is_even() {
        let spread =
            Spread::Hot(Hot { likelihood: (90 << 32) / 100, len: 10 * 4096, moves_every_ns: 1000 });
        for (elapsed, hot_start) in
            [(0, 0), (999, 0), (1000, 10), (9_999, 90), (10_000, 0), (13_500, 30)]
        {
            let mut random = Random::new(9);
            let mut counts = [0_u64; 100];
            for _ in 0..200_000 {
                let at = spread.offset(&mut random, (100 * 4096, 4096), (4096, 4096), elapsed);
                assert_eq!(at % 4096, 0);
                counts[(at / 4096) as usize] += 1;
            }
            let hot = hot_start..hot_start + 10;
            let likelihood = |at: usize| if hot.contains(&at) { 0.09 } else { 0.1 / 90.0 };
            let deviations = chi_square(&counts, likelihood);
            assert!(deviations.abs() < 4.0, "after {elapsed}: {deviations} deviations");
        }
    }

    #[test]
    fn zones_get_their_shares() {
        let zones = [(50, 0, 5), (30, 5, 15), (20, 20, 80)];
        let mut until = 0;
        let slots = zones.map(|(access, start, len)| {
            until += (access << 32) / 100;
            Slot { until, start: start * 4096, len: len * 4096 }
        });
        let spread = Spread::Slots(slots.to_vec());
        let mut random = Random::new(2);
        let mut counts = [0_u64; 100];
        for _ in 0..200_000 {
            counts[(spread.offset(&mut random, (100 * 4096, 4096), (4096, 4096), 0) / 4096)
                as usize] += 1;
        }
        let likelihood = |at: usize| match at {
            0..5 => 0.5 / 5.0,
            5..20 => 0.3 / 15.0,
            _ => 0.2 / 80.0,
        };
        let deviations = chi_square(&counts, likelihood);
        assert!(deviations.abs() < 4.0, "{deviations} deviations");
    }
}
