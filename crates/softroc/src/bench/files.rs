//! Results as text and as files.

use super::png;
use crate::cli::Files;
use crate::failure::{Failure, Outcome};
use crate::{machine, output};
use std::path::{Path, PathBuf};
use storagebench::{Comparisons, Profile, ReportOptions, Results, Table, iometer_csv, svg_plot};

fn is_stdout(path: &Option<PathBuf>) -> bool {
    path.as_deref() == Some(Path::new("-"))
}

impl Files {
    /// Whether a file option uses standard output.
    pub fn take_stdout(&self) -> bool {
        self.json
            || [&self.json_file, &self.csv, &self.iometer, &self.html, &self.svg]
                .into_iter()
                .any(is_stdout)
    }

    /// Whether any output file is requested.
    pub fn any(&self) -> bool {
        self.json
            || [&self.json_file, &self.csv, &self.iometer, &self.html, &self.svg, &self.png]
                .into_iter()
                .any(Option::is_some)
    }

    /// Checks before a measurement that all requested files can be written. None may be one of the
    /// `targets`. `profiles` are the profiles to measure, if known.
    pub fn check(&self, targets: &[String], profiles: Option<&[Profile]>) -> Outcome {
        if self.png.is_some() {
            png::check()?;
        }
        let printed = self.json.then(|| PathBuf::from("-"));
        let asked = [
            ("--json", &printed),
            ("--json-file", &self.json_file),
            ("--csv", &self.csv),
            ("--iometer", &self.iometer),
            ("--html", &self.html),
            ("--svg", &self.svg),
            ("--png", &self.png),
        ];
        let mut before: Vec<(&str, &Path)> = Vec::new();
        for (option, path) in
            asked.iter().filter_map(|(option, path)| Some((*option, path.as_deref()?)))
        {
            if let Some((other, _)) = before.iter().find(|(_, other)| *other == path) {
                let place = if path == Path::new("-") {
                    "standard output".into()
                } else {
                    path.display().to_string()
                };
                return Err(Failure::usage(format!(
                    "{other} and {option} would both write to {place}; give each its own file"
                )));
            }
            before.push((option, path));
            if path != Path::new("-") {
                check_path(option, path, targets)?;
            }
        }
        let (Some(wanted), Some(profiles)) = (self.plot.profile(), profiles) else { return Ok(()) };
        if profiles.iter().any(|profile| profile.name() == wanted) {
            return Ok(());
        }
        let names: Vec<&str> = profiles.iter().map(Profile::name).collect();
        Err(Failure::usage(format!(
            "the profile of --plot {} is not measured; give one of {}",
            self.plot,
            names.join("; ")
        )))
    }

    /// Renames existing output files for an interrupted measurement: `report.html` becomes
    /// `report.stopped.html`.
    pub fn beside_what_is_there(&self) -> Files {
        let mut files = self.clone();
        let paths = [
            &mut files.json_file,
            &mut files.csv,
            &mut files.iometer,
            &mut files.html,
            &mut files.svg,
            &mut files.png,
        ];
        for path in paths.into_iter().flatten().filter(|path| path.is_file()) {
            let beside = stopped(path);
            output::say(&format!(
                "softroc: {} is unchanged; the partial results are in {}",
                path.display(),
                beside.display()
            ));
            *path = beside;
        }
        files
    }

    /// Writes the requested files. `when` is the measurement's date in seconds since 1970.
    pub fn write(&self, results: &Results, when: u64, comparisons: Option<Comparisons>) -> Outcome {
        let date = crate::render::date(when);
        if self.json {
            output::json_text(&results.to_json())?;
        }
        if let Some(path) = &self.json_file {
            output::write_file(path, &results.to_json())?;
        }
        if let Some(path) = &self.csv {
            output::write_file(path, &results.to_csv())?;
        }
        if let Some(path) = &self.iometer {
            output::write_file(path, &iometer_csv(results, &date))?;
        }
        if let Some(path) = &self.html {
            let options =
                ReportOptions { date: Some(date), comparisons, ..ReportOptions::default() };
            output::write_file(path, &storagebench::html_report(results, &options))?;
        }
        if let Some(path) = &self.svg {
            output::write_file(path, &svg_plot(results, &self.plot)?)?;
        }
        if let Some(path) = &self.png {
            output::write_bytes(path, &png::draw(&svg_plot(results, &self.plot)?)?)?;
        }
        Ok(())
    }
}

/// `report.stopped.html` for `report.html`.
fn stopped(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) => {
            let mut ending = std::ffi::OsString::from("stopped.");
            ending.push(extension);
            path.with_extension(ending)
        }
        None => path.with_extension("stopped"),
    }
}

fn check_path(option: &str, path: &Path, targets: &[String]) -> Outcome {
    let wrong = |why: &str| Err(Failure::usage(format!("{option} {}: {why}", path.display())));
    if path.is_dir() {
        return wrong("this is a folder; give a file in it");
    }
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return wrong("the folder does not exist; create it, or give another file");
    }
    let same = |target: &String| {
        target.as_str() == path.as_os_str()
            || path
                .canonicalize()
                .is_ok_and(|path| Path::new(target).canonicalize().is_ok_and(|t| t == path))
    };
    if targets.iter().any(same) {
        return wrong("this is the target itself; give another file");
    }
    Ok(())
}

/// The report's page, dated now.
pub fn report(results: &Results, indicative: bool) -> String {
    let options = ReportOptions {
        indicative,
        date: Some(crate::render::date(machine::unix_time())),
        ..ReportOptions::default()
    };
    storagebench::html_report(results, &options)
}

/// The table of all rows, and their notes.
pub fn text(results: &Results) -> String {
    let table = Table::of(results);
    let headers: Vec<&str> = table.headers.iter().map(String::as_str).collect();
    let mut text = output::table(&headers, &table.rows, &table.numeric);
    let sentences = storagebench::summary(results);
    if !sentences.is_empty() {
        text.push_str("\n\n");
        text.push_str(&sentences.join("\n"));
    }
    for note in storagebench::doubts(results) {
        text.push_str("\nNote: ");
        text.push_str(&note);
    }
    text
}
