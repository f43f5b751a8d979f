//! Which drives are left out when copies of them are read without some.

use crate::inquest::Copies;
use crate::machine::Array;
use crate::scene::Scene;
use crate::setup::Place;
use platform_sim::Rng;
use std::fmt;
use std::rc::Rc;
use units::{DriveIndex, DriveSet};

/// How many sets of drives are removed, one after the other: all there are, if there are no more than `all`, otherwise
/// `some` of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sets {
    all: usize,
    some: usize,
}

impl Sets {
    /// After each crash.
    pub const AFTER_A_CRASH: Sets = Sets { all: 6, some: 4 };

    /// When all is well in the end.
    pub const IN_THE_END: Sets = Sets { all: 24, some: 24 };

    /// After drives changed what they held.
    pub const AFTER_SILENCE: Sets = Sets { all: 6, some: 6 };
}

/// When drives are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// In a crash: besides what is wrong already.
    InTheCrash,
    /// When all was stopped in order, and redundancy agreed: those that are out are left out as well.
    Stopped,
}

impl When {
    fn out(self, array: &Array) -> DriveSet {
        match self {
            When::InTheCrash => array.unreliable(),
            When::Stopped => array.out.get(),
        }
    }

    /// Whether a volume has to be what it may be when drives are left out that its level survives.
    fn may_lose(self, scene: &Scene) -> bool {
        match self {
            When::InTheCrash => scene.covered.get() || !scene.has_parity(),
            When::Stopped => scene.synced.get(),
        }
    }
}

/// Drives that are left out.
pub(crate) struct Removed {
    /// For each volume: the slots of its drives, and whether it is looked at all the same.
    volumes: Vec<(DriveSet, bool)>,
    /// What the drives were called first.
    names: Vec<String>,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(" "))
    }
}

impl Removed {
    /// What is left of the drives.
    pub fn left(&self, copies: &Copies) -> Copies {
        copies.iter().filter(|(name, _)| !self.names.contains(name)).cloned().collect()
    }

    /// Tells the volumes over the copies of it. By array, the slots whose drives are gone.
    pub fn tell(&self, scene: &Rc<Scene>) -> Vec<(Rc<Array>, DriveSet)> {
        let mut arrays = Vec::new();
        for (volume, (slots, is_looked_at)) in scene.volumes().iter().zip(&self.volumes) {
            volume.is_ignored.set(!is_looked_at);
            if volume.setup.place != Place::SameDrives {
                arrays.push((volume.array.clone(), *slots));
            }
        }
        arrays
    }
}

/// One removal after the other: sets of drives that the first volume can spare. Neighbours on the same drives are looked at where they
/// can spare them as well; of the others a set of their own is removed each time.
pub(crate) fn removals(first: &Rc<Scene>, when: When, many: Sets) -> Vec<Removed> {
    let all = first.volumes();
    let own_sets: Vec<Vec<DriveSet>> = all
        .iter()
        .map(|volume| match volume.setup.place {
            Place::OwnDrives if !volume.is_there() || !when.may_lose(volume) => vec![DriveSet::EMPTY],
            _ => sets(volume, &when.out(&volume.array), many),
        })
        .collect();
    let nth = |index: usize| {
        let mut removed = Removed { volumes: Vec::new(), names: Vec::new() };
        for (volume, own) in all.iter().zip(&own_sets) {
            let out = when.out(&volume.array);
            let slots = match volume.setup.place {
                Place::SameDrives => own_sets[0][index],
                Place::First | Place::OwnDrives if own.is_empty() => DriveSet::EMPTY,
                Place::First | Place::OwnDrives => own[index % own.len()],
            };
            let is_looked_at = match volume.setup.place {
                Place::First => true,
                _ if !volume.is_there() => false,
                Place::SameDrives => when.may_lose(volume) && volume.survives(&slots.union(&out)),
                Place::OwnDrives => when == When::InTheCrash || when.may_lose(volume),
            };
            if volume.setup.place != Place::SameDrives {
                // Those that are rebuilt may have what the others lack by now: then they are not left out.
                let is_without_out = when == When::Stopped && is_looked_at && volume.survives(&out);
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

/// Sets of drives that a volume can spare besides those that are out; of many, some of the largest and some others.
fn sets(scene: &Scene, out: &DriveSet, many: Sets) -> Vec<DriveSet> {
    let most = scene.layouts().map(|layout| layout.survives().at_most.0).min().unwrap_or_default();
    let mut sets = vec![DriveSet::EMPTY];
    let mut begin = 0;
    for _ in 0..most {
        let end = sets.len();
        for index in begin..end {
            let set = sets[index];
            // Ascending, so that every set comes once.
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
    // Without drives removed it was read already, but for what was stopped in order just now.
    if sets.len() > 1 && many == Sets::AFTER_A_CRASH {
        sets.remove(0);
    }
    if sets.len() > many.all {
        let most = many.some;
        let mut rng = Rng::new(scene.setup.seed, "removed", &scene.machine.life.get().to_string());
        let largest = sets.iter().map(|set| set.count()).max();
        rng.shuffle(&mut sets);
        // Half of them from among the largest: they leave least to choose from.
        sets.sort_by_key(|set| Some(set.count()) != largest);
        let middle = sets.iter().filter(|set| Some(set.count()) == largest).count();
        let from_largest = (most / 2).max(most.saturating_sub(sets.len() - middle)).min(middle);
        let rest = sets.split_off(middle);
        sets.truncate(from_largest);
        sets.extend(rest.into_iter().take(most - from_largest));
    }
    sets
}
