//! Selects the drives that are removed for reads of copies.

use crate::inquest::Copies;
use crate::machine::Array;
use crate::scene::Scene;
use crate::setup::VolumeRole;
use platform_sim::Rng;
use std::fmt;
use std::rc::Rc;
use units::{DriveIndex, DriveSet};

/// The number of sets of drives that are removed in turn: all, if there are at most `all`, else
/// `some`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sets {
    all: usize,
    some: usize,
}

impl Sets {
    /// After each crash.
    pub const AFTER_A_CRASH: Sets = Sets { all: 6, some: 4 };

    /// At the end, with everything repaired.
    pub const IN_THE_END: Sets = Sets { all: 24, some: 24 };

    /// After silent corruption.
    pub const AFTER_SILENCE: Sets = Sets { all: 6, some: 6 };
}

/// When drives are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RemovalTime {
    /// In a crash, in addition to existing faults.
    InTheCrash,
    /// After an orderly stop and a complete resync: unused drives are removed as well.
    Stopped,
}

impl RemovalTime {
    fn out(self, array: &Array) -> DriveSet {
        match self {
            RemovalTime::InTheCrash => array.unreliable(),
            RemovalTime::Stopped => array.out.get(),
        }
    }

    /// Whether a volume must have allowed values when drives are removed that its level survives.
    fn may_lose(self, scene: &Scene) -> bool {
        match self {
            RemovalTime::InTheCrash => scene.covered.get() || !scene.has_parity(),
            RemovalTime::Stopped => scene.synced.get(),
        }
    }
}

/// Removed drives.
pub(crate) struct Removed {
    /// For each volume: the slots of its removed drives, and whether it is checked nevertheless.
    volumes: Vec<(DriveSet, bool)>,
    /// The first names of the drives.
    names: Vec<String>,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(" "))
    }
}

impl Removed {
    /// The remaining drives.
    pub fn left(&self, copies: &Copies) -> Copies {
        copies.iter().filter(|(name, _)| !self.names.contains(name)).cloned().collect()
    }

    /// Records the removal in the volumes over the copies. Returns the slots of removed drives by
    /// array.
    pub fn tell(&self, scene: &Rc<Scene>) -> Vec<(Rc<Array>, DriveSet)> {
        let mut arrays = Vec::new();
        for (volume, (slots, is_looked_at)) in scene.volumes().iter().zip(&self.volumes) {
            volume.is_ignored.set(!is_looked_at);
            if volume.setup.place != VolumeRole::SameDrives {
                arrays.push((volume.array.clone(), *slots));
            }
        }
        arrays
    }
}

/// The removals: sets of drives that the first volume survives. Neighbours on the same drives are
/// checked if they survive them as well; other neighbours get a set of their own each time.
pub(crate) fn removals(first: &Rc<Scene>, when: RemovalTime, many: Sets) -> Vec<Removed> {
    let all = first.volumes();
    let own_sets: Vec<Vec<DriveSet>> = all
        .iter()
        .map(|volume| match volume.setup.place {
            VolumeRole::OwnDrives if !volume.is_there() || !when.may_lose(volume) => {
                vec![DriveSet::EMPTY]
            }
            _ => sets(volume, &when.out(&volume.array), many),
        })
        .collect();
    let nth = |index: usize| {
        let mut removed = Removed { volumes: Vec::new(), names: Vec::new() };
        for (volume, own) in all.iter().zip(&own_sets) {
            let out = when.out(&volume.array);
            let slots = match volume.setup.place {
                VolumeRole::SameDrives => own_sets[0][index],
                VolumeRole::First | VolumeRole::OwnDrives if own.is_empty() => DriveSet::EMPTY,
                VolumeRole::First | VolumeRole::OwnDrives => own[index % own.len()],
            };
            let is_looked_at = match volume.setup.place {
                VolumeRole::First => true,
                _ if !volume.is_there() => false,
                VolumeRole::SameDrives => {
                    when.may_lose(volume) && volume.survives(&slots.union(&out))
                }
                VolumeRole::OwnDrives => when == RemovalTime::InTheCrash || when.may_lose(volume),
            };
            if volume.setup.place != VolumeRole::SameDrives {
                // Rebuilding drives may have data that the others lack: then they are not removed.
                let is_without_out =
                    when == RemovalTime::Stopped && is_looked_at && volume.survives(&out);
                let gone = if is_without_out { slots.union(&out) } else { slots };
                let names = volume.array.names.borrow();
                removed.names.extend(gone.iter().map(|slot| names[slot.as_usize()].clone()));
            }
            removed.volumes.push((slots, is_looked_at));
        }
        removed
    };
    (0..own_sets[0].len()).map(nth).collect()
}

/// Sets of drives that a volume survives in addition to `out`; of many, some of the largest and
/// some others.
fn sets(scene: &Scene, out: &DriveSet, many: Sets) -> Vec<DriveSet> {
    let most = scene.layouts().map(|layout| layout.survives().at_most.0).min().unwrap_or_default();
    let mut sets = vec![DriveSet::EMPTY];
    let mut begin = 0;
    for _ in 0..most {
        let end = sets.len();
        for index in begin..end {
            let set = sets[index];
            // In ascending order, so that every set appears once.
            let next = set.iter().last().map_or(0, |drive: DriveIndex| drive.0 + 1);
            for drive in scene.drive_count().indexes().skip(usize::from(next)) {
                let larger = set.with(drive);
                if !out.contains(drive) && scene.survives(&larger.union(out)) {
                    sets.push(larger);
                }
            }
        }
        begin = end;
    }
    // The volume was already read without removals, except after an orderly stop.
    if sets.len() > 1 && many == Sets::AFTER_A_CRASH {
        sets.remove(0);
    }
    if sets.len() > many.all {
        let most = many.some;
        let mut rng = Rng::new(scene.setup.seed, "removed", &scene.machine.life.get().to_string());
        let largest = sets.iter().map(|set| set.count()).max();
        rng.shuffle(&mut sets);
        // Half of them from the largest sets: these leave the least redundancy.
        sets.sort_by_key(|set| Some(set.count()) != largest);
        let middle = sets.iter().filter(|set| Some(set.count()) == largest).count();
        let from_largest = (most / 2).max(most.saturating_sub(sets.len() - middle)).min(middle);
        let rest = sets.split_off(middle);
        sets.truncate(from_largest);
        sets.extend(rest.into_iter().take(most - from_largest));
    }
    sets
}
