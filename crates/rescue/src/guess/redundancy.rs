//! What can be said of redundancy whatever the order, the strip and the layout: which drives are equal, whether all of
//! them add up to zero, and where all but one do.

use super::sample::Window;

/// What the drives are together.
#[derive(Clone, Default, Debug)]
pub(super) struct Redundancy {
    /// Blocks in which something could be told: not all drives were constant.
    pub(super) told: usize,
    /// Of these, in how many the exclusive or of all drives is zero.
    pub(super) zero: usize,
    /// Of the others, in how many it equals what one drive holds: by drive. That drive holds Q, and the others add up.
    pub(super) all_but: Vec<usize>,
    /// For each pair of drives, in how many blocks they hold the same.
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
            let hashes: Vec<u64> =
                window.cells.iter().map(|own| own[block].as_ref().map_or(0, |cell| cell.hash)).collect();
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
    /// Whether so many of the blocks are as good as all: some may be of metadata, or beyond the volume's end.
    fn is_most(&self, count: usize) -> bool {
        self.told > 0 && count * 10 >= self.told * 8
    }

    /// Whether all drives add up to zero: single parity, with all drives there.
    pub(super) fn is_single_parity(&self) -> bool {
        self.is_most(self.zero)
    }

    /// Whether all drives but one, which is not always the same, add up.
    pub(super) fn is_double_parity(&self) -> bool {
        let all: usize = self.all_but.iter().sum();
        self.zero * 2 < self.told && self.is_most(all + self.zero)
    }

    /// A drive that takes no part: the others add up without it nearly everywhere.
    pub(super) fn outsider(&self) -> Option<usize> {
        if self.is_single_parity() {
            return None;
        }
        self.all_but.iter().position(|count| self.is_most(*count + self.zero) && *count > self.told / 2)
    }

    /// Groups of drives that hold the same, each in ascending order.
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
