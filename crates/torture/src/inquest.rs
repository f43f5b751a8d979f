//! Copies of the drives, looked at after every crash: another simulation starts over them, so that what happens there
//! changes nothing here.
//!
//! The whole volume is read, before and after redundancy agrees again; a check must find nothing. Then the same is
//! read without drives: without every set of drives that the level survives where those are few, otherwise without some
//! of them; in the end without all. Redundancy that agrees with itself may still be that of other data.

use crate::error::{Error, ErrorKind, Result};
use crate::life::{self, Outcome, Plan};
use crate::run::{Run, envs, simulation, trace};
use crate::scene::Scene;
use crate::script::Fate;
use std::rc::Rc;
use units::DriveSet;
use world_sim::{DriveImage, DriveOptions, KeptImage, Latency, Rng, Sim, SimDrive};

/// How many sets of drives are removed, one after the other: all there are, if there are no more than `all`, otherwise
/// `some` of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sets {
    all: usize,
    some: usize,
}

impl Sets {
    /// After each crash.
    const AFTER_A_CRASH: Sets = Sets { all: 6, some: 4 };

    /// When all is well in the end.
    const IN_THE_END: Sets = Sets { all: 24, some: 24 };

    /// After drives changed what they held.
    pub const AFTER_SILENCE: Sets = Sets { all: 6, some: 6 };
}

/// A drive, by its first name, and what it holds.
pub(crate) type Copies = Vec<(String, DriveImage)>;

impl Run {
    /// After a crash: what would become of the volume.
    pub(crate) fn inquest(&mut self, fate: Fate) -> Result<()> {
        if !self.scene.created.get() || self.scene.setup.without.inquests {
            return Ok(());
        }
        self.scene.count(|tally| tally.inquests += 1);
        self.scene.tell(|| "copies of the drives are looked at".to_owned());
        self.scene.story.of_copies.set(true);
        let result = self.look_at_copies(fate);
        self.scene.story.of_copies.set(false);
        result.map_err(|error| Error { context: format!("after the crash: {}", error.context), ..error })
    }

    fn look_at_copies(&mut self, _fate: Fate) -> Result<()> {
        let (copies, kept) = (self.copies(), self.sim.kept_image());
        if self.scene.setup.has_journal() && self.scene.covered.get() {
            self.lose_drives_in_the_crash(&copies, &kept)?;
        }
        let (mut sim, scene) = self.copy(&copies);
        sim.restore_kept(&kept);
        let plan = Plan {
            given: copies.iter().map(|(name, _)| name.clone()).collect(),
            look_first: true,
            wait_for_resync: true,
            check: true,
            shut_down: true,
            ..Plan::default()
        };
        let envs = envs(&sim, &scene.setup);
        let outcome = sim.run(life::live(scene.clone(), envs, plan));
        let outcome = self.buried(&scene, &sim, outcome)?;
        if outcome == Outcome::Done && scene.synced.get() {
            let copies = copies_of(&scene);
            drop(sim);
            self.without_some(&scene, &copies, Sets::AFTER_A_CRASH)?;
        }
        scene.let_go();
        Ok(())
    }

    /// With a journal drives may be lost together with the crash: no operator is asked for a word, no request fails, and
    /// every sector is what it may be.
    fn lose_drives_in_the_crash(&mut self, copies: &Copies, kept: &KeptImage) -> Result<()> {
        let bad = self.scene.faults.borrow().bad().union(&self.scene.out.get());
        for removed in self.sets(&bad, Sets::AFTER_A_CRASH) {
            let list: Vec<String> = removed.iter().map(|drive| drive.0.to_string()).collect();
            let list = list.join(" ");
            self.scene.tell(|| format!("drives [{list}] are lost with the crash"));
            self.scene.count(|tally| tally.removals += 1);
            let left = self.left(copies, &removed);
            let (mut sim, scene) = self.copy(&left);
            sim.restore_kept(kept);
            let life_now = scene.life.get();
            removed.iter().for_each(|slot| scene.faults.borrow_mut().lost(slot, life_now));
            scene.note_losses();
            let given = left.into_iter().map(|(name, _)| name).collect();
            let plan =
                Plan { given, look_first: true, wait_for_resync: true, shut_down: true, ..Plan::default() };
            let life = life::live(scene.clone(), envs(&sim, &scene.setup), plan);
            let result = sim.run(life);
            let result = self.buried(&scene, &sim, result);
            scene.let_go();
            result.map_err(|error| {
                Error::new(error.kind, format!("drives [{list}] lost with it: {}", error.context))
            })?;
        }
        Ok(())
    }

    /// What is left of the drives when those of some slots are gone.
    fn left(&self, copies: &Copies, gone: &DriveSet) -> Copies {
        let names = self.scene.names.borrow();
        let is_left = |name: &String| {
            let slot = names.iter().position(|of_slot| of_slot == name);
            slot.is_none_or(|slot| !gone.contains(units::DriveIndex(slot as u16)))
        };
        copies.iter().filter(|(name, _)| is_left(name)).cloned().collect()
    }

    /// In the end: without all sets of drives.
    pub(crate) fn last_inquest(&mut self) -> Result<()> {
        let copies = self.copies();
        let scene = self.scene.clone();
        self.scene.story.of_copies.set(true);
        let result = self.without_some(&scene, &copies, Sets::IN_THE_END);
        self.scene.story.of_copies.set(false);
        result
    }

    /// The drives that are there.
    pub(crate) fn copies(&self) -> Copies {
        copies_of(&self.scene)
    }

    /// Another simulation over copies of the drives, and what is known of them.
    fn copy(&self, copies: &Copies) -> (Sim, Rc<Scene>) {
        let setup = &self.scene.setup;
        self.copies.set(self.copies.get() + 1);
        let mut sim = simulation(setup, self.copies.get());
        let mut known = Vec::new();
        for (name, image) in copies {
            let nature = setup.options_of(name).unwrap_or(&setup.drives[0]).clone();
            let options = DriveOptions { latency: Latency::range_us(1, 2), ..nature };
            known.push((name.clone(), sim.add_drive_with(name, options, image)));
        }
        let scene = Rc::new(self.scene.copy(sim.handle(), known));
        trace(&scene, &mut sim);
        (sim, scene)
    }

    /// Takes the result of a life over copies, and lets go of what it left behind.
    fn buried<T>(
        &mut self,
        scene: &Rc<Scene>,
        sim: &Sim,
        result: std::result::Result<Result<T>, world_sim::Stall>,
    ) -> Result<T> {
        scene.bury();
        self.hash_of_copies = self.hash_of_copies.rotate_left(7) ^ sim.hash();
        self.scene.count(|tally| tally.events += sim.events());
        match result {
            Ok(result) => result,
            Err(stall) => Err(Error::new(ErrorKind::Stall, stall.to_string())),
        }
    }

    /// After everything was stopped in order, and redundancy agreed: reads the volume without sets of drives that it can
    /// spare.
    pub(crate) fn without_some(&mut self, scene: &Rc<Scene>, copies: &Copies, many: Sets) -> Result<()> {
        let out = scene.out.get();
        let names = scene.names.borrow().clone();
        for removed in self.sets(&out, many) {
            let list: Vec<String> = removed.iter().map(|drive| drive.0.to_string()).collect();
            let list = list.join(" ");
            self.scene.tell(|| format!("it is read without drives [{list}]"));
            self.scene.count(|tally| tally.removals += 1);
            let gone = removed.union(&out);
            let left: Copies = copies
                .iter()
                .filter(|(name, _)| {
                    let slot = names.iter().position(|of_slot| of_slot == name);
                    slot.is_none_or(|slot| !gone.contains(units::DriveIndex(slot as u16)))
                })
                .cloned()
                .collect();
            let (mut sim, copy) = self.copy(&left);
            *copy.oracle.borrow_mut() = scene.oracle.borrow().clone();
            copy.adopt(scene);
            copy.out.set(gone);
            let given = left.into_iter().map(|(name, _)| name).collect();
            let reading = life::without_some(copy.clone(), envs(&sim, &copy.setup), given);
            let result = sim.run(reading);
            let result = self.buried(&copy, &sim, result);
            copy.let_go();
            result.map_err(|error| {
                Error::new(error.kind, format!("without drives [{list}]: {}", error.context))
            })?;
        }
        Ok(())
    }

    /// Sets of drives that can be spared besides those that are out; of many, some of the largest and some others.
    fn sets(&self, out: &DriveSet, many: Sets) -> Vec<DriveSet> {
        let geometry = &self.scene.setup.geometry;
        let most_drives = geometry.survives().at_most.0;
        let mut sets = vec![DriveSet::EMPTY];
        let mut begin = 0;
        for _ in 0..most_drives {
            let end = sets.len();
            for index in begin..end {
                let set = sets[index];
                // Ascending, so that every set comes once.
                let next = set.iter().last().map_or(0, |drive| drive.0 + 1);
                for drive in geometry.drives().indexes().skip(usize::from(next)) {
                    let larger = set.with(drive);
                    if !out.contains(drive) && geometry.survives_set(&larger.union(out)) {
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
            let instance = format!("{}", self.scene.life.get());
            let mut rng = Rng::new(self.scene.setup.seed, "removed", &instance);
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
}

/// The drives that are there, and what they hold.
fn copies_of(scene: &Scene) -> Copies {
    let known = scene.known.borrow();
    let there = known.iter().filter(|(_, drive)| drive.is_present());
    there.map(|(name, drive): &(String, SimDrive)| (name.clone(), drive.snapshot())).collect()
}
