//! Results as text and as files.

use super::png;
use crate::cli::Files;
use crate::failure::Outcome;
use crate::{machine, output};
use std::path::{Path, PathBuf};
use storagebench::{Comparisons, ReportOptions, Results, Table, iometer_csv, svg_plot};

fn is_stdout(path: &Option<PathBuf>) -> bool {
    path.as_deref() == Some(Path::new("-"))
}

impl Files {
    /// Whether standard output is taken by a file.
    pub fn take_stdout(&self) -> bool {
        [&self.json, &self.csv, &self.iometer, &self.html, &self.svg].into_iter().any(is_stdout)
    }

    /// Whether any file is asked for.
    pub fn any(&self) -> bool {
        [&self.json, &self.csv, &self.iometer, &self.html, &self.svg, &self.png]
            .into_iter()
            .any(Option::is_some)
    }

    /// Writes those that are asked for. `when` is the measurement's date in seconds since 1970.
    pub fn write(&self, results: &Results, when: u64, comparisons: Option<Comparisons>) -> Outcome {
        let date = crate::render::date(when);
        if let Some(path) = &self.json {
            output::write_file(path, &results.to_json())?;
        }
        if let Some(path) = &self.csv {
            output::write_file(path, &results.to_csv())?;
        }
        if let Some(path) = &self.iometer {
            output::write_file(path, &iometer_csv(results, &date))?;
        }
        if let Some(path) = &self.html {
            let options = ReportOptions { date: Some(date), comparisons, ..ReportOptions::default() };
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

/// The report's page, dated now.
pub fn report(results: &Results, indicative: bool) -> String {
    let options = ReportOptions {
        indicative,
        date: Some(crate::render::date(machine::unix_time())),
        ..ReportOptions::default()
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
    for note in storagebench::doubts(results) {
        text.push_str("\nNote: ");
        text.push_str(&note);
    }
    text
}
