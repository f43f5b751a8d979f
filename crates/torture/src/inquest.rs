//! Post-crash checks on copies of the drives, in a separate simulation without effect on the run.
//!
//! The whole volume is read before and after the resync; a check must find nothing. Then it is read
//! without drives: without every set that the level survives if these are few, else without some of
//! them; at the end without all of these sets. Redundancy may be consistent and still belong to
//! wrong data.
//! of them; in the end without all. Redundancy that agrees with itself may still be that of other
//! data.

use crate::error::{Error, ErrorKind, Result};
use crate::life::{self, Outcome, Plan};
use crate::log_devices::REMEMBERED_LOG;
use crate::removed::{RemovalTime, Sets, removals};
use crate::run::{REMEMBERED_DRIVES, Run, envs, simulation, trace};
use crate::scene::Scene;
use crate::script::LifeEnd;
use platform_sim::{DriveImage, DriveOptions, KeptImage, Latency, Rng, Sim, SimDrive};
use std::rc::Rc;

/// The controller's record of arrays that were deleted while a drive was missing.
const REMEMBERED_DELETED: &str = "deleted-arrays.toml";

/// Drives by their first names, with their content.
pub(crate) type Copies = Vec<(String, DriveImage)>;

impl Run {
    /// Checks copies of the drives after a crash.
    pub(crate) fn inquest(&mut self, fate: LifeEnd) -> Result<()> {
        if !self.scene.is_there() || self.scene.setup.without.inquests {
            return Ok(());
        }
        self.scene.count(|tally| tally.inquests += 1);
        self.scene.tell(|| "checking copies of the drives".to_owned());
        self.scene.machine.story.of_copies.set(true);
        let result = self.look_at_copies(fate);
        self.scene.machine.story.of_copies.set(false);
        result.map_err(|error| Error {
            context: format!("after the crash: {}", error.context),
            ..error
        })
    }

    fn look_at_copies(&mut self, fate: LifeEnd) -> Result<()> {
        let (copies, kept) = (self.copies(), self.sim.kept_image());
        if self.scene.covered.get() {
            self.lose_drives_in_the_crash(&copies, &kept)?;
        }
        self.lose_log_devices_in_the_crash(&copies, &kept)?;
        if fate == LifeEnd::Kill {
            self.lose_memory_in_the_crash(&copies, &kept)?;
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

    /// The crash may destroy one of two log devices: no data is lost. It may destroy all: the
    /// volumes wait for them, and an operator discards the log.
    fn lose_log_devices_in_the_crash(&mut self, copies: &Copies, kept: &KeptImage) -> Result<()> {
        let (devices, life) = (self.log_devices_among(copies), self.scene.machine.life.get());
        let mut rng = Rng::new(self.scene.setup.seed, "log lost in the crash", &life.to_string());
        let is_on_two = self.scene.volumes().iter().any(|volume| volume.on_log.is_on_two());
        let mut sets: Vec<&[String]> = Vec::new();
        if is_on_two && let Some(one) = devices.chunks(1).nth(rng.below(2) as usize) {
            sets.push(one);
        }
        if !devices.is_empty() && rng.chance(1, 2) {
            sets.push(&devices);
        }
        for lost in sets {
            let list = lost.join(" ");
            self.scene.tell(|| format!("log devices [{list}] are lost in the crash"));
            self.scene.count(|tally| tally.removals += 1);
            let left: Copies =
                copies.iter().filter(|(name, _)| !lost.contains(name)).cloned().collect();
            let (mut sim, scene) = self.copy(&left);
            sim.restore_kept(kept);
            let given = left.into_iter().map(|(name, _)| name).collect();
            let (look_first, wait_for_resync, check, shut_down) = (true, true, true, true);
            let plan =
                Plan { given, look_first, wait_for_resync, check, shut_down, ..Plan::default() };
            let result = sim.run(life::live(scene.clone(), envs(&sim, &scene.setup), plan));
            let result = self.buried(&scene, &sim, result);
            scene.let_go();
            result.map_err(|error| {
                Error::new(
                    error.kind,
                    format!("log devices [{list}] lost in the crash: {}", error.context),
                )
            })?;
        }
        Ok(())
    }

    /// The crash also loses the cache's memory: volumes start as after a power cut, or wait for an
    /// operator who discards the cache. Data in the log survives.
    fn lose_memory_in_the_crash(&mut self, copies: &Copies, kept: &KeptImage) -> Result<()> {
        let life = self.scene.machine.life.get();
        let mut rng =
            Rng::new(self.scene.setup.seed, "memory lost in the crash", &life.to_string());
        if !self.scene.setup.has_cache() || rng.chance(1, 2) {
            return Ok(());
        }
        self.scene.tell(|| "the cache's memory is lost in the crash".to_owned());
        self.scene.count(|tally| tally.lost_memories += 1);
        let (mut sim, scene) = self.copy(copies);
        sim.restore_kept(&kept.without_memory());
        scene.machine.lost_memory.set(true);
        scene.volumes().iter().for_each(|volume| volume.crash(LifeEnd::PowerCut));
        let given = copies.iter().map(|(name, _)| name.clone()).collect();
        let (look_first, wait_for_resync, check, shut_down) = (true, true, true, true);
        let plan = Plan { given, look_first, wait_for_resync, check, shut_down, ..Plan::default() };
        let result = sim.run(life::live(scene.clone(), envs(&sim, &scene.setup), plan));
        let result = self.buried(&scene, &sim, result);
        scene.let_go();
        let lost = |error: Error| Error {
            context: format!("the cache's memory lost in the crash: {}", error.context),
            ..error
        };
        result.map(drop).map_err(lost)
    }

    /// The present devices of the active log.
    fn log_devices_among(&self, copies: &Copies) -> Vec<String> {
        let mut devices = self.scene.machine.log.devices();
        devices.retain(|name| copies.iter().any(|(copy, _)| copy == name));
        devices
    }

    /// The copies without one of two log devices (`turn` selects it), or with both: the rest has
    /// the records of all volumes.
    fn with_some_log(&self, copies: Copies, turn: usize) -> Copies {
        let devices = self.log_devices_among(&copies);
        let needs = |volume: &Rc<Scene>| volume.has_parity() && volume.is_there();
        let mut volumes = self.scene.volumes().into_iter().filter(needs);
        let lost =
            devices.get(turn % 3).filter(|_| volumes.all(|volume| volume.on_log.is_on_two()));
        let Some(lost) = lost else { return copies };
        self.scene.tell(|| format!("log device {lost} is lost as well"));
        copies.into_iter().filter(|(name, _)| name != lost).collect()
    }

    /// With a journal, drives may be lost in the crash: no consent is needed, no request fails, and
    /// every sector has an allowed value.
    fn lose_drives_in_the_crash(&mut self, copies: &Copies, kept: &KeptImage) -> Result<()> {
        let removals = removals(&self.scene, RemovalTime::InTheCrash, Sets::AFTER_A_CRASH);
        for (turn, removed) in removals.into_iter().enumerate() {
            let list = removed.to_string();
            self.scene.tell(|| format!("drives [{list}] are lost in the crash"));
            self.scene.count(|tally| tally.removals += 1);
            let left = self.with_some_log(removed.left(copies), turn);
            let (mut sim, scene) = self.copy(&left);
            sim.restore_kept(kept);
            let life_now = scene.machine.life.get();
            for (array, slots) in removed.tell(&scene) {
                slots.iter().for_each(|slot| array.faults.borrow_mut().lost(slot, life_now));
                array.note_losses();
            }
            let given = left.into_iter().map(|(name, _)| name).collect();
            let plan = Plan {
                given,
                look_first: true,
                wait_for_resync: true,
                shut_down: true,
                ..Plan::default()
            };
            let life = life::live(scene.clone(), envs(&sim, &scene.setup), plan);
            let result = sim.run(life);
            let result = self.buried(&scene, &sim, result);
            scene.let_go();
            result.map_err(|error| {
                Error::new(
                    error.kind,
                    format!("drives [{list}] lost in the crash: {}", error.context),
                )
            })?;
        }
        Ok(())
    }

    /// The final check: without all sets of drives.
    pub(crate) fn last_inquest(&mut self) -> Result<()> {
        let copies = self.copies();
        let scene = self.scene.clone();
        self.scene.machine.story.of_copies.set(true);
        let result = self.without_some(&scene, &copies, Sets::IN_THE_END);
        self.scene.machine.story.of_copies.set(false);
        result
    }

    /// The present drives.
    pub(crate) fn copies(&self) -> Copies {
        copies_of(&self.scene)
    }

    /// A simulation over copies of the drives, with the same knowledge.
    fn copy(&self, copies: &Copies) -> (Sim, Rc<Scene>) {
        let setup = &self.scene.setup;
        self.copies.set(self.copies.get() + 1);
        let mut sim = simulation(setup, self.copies.get());
        let mut known = Vec::new();
        for (name, image) in copies {
            let nature = setup.options_of(name).unwrap_or_else(|| setup.drives[0].clone());
            let options = DriveOptions { latency: Latency::range_us(1, 2), ..nature };
            known.push((name.clone(), sim.add_drive_with(name, options, image)));
        }
        let scene = self.scene.copy(sim.handle(), known);
        // Another machine has no record of the active log and of deleted arrays.
        let is_elsewhere = self.copies.get().is_multiple_of(2);
        scene.machine.log.is_elsewhere.set(is_elsewhere);
        if !is_elsewhere {
            for file in [REMEMBERED_LOG, REMEMBERED_DELETED] {
                self.copy_stored(&mut sim, file);
            }
        }
        if setup.larger.is_some() {
            // Without a record of the drives' sizes, an operator would have to enter them each
            // time.
            self.copy_stored(&mut sim, REMEMBERED_DRIVES);
        }
        trace(&scene, &mut sim);
        (sim, scene)
    }

    /// Copies a state file and its previous version, which counts when the file is damaged or
    /// missing.
    fn copy_stored(&self, sim: &mut Sim, file: &str) {
        for name in [file.to_owned(), format!("{file}.previous")] {
            sim.put_stored(&name, self.sim.stored(&name));
        }
    }

    /// Takes the result of a life over copies, and frees its objects.
    fn buried<T>(
        &mut self,
        scene: &Rc<Scene>,
        sim: &Sim,
        result: std::result::Result<Result<T>, platform_sim::Stall>,
    ) -> Result<T> {
        scene.machine.bury();
        self.hash_of_copies = self.hash_of_copies.rotate_left(7) ^ sim.hash();
        self.scene.count(|tally| tally.events += sim.events());
        match result {
            Ok(result) => result,
            Err(stall) => Err(Error::new(ErrorKind::Stall, stall.to_string())),
        }
    }

    /// Reads the volume without sets of drives that it survives, after an orderly stop and a
    /// complete resync.
    pub(crate) fn without_some(
        &mut self,
        scene: &Rc<Scene>,
        copies: &Copies,
        many: Sets,
    ) -> Result<()> {
        for (turn, removed) in removals(scene, RemovalTime::Stopped, many).into_iter().enumerate() {
            let list = removed.to_string();
            self.scene.tell(|| format!("reading without drives [{list}]"));
            self.scene.count(|tally| tally.removals += 1);
            let mut left = removed.left(copies);
            if turn % 2 == 1 {
                // After an orderly stop no volume needs a log.
                let devices = self.log_devices_among(copies);
                left.retain(|(name, _)| !devices.contains(name));
            }
            let (mut sim, copy) = self.copy(&left);
            copy.adopt(scene);
            for (array, slots) in removed.tell(&copy) {
                array.out.set(array.out.get().union(&slots));
            }
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
}

/// The present drives, with their content.
fn copies_of(scene: &Scene) -> Copies {
    let known = scene.machine.known.borrow();
    let smaller = scene.machine.taken_smaller.borrow();
    let is_there = |name: &String, drive: &SimDrive| {
        drive.is_present() || drive.can_be_opened() && smaller.contains(name)
    };
    let there = known.iter().filter(|(name, drive)| is_there(name, drive));
    there.map(|(name, drive): &(String, SimDrive)| (name.clone(), drive.snapshot())).collect()
}
