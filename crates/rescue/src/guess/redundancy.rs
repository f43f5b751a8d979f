//! Measures redundancy independently of order, strip and layout: equal drives, and whether all
//! drives, or all but one, XOR to zero.

use super::sample::Window;

/// Redundancy among the drives.
#[derive(Clone, Default, Debug)]
pub(super) struct Redundancy {
    /// Blocks with usable content: not all drives were constant.
    pub(super) told: usize,
    /// The number of these in which the XOR of all drives is zero.
    pub(super) zero: usize,
    /// The number of others in which the XOR equals one drive's block, by drive. That drive holds
    /// Q; the others XOR to zero.
    pub(super) all_but: Vec<usize>,
    /// For each pair of drives, the number of blocks with the same content.
    pub(super) equal: Vec<Vec<usize>>,
}

/// Counts over all windows.
pub(super) fn redundancy(windows: &[Window], drives: usize) -> Redundancy {
    let mut found = Redundancy {
        all_but: vec![0; drives],
        equal: vec![vec![0; drives]; drives],
        ..Redundancy::default()
    };
    for window in windows {
        for block in 0..window.blocks() {
            let Some(xor) = &window.xor[block] else { continue };
            let hashes: Vec<u64> = window
                .cells
                .iter()
                .map(|own| own[block].as_ref().map_or(0, |cell| cell.hash))
                .collect();
            if hashes.iter().all(|hash| *hash == 0) {
                continue;
            }
            found.told += 1;
            let is_zero = xor.hash == 0 && xor.head.iter().all(|byte| *byte == 0);
            found.zero += usize::from(is_zero);
            for (drive, hash) in hashes.iter().enumerate() {
                found.all_but[drive] += usize::from(!is_zero && *hash == xor.hash && *hash != 0);
                for (equal, other) in found.equal[drive].iter_mut().zip(&hashes[..drive]) {
                    *equal += usize::from(hash == other);
                }
            }
        }
    }
    found
}

impl Redundancy {
    /// Whether this count is nearly all blocks: some may hold metadata, or lie after the volume's
    /// end.
    fn is_most(&self, count: usize) -> bool {
        self.told > 0 && count * 10 >= self.told * 8
    }

    /// Whether all drives XOR to zero: single parity, with all drives present.
    pub(super) fn is_single_parity(&self) -> bool {
        self.is_most(self.zero)
    }

    /// Whether all drives but one, which varies, XOR to zero.
    pub(super) fn is_double_parity(&self) -> bool {
        let all: usize = self.all_but.iter().sum();
        self.zero * 2 < self.told && self.is_most(all + self.zero)
    }

    /// A drive that is no member: the others XOR to zero without it nearly everywhere.
    pub(super) fn outsider(&self) -> Option<usize> {
        if self.is_single_parity() {
            return None;
        }
        self.all_but
            .iter()
            .position(|count| self.is_most(*count + self.zero) && *count > self.told / 2)
    }

    /// Groups of drives with equal content, each in ascending order.
    pub(super) fn mirrors(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for drive in 0..self.all_but.len() {
            match groups.iter_mut().find(|group| self.is_most(self.equal[drive][group[0]])) {
                Some(group) => group.push(drive),
                None => groups.push(vec![drive]),
            }
        }
        groups
    }
}
