//! Which drives a volume may lose, and what its redundancy costs.
//!
//! A *group* is a set of drives of which the same strips need some: all drives of a level without redundancy, a
//! span of a parity level, the drives with the copies of a data strip. Data are lost when a group misses more
//! drives than it may: none, as many as it has parity strips, all copies but one.

use crate::{Family, Geometry, MirrorArrangement};
use units::{DriveCount, DriveIndex, DriveSet};

/// How many drives may fail without loss of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survives {
    /// Whichever drives they are.
    pub at_least: DriveCount,
    /// When they are the luckiest ones.
    pub at_most: DriveCount,
}

impl Geometry {
    /// How many drives may fail without loss of data. Of RAID 5EE: at once; after what was lost has been
    /// rebuilt into the spare strips, as many again.
    pub fn survives(&self) -> Survives {
        let at_least = self.may_miss();
        let at_most = match self.row().family {
            Family::Striped => 0,
            Family::Parity => at_least * self.spans(),
            // Of every so many drives in a row one must be left.
            Family::Mirrored => self.drives().0 - self.drives().0.div_ceil(self.copies()),
        };
        Survives { at_least: DriveCount(at_least), at_most: DriveCount(at_most) }
    }

    /// Whether all data are left, in copies or by way of parity, when exactly these drives are lost; drives
    /// that the array does not have do not matter. Neither drives that have been rebuilt into spare strips
    /// ([`crate::StripeMap::relocated`]) nor those that have been replaced and rebuilt are lost.
    pub fn survives_set(&self, lost: &DriveSet) -> bool {
        self.groups().all(|group| missing(group, lost) <= self.may_miss())
    }

    /// How many more drives may fail, whichever they are, when these are lost; 0 also where too many are.
    pub fn survives_more(&self, lost: &DriveSet) -> DriveCount {
        let more = self.groups().map(|group| self.may_miss().saturating_sub(missing(group, lost)));
        DriveCount(more.min().unwrap_or(0))
    }

    /// How many of its drives a group may miss.
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

    /// How far apart the drives are that hold the first copy of some data strip; the other copies are on the
    /// drives after each.
    fn first_copies_apart(&self) -> u16 {
        match self.mirror_arrangement() {
            Some(MirrorArrangement::Offset | MirrorArrangement::Far) => 1,
            // Strip `i` starts at cell `copies · i`: on the drives these are the multiples of what divides
            // both.
            Some(MirrorArrangement::Near) | None => common_divisor(self.drives().0, self.copies()),
        }
    }

    /// Accesses on drives per small random write of the host, all drives working: the write penalty. On narrow
    /// arrays parity levels pay less than the textbook says, since reading the other data strips is cheaper
    /// than reading old data and old parity: RAID 5 on three drives pays 3.
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
