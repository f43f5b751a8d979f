//! What the failure of more drives costs, calculated from the regions of a volume.
//!
//! A loss of drives is tolerated if it costs no data of any region, and the volume is served without them. Four things decide:
//! - The volume is served as a whole: the level must survive without all drives that miss anything anywhere, together.
//! - In an unsynced region parity is not trusted, so the loss of any drive with data there costs these data. A replayed log vouches for
//!   all drives; an operator who forced the region, for those that were missing then.
//! - Copies are trusted though they are unsynced: the first one that can be read counts.
//! - Of blocks that a drive did not keep (excluded), redundancy alone has the content: their drive counts as missed. Where several drives
//!   have such blocks all of them do, so that less may be stated than is tolerated. Punctured blocks among them count as zeros in
//!   redundancy, which needs nothing of their drive.
//!
//! Regions that read as zeros have no data to lose.

use crate::punctured::BlockList;
use crate::region_set::RegionSet;
use crate::regions::Regions;
use crate::volume::VolumeState;
use layout::{Geometry, Level, Role, Survives};
use units::{DriveCount, DriveIndex, DriveSet, StripeIndex};

/// What a volume, or a part of one, has to lose.
#[derive(Clone, Debug)]
struct Stake {
    geometry: Geometry,
    /// Drives without which it has to do somewhere already.
    missed: DriveSet,
    /// Drives of which the loss costs data in some region whose parity is not trusted.
    alone: DriveSet,
    /// By drive, how many such regions there are.
    alone_in: Vec<u32>,
    /// How many runs of blocks are excluded, each of which is in a region at most.
    excluded_in: u32,
    /// Data are lost already.
    has_lost: bool,
}

impl Stake {
    fn survives(&self, more: &DriveSet) -> bool {
        let lost = self.missed.union(more).intersection(&DriveSet::first(self.geometry.drives()));
        !self.has_lost && self.alone.intersection(more).is_empty() && self.geometry.survives_set(&lost)
    }

    /// In how many places the loss of these drives costs data: regions, and runs of blocks that a drive did not keep.
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

/// Which further failures of drives a volume tolerates.
#[derive(Clone, Debug)]
pub struct Tolerance {
    /// That of the volume, and of its other parts while it is reshaped.
    stakes: Vec<Stake>,
}

impl Tolerance {
    /// The same of a volume that also has this part: what it tolerates, both do.
    #[must_use]
    pub fn and(mut self, part: Tolerance) -> Tolerance {
        self.stakes.extend(part.stakes);
        self
    }

    /// Whether the failure of all these drives costs no data, and the volume is served without them.
    pub fn survives(&self, more: &DriveSet) -> bool {
        self.stakes.iter().all(|stake| stake.survives(more))
    }

    /// In how many places the failure of all these drives costs data that can be read now: regions, and runs of blocks that a drive did
    /// not keep. What is lost already is not counted again; 0: nothing more is lost.
    pub fn costs(&self, more: &DriveSet) -> u32 {
        self.stakes.iter().map(|stake| stake.costs(more)).sum()
    }

    /// How many more drives may fail: whichever they are, and if they are the luckiest ones. Drives that miss something already are not
    /// counted among these.
    pub fn more(&self) -> Survives {
        let at_least = self.stakes.iter().map(Stake::at_least).min().unwrap_or(DriveCount(0));
        let at_most = DriveCount(self.luckiest());
        Survives { at_least, at_most: at_most.max(at_least) }
    }

    /// The size of the largest set of drives that may fail. Drives are taken in order round the array as long as all survive without
    /// them; where groups of copies overlap, it depends on where that begins.
    fn luckiest(&self) -> u16 {
        if !self.survives(&DriveSet::EMPTY) {
            return 0;
        }
        let drives = self.stakes.iter().map(|stake| stake.geometry.drives().0).max().unwrap_or(0);
        let overlap = self.stakes.iter().any(|stake| stake.geometry.level() == Level::Raid1e);
        let missed = self.stakes.iter().fold(DriveSet::EMPTY, |missed, stake| missed.union(&stake.missed));
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
    /// Which further failures the volume tolerates, without these drives that are failing though nobody has recorded it yet.
    pub fn tolerance(&self, regions: &Regions, failing: &DriveSet) -> Tolerance {
        let mut stake = Stake {
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
                stake.missed.insert(slot);
                stake.excluded_in += blocks.ranges().len() as u32;
                // What redundancy alone has is lost where that is not trusted.
                let exposed = self.exposed(slot, doubtful.clone());
                stake.has_lost |= exposed.iter().any(|region| blocks.overlaps(regions.place_of(region)));
            }
        }
        let in_service = self.in_service.minus(failing);
        let with_data = if doubtful.is_empty() { DriveSet::EMPTY } else { drives_with_data(regions) };
        for slot in with_data.iter() {
            let exposed = self.exposed(slot, doubtful.clone());
            let stale = &self.slots[slot.as_usize()].stale;
            match in_service.contains(slot) {
                true => {
                    stake.has_lost |= !exposed.intersection(stale).is_empty();
                    let exposed = exposed.minus(stale);
                    if !exposed.is_empty() {
                        stake.alone.insert(slot);
                        stake.alone_in[slot.as_usize()] = exposed.len();
                    }
                }
                false => stake.has_lost |= !exposed.is_empty(),
            }
        }
        Tolerance { stakes: vec![stake] }
    }

    /// Excluded blocks of a slot of which redundancy has what hosts wrote: not those that are punctured as well.
    fn excluded_with_content(&self, slot: DriveIndex, geometry: &Geometry) -> BlockList {
        let mut blocks = self.slots[slot.as_usize()].excluded.clone();
        // Punctured blocks are named where their first copy belongs.
        let named = match geometry.level() {
            Level::Raid1 => Some(DriveIndex(0)),
            _ => self.has_parity.then_some(slot),
        };
        let punctured = named.map(|named| self.slots[named.as_usize()].punctured.ranges());
        punctured.into_iter().flatten().for_each(|range| blocks.remove(*range));
        blocks
    }

    /// Regions in which parity is not trusted, whichever drives are there.
    fn doubtful(&self) -> RegionSet {
        match self.has_parity {
            true => self.unsynced.clone().minus(&self.forced.by_log),
            false => RegionSet::EMPTY,
        }
    }

    /// Regions among these in which only a slot's drive has what it holds: nobody vouched for parity there when the drive was missing.
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

/// Drives that hold data, and not only parity.
fn drives_with_data(regions: &Regions) -> DriveSet {
    let geometry = regions.geometry();
    // Parity has been everywhere where it goes after as many rows as a span has drives.
    let turn = u64::from(geometry.stripes_per_row()) * u64::from(geometry.drives_per_span().0);
    let stripes = (0..geometry.stripes().0.min(turn)).map(StripeIndex);
    let cells = stripes.flat_map(|stripe| geometry.stripe_map(stripe).cells());
    cells.filter(|(_, role)| matches!(role, Role::Data { .. })).map(|(cell, _)| cell.drive).collect()
}
