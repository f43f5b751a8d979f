//! `softroc bench run`: measures targets, and delivers what came out.

use super::surroundings::Machine;
use super::{environment, workloads};
use crate::array_target::ArrayTarget;
use crate::cli::BenchRun;
use crate::failure::{Failure, Outcome};
use crate::progress::Bars;
use crate::{machine, output};
use env::Env;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use storagebench::{
    Environment, Ladder, Method, Precondition, Profile, Results, Settings, SteadyRule, Table, Target,
};
use units::ByteCount;

/// The length of a round in the SNIA test.
const SNIA_ROUND: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn measure(run: &BenchRun, control: &crate::control::Control) -> Outcome {
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
    let at_once = if run.together { AtOnce::All } else { AtOnce::One };
    let results = measure_targets(&settings, &targets, at_once, environment, cancel_on_interrupt()?)?;
    deliver(run, &results, false)
}

/// Writes the results where they were asked for, and the table to the terminal.
fn deliver(run: &BenchRun, results: &Results, indicative: bool) -> Outcome {
    let to_stdout = |path: &Option<std::path::PathBuf>| path.as_deref() == Some(std::path::Path::new("-"));
    if let Some(path) = &run.json {
        output::write_file(path, &results.to_json())?;
    }
    if let Some(path) = &run.csv {
        output::write_file(path, &results.to_csv())?;
    }
    if let Some(path) = &run.html {
        output::write_file(path, &report(results, indicative))?;
    }
    if !to_stdout(&run.json) && !to_stdout(&run.csv) && !to_stdout(&run.html) {
        output::print(&text(results))?;
        if let Some(path) = &run.html {
            output::print(&format!("\nReport: {}", path.display()))?;
        }
    }
    match results.rows.is_empty() {
        true => Err(Failure::failed(results.notes.join(" "))),
        false => Ok(()),
    }
}

/// The report's page.
pub fn report(results: &Results, indicative: bool) -> String {
    let options = storagebench::ReportOptions {
        indicative,
        date: Some(crate::render::date(machine::unix_time())),
        ..storagebench::ReportOptions::default()
    };
    storagebench::html_report(results, &options)
}

/// The table of all rows, and what there is to say about them.
pub fn text(results: &Results) -> String {
    let table = Table::of(results);
    let headers: Vec<&str> = table.headers.iter().map(String::as_str).collect();
    let mut text = output::table(&headers, &table.rows, &table.numeric);
    let sentences = storagebench::summary(results);
    if !sentences.is_empty() {
        text.push_str("\n\n");
        text.push_str(&sentences.join("\n"));
    }
    for note in &results.notes {
        text.push_str("\nNote: ");
        text.push_str(note);
    }
    text
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
        confidence_percent: run.confidence.0,
        max_runtime: run.max_runtime,
        precondition: run.precondition,
        steady_state,
        profiles,
        outstanding,
        runtime: run.runtime,
        ramp: run.ramp,
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
fn resolve(target: &str, control: &crate::control::Control) -> Outcome<(String, String)> {
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

/// Measures every target, on a shard of this thread.
pub fn measure_targets(
    settings: &Settings,
    targets: &[(String, String)],
    at_once: AtOnce,
    environment: Environment,
    cancel: Arc<AtomicBool>,
) -> Outcome<Results> {
    // Every outstanding I/O has a buffer each way; an array needs as much again to work with.
    let need = |profile: &Profile| {
        let rungs = profile.rungs(&settings.outstanding);
        let outstanding = u64::from(rungs.into_iter().max().unwrap_or(1)) * targets.len() as u64;
        env::BufferPool::block_size(profile.largest_block()) * (4 * outstanding)
    };
    let memory = settings.profiles.iter().map(need).max().unwrap_or(ByteCount::ZERO) + ByteCount::GIB;
    let shard = world_real::Shard::new(&world_real::Settings::with_memory(memory))?;
    let env = shard.env().clone();
    let (settings, targets) = (settings.clone(), targets.to_vec());
    shard.run(async move { measure_on(&env, settings, &targets, at_once, environment, cancel).await })
}

async fn measure_on(
    env: &Env,
    settings: Settings,
    targets: &[(String, String)],
    at_once: AtOnce,
    environment: Environment,
    cancel: Arc<AtomicBool>,
) -> Outcome<Results> {
    let mut results = Results::new(Method::of(&settings), environment);
    let bench = storagebench::Bench::new(settings.clone())
        .observed_by(Rc::new(Bars::new(&settings, if at_once == AtOnce::All { 1 } else { targets.len() })))
        .surrounded_by(Rc::new(Machine::new(targets)))
        .cancelled_by(cancel)
        .guarding(&[controller::drive_mark()]);
    let mut together = Vec::new();
    for (name, address) in targets {
        let target = open(env, name, address).await?;
        match at_once {
            AtOnce::One => results.add(bench.run(env, &target).await?),
            AtOnce::All => together.push(target),
        }
    }
    if at_once == AtOnce::All {
        results.add(bench.run_together(env, &together).await?);
    }
    Ok(results)
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
