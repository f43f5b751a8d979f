//! A run: the lives of one volume, one after the other, each but the last cut off somewhere.
//!
//! Safety first: whatever happens, sectors hold what they may. Then liveness: faults stop, what can be repaired is,
//! and everything must come to its end and be well. Last, the volume is read without each drive that the level
//! can spare: redundancy that agrees with itself may still be that of other data.

use crate::error::{Error, ErrorKind, Result};
use crate::faults;
use crate::life::{self, Outcome, Plan};
use crate::scene::{Scene, Tally};
use crate::setup::{Lie, Options, Setup};
use env::Env;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use units::DriveSet;
use world_sim::{DriveImage, Latency, Rng, Sim, SimDrive, SimOptions, Stall, StallKind};

/// Where the controller remembers its drives.
const REMEMBERED_DRIVES: &str = "drives.toml";

/// More virtual time than this in one run is taken for a controller that does not come to an end.
const TIME_LIMIT: Duration = Duration::from_secs(12 * 3600);

/// What a run came to, and the hash of everything that happened in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The sum of it.
    pub tally: Tally,
    /// Of every event, in order: a function of the seed.
    pub hash: u64,
}

/// Runs `seed` once. `aloud`: tells the story while it happens, down to every drive operation.
///
/// # Errors
/// The first broken promise, with the story before it.
pub fn run(seed: u64, options: &Options, aloud: bool) -> Result<Report> {
    let setup = Setup::draw(seed, options);
    let mut run = Run::new(setup, aloud);
    let result = run.all();
    let report = run.report();
    result.map(|()| report).map_err(|error| Error { story: run.scene.story(), ..error })
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// By itself, after so many events at the most.
    Kill,
    PowerCut,
}

struct Run {
    sim: Sim,
    scene: Rc<Scene>,
    rng: Rng,
}

fn simulation(setup: &Setup) -> Sim {
    Sim::new(SimOptions {
        shards: usize::from(setup.shards),
        memory: setup.memory,
        file_drives: setup.drives[0].clone(),
        time_limit: TIME_LIMIT,
        ..SimOptions::seeded(setup.seed)
    })
}

fn envs(sim: &Sim, setup: &Setup) -> Vec<Env> {
    (0..usize::from(setup.shards)).map(|shard| sim.shard(shard)).collect()
}

impl Run {
    fn new(setup: Setup, aloud: bool) -> Run {
        let mut sim = simulation(&setup);
        if !setup.drives_are_made {
            for (name, drive) in setup.names().iter().zip(&setup.drives) {
                sim.add_drive(name, drive.clone());
            }
        }
        let name_of_replacements = setup.names_of_replacements();
        let replacements = name_of_replacements.into_iter().zip(&setup.replacements).map(|(name, drive)| {
            let drive = sim.add_drive(&name, drive.clone());
            (name, drive)
        });
        let replacements: Vec<(String, SimDrive)> = replacements.collect();
        if aloud {
            sim.trace_to(|record| println!("    {record}"));
        }
        let rng = Rng::new(setup.seed, "run", "");
        let scene = Rc::new(Scene::new(setup, sim.handle(), aloud));
        *scene.replacements.borrow_mut() = replacements;
        scene.tell(|| format!("seed {}: {}", scene.setup.seed, scene.setup.describe()));
        Run { sim, scene, rng }
    }

    fn report(&self) -> Report {
        self.scene.count(|tally| tally.events = self.sim.events());
        Report { tally: self.scene.tally.get(), hash: self.sim.hash() }
    }

    /// Looks for the drives: those that the controller makes come to be in its first life.
    fn find_drives(&self) {
        let names = self.scene.names.borrow().clone();
        let drives: Vec<SimDrive> = names.iter().filter_map(|name| self.sim.drive(name)).collect();
        if drives.len() == names.len() {
            match self.scene.setup.lie {
                Lie::IgnoresFlush => drives[0].ignore_flush(true),
                Lie::IgnoresDurable => drives[0].ignore_durable(true),
                Lie::None => {}
            }
            let mut known = self.scene.known.borrow_mut();
            for (name, drive) in names.into_iter().zip(&drives) {
                if !known.iter().any(|(other, _)| *other == name) {
                    known.push((name, drive.clone()));
                }
            }
            *self.scene.drives.borrow_mut() = drives;
        }
    }

    fn all(&mut self) -> Result<()> {
        let lives = self.scene.setup.lives;
        for life in 0..lives {
            self.scene.life.set(life);
            self.scene.tell(|| format!("life {life} begins"));
            self.live(life)?;
        }
        self.last_life()?;
        self.without_some()
    }

    /// One life, with faults, to its end or to where it is cut off.
    fn live(&mut self, life: u64) -> Result<()> {
        let ops = self.scene.setup.ops / (self.scene.setup.lives + 1);
        let plan = Plan {
            given: self.given(),
            look_first: self.rng.chance(2, 3),
            wait_for_resync: self.rng.chance(1, 3),
            bring_back: self.rng.chance(1, 2),
            replace: self.rng.chance(1, 2),
            replace_serving: self
                .rng
                .chance(1, 8)
                .then(|| self.rng.below(self.scene.setup.drives.len() as u64) as u16),
            ops: self.rng.between(ops / 4, ops * 3 / 2),
            shut_down: self.rng.chance(1, 2),
            is_last: false,
        };
        self.find_drives();
        if !self.scene.drives.borrow().is_empty() {
            let mut rng = Rng::new(self.scene.setup.seed, "faults", &life.to_string());
            faults::plan(&self.scene, &mut rng);
        }
        // Some lives end while they begin, some while they work; a few come to their own end.
        let events = match self.rng.below(8) {
            0 | 1 => Some(self.rng.between(1, 600)),
            2 => Some(1 << self.rng.below(16)),
            3..=5 => Some(self.rng.between(600, 600 + plan.ops * 40)),
            _ => None,
        };
        self.sim.stop_at_event(events.map(|events| self.sim.events() + events));
        let fate = if self.rng.chance(1, 2) { Fate::PowerCut } else { Fate::Kill };
        let life = life::live(self.scene.clone(), envs(&self.sim, &self.scene.setup), plan);
        let outcome = self.finish(life)?;
        self.sim.stop_at_event(None);
        self.crash(fate);
        let all = outcome == Some(Outcome::NeedsDrives);
        faults::repair(&self.scene, &mut self.rng, all);
        self.scene.bury();
        self.sim.restart_process();
        Ok(())
    }

    /// The drives to name to the controller. It may have to find them by itself, or under other names.
    fn given(&mut self) -> Vec<String> {
        if !self.scene.created.get() {
            return Vec::new();
        }
        let mut names = self.scene.all_names();
        match self.rng.below(3) {
            0 if self.remembers_all(&names) => Vec::new(),
            0 | 1 => {
                self.rng.shuffle(&mut names);
                names
            }
            _ => {
                self.sim.put_stored(REMEMBERED_DRIVES, None);
                self.rng.shuffle(&mut names);
                let life = self.scene.life.get();
                for name in &mut names {
                    let Some(drive) = self.sim.drive(name) else { continue };
                    *name = format!("{name}-path{life}");
                    self.sim.alias_drive(&drive, name);
                }
                names
            }
        }
    }

    /// Whether the controller remembers every drive, under its first name or another.
    fn remembers_all(&self, names: &[String]) -> bool {
        let text = self.sim.stored(REMEMBERED_DRIVES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        names
            .iter()
            .all(|name| text.contains(&format!("\"{name}\"")) || text.contains(&format!("\"{name}-path")))
    }

    /// Runs until the life has ended; `None` if it was cut off.
    fn finish<T: 'static>(&mut self, life: impl Future<Output = Result<T>> + 'static) -> Result<Option<T>> {
        match self.sim.run(life) {
            Ok(result) => result.map(Some),
            Err(Stall { kind: StallKind::Stopped, .. }) => Ok(None),
            Err(stall) => Err(Error::new(ErrorKind::Stall, stall.to_string())),
        }
    }

    fn crash(&mut self, fate: Fate) {
        let events = self.sim.events();
        let mut oracle = self.scene.oracle.borrow_mut();
        match fate {
            Fate::Kill => {
                self.sim.kill();
                oracle.kill();
                self.scene.count(|tally| tally.kills += 1);
                self.scene.tell(|| format!("the process is killed, at event {events}"));
            }
            Fate::PowerCut => {
                self.sim.power_cut();
                oracle.power_cut();
                self.scene.power_cut();
                self.scene.count(|tally| tally.power_cuts += 1);
                self.scene.tell(|| format!("the power is cut, at event {events}"));
            }
        }
    }

    /// The last life: nothing goes wrong any more, and everything must get well.
    fn last_life(&mut self) -> Result<()> {
        self.find_drives();
        faults::repair(&self.scene, &mut self.rng, true);
        let setup = &self.scene.setup;
        self.scene.life.set(setup.lives);
        self.scene.tell(|| "the last life begins: nothing goes wrong any more".to_owned());
        let plan = Plan {
            given: self.scene.all_names(),
            look_first: true,
            wait_for_resync: true,
            bring_back: true,
            replace: true,
            replace_serving: None,
            ops: setup.ops / (setup.lives + 1),
            shut_down: true,
            is_last: true,
        };
        let life = life::live(self.scene.clone(), envs(&self.sim, setup), plan);
        match self.finish(life)? {
            Some(Outcome::Done) => Ok(()),
            _ => Error::wrong_state("the volume is offline although every drive that can be there is"),
        }
    }

    /// Reads the volume without each drive, or each set of drives, that the level can spare.
    fn without_some(&mut self) -> Result<()> {
        let setup = self.scene.setup.clone();
        let (survives, out) = (setup.survives(), self.scene.out.get());
        let spare = survives.saturating_sub(out.count().0);
        self.find_drives();
        let images: Vec<DriveImage> = self.scene.drives.borrow().iter().map(SimDrive::snapshot).collect();
        if images.len() < setup.drives.len() {
            return Error::wrong_state("drives were never made");
        }
        for removed in subsets(&setup, spare).into_iter().filter(|set| set.intersection(&out).is_empty()) {
            let list: Vec<String> = removed.iter().map(|drive| drive.0.to_string()).collect();
            self.scene.tell(|| format!("it is read without drives [{}]", list.join(" ")));
            self.scene.count(|tally| tally.removals += 1);
            let mut copy = simulation(&setup);
            let mut given = Vec::new();
            for (drive, image) in setup.geometry.drives().indexes().zip(&images) {
                if removed.contains(drive) || out.contains(drive) {
                    continue;
                }
                let name = self.scene.names.borrow()[drive.as_usize()].clone();
                let nature = setup.options_of(&name).unwrap_or(&setup.drives[0]).clone();
                let options = world_sim::DriveOptions { latency: Latency::range_us(1, 2), ..nature };
                copy.add_drive_with(&name, options, image);
                given.push(name);
            }
            let reading = life::without_some(self.scene.clone(), envs(&copy, &setup), given);
            self.scene.bury();
            match copy.run(reading) {
                Ok(result) => result.map_err(|error| {
                    Error::new(error.kind, format!("without drives [{}]: {}", list.join(" "), error.context))
                })?,
                Err(stall) => return Err(Error::new(ErrorKind::Stall, stall.to_string())),
            }
            drop(copy);
            self.scene.bury();
        }
        Ok(())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.sim.kill();
        self.scene.bury();
        self.scene.drives.take();
        self.scene.replacements.take();
        self.scene.known.take();
    }
}

/// Nothing, and all sets of at most `most` drives.
fn subsets(setup: &Setup, most: u16) -> Vec<DriveSet> {
    let mut sets = vec![DriveSet::EMPTY];
    for _ in 0..most {
        let larger: Vec<DriveSet> = sets
            .iter()
            .flat_map(|set| setup.geometry.drives().indexes().map(|drive| set.with(drive)))
            .collect();
        sets.extend(larger);
    }
    let mut distinct: Vec<DriveSet> = Vec::new();
    for set in sets {
        if !distinct.contains(&set) {
            distinct.push(set);
        }
    }
    distinct
}
