//! Which further drive failures a volume tolerates, calculated from its regions.
//!
//! A failure is tolerated if no region loses data and the volume stays online:
//! - The level must survive without all drives that are missing or stale anywhere, together.
//! - In an unsynced region parity is not trusted, so any lost data strip is lost data. Exceptions:
//!   a replayed log is valid for all drives, an operator's acceptance for the drives missing then.
//! - Unsynced copies are trusted: the first readable one counts.
//! - Only redundancy has the content of excluded blocks, so their drive counts as missing. If
//!   several drives have such blocks all count, so the result may be too low. Blocks also punctured
//!   are zeros in redundancy and need no drive.
//!
//! Regions that read as zeros cannot lose data.

use crate::punctured::BlockList;
use crate::region_set::RegionSet;
use crate::regions::Regions;
use crate::volume::VolumeState;
use layout::{Geometry, Level, Role, Survives};
use units::{DriveCount, DriveIndex, DriveSet, StripeIndex};

/// Data at risk in a volume or a part of one.
#[derive(Clone, Debug)]
struct PartRisk {
    geometry: Geometry,
    /// Drives that are missing or stale somewhere already.
    missed: DriveSet,
    /// Drives whose loss costs data in a region with untrusted parity.
    alone: DriveSet,
    /// Number of such regions, by drive.
    alone_in: Vec<u32>,
    /// Number of excluded runs, each in one region.
    excluded_in: u32,
    /// Data is lost already.
    has_lost: bool,
}

impl PartRisk {
    fn survives(&self, more: &DriveSet) -> bool {
        let lost = self.missed.union(more).intersection(&DriveSet::first(self.geometry.drives()));
        !self.has_lost
            && self.alone.intersection(more).is_empty()
            && self.geometry.survives_set(&lost)
    }

    /// The number of places where the loss of these drives costs data: regions and excluded runs.
    fn costs(&self, more: &DriveSet) -> u32 {
        let alone: u32 = more.iter().filter_map(|slot| self.alone_in.get(slot.as_usize())).sum();
        let lost = self.missed.union(more).intersection(&DriveSet::first(self.geometry.drives()));
        let needs_excluded = !self.geometry.survives_set(&lost);
        alone + if needs_excluded { self.excluded_in.max(1) } else { 0 }
    }

    fn at_least(&self) -> DriveCount {
        match self.alone.is_empty() && self.survives(&DriveSet::EMPTY) {
            true => self.geometry.survives_more(&self.missed),
            false => DriveCount(0),
        }
    }
}

/// The tolerated further drive failures of a volume.
#[derive(Clone, Debug)]
pub struct Tolerance {
    /// For the volume, and for its other parts during a reshape.
    risks: Vec<PartRisk>,
}

impl Tolerance {
    /// Adds a part: the result tolerates what both tolerate.
    #[must_use]
    pub fn and(mut self, part: Tolerance) -> Tolerance {
        self.risks.extend(part.risks);
        self
    }

    /// Whether the failure of all these drives costs no data, and the volume stays online.
    pub fn survives(&self, more: &DriveSet) -> bool {
        self.risks.iter().all(|risk| risk.survives(more))
    }

    /// The number of places where the failure of all these drives costs data that is readable now:
    /// regions and excluded runs. Earlier losses do not count; 0: no further loss.
    pub fn costs(&self, more: &DriveSet) -> u32 {
        self.risks.iter().map(|risk| risk.costs(more)).sum()
    }

    /// How many more drives may fail: in the worst and in the best case. Drives that are missing or
    /// stale already do not count.
    pub fn more(&self) -> Survives {
        let at_least = self.risks.iter().map(PartRisk::at_least).min().unwrap_or(DriveCount(0));
        let at_most = DriveCount(self.luckiest());
        Survives { at_least, at_most: at_most.max(at_least) }
    }

    /// The size of the largest tolerated set. Drives are added in array order while the volume
    /// survives; for overlapping groups of copies the result depends on the first drive.
    fn luckiest(&self) -> u16 {
        if !self.survives(&DriveSet::EMPTY) {
            return 0;
        }
        let drives = self.risks.iter().map(|risk| risk.geometry.drives().0).max().unwrap_or(0);
        let overlap = self.risks.iter().any(|risk| risk.geometry.level() == Level::Raid1e);
        let missed =
            self.risks.iter().fold(DriveSet::EMPTY, |missed, risk| missed.union(&risk.missed));
        let from = |start: u16| {
            let mut lost = DriveSet::EMPTY;
            for drive in (start..drives).chain(0..start).map(DriveIndex) {
                if !missed.contains(drive) && self.survives(&lost.with(drive)) {
                    lost.insert(drive);
                }
            }
            lost.count().0
        };
        (0..if overlap { drives } else { 1 }).map(from).max().unwrap_or(0)
    }
}

impl VolumeState {
    /// The tolerated further failures, without `failing` drives that are not recorded yet.
    pub fn tolerance(&self, regions: &Regions, failing: &DriveSet) -> Tolerance {
        let mut risk = PartRisk {
            geometry: *regions.geometry(),
            missed: self.missed(failing),
            alone: DriveSet::EMPTY,
            alone_in: vec![0; usize::from(self.drives().0)],
            excluded_in: 0,
            has_lost: false,
        };
        let doubtful = self.doubtful();
        for slot in self.excluded_somewhere().iter() {
            let blocks = self.excluded_with_content(slot, regions.geometry());
            if !blocks.is_empty() {
                risk.missed.insert(slot);
                risk.excluded_in += blocks.ranges().len() as u32;
                // Untrusted redundancy cannot recover excluded blocks.
                let exposed = self.exposed(slot, doubtful.clone());
                risk.has_lost |=
                    exposed.iter().any(|region| blocks.overlaps(regions.place_of(region)));
            }
        }
        let in_service = self.in_service.minus(failing);
        let with_data =
            if doubtful.is_empty() { DriveSet::EMPTY } else { drives_with_data(regions) };
        for slot in with_data.iter() {
            let exposed = self.exposed(slot, doubtful.clone());
            let stale = &self.slots[slot.as_usize()].stale;
            match in_service.contains(slot) {
                true => {
                    risk.has_lost |= !exposed.intersection(stale).is_empty();
                    let exposed = exposed.minus(stale);
                    if !exposed.is_empty() {
                        risk.alone.insert(slot);
                        risk.alone_in[slot.as_usize()] = exposed.len();
                    }
                }
                false => risk.has_lost |= !exposed.is_empty(),
            }
        }
        Tolerance { risks: vec![risk] }
    }

    /// Excluded blocks of a slot with host data, which only redundancy has: not the punctured ones.
    fn excluded_with_content(&self, slot: DriveIndex, geometry: &Geometry) -> BlockList {
        let mut blocks = self.slots[slot.as_usize()].excluded.clone();
        // Punctured blocks are listed at their first copy.
        let named = match geometry.level() {
            Level::Raid1 => Some(DriveIndex(0)),
            _ => self.has_parity.then_some(slot),
        };
        let punctured = named.map(|named| self.slots[named.as_usize()].punctured.ranges());
        punctured.into_iter().flatten().for_each(|range| blocks.remove(*range));
        blocks
    }

    /// Regions with untrusted parity, independent of the drives present.
    fn doubtful(&self) -> RegionSet {
        match self.has_parity {
            true => self.unsynced.clone().minus(&self.forced.by_log),
            false => RegionSet::EMPTY,
        }
    }

    /// Regions among these in which only the slot's drive has its content: not forced while it was
    /// missing.
    fn exposed(&self, slot: DriveIndex, mut doubtful: RegionSet) -> RegionSet {
        if let Some(missing) = self.forced.missing.get(slot.as_usize()) {
            doubtful.remove_all(missing);
        }
        if let Some(moved) = self.relocated.as_ref().filter(|moved| moved.slot == slot) {
            doubtful.remove_all(&moved.regions);
        }
        doubtful
    }
}

/// Drives with data strips, not only parity.
fn drives_with_data(regions: &Regions) -> DriveSet {
    let geometry = regions.geometry();
    // Parity has rotated over all its drives after as many rows as a span has drives.
    let turn = u64::from(geometry.stripes_per_row()) * u64::from(geometry.drives_per_span().0);
    let stripes = (0..geometry.stripes().0.min(turn)).map(StripeIndex);
    let cells = stripes.flat_map(|stripe| geometry.stripe_map(stripe).cells());
    cells
        .filter(|(_, role)| matches!(role, Role::Data { .. }))
        .map(|(cell, _)| cell.drive)
        .collect()
}
