//! Random numbers for offsets, read shares and payloads: fast, seeded, sufficient for load.

/// wyrand (Wang Yi, 2019, public domain): one addition and one 64×64→128 bit multiplication a
/// number. It passes BigCrush and PractRand; it is not for secrets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Neighbouring seeds are mixed, so that workers are not correlated.
        let (_, spread) = platform::sync::split_mix(seed);
        Random(spread)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xA076_1D64_78BD_642F);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xE703_7ED1_A0B4_28DB);
        (product >> 64) as u64 ^ product as u64
    }

    /// A uniform number below `bound` (Lemire's multiplication without rejection: the bias is below
    /// a billionth for 16 billion blocks).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An exponentially distributed number with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }

    /// Fills with incompressible bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_is_hit_as_often_as_the_other() {
        let mut random = Random::new(1);
        let mut bins = [0_f64; 1000];
        for _ in 0..1_000_000 {
            bins[random.below(1000) as usize] += 1.0;
        }
        // Chi-square with 999 degrees of freedom: mean 999, deviation 44.7.
        let chi: f64 = bins.iter().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
        assert!((chi - 999.0).abs() < 4.0 * 44.7, "{chi}");
    }

    #[test]
    fn neighbouring_seeds_give_different_numbers() {
        let mut first: Vec<u64> = (0..1000).map(|seed| Random::new(seed).next()).collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 1000);
    }

    #[test]
    fn filled_bytes_are_evenly_spread() {
        let mut bytes = vec![0; (1 << 20) + 5];
        Random::new(7).fill(&mut bytes);
        let mut counts = [0_u32; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (3700..4500).contains(count)), "{counts:?}");
    }
}
