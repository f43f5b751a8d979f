//! `softroc bench run`: measures targets, stores each row, and prints the results.

use super::kept;
use super::surroundings::Machine;
use super::{environment, workloads};
use crate::cli::{BenchRun, Files};
use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::progress::Live;
use crate::{machine, output};
use array::ArrayTarget;
use platform::Env;
use results::{NewRun, RunId, RunState, Store};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use storagebench::{
    Ending, Environment, Ladder, Method, Observer, Precondition, Profile, Progress, Results, Row,
    Settings, SteadyRule, Target,
};
use units::{ByteCount, counted};

/// The length of a round in the SNIA test.
const SNIA_ROUND: Duration = Duration::from_secs(60);

/// The number of polls until the last host of a volume has disconnected, and their interval.
const LOOKS_AT_HOSTS: u32 = 20;
const LOOK_AT_HOSTS: Duration = Duration::from_millis(50);

/// Runs the command.
pub fn measure(run: &BenchRun, control: &Control, state: &Path) -> Outcome {
    let mut settings = settings(run)?;
    once_each(run)?;
    run.files.check(&run.targets, Some(&settings.profiles))?;
    all_there(run)?;
    let targets = run
        .targets
        .iter()
        .map(|target| resolve(target, control, run.beside_hosts))
        .collect::<Outcome<Vec<(String, String)>>>()?;
    let made = match run.create {
        Some(size) => create_missing(&run.targets, size)?,
        None => Vec::new(),
    };
    if let (Some(size), false, Precondition::None) =
        (run.create, made.is_empty(), settings.precondition)
    {
        // The disk answers reads of reserved, unwritten space without I/O.
        settings.precondition = Precondition::Written(size);
    }
    let environment = environment::describe(&targets, control);
    let started_unix_s = machine::unix_time();
    let new = NewRun { name: run.name.clone(), host: machine::host(), started_unix_s };
    let measurement = Measurement {
        settings,
        targets,
        at_once: if run.together { AtOnce::All } else { AtOnce::One },
        environment,
        cancel: cancel_on_interrupt()?,
        keep: (!run.no_save).then(|| RunStorage { state: state.to_owned(), new }),
        command: Some(command_line(std::env::args_os())),
        seen: None,
    };
    let Finished { results, ending, kept } = measurement.run().inspect_err(|_| remove(&made))?;
    let files = match ending {
        Ending::Complete => run.files.clone(),
        // Keep the files of an earlier complete run instead of overwriting them with partial
        // results.
        Ending::Cancelled(_) | Ending::Failed(_) => run.files.beside_what_is_there(),
    };
    files.write(&results, started_unix_s, None)?;
    if !files.take_stdout() {
        deliver(&files, &results, &ending, kept)?;
    }
    match ending {
        Ending::Complete => Ok(()),
        Ending::Cancelled(sentence) => Err(Failure::stopped(sentence)),
        Ending::Failed(sentence) => Err(Failure::failed(sentence)),
    }
}

/// The command line, quoted for a shell.
fn command_line(arguments: impl Iterator<Item = std::ffi::OsString>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:%@^".contains(c);
    let word = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy().into_owned();
        match !text.is_empty() && text.chars().all(plain) {
            true => text,
            false => format!("'{}'", text.replace('\'', "'\\''")),
        }
    };
    let words = std::iter::once("softroc".to_owned()).chain(arguments.skip(1).map(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Prints the results and their location.
fn deliver(files: &Files, results: &Results, ending: &Ending, kept: Option<String>) -> Outcome {
    let mut shown = results.without_detail();
    if std::io::stdout().is_terminal() {
        // The sentence follows on standard error: a terminal would show it twice.
        shown.notes.retain(|note| Some(note.as_str()) != ending.sentence());
    }
    let mut text = super::files::text(&shown);
    let report = files.html.iter().map(|path| format!("Report: {}", path.display()));
    for (at, line) in report.chain(kept).enumerate() {
        text.push_str(if at == 0 { "\n\n" } else { "\n" });
        text.push_str(&line);
    }
    output::print(&text)
}

/// Refuses a duplicate target: its rows would be ambiguous. Measured together, a duplicate memory
/// target is two targets.
fn once_each(run: &BenchRun) -> Outcome {
    let twice =
        run.targets.iter().enumerate().find(|(at, target)| run.targets[..*at].contains(target));
    match twice {
        Some((_, target)) if !run.together => Err(Failure::usage(format!(
            "the target '{target}' is given twice, and its rows would be ambiguous; give it once, \
             or run twice and compare the runs"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a path that does not exist, unless `--create` creates a file there.
fn all_there(run: &BenchRun) -> Outcome {
    let is_path = |target: &&String| !target.is_empty() && !target.contains(':');
    let missing = run.targets.iter().filter(is_path).find(|target| !Path::new(target).exists());
    match missing {
        Some(path) if run.create.is_none() => Err(Failure::not_found(format!(
            "there is no file or device {path}; give another target, or create a test file with \
             --create and a size such as 8G"
        ))),
        _ => Ok(()),
    }
}

pub(super) fn settings(run: &BenchRun) -> Outcome<Settings> {
    let catalog = workloads::catalog(&run.workload_file)?;
    let mut profiles = workloads::select(&catalog, &run.profile)?;
    // Explicit numbers of outstanding I/Os replace those of the profile.
    let outstanding = match &run.outstanding {
        None => Ladder::default(),
        Some(ladder) => {
            profiles = profiles.into_iter().map(Profile::on_any_ladder).collect();
            ladder.parse()?
        }
    };
    // Explicit times do so too.
    if run.runtime.is_some() {
        profiles = profiles.into_iter().map(Profile::for_any_time).collect();
    }
    if run.ramp.is_some() {
        profiles = profiles.into_iter().map(Profile::after_any_ramp).collect();
    }
    let default = Settings::default();
    let steady_state = match (run.steady_state, run.precondition) {
        (Some(round), _) => Some(SteadyRule::snia(round)),
        // The second step of SNIA preconditioning: each workload until it is steady.
        (None, Precondition::TwiceTheArea) => Some(SteadyRule::snia(SNIA_ROUND)),
        (None, _) => None,
    };
    Ok(Settings {
        profiles,
        outstanding,
        runtime: run.runtime.unwrap_or(default.runtime),
        ramp: run.ramp.unwrap_or(default.ramp),
        confidence_percent: run
            .confidence
            .map_or(default.confidence_percent, |confidence| confidence.0),
        max_runtime: run.max_runtime,
        extend_own_runtimes: run.confidence.is_some() || run.max_runtime.is_some(),
        precondition: run.precondition,
        steady_state,
        workers: run.workers,
        area: run.area,
        verify: run.verify,
        seed: run.seed,
        destroy_data: run.destroy_data,
        ..default
    })
}

/// Creates test files for missing targets, and returns their paths.
fn create_missing(targets: &[String], size: ByteCount) -> Outcome<Vec<String>> {
    if size == ByteCount::ZERO {
        return Err(Failure::usage("a test file needs a size above 0, such as --create 8G"));
    }
    for target in targets.iter().filter(|target| !target.contains(':')) {
        if let Ok(there) = std::fs::metadata(target)
            && there.is_file()
            && there.len() != size.0
        {
            return Err(Failure::refused(format!(
                "{target} exists already and has {}, not the {size} of --create; omit --create, \
                 or remove the file",
                ByteCount(there.len())
            )));
        }
    }
    let is_missing =
        |target: &&String| !target.contains(':') && !std::path::Path::new(target).exists();
    let missing: Vec<String> = targets.iter().filter(is_missing).cloned().collect();
    let is_device = |path: &&String| path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
    if let Some(device) = missing.iter().find(is_device) {
        return Err(Failure::not_found(format!(
            "there is no device {device}, and test files are not created in /dev; give an \
             existing device or a file elsewhere"
        )));
    }
    let shard = platform_linux::Shard::new(&platform_linux::Settings::with_memory(ByteCount::MIB))?;
    let env = shard.env().clone();
    shard.run(async move {
        let mut made = Vec::new();
        for path in missing {
            if let Err(error) = env.world().create_drive(&path, size).await {
                remove(&made);
                return Err(error.into());
            }
            made.push(path);
        }
        Outcome::Ok(made)
    })
}

/// Removes the test files of a measurement that did not start.
fn remove(made: &[String]) {
    for path in made {
        if let Err(error) = std::fs::remove_file(path) {
            output::say(&format!("softroc: cannot remove the test file {path}: {error}"));
        }
    }
}

/// The name of a target in the results, and its address.
pub(super) fn resolve(
    target: &str,
    control: &Control,
    beside_hosts: bool,
) -> Outcome<(String, String)> {
    let Some(name) = target.strip_prefix("volume:") else {
        return Ok((target.to_owned(), target.to_owned()));
    };
    if !beside_hosts {
        unused(name, control)?;
    }
    Ok((target.to_owned(), control.volume_address(name)?))
}

/// Refuses a volume with hosts. Waits for one that is just disconnecting.
fn unused(name: &str, control: &Control) -> Outcome {
    let mut looks = 0;
    loop {
        let hosts = control.volume_info(name)?.hosts;
        let Some(first) = hosts.first() else { return Ok(()) };
        if looks == LOOKS_AT_HOSTS {
            let others = match hosts.len() - 1 {
                0 => String::new(),
                others => format!(" and {}", counted(others, "other host")),
            };
            let sentence = format!(
                "'{name}' is used by {}{others}, whose I/O would distort the measurement; \
                 disconnect them first, or measure anyway: run 'softroc bench volume:{name} \
                 --beside-hosts'",
                first.host
            );
            return Err(controller::Error::new(controller::ErrorKind::InUse, sentence).into());
        }
        looks += 1;
        std::thread::sleep(LOOK_AT_HOSTS);
    }
}

/// How many targets are measured at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtOnce {
    /// One after the other.
    One,
    /// All together.
    All,
}

/// Where a measurement is stored, and its description.
struct RunStorage {
    state: PathBuf,
    new: NewRun,
}

impl RunStorage {
    fn begin(self, method: &Method, environment: &Environment) -> Outcome<StoredRun> {
        let store = kept::open(&self.state)?;
        let id = store.begin(&self.new, method, environment)?;
        Ok(StoredRun { store, id, path: self.state.join(kept::DATABASE) })
    }
}

/// A measurement in the database.
struct StoredRun {
    store: Store,
    id: RunId,
    path: PathBuf,
}

impl StoredRun {
    /// Completes the run in the database, and returns its location. A run without rows is removed.
    fn end(&self, results: &Results, ending: &Ending) -> Outcome<Option<String>> {
        if results.rows.is_empty() {
            self.store.delete(self.id)?;
            return Ok(None);
        }
        let state = match ending {
            Ending::Complete => RunState::Complete,
            Ending::Cancelled(_) => RunState::Stopped,
            Ending::Failed(_) => RunState::Failed,
        };
        self.store.finish(self.id, state, &results.notes, machine::unix_time())?;
        Ok(Some(format!(
            "Stored as run {} in {} (softroc bench show {}).",
            self.id,
            self.path.display(),
            self.id
        )))
    }
}

/// A finished measurement.
pub struct Finished {
    /// The results.
    pub results: Results,
    /// The reason of its end.
    pub ending: Ending,
    /// Where it is stored, in a sentence.
    pub kept: Option<String>,
}

/// Creates the observer of a measurement from the settings and the number of targets.
pub type MakesObserver = Box<dyn FnOnce(&Settings, usize) -> Rc<dyn Observer>>;

/// Shows a measurement, and stores its rows.
struct RowRecorder {
    seen: Rc<dyn Observer>,
    keeping: Option<Rc<StoredRun>>,
}

impl Observer for RowRecorder {
    fn progress(&self, progress: &Progress<'_>) {
        self.seen.progress(progress);
    }

    fn preconditioned(&self, took: Duration) {
        self.seen.preconditioned(took);
    }

    fn point_took(&self, took: Duration) {
        self.seen.point_took(took);
    }

    fn row(&self, row: &Row) {
        self.seen.row(row);
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
    keep: Option<RunStorage>,
    /// The complete command line, if there is one.
    command: Option<String>,
    /// The observer in a process with other duties; `None`: a process that only measures, with a
    /// view on standard error.
    seen: Option<MakesObserver>,
}

impl Measurement {
    /// A measurement without storage.
    pub fn new(
        settings: Settings,
        targets: Vec<(String, String)>,
        at_once: AtOnce,
        environment: Environment,
        cancel: Arc<AtomicBool>,
    ) -> Measurement {
        Measurement {
            settings,
            targets,
            at_once,
            environment,
            cancel,
            keep: None,
            command: None,
            seen: None,
        }
    }

    /// Stores it in that folder, with that command line.
    pub(super) fn kept_in(mut self, state: &Path, command: String) -> Measurement {
        let new = NewRun {
            name: String::new(),
            host: machine::host(),
            started_unix_s: machine::unix_time(),
        };
        self.keep = Some(RunStorage { state: state.to_owned(), new });
        self.command = Some(command);
        self
    }

    /// Sets an observer, for a process with other duties.
    pub(super) fn seen_by(mut self, seen: MakesObserver) -> Measurement {
        self.seen = Some(seen);
        self
    }

    /// Measures every target, until one fails or a stop is requested.
    ///
    /// # Errors
    /// If it does not start: nothing was written or stored.
    pub fn run(self) -> Outcome<Finished> {
        // Every outstanding I/O has a buffer each way; an array needs as much again.
        let need = |profile: &Profile| {
            let rungs = profile.rungs(&self.settings.outstanding);
            let outstanding =
                u64::from(rungs.into_iter().max().unwrap_or(1)) * self.targets.len() as u64;
            platform::BufferPool::block_size(profile.largest_block()) * (4 * outstanding)
        };
        let most = self.settings.profiles.iter().map(need).max().unwrap_or(ByteCount::ZERO);
        let memory = most + ByteCount::GIB;
        let shard = platform_linux::Shard::new(&platform_linux::Settings::with_memory(memory))?;
        let env = shard.env().clone();
        shard.run(async move { self.run_on(&env).await })
    }

    async fn run_on(self, env: &Env) -> Outcome<Finished> {
        let Measurement {
            mut settings,
            targets: names,
            at_once,
            environment,
            cancel,
            keep,
            command,
            seen,
        } = self;
        // Chosen here, so that the results contain it.
        settings.seed = Some(settings.seed.unwrap_or_else(|| env.random()));
        let method = Method { command, ..Method::of(&settings) };
        let bench = storagebench::Bench::new(settings.clone());
        // Open all targets first: an error of the last one is reported at once.
        let mut targets = Vec::new();
        for (name, address) in &names {
            let target = open(env, name, address).await?;
            bench.check(env, &target).await?;
            targets.push(target);
        }
        let keeping = keep.map(|keep| keep.begin(&method, &environment)).transpose()?.map(Rc::new);
        let rounds = if at_once == AtOnce::All { 1 } else { targets.len() };
        let machine =
            if seen.is_some() { Machine::beside_others(&names) } else { Machine::new(&names) };
        let seen: Rc<dyn Observer> = match seen {
            Some(seen) => seen(&settings, rounds),
            None => Rc::new(Live::new(&settings, rounds)),
        };
        let bench = bench
            .observed_by(Rc::new(RowRecorder { seen, keeping: keeping.clone() }))
            .surrounded_by(Rc::new(machine))
            .cancelled_by(cancel);
        let mut results = Results::new(method, environment);
        let ending = match at_once {
            AtOnce::All => measure_part(&bench, env, &targets, &mut results).await,
            AtOnce::One => one_by_one(&bench, env, targets, &mut results).await,
        };
        if let (Err(_), Some(keeping)) = (&ending, &keeping) {
            keeping.store.delete(keeping.id)?;
        }
        let ending = ending?;
        let kept = keeping.map(|keeping| keeping.end(&results, &ending)).transpose()?.flatten();
        Ok(Finished { results, ending, kept })
    }
}

/// Measures targets one after the other. A target that cannot start ends the measurement; earlier
/// results stay.
async fn one_by_one(
    bench: &storagebench::Bench,
    env: &Env,
    targets: Vec<Target>,
    results: &mut Results,
) -> Outcome<Ending> {
    for target in targets {
        let ending = match measure_part(bench, env, std::slice::from_ref(&target), results).await {
            Err(error) if !results.rows.is_empty() => {
                let sentence = format!("'{}' was not measured: {error}", target.name());
                results.notes.push(sentence.clone());
                Ending::Failed(sentence)
            }
            outcome => outcome?,
        };
        if ending != Ending::Complete {
            return Ok(ending);
        }
    }
    Ok(Ending::Complete)
}

/// Measures targets at the same time.
async fn measure_part(
    bench: &storagebench::Bench,
    env: &Env,
    targets: &[Target],
    results: &mut Results,
) -> Outcome<Ending> {
    let measured = bench.run_together(env, targets).await?;
    let ending = measured.ending.clone();
    results.add(measured);
    Ok(ending)
}

async fn open(env: &Env, name: &str, address: &str) -> Outcome<Target> {
    Ok(match address.strip_prefix("array:") {
        Some(array) => Target::attached(name, ArrayTarget::parse(array)?.make(env).await?),
        None => Target::new(name, drives::open(env, address).await?),
    })
}

/// Ctrl-C ends a measurement with partial results; a second one ends the process.
pub fn cancel_on_interrupt() -> Outcome<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    crate::signals::set_on_interrupt(&cancel)?;
    Ok(cancel)
}
