//! Stored measurements: list, show, compare, export, merge, delete.

use super::files;
use crate::cli::{BenchCompare, BenchMerge, Files};
use crate::failure::{Failure, Outcome};
use crate::{machine, output, render};
use results::{NewRun, Run, RunId, RunState, Store};
use std::path::{Path, PathBuf};
use storagebench::{Comparisons, Results, side_by_side};
use units::counted;

/// The file in the state folder.
pub const DATABASE: &str = "results.db";

impl From<results::Error> for Failure {
    fn from(error: results::Error) -> Failure {
        Failure::failed(error)
    }
}

/// Opens the database for writing; creates it and its folder.
pub fn open(state: &Path) -> Outcome<Store> {
    std::fs::create_dir_all(state).map_err(|error| {
        Failure::refused(format!(
            "cannot create the folder {} for results: {error}; give another --state, or --no-save",
            state.display()
        ))
    })?;
    Ok(Store::open(&state.join(DATABASE))?)
}

/// Opens the existing database.
fn open_existing(state: &Path) -> Outcome<Store> {
    let path = state.join(DATABASE);
    if !path.exists() {
        return Err(Failure::not_found(format!(
            "no measurement is stored in {} yet; 'softroc bench run' stores one, and --state \
                selects another folder",
            state.display()
        )));
    }
    Ok(Store::open(&path)?)
}

/// A measurement from the command line.
struct NamedRun {
    /// Its name in comparisons.
    name: String,
    /// When it was measured, in seconds since 1970.
    when: u64,
    /// Its database entry, if it is stored.
    run: Option<Run>,
    results: Results,
}

/// Loads measurements: runs of the database, or results files.
fn load(state: &Path, texts: &[String]) -> Outcome<Vec<NamedRun>> {
    let mut store = None;
    let mut all: Vec<NamedRun> = Vec::new();
    for text in texts {
        let path = PathBuf::from(text);
        let is_file = text.ends_with(".json") || text.contains('/');
        let mut named = if is_file {
            from_file(&path)?
        } else {
            let store = match &mut store {
                Some(store) => store,
                none => none.insert(open_existing(state)?),
            };
            from_database(store, text)?
        };
        // Equal names: runs get their numbers, files a count.
        if all.iter().any(|other| other.name == named.name) {
            let number = named.run.as_ref().map_or(all.len() as i64 + 1, |run| run.id.0);
            named.name = format!("{} ({number})", named.name);
        }
        all.push(named);
    }
    Ok(all)
}

fn from_database(store: &Store, text: &str) -> Outcome<NamedRun> {
    let id = store.find(text).map_err(Failure::not_found)?;
    let (run, results) = store.load(id)?;
    Ok(NamedRun { name: called(&run), when: run.started_unix_s, run: Some(run), results })
}

fn from_file(path: &Path) -> Outcome<NamedRun> {
    let refused = |error: &dyn std::fmt::Display| {
        Failure::refused(format!(
            "{} is not a results file: {error}; expected a file of 'softroc bench --json-file'",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
    let results = Results::from_json(&text).map_err(|error| refused(&error))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(NamedRun { name, when: machine::unix_time(), run: None, results })
}

/// The name of a run, or its number without one.
fn called(run: &Run) -> String {
    if run.name.is_empty() { format!("run {}", run.id) } else { run.name.clone() }
}

/// `softroc bench list`.
pub fn list(state: &Path, json: bool) -> Outcome {
    let runs = match state.join(DATABASE).exists() {
        true => open_existing(state)?.list()?,
        false => Vec::new(),
    };
    if json {
        return output::json(&serde_json::json!({ "runs": runs }));
    }
    if runs.is_empty() {
        return output::print(&format!(
            "No measurement is stored in {} yet. Start one with 'softroc bench TARGET'.",
            state.display()
        ));
    }
    let row = |run: &Run| {
        vec![
            run.id.to_string(),
            run.name.clone(),
            render::date(run.started_unix_s),
            run.host.clone(),
            some(&run.targets),
            some(&run.profiles),
            run.rows.to_string(),
            run.state.name().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    let headers = ["run", "name", "date", "host", "targets", "profiles", "rows", "state"];
    output::print(&output::table(
        &headers,
        &rows,
        &[true, false, false, false, false, false, true, false],
    ))
}

/// The first few of many names.
fn some(names: &[String]) -> String {
    match names {
        [first, second, others @ ..] if others.len() > 1 => {
            format!("{first} {second} +{}", others.len())
        }
        all => all.join(" "),
    }
}

/// `softroc bench show`.
pub fn show(state: &Path, run: &str, json: bool) -> Outcome {
    let named = load_one(state, run)?;
    if json {
        return output::json_text(&named.results.without_detail().to_json());
    }
    let mut text = String::new();
    if let Some(run) = &named.run {
        let facts = [
            ("run", run.id.to_string()),
            ("name", run.name.clone()),
            ("host", run.host.clone()),
            ("began", render::date(run.started_unix_s)),
            ("ended", run.ended_unix_s.map_or_else(|| "-".to_owned(), render::date)),
            ("state", run.state.name().to_owned()),
        ];
        text = render::facts(&facts) + "\n\n";
    }
    let environment: Vec<(&str, String)> = named
        .results
        .environment
        .0
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    text += &format!("{}\n\n{}", render::facts(&environment), files::text(&named.results));
    output::print(&text)
}

fn load_one(state: &Path, text: &str) -> Outcome<NamedRun> {
    let mut all = load(state, std::slice::from_ref(&text.to_owned()))?;
    // Each text names one measurement.
    all.pop()
        .ok_or_else(|| Failure::usage("no measurement is given; 'softroc bench list' lists them"))
}

/// `softroc bench compare`.
pub fn compare(state: &Path, command: &BenchCompare) -> Outcome {
    let named = load(state, &command.runs)?;
    let comparisons = compared(&named);
    if comparisons.comparisons.is_empty() {
        return Err(Failure::usage(format!(
            "'{}' has only one target; give two measurements to compare",
            command.runs.join(" ")
        )));
    }
    if let Some(path) = &command.html {
        let files = Files { html: Some(path.clone()), ..Files::default() };
        write(&named, &files)?;
    }
    if command.output.json {
        return output::json(&comparisons);
    }
    if command.html.as_deref() == Some(Path::new("-")) {
        return Ok(());
    }
    output::print(&verdicts(&comparisons))
}

fn compared(named: &[NamedRun]) -> Comparisons {
    let runs: Vec<(String, &Results)> =
        named.iter().map(|named| (named.name.clone(), &named.results)).collect();
    storagebench::compare(&runs)
}

/// The verdicts as a table, followed by their conditions.
fn verdicts(comparisons: &Comparisons) -> String {
    let mut rows = Vec::new();
    for comparison in &comparisons.comparisons {
        for profile in &comparison.profiles {
            rows.push(vec![
                comparison.other.clone(),
                comparison.baseline.clone(),
                profile.profile.clone(),
                profile.iops.verdict.to_string(),
                profile.iops.text(),
                profile.latency_us_p99.verdict.to_string(),
                profile.latency_us_p99.text(),
            ]);
        }
    }
    let headers = ["side", "compared with", "profile", "rate", "change", "p99 latency", "change"];
    let mut text = output::table(&headers, &rows, &[false, false, false, false, true, false, true]);
    if rows.is_empty() {
        text = "They share no profile with the same number of outstanding I/Os.".to_owned();
    } else {
        text += &format!(
            "\n\nVerdicts and intervals hold with 95 % confidence over all {} figures together.",
            comparisons.figures
        );
    }
    for caution in &comparisons.cautions {
        text += &format!("\nNote: {caution}");
    }
    text
}

/// Writes files of one measurement, or of several side by side.
fn write(named: &[NamedRun], files: &Files) -> Outcome {
    let when = named.iter().map(|named| named.when).max().unwrap_or_else(machine::unix_time);
    let runs: Vec<(String, Results)> =
        named.iter().map(|named| (named.name.clone(), named.results.clone())).collect();
    let Some(all) = side_by_side(&runs) else {
        return Err(Failure::usage("no measurement is given; 'softroc bench list' lists them"));
    };
    let comparisons = Some(compared(named)).filter(|compared| !compared.comparisons.is_empty());
    files.write(&all, when, comparisons)
}

/// `softroc bench export`.
pub fn export(state: &Path, runs: &[String], files: &Files) -> Outcome {
    if !files.any() {
        return Err(Failure::usage(
            "no output is given; use --json, or --json-file, --csv, --iometer, --html, --svg or \
                --png with a file",
        ));
    }
    files.check(&[], None)?;
    write(&load(state, runs)?, files)
}

/// `softroc bench merge`.
pub fn merge(state: &Path, command: &BenchMerge) -> Outcome {
    let named = load(state, &command.runs)?;
    let parts: Vec<(String, Results)> =
        named.iter().map(|named| (named.name.clone(), named.results.clone())).collect();
    let merged = storagebench::merge(&parts).map_err(Failure::refused)?;
    let store = open(state)?;
    let new = NewRun {
        name: command.name.clone(),
        host: machine::host(),
        started_unix_s: named
            .iter()
            .map(|named| named.when)
            .min()
            .unwrap_or_else(machine::unix_time),
    };
    let id = keep(&store, &new, &merged)?;
    if command.output.json {
        return output::json_text(&merged.without_detail().to_json());
    }
    output::print(&format!("{}\n\nStored as run {id}, '{}'.", files::text(&merged), command.name))
}

/// Stores complete results.
fn keep(store: &Store, new: &NewRun, results: &Results) -> Outcome<RunId> {
    let id = store.begin(new, &results.method, &results.environment)?;
    results.rows.iter().for_each(|row| store.add_row(id, row));
    store.finish(id, RunState::Complete, &results.notes, machine::unix_time())?;
    Ok(id)
}

/// `softroc bench delete`.
pub fn delete(state: &Path, runs: &[String], yes: bool, json: bool) -> Outcome {
    let store = open_existing(state)?;
    let mut about = Vec::new();
    for run in runs {
        let id = store.find(run).map_err(Failure::not_found)?;
        let (run, _) = store.load(id)?;
        if !about.iter().any(|other: &Run| other.id == run.id) {
            about.push(run);
        }
    }
    let listed: Vec<String> = about
        .iter()
        .map(|run| format!("{} ({}, {})", run.id, called(run), counted(run.rows, "row")))
        .collect();
    let question = match &listed[..] {
        [one] => format!("The measurement {one} will be lost. Delete it?"),
        several => format!("The measurements {} will be lost. Delete them?", several.join(", ")),
    };
    output::confirm(&question, yes)?;
    let ids: Vec<i64> = about.iter().map(|run| run.id.0).collect();
    about.iter().try_for_each(|run| store.delete(run.id))?;
    match json {
        true => output::json(&serde_json::json!({ "deleted": ids })),
        false => {
            let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
            output::print(&format!("Deleted run {}.", ids.join(", ")))
        }
    }
}
