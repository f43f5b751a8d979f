//! `softroc bench run`: measures targets, keeps the rows as they come, and delivers what came out.

use super::files;
use super::kept;
use super::surroundings::Machine;
use super::{environment, workloads};
use crate::array_target::ArrayTarget;
use crate::cli::BenchRun;
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::progress::Live;
use crate::{machine, output};
use env::Env;
use results::{NewRun, RunId, RunState, Store};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use storagebench::{
    Ending, Environment, Ladder, Method, Observer, Precondition, Profile, Progress, Results, Row, Settings,
    SteadyRule, Target,
};
use units::ByteCount;

/// The length of a round in the SNIA test.
const SNIA_ROUND: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn measure(run: &BenchRun, control: &Control, state: &Path) -> Outcome {
    let mut settings = settings(run)?;
    if let Some(size) = run.create
        && create_missing(&run.targets, size)?
        && settings.precondition == Precondition::None
    {
        // Reserved space that was never written is read without asking the disk.
        settings.precondition = Precondition::Written(size);
    }
    let targets = run
        .targets
        .iter()
        .map(|target| resolve(target, control))
        .collect::<Outcome<Vec<(String, String)>>>()?;
    let environment = environment::describe(&targets, control);
    let started_unix_s = machine::unix_time();
    let keeping = match run.no_save {
        true => None,
        false => {
            let new = NewRun { name: run.name.clone(), host: machine::host(), started_unix_s };
            let store = kept::open(state)?;
            let id = store.begin(&new, &Method::of(&settings), &environment)?;
            Some(Rc::new(Keeping { store, id }))
        }
    };
    let cancel = cancel_on_interrupt()?;
    let at_once = if run.together { AtOnce::All } else { AtOnce::One };
    let measurement =
        Measurement { settings, targets, at_once, environment, cancel, keeping: keeping.clone() };
    let outcome = measurement.run();
    if let Some(keeping) = keeping {
        keeping.end(&outcome)?;
    }
    let (results, ending) = outcome?;
    run.files.write(&results, started_unix_s, None)?;
    if !run.files.take_stdout() {
        output::print(&files::text(&results))?;
        if let Some(path) = &run.files.html {
            output::print(&format!("\nReport: {}", path.display()))?;
        }
    }
    match ending {
        Ending::Complete => Ok(()),
        Ending::Cancelled(sentence) => Err(Failure::stopped(sentence)),
        Ending::Failed(sentence) => Err(Failure::failed(sentence)),
    }
}

fn settings(run: &BenchRun) -> Outcome<Settings> {
    let catalog = workloads::catalog(&run.workload_file)?;
    let mut profiles = workloads::select(&catalog, &run.profile)?;
    // Numbers of outstanding I/Os that are asked for take the place of a profile's own.
    let outstanding = match &run.outstanding {
        None => Ladder::default(),
        Some(ladder) => {
            profiles = profiles.into_iter().map(Profile::on_any_ladder).collect();
            ladder.parse()?
        }
    };
    let steady_state = match (run.steady_state, run.precondition) {
        (Some(round), _) => Some(SteadyRule::snia(round)),
        // The second step of its preconditioning: each workload until it is steady.
        (None, Precondition::TwiceTheArea) => Some(SteadyRule::snia(SNIA_ROUND)),
        (None, _) => None,
    };
    Ok(Settings {
        profiles,
        outstanding,
        runtime: run.runtime,
        ramp: run.ramp,
        confidence_percent: run.confidence.0,
        max_runtime: run.max_runtime,
        precondition: run.precondition,
        steady_state,
        workers: run.workers,
        area: run.area,
        verify: run.verify,
        seed: run.seed,
        destroy_data: run.destroy_data,
        ..Settings::default()
    })
}

/// Makes test files for those targets that do not exist. Says whether there was one.
fn create_missing(targets: &[String], size: ByteCount) -> Outcome<bool> {
    let is_missing = |target: &&String| !target.contains(':') && !std::path::Path::new(target).exists();
    let missing: Vec<String> = targets.iter().filter(is_missing).cloned().collect();
    let is_device = |path: &&String| path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
    if let Some(device) = missing.iter().find(is_device) {
        return Err(Failure::refused(format!(
            "there is no device {device}, and no test file is made in its place; name a file elsewhere or a device that exists"
        )));
    }
    let any = !missing.is_empty();
    let shard = world_real::Shard::new(&world_real::Settings::with_memory(ByteCount::MIB))?;
    let env = shard.env().clone();
    shard.run(async move {
        for path in missing {
            env.world().create_drive(&path, size).await?;
        }
        Outcome::Ok(any)
    })
}

/// What a target is called in the results, and how it is opened.
fn resolve(target: &str, control: &Control) -> Outcome<(String, String)> {
    match target.strip_prefix("volume:") {
        None => Ok((target.to_owned(), target.to_owned())),
        Some(name) => Ok((target.to_owned(), control.volume_address(name)?)),
    }
}

/// How many targets are measured at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtOnce {
    /// One after the other.
    One,
    /// All together.
    All,
}

/// Where the rows are kept while they come.
struct Keeping {
    store: Store,
    id: RunId,
}

impl Keeping {
    /// Ends the run in the database. One that never began to measure is forgotten.
    fn end(&self, outcome: &Outcome<(Results, Ending)>) -> Outcome {
        let Ok((results, ending)) = outcome else { return Ok(self.store.delete(self.id)?) };
        if results.rows.is_empty() {
            return Ok(self.store.delete(self.id)?);
        }
        let state = match ending {
            Ending::Complete => RunState::Complete,
            Ending::Cancelled(_) => RunState::Stopped,
            Ending::Failed(_) => RunState::Failed,
        };
        Ok(self.store.finish(self.id, state, &results.notes, machine::unix_time())?)
    }
}

/// Shows a measurement, and keeps its rows.
struct Watch {
    live: Live,
    keeping: Option<Rc<Keeping>>,
}

impl Observer for Watch {
    fn progress(&self, progress: &Progress<'_>) {
        self.live.progress(progress);
    }

    fn row(&self, row: &Row) {
        self.live.row(row);
        if let Some(keeping) = &self.keeping {
            keeping.store.add_row(keeping.id, row);
        }
    }
}

/// Targets to measure, on a shard of this thread.
pub struct Measurement {
    settings: Settings,
    /// Names and addresses.
    targets: Vec<(String, String)>,
    at_once: AtOnce,
    environment: Environment,
    cancel: Arc<AtomicBool>,
    keeping: Option<Rc<Keeping>>,
}

impl Measurement {
    /// One that is kept nowhere.
    pub fn new(
        settings: Settings,
        targets: Vec<(String, String)>,
        at_once: AtOnce,
        environment: Environment,
        cancel: Arc<AtomicBool>,
    ) -> Measurement {
        Measurement { settings, targets, at_once, environment, cancel, keeping: None }
    }

    /// Measures every target, until one fails or somebody stops it.
    pub fn run(self) -> Outcome<(Results, Ending)> {
        // Every outstanding I/O has a buffer each way; an array needs as much again to work with.
        let need = |profile: &Profile| {
            let rungs = profile.rungs(&self.settings.outstanding);
            let outstanding = u64::from(rungs.into_iter().max().unwrap_or(1)) * self.targets.len() as u64;
            env::BufferPool::block_size(profile.largest_block()) * (4 * outstanding)
        };
        let most = self.settings.profiles.iter().map(need).max().unwrap_or(ByteCount::ZERO);
        let memory = most + ByteCount::GIB;
        let shard = world_real::Shard::new(&world_real::Settings::with_memory(memory))?;
        let env = shard.env().clone();
        shard.run(async move { self.run_on(&env).await })
    }

    async fn run_on(self, env: &Env) -> Outcome<(Results, Ending)> {
        let mut results = Results::new(Method::of(&self.settings), self.environment);
        let shown = if self.at_once == AtOnce::All { 1 } else { self.targets.len() };
        let live = Live::new(&self.settings, shown);
        let bench = storagebench::Bench::new(self.settings.clone())
            .observed_by(Rc::new(Watch { live, keeping: self.keeping }))
            .surrounded_by(Rc::new(Machine::new(&self.targets)))
            .cancelled_by(self.cancel)
            .guarding(&[controller::drive_mark()]);
        let mut together = Vec::new();
        for (name, address) in &self.targets {
            let target = open(env, name, address).await?;
            if self.at_once == AtOnce::All {
                together.push(target);
                continue;
            }
            let measured = bench.run(env, &target).await?;
            let ending = measured.ending.clone();
            results.add(measured);
            if ending != Ending::Complete {
                return Ok((results, ending));
            }
        }
        if together.is_empty() {
            return Ok((results, Ending::Complete));
        }
        let measured = bench.run_together(env, &together).await?;
        let ending = measured.ending.clone();
        results.add(measured);
        Ok((results, ending))
    }
}

async fn open(env: &Env, name: &str, address: &str) -> Outcome<Target> {
    Ok(match address.strip_prefix("array:") {
        Some(array) => Target::attached(name, ArrayTarget::parse(array)?.make(env).await?),
        None => Target::new(name, drives::open(env, address).await?),
    })
}

/// Ctrl-C ends a measurement with what was measured so far; a second one ends the process.
pub fn cancel_on_interrupt() -> Outcome<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    crate::signals::set_on_interrupt(&cancel)?;
    Ok(cancel)
}
