//! A run: the lives of one volume in sequence, each but the last cut off.
//!
//! Safety first: at any time, sectors have allowed values. Then liveness: faults end, repairs are
//! made, and everything must finish and recover. After every crash and at the end, copies of the
//! drives are checked ([`crate::inquest`]). At the end, drives are corrupted silently
//! ([`crate::silent`]), and the volume is deleted while drives hang ([`crate::giving_up`]).

use crate::error::{Error, ErrorKind, Result};
use crate::faults;
use crate::life::{self, Outcome, Plan};
use crate::log_devices;
use crate::options::{Lie, Options};
use crate::scene::Scene;
use crate::script::{Cut, LifeEnd, Script};
use crate::setup::{MigrationsSetup, Setup, VolumeRole};
use crate::state_files;
use crate::story::Story;
use crate::tally::{Event, Tally};
use layout::Level;
use platform::Env;
use platform_sim::{Rng, Sim, SimDrive, SimOptions, Stall, StallKind};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// The controller's record of its drives.
pub(crate) const REMEMBERED_DRIVES: &str = "drives.toml";

/// The limit of virtual time per run: more indicates a controller without progress.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The limit of events without a line of the story: some seconds of processor time. The reshape of
/// the largest volumes takes a tenth.
const EVENTS_WITHOUT_PROGRESS: u64 = 4_000_000;

/// The result of a run, and the hash of all its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The level of its volume.
    pub level: Level,
    /// The totals.
    pub tally: Tally,
    /// The totals of the neighbours.
    pub neighbours: Tally,
    /// Covers every event, in order: a function of the seed.
    pub hash: u64,
}

/// Runs `seed` once. `aloud`: prints the story at once, including every drive operation.
///
/// # Errors
/// The first violated invariant, with the story before it.
pub fn run(seed: u64, options: &Options, aloud: bool) -> Result<Report> {
    run_as(seed, options, &Rc::new(Story::new(aloud)))
}

/// Runs `seed` once, with that story.
pub(crate) fn run_as(seed: u64, options: &Options, story: &Rc<Story>) -> Result<Report> {
    let setup = Setup::draw(seed, options);
    let mut run = Run::new(setup, story.clone());
    let result = run.all();
    let report = run.report();
    result.map(|()| report).map_err(|error| Error { story: story.latest(), ..error })
}

pub(crate) struct Run {
    pub sim: Sim,
    pub scene: Rc<Scene>,
    /// The hashes of the simulations over copies.
    pub hash_of_copies: u64,
    /// The number of these simulations.
    pub copies: Cell<u64>,
}

/// A simulated machine for a setup's controller. `number`: 0 for the first; each further one of a
/// run needs its own, or drives would get the same identities again.
pub(crate) fn simulation(setup: &Setup, number: u64) -> Sim {
    Sim::new(SimOptions {
        shards: usize::from(setup.shards),
        memory: setup.memory,
        kept_space: setup.cache_space,
        file_drives: setup.drives[0].clone(),
        time_limit: TIME_LIMIT,
        events_without_progress: EVENTS_WITHOUT_PROGRESS,
        ..SimOptions::seeded(setup.seed ^ number.rotate_left(40))
    })
}

pub(crate) fn envs(sim: &Sim, setup: &Setup) -> Vec<Env> {
    (0..usize::from(setup.shards)).map(|shard| sim.shard(shard)).collect()
}

impl Run {
    fn new(setup: Setup, story: Rc<Story>) -> Run {
        let mut sim = simulation(&setup, 0);
        let of_own = setup.beside.iter().filter(|other| other.place == VolumeRole::OwnDrives);
        for setup in std::iter::once(&setup).chain(of_own).filter(|setup| !setup.drives_are_made) {
            for (name, drive) in setup.names().iter().zip(&setup.drives) {
                let made = sim.add_drive(name, drive.clone());
                if let Some(larger) = &setup.larger {
                    made.set_length(ByteCount(drive.size.0 - larger.by.0));
                }
            }
        }
        let name_of_replacements = setup.names_of_replacements();
        let replacements =
            name_of_replacements.into_iter().zip(&setup.replacements).map(|(name, drive)| {
                let drive = sim.add_drive(&name, drive.clone());
                (name, drive)
            });
        let replacements: Vec<(String, SimDrive)> = replacements.collect();
        let added = setup.migrations.as_ref().map(MigrationsSetup::names).unwrap_or_default();
        let added: Vec<(String, SimDrive)> = added
            .into_iter()
            .map(|name| (name.clone(), sim.add_drive(&name, setup.added_drive())))
            .collect();
        let of_log = setup.log.as_ref().map(|log| log.names().into_iter().zip(log.drives.clone()));
        let of_log: Vec<(String, SimDrive)> = of_log
            .into_iter()
            .flatten()
            .map(|(name, drive)| (name.clone(), sim.add_drive(&name, drive)))
            .collect();
        let scene = Scene::new(setup, sim.handle(), story);
        *scene.machine.known.borrow_mut() = of_log;
        *scene.machine.replacements.borrow_mut() = replacements;
        *scene.machine.additions.borrow_mut() = added;
        scene.tell(|| format!("seed {}: {}", scene.setup.seed, scene.setup.describe()));
        for other in &scene.beside {
            other.tell(|| format!("neighbour: {}", other.setup.describe()));
        }
        if let Some(log) = &scene.setup.log {
            scene.tell(|| log.describe());
        }
        if let Some(migrations) = &scene.setup.migrations {
            scene.tell(|| migrations.describe());
        }
        if let Some(larger) = &scene.setup.larger {
            scene.tell(|| larger.describe());
        }
        trace(&scene, &mut sim);
        Run { sim, scene, hash_of_copies: 0, copies: Cell::new(0) }
    }

    fn report(&self) -> Report {
        let scene = &self.scene;
        scene.count(|tally| tally.events += self.sim.events());
        scene.volumes().iter().for_each(|volume| volume.count(|tally| tally.volumes += 1));
        let hash = self.sim.hash() ^ self.hash_of_copies.rotate_left(1);
        let story = &scene.machine.story;
        Report {
            level: scene.setup.level,
            tally: story.tally(),
            neighbours: story.tally_of_neighbours(),
            hash,
        }
    }

    /// Records the drives: those that the controller creates appear in its first life.
    fn find_drives(&self) {
        for scene in self.scene.arrays() {
            self.find_drives_of(&scene);
        }
    }

    fn find_drives_of(&self, scene: &Scene) {
        if !scene.array.drives.borrow().is_empty() {
            return;
        }
        // In that life another drive may have taken a slot already; the replaced drive still
        // exists.
        let (first, now) = (scene.setup.names(), scene.array.names.borrow().clone());
        let all = |names: &[String]| -> Option<Vec<SimDrive>> {
            names.iter().map(|name| self.sim.drive(name)).collect()
        };
        let (Some(at_first), Some(drives)) = (all(&first), all(&now)) else { return };
        match scene.setup.lie {
            Lie::IgnoresFlush => drives[0].ignore_flush(true),
            Lie::IgnoresDurable => drives[0].ignore_durable(true),
            Lie::None => {}
        }
        let mut known = scene.machine.known.borrow_mut();
        for (name, drive) in first.into_iter().zip(at_first) {
            if known.iter().all(|(other, _)| *other != name) {
                known.push((name, drive));
            }
        }
        *scene.array.drives.borrow_mut() = drives;
    }

    fn all(&mut self) -> Result<()> {
        for life in 0..self.scene.setup.lives {
            if !self.scene.setup.without.lives.contains(&life) {
                self.live(life)?;
            }
        }
        self.last_life()?;
        self.last_inquest()?;
        self.silent_faults()?;
        self.give_up()
    }

    /// One life with faults, to its end or its cut.
    fn live(&mut self, life: u64) -> Result<()> {
        self.scene.machine.life.set(life);
        self.find_drives();
        self.scene.tell(|| format!("life {life} begins"));
        let Script { plan, cut, fate, mut rng } = Script::draw(&self.scene.setup, life);
        let plan = Plan { given: self.given(&mut rng), ..plan };
        for scene in
            self.scene.arrays().iter().filter(|scene| !scene.array.drives.borrow().is_empty())
        {
            faults::plan(scene);
        }
        log_devices::plan(&self.scene);
        let stop = match cut {
            Cut::AtEvent(event) => Some(self.sim.events() + event),
            // A time limit: a life that never reaches the request is cut off as well.
            Cut::AtRequest(..) | Cut::Never => None,
        };
        self.sim.stop_at_event(stop);
        let envs = envs(&self.sim, &self.scene.setup);
        let outcome = self.finish(life::live(self.scene.clone(), envs, plan))?;
        self.sim.stop_at_event(None);
        self.find_drives();
        self.crash(fate);
        self.inquest(fate)?;
        let all = outcome == Some(Outcome::NeedsDrives);
        faults::repair(&self.scene, &mut rng, all);
        log_devices::repair(&self.scene, all);
        self.repair_beside(all);
        self.scene.machine.bury();
        state_files::happen(&mut self.sim, &self.scene, life);
        self.sim.restart_process();
        Ok(())
    }

    /// The repairs between lives on drives of neighbours only.
    fn repair_beside(&self, all: bool) {
        for scene in self.scene.arrays().iter().skip(1) {
            let life = scene.machine.life.get();
            let mut rng = Rng::new(scene.setup.seed, "repair", &life.to_string());
            let all = all || rng.chance(1, 3);
            faults::repair(scene, &mut rng, all);
        }
    }

    /// The drives to name to the controller. Sometimes it must find them itself, or under other
    /// names, also exchanged ones.
    fn given(&mut self, rng: &mut Rng) -> Vec<String> {
        if !self.scene.is_there() {
            return Vec::new();
        }
        let way = rng.below(4);
        // The size of a drive is recorded by name: an operator who renames a larger drive would
        // have to enter it.
        let way = if self.scene.setup.larger.is_some() { way % 2 } else { way };
        if way >= 2 {
            self.exchange_paths(rng);
        }
        self.swap_dead(rng);
        let mut names = self.paths();
        rng.shuffle(&mut names);
        match way {
            0 | 2 if self.remembers_all(&names) => Vec::new(),
            3 => {
                self.sim.remove_stored(REMEMBERED_DRIVES);
                names
            }
            _ => names,
        }
    }

    /// The current path of each possible drive of the volume.
    pub(crate) fn paths(&self) -> Vec<String> {
        let machine = &self.scene.machine;
        let mut paths: Vec<String> =
            self.scene.all_names().into_iter().map(|name| machine.path_of(name)).collect();
        // A replacement may have the path of a dead drive: that path appears once.
        paths.sort();
        paths.dedup();
        paths
    }

    /// Reconnects every drive elsewhere: paths are exchanged.
    fn exchange_paths(&mut self, rng: &mut Rng) {
        let known = self.scene.machine.known.borrow();
        let mut places: Vec<usize> = (0..known.len()).collect();
        rng.shuffle(&mut places);
        let mut paths = self.scene.machine.paths.borrow_mut();
        paths.clear();
        for (place, (name, drive)) in places.into_iter().zip(known.iter()) {
            let path = format!("bay{place}");
            self.sim.alias_drive(drive, &path);
            paths.insert(path, name.clone());
        }
        self.scene.did(Event::PathsExchanged);
        self.scene.tell(|| {
            let list: Vec<String> =
                paths.iter().map(|(path, name)| format!("{path} is {name}")).collect();
            format!("the drives have other paths: {}", list.join(", "))
        });
    }

    /// A replacement may appear at the path of a dead drive. Not where a reshape leads to a layout
    /// without redundancy: that needs the dead drive, which is repaired and must be at its path.
    fn swap_dead(&mut self, rng: &mut Rng) {
        let scene = &self.scene;
        let is_needed = scene.setup.migrations.as_ref().is_some_and(|migrations| {
            migrations.ways.iter().any(|way| !way.geometry.level().is_redundant())
        });
        for slot in scene.array.faults.borrow().dead().iter() {
            if !rng.chance(1, 3) || is_needed {
                continue;
            }
            let Some((name, drive)) = scene.machine.replacements.borrow_mut().pop() else { return };
            let dead = scene.array.names.borrow()[slot.as_usize()].clone();
            let mut paths = scene.machine.paths.borrow_mut();
            let path = paths
                .iter()
                .find(|(_, of)| **of == dead)
                .map_or(dead.clone(), |(path, _)| path.clone());
            self.sim.alias_drive(&drive, &path);
            paths.insert(path.clone(), name.clone());
            scene.machine.known.borrow_mut().push((name.clone(), drive));
            scene.did(Event::Swapped);
            scene.tell(|| {
                format!("{dead}, which is dead, is pulled out; {name} is plugged in as {path}")
            });
        }
    }

    /// Whether the controller has a record of every drive's current path.
    fn remembers_all(&self, paths: &[String]) -> bool {
        let text = self.sim.stored(REMEMBERED_DRIVES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        paths.iter().all(|path| text.contains(&format!("\"{path}\"")))
    }

    /// Runs until the life has ended; `None` if it was cut off.
    pub(crate) fn finish<T: 'static>(
        &mut self,
        life: impl Future<Output = Result<T>> + 'static,
    ) -> Result<Option<T>> {
        match self.sim.run(life) {
            Ok(result) => result.map(Some),
            Err(Stall { kind: StallKind::Stopped, .. }) => Ok(None),
            Err(stall) => Err(Error::new(ErrorKind::Stall, stall.to_string())),
        }
    }

    fn crash(&mut self, fate: LifeEnd) {
        let events = self.sim.events();
        // Misdirected writes that were not read before the crash count as well.
        crate::silent::note_strays(&self.scene);
        for scene in self.scene.volumes() {
            scene.array.faults.borrow_mut().crash(scene.machine.life.get());
            scene.crash(fate);
        }
        match fate {
            LifeEnd::Kill => {
                self.sim.kill();
                self.scene.did(Event::Kill);
                self.scene.tell(|| format!("the process is killed, at event {events}"));
            }
            LifeEnd::PowerCut => {
                self.sim.power_cut();
                self.scene.did(Event::PowerCut);
                self.scene.tell(|| format!("the power is cut, at event {events}"));
            }
        }
    }

    /// The last life: no more faults, and everything must recover.
    fn last_life(&mut self) -> Result<()> {
        let setup = &self.scene.setup;
        self.find_drives();
        let mut rng = Rng::new(setup.seed, "last life", "");
        faults::repair(&self.scene, &mut rng, true);
        log_devices::repair(&self.scene, true);
        self.repair_beside(true);
        self.scene.machine.life.set(setup.lives);
        self.scene.tell(|| "the last life begins, without faults".to_owned());
        let sent = self.scene.machine.story.tally().ops;
        let plan = Plan {
            given: self.paths(),
            look_first: true,
            wait_for_resync: true,
            bring_back: true,
            replace: true,
            ops: (setup.ops / (setup.lives + 1)).max(setup.ops.saturating_sub(sent)),
            check: true,
            shut_down: true,
            is_last: true,
            ..Plan::default()
        };
        let life = life::live(self.scene.clone(), envs(&self.sim, setup), plan);
        let outcome = self.finish(life)?;
        self.find_drives();
        match outcome {
            Some(Outcome::Done) => Ok(()),
            _ => Error::wrong_state("the volume is offline although all of its drives are present"),
        }
    }
}

/// Traces every drive operation of a simulation, if the story is printed.
pub(crate) fn trace(scene: &Rc<Scene>, sim: &mut Sim) {
    if !scene.machine.story.is_aloud() {
        return;
    }
    let weak = Rc::downgrade(scene);
    sim.trace_to(move |record| {
        if let Some(scene) = weak.upgrade() {
            scene.machine.story.trace(&scene.volumes(), record);
        }
    });
}

impl Drop for Run {
    fn drop(&mut self) {
        self.sim.kill();
        self.scene.let_go();
    }
}
