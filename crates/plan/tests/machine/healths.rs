//! Combinations of drive faults.

use layout::Geometry;
use plan::Health;
use units::{DriveIndex, DriveSet};

/// The states of one drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Can {
    pub read: bool,
    pub write: bool,
}

pub const CAN: [Can; 4] = [
    Can { read: true, write: true },
    Can { read: false, write: false },
    Can { read: false, write: true },
    Can { read: true, write: false },
];

/// The health in which each drive is in the state given by `can`.
pub fn health_of(can: &[Can], parity_trusted: bool) -> Health {
    let set = |which: fn(&Can) -> bool| {
        (0..).zip(can).filter(|(_, can)| which(can)).map(|(drive, _)| DriveIndex(drive)).collect()
    };
    Health {
        readable: set(|can| can.read),
        writable: set(|can| can.write),
        parity_trusted,
        relocated: None,
    }
}

/// Drives with any fault.
pub fn faulty(geometry: &Geometry, health: &Health) -> DriveSet {
    DriveSet::first(geometry.drives()).minus(&health.readable.intersection(&health.writable))
}

/// All drives working, and every choice of at most `most` drives with every kind of fault.
pub fn with_faults(geometry: &Geometry, most: usize, parity_trusted: bool) -> Vec<Health> {
    let drives = geometry.drives().as_usize();
    let mut all = vec![vec![CAN[0]; drives]];
    let mut last = vec![(0, all[0].clone())];
    for _ in 0..most {
        let mut more = Vec::new();
        for (first, can) in &last {
            for drive in *first..drives {
                for fault in &CAN[1..] {
                    let mut can = can.clone();
                    can[drive] = *fault;
                    more.push((drive + 1, can));
                }
            }
        }
        all.extend(more.iter().map(|(_, can)| can.clone()));
        last = more;
    }
    all.iter().map(|can| health_of(can, parity_trusted)).collect()
}
