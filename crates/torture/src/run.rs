//! A run: the lives of one volume, one after the other, each but the last cut off somewhere.
//!
//! Safety first: whatever happens, sectors hold what they may. Then liveness: faults stop, what can be repaired is,
//! and everything must come to its end and be well. After every crash, and last, copies of the drives are looked at
//! ([`crate::inquest`]). In the end drives change what they hold and tell nobody ([`crate::silent`]),
//! and the volume is deleted while drives hang ([`crate::giving_up`]).

use crate::error::{Error, ErrorKind, Result};
use crate::faults;
use crate::life::{self, Outcome, Plan};
use crate::log_devices;
use crate::options::{Lie, Options};
use crate::scene::Scene;
use crate::script::{Cut, Fate, Script};
use crate::setup::{MigrationsSetup, Place, Setup};
use crate::state_files;
use crate::story::Story;
use crate::tally::{Deed, Tally};
use layout::Level;
use platform::Env;
use platform_sim::{Rng, Sim, SimDrive, SimOptions, Stall, StallKind};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// Where the controller remembers its drives.
pub(crate) const REMEMBERED_DRIVES: &str = "drives.toml";

/// More virtual time than this in one run is taken for a controller that does not come to an end.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// More events than this without a line of the story are taken for a run that does not end: some seconds of a processor. Moving the largest
/// volumes takes a tenth.
const EVENTS_WITHOUT_PROGRESS: u64 = 4_000_000;

/// What a run came to, and the hash of everything that happened in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The level of its volume.
    pub level: Level,
    /// The sum of it.
    pub tally: Tally,
    /// The sum of what was done to the volumes beside it.
    pub neighbours: Tally,
    /// Of every event, in order: a function of the seed.
    pub hash: u64,
}

/// Runs `seed` once. `aloud`: tells the story while it happens, down to every drive operation.
///
/// # Errors
/// The first broken promise, with the story before it.
pub fn run(seed: u64, options: &Options, aloud: bool) -> Result<Report> {
    run_as(seed, options, &Rc::new(Story::new(aloud)))
}

/// Runs `seed` once; what happens is told as that story.
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
    /// The hashes of the simulations in which copies were looked at.
    pub hash_of_copies: u64,
    /// How many of those there were.
    pub copies: Cell<u64>,
}

/// A simulated machine for a setup's controller. `number`: 0 of the first; every other one of a run needs its own, or it
/// would draw the same identities for drives again.
pub(crate) fn simulation(setup: &Setup, number: u64) -> Sim {
    Sim::new(SimOptions {
        shards: usize::from(setup.shards),
        memory: setup.memory,
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
        let of_own = setup.beside.iter().filter(|other| other.place == Place::OwnDrives);
        for setup in std::iter::once(&setup).chain(of_own).filter(|setup| !setup.drives_are_made) {
            for (name, drive) in setup.names().iter().zip(&setup.drives) {
                let made = sim.add_drive(name, drive.clone());
                if let Some(larger) = &setup.larger {
                    made.set_length(ByteCount(drive.size.0 - larger.by.0));
                }
            }
        }
        let name_of_replacements = setup.names_of_replacements();
        let replacements = name_of_replacements.into_iter().zip(&setup.replacements).map(|(name, drive)| {
            let drive = sim.add_drive(&name, drive.clone());
            (name, drive)
        });
        let replacements: Vec<(String, SimDrive)> = replacements.collect();
        let added = setup.migrations.as_ref().map(MigrationsSetup::names).unwrap_or_default();
        let added: Vec<(String, SimDrive)> =
            added.into_iter().map(|name| (name.clone(), sim.add_drive(&name, setup.added_drive()))).collect();
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
            other.tell(|| format!("beside it {}", other.setup.describe()));
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

    /// Looks for the drives: those that the controller makes come to be in its first life.
    fn find_drives(&self) {
        for scene in self.scene.arrays() {
            self.find_drives_of(&scene);
        }
    }

    fn find_drives_of(&self, scene: &Scene) {
        if !scene.array.drives.borrow().is_empty() {
            return;
        }
        // In that life another drive may have taken a slot already; the one before it is there all the same.
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

    /// One life, with faults, to its end or to where it is cut off.
    fn live(&mut self, life: u64) -> Result<()> {
        self.scene.machine.life.set(life);
        self.find_drives();
        self.scene.tell(|| format!("life {life} begins"));
        let Script { plan, cut, fate, mut rng } = Script::draw(&self.scene.setup, life);
        let plan = Plan { given: self.given(&mut rng), ..plan };
        for scene in self.scene.arrays().iter().filter(|scene| !scene.array.drives.borrow().is_empty()) {
            faults::plan(scene);
        }
        log_devices::plan(&self.scene);
        let stop = match cut {
            Cut::AtEvent(event) => Some(self.sim.events() + event),
            // Nobody waits for ever: a life that does not come to that request is cut off as well.
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

    /// What is done between lives to drives that only neighbours have.
    fn repair_beside(&self, all: bool) {
        for scene in self.scene.arrays().iter().skip(1) {
            let life = scene.machine.life.get();
            let mut rng = Rng::new(scene.setup.seed, "repair", &life.to_string());
            let all = all || rng.chance(1, 3);
            faults::repair(scene, &mut rng, all);
        }
    }

    /// The drives to name to the controller. It may have to find them by itself, or under other names, also under one
    /// another's.
    fn given(&mut self, rng: &mut Rng) -> Vec<String> {
        if !self.scene.is_there() {
            return Vec::new();
        }
        let way = rng.below(4);
        // How large a drive was is remembered by its name: an operator who gives it another one while it becomes larger has to tell.
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

    /// A name for each drive that may be the volume's: the one under which it is found now.
    pub(crate) fn paths(&self) -> Vec<String> {
        let machine = &self.scene.machine;
        let mut paths: Vec<String> =
            self.scene.all_names().into_iter().map(|name| machine.path_of(name)).collect();
        // Where a drive died another one may be found: that is named once.
        paths.sort();
        paths.dedup();
        paths
    }

    /// Every drive is plugged in elsewhere: what was one's name becomes another one's.
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
        self.scene.did(Deed::PathsExchanged);
        self.scene.tell(|| {
            let list: Vec<String> = paths.iter().map(|(path, name)| format!("{path} is {name}")).collect();
            format!("the drives are plugged in elsewhere: {}", list.join(", "))
        });
    }

    /// Where a drive died, another one may be found from now on.
    fn swap_dead(&mut self, rng: &mut Rng) {
        let scene = &self.scene;
        for slot in scene.array.faults.borrow().dead().iter() {
            if !rng.chance(1, 3) {
                continue;
            }
            let Some((name, drive)) = scene.machine.replacements.borrow_mut().pop() else { return };
            let dead = scene.array.names.borrow()[slot.as_usize()].clone();
            let mut paths = scene.machine.paths.borrow_mut();
            let path =
                paths.iter().find(|(_, of)| **of == dead).map_or(dead.clone(), |(path, _)| path.clone());
            self.sim.alias_drive(&drive, &path);
            paths.insert(path.clone(), name.clone());
            scene.machine.known.borrow_mut().push((name.clone(), drive));
            scene.did(Deed::Swapped);
            scene.tell(|| format!("{dead}, which is dead, is pulled out; {name} is plugged in as {path}"));
        }
    }

    /// Whether the controller remembers every drive by a name under which it is found now.
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

    fn crash(&mut self, fate: Fate) {
        let events = self.sim.events();
        // What nobody read any more before the crash went astray all the same.
        crate::silent::note_strays(&self.scene);
        for scene in self.scene.volumes() {
            scene.array.faults.borrow_mut().crash(scene.machine.life.get());
            scene.crash(fate);
        }
        match fate {
            Fate::Kill => {
                self.sim.kill();
                self.scene.did(Deed::Kill);
                self.scene.tell(|| format!("the process is killed, at event {events}"));
            }
            Fate::PowerCut => {
                self.sim.power_cut();
                self.scene.did(Deed::PowerCut);
                self.scene.tell(|| format!("the power is cut, at event {events}"));
            }
        }
    }

    /// The last life: nothing goes wrong any more, and everything must get well.
    fn last_life(&mut self) -> Result<()> {
        let setup = &self.scene.setup;
        self.find_drives();
        let mut rng = Rng::new(setup.seed, "last life", "");
        faults::repair(&self.scene, &mut rng, true);
        log_devices::repair(&self.scene, true);
        self.repair_beside(true);
        self.scene.machine.life.set(setup.lives);
        self.scene.tell(|| "the last life begins: nothing goes wrong any more".to_owned());
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
            _ => Error::wrong_state("the volume is offline although every drive that can be there is"),
        }
    }
}

/// Tells every operation of a simulation's drives, if the story is told aloud.
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
