//! Fault tolerance and write penalty of a volume.
//!
//! A *group* is a set of drives with related strips: all drives of a level without redundancy, a
//! span of a parity level, or the drives with the copies of a data strip. Data are lost when a
//! group lacks more drives than it tolerates: none, the number of its parity strips, or all copies
//! but one.

use crate::{Family, Geometry, MirrorArrangement};
use units::{DriveCount, DriveIndex, DriveSet};

/// The number of drives that may fail without data loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survives {
    /// In the worst case.
    pub at_least: DriveCount,
    /// In the best case.
    pub at_most: DriveCount,
}

impl Geometry {
    /// The number of drives that may fail without data loss. For RAID 5EE: at the same time; after
    /// the rebuild into the spare strips, the same number again.
    pub fn survives(&self) -> Survives {
        let at_least = self.may_miss();
        let at_most = match self.row().family {
            Family::Striped => 0,
            Family::Parity => at_least * self.spans(),
            // Of each `copies` consecutive drives, one must remain.
            Family::Mirrored => self.drives().0 - self.drives().0.div_ceil(self.copies()),
        };
        Survives { at_least: DriveCount(at_least), at_most: DriveCount(at_most) }
    }

    /// Whether all data survive, by copies or parity, when exactly these drives are lost. Unknown
    /// drives are ignored. Drives that were rebuilt into spare strips
    /// ([`crate::StripeMap::relocated`]), or replaced and rebuilt, do not count as lost.
    pub fn survives_set(&self, lost: &DriveSet) -> bool {
        self.groups().all(|group| missing(group, lost) <= self.may_miss())
    }

    /// The number of further drives that may fail, in the worst case, when these are lost; 0 also
    /// after data loss.
    pub fn survives_more(&self, lost: &DriveSet) -> DriveCount {
        let more = self.groups().map(|group| self.may_miss().saturating_sub(missing(group, lost)));
        DriveCount(more.min().unwrap_or(0))
    }

    /// The number of lost drives that a group tolerates.
    fn may_miss(&self) -> u16 {
        match self.row().family {
            Family::Striped => 0,
            Family::Parity => self.parity_strips(),
            Family::Mirrored => self.copies() - 1,
        }
    }

    /// The groups, by their drives.
    fn groups(&self) -> impl Iterator<Item = impl Iterator<Item = DriveIndex>> {
        let drives = self.drives().0;
        let (step, size) = match self.row().family {
            Family::Striped => (drives, drives),
            Family::Parity => (self.drives_per_span().0, self.drives_per_span().0),
            Family::Mirrored => (self.first_copies_apart(), self.copies()),
        };
        (0..drives).step_by(usize::from(step)).map(move |first| {
            (first..first + size)
                .map(move |drive| DriveIndex(if drive < drives { drive } else { drive - drives }))
        })
    }

    /// The distance of the drives with the first copies of data strips; the other copies are on the
    /// drives after each.
    fn first_copies_apart(&self) -> u16 {
        match self.mirror_arrangement() {
            Some(MirrorArrangement::Offset | MirrorArrangement::Far) => 1,
            // Strip `i` starts at cell `copies · i`: on the drives, these are the multiples of the
            // common divisor.
            Some(MirrorArrangement::Near) | None => common_divisor(self.drives().0, self.copies()),
        }
    }

    /// Drive I/Os per small random host write in an optimal volume: the write penalty. On narrow
    /// arrays it is less than the textbook value, because reading the other data strips is cheaper
    /// than reading old data and old parity: 3 for RAID 5 on three drives.
    pub fn write_penalty(&self) -> u16 {
        match self.row().family {
            Family::Striped | Family::Mirrored => self.copies(),
            Family::Parity => {
                let written = 1 + self.parity_strips();
                (2 * written).min(self.data_strips() - 1 + written)
            }
        }
    }
}

fn missing(group: impl Iterator<Item = DriveIndex>, lost: &DriveSet) -> u16 {
    group.filter(|drive| lost.contains(*drive)).count() as u16
}

fn common_divisor(mut a: u16, mut b: u16) -> u16 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
