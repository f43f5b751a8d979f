//! Extents and cached columns, picked at random from a seed.

use super::{STRIP, UNIT, units};
use layout::{CopyIndex, DataIndex, Geometry, Role};
use plan::Cached;
use units::{ByteOffset, ByteRange};

/// A random generator with a seed.
pub struct Picks(u64);

impl Picks {
    pub fn new(seed: u64) -> Picks {
        Picks(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ x >> 31) % end as u64) as usize
    }

    /// The runs of units that satisfy `is_in`, some of them cut in two.
    fn runs(&mut self, end: usize, is_in: impl Fn(usize) -> bool) -> Vec<ByteRange> {
        let mut runs: Vec<ByteRange> = Vec::new();
        for unit in (0..end).filter(|unit| is_in(*unit)) {
            let start = ByteOffset(unit as u64 * UNIT);
            match runs.last_mut() {
                Some(last) if last.end() == start && self.below(5) > 0 => last.len.0 += UNIT,
                _ => runs.push(ByteRange::from_to(start, ByteOffset(start.0 + UNIT))),
            }
        }
        runs
    }

    /// Extents of a stripe: a rectangle, single units, or many units. Never empty.
    pub fn extents(&mut self, geometry: &Geometry) -> Vec<ByteRange> {
        let end = units(geometry.stripe_bytes().0);
        let strips = end / STRIP;
        let mut written = vec![false; end];
        match self.below(3) {
            0 => {
                let (first, from) = (self.below(strips), self.below(STRIP));
                let (last, until) =
                    (first + self.below(strips - first), from + self.below(STRIP - from));
                for strip in first..=last {
                    written[strip * STRIP + from..=strip * STRIP + until].fill(true);
                }
            }
            kind => {
                let sparse = if kind == 1 { 4 } else { 1 };
                for unit in &mut written {
                    *unit = self.below(3 + sparse) < 2;
                }
                let one = self.below(end);
                written[one] = true;
            }
        }
        self.runs(end, |unit| written[unit])
    }

    /// Cached columns of some strips, parity among them; may be empty.
    pub fn cached(&mut self, geometry: &Geometry) -> Vec<Cached> {
        let most = self.below(4);
        let data = (0..geometry.data_strips())
            .map(|index| Role::Data { index: DataIndex(index), copy: CopyIndex(0) });
        let parity = [Role::P, Role::Q].into_iter().take(usize::from(geometry.parity_strips()));
        let mut cached = Vec::new();
        for role in data.chain(parity) {
            let columns: Vec<bool> = (0..STRIP).map(|_| self.below(4) < most).collect();
            let runs = self.runs(STRIP, |column| columns[column]);
            cached.extend(runs.into_iter().map(|columns| Cached { role, columns }));
        }
        cached
    }
}
