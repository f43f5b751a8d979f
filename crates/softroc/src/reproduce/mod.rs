//! `softroc reproduce`: published measurements beside predictions.
//!
//! - A *figure* that the catalog can configure is run as it was measured: published, predicted, error, and whether it was
//!   used to calibrate.
//! - A *statement* ("A ahead of B") is a ratio between two cases that must lie between bounds
//!   (`catalog/published/statements.toml`).
//! - A *link* is reckoned from its coding and share.
//! - What is not covered is counted, and listed with what is missing.

mod case;
mod links;
mod published;
mod statements;
#[cfg(test)]
mod tests;

pub use case::{Case, Metric, Runner};
pub use published::{Figure, figures};

use crate::cli::Reproduce;
use crate::failure::{Failure, Outcome};
use crate::predict::catalog;
use crate::{output, progress};
use models::Catalog;
use serde::Serialize;
use statements::{Statement, statements};
use std::time::Duration;

/// How long a point is measured, with and without a spindle: errors of a percent or less.
pub const RUNTIMES: (Duration, Duration) = (Duration::from_secs(12), Duration::from_millis(300));

/// A bound counts as kept within so much.
const SLACK: f64 = 0.03;

/// What became of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduced {
    /// Its number.
    pub id: String,
    /// What was run.
    pub what: String,
    /// What is published, in words where it is a bound or a statement.
    pub published: String,
    /// What the models say.
    pub predicted: f64,
    /// How far that is off, in percent, where one value is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
    /// Whether parameters were fitted to it.
    pub calibrated: bool,
    /// Whether it is right: within the bounds, or within 15 %.
    pub right: bool,
    /// Why it is not, or what else must be known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

#[derive(Serialize)]
struct Missing {
    id: String,
    reason: String,
}

#[derive(Serialize)]
struct Report {
    reproduced: Vec<Reproduced>,
    missing: Vec<Missing>,
}

/// Runs the command.
pub fn run(command: &Reproduce) -> Outcome {
    let catalog = catalog(&command.catalog)?;
    let wanted = wanted(command)?;
    let report = report(&catalog, &wanted)?;
    match command.output.json {
        true => output::json(&report),
        false => output::print(&text(&report, command.missing)),
    }
}

fn wanted(command: &Reproduce) -> Outcome<Vec<Figure>> {
    let all = figures()?;
    let docs: std::collections::BTreeSet<&str> = all.iter().map(|figure| figure.doc.as_str()).collect();
    if let Some(doc) = command.doc.as_deref().filter(|doc| !docs.contains(doc)) {
        let known: Vec<&str> = docs.into_iter().collect();
        return Err(Failure::refused(format!(
            "there is no document '{doc}'; expected one of {}",
            known.join(", ")
        )));
    }
    let matches = |figure: &Figure| {
        command.doc.as_ref().is_none_or(|doc| figure.doc == *doc)
            && command.only.as_ref().is_none_or(|only| figure.id.starts_with(only.as_str()))
    };
    Ok(all.into_iter().filter(|figure| matches(figure)).collect())
}

fn report(catalog: &Catalog, figures: &[Figure]) -> Outcome<Report> {
    let statements = statements()?;
    let mut runner = Runner::new(catalog, RUNTIMES);
    let (mut reproduced, mut missing) = (Vec::new(), Vec::new());
    let bar = progress::bar(figures.len() as u64);
    for figure in figures {
        bar.set_message(figure.id.clone());
        let said: Vec<&Statement> = statements.iter().filter(|statement| statement.id == figure.id).collect();
        let outcome = match &said[..] {
            [] if figure.metric == "limit_mib_s" => links::reproduce(catalog, figure),
            [] => measured(catalog, &mut runner, figure),
            said => stated(&mut runner, figure, said),
        };
        match outcome {
            Ok(figures) => reproduced.extend(figures),
            Err(reason) => missing.push(Missing { id: figure.id.clone(), reason: reason.to_string() }),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    for figure in &mut reproduced {
        figure.calibrated = is_used(catalog, &figure.id);
    }
    Ok(Report { reproduced, missing })
}

/// Whether any number of the catalog says that it was fitted to a figure.
pub fn is_used(catalog: &Catalog, id: &str) -> bool {
    let drives = catalog.drives.iter().flat_map(|drive| &drive.values);
    let controllers = catalog.controllers.iter().flat_map(|controller| &controller.values);
    drives.chain(controllers).any(|value| {
        value.source.starts_with("calibrated") && value.source.split([' ', ',', ':']).any(|word| word == id)
    })
}

/// A figure whose row says all that must be known.
fn measured(catalog: &Catalog, runner: &mut Runner<'_>, figure: &Figure) -> Outcome<Vec<Reproduced>> {
    let missing = |what: &str| Failure::refused(what);
    let metric = match figure.metric.as_str() {
        "iops" => Metric::Iops,
        "throughput_mib_s" => Metric::Throughput,
        _ => return Err(missing("a statement that has no case in statements.toml")),
    };
    let value = figure.number().ok_or_else(|| missing("no single value is published"))?;
    let method = match figure.doc.as_str() {
        doc @ ("fujitsu2013" | "fujitsu2016" | "sx940") => doc,
        _ => return Err(missing("the method of this document is not modelled")),
    };
    if figure.drive.is_empty() || catalog.drive(&figure.drive).is_err() {
        return Err(missing("which drives is not said, or they are not in the catalog"));
    }
    let count: u32 = figure.drive_count.parse().map_err(|_| missing("how many drives is not said"))?;
    let single = figure.controller.is_empty() && count == 1;
    if figure.controller.is_empty() && !single {
        return Err(missing("which controller is not said"));
    }
    let mut found = Vec::new();
    let controllers: Vec<&str> = if single { vec!["direct"] } else { figure.controller.split('|').collect() };
    let level = if single { "jbod".to_owned() } else { format!("raid{}", figure.level) };
    let known = controllers.iter().filter(|name| catalog.controller(name).is_ok());
    let depths = match figure.outstanding.as_str() {
        "max(1-512)" => vec!["max"],
        depths => depths.split('|').collect(),
    };
    for controller in known {
        let mut best: f64 = 0.0;
        for profile in figure.profile.split('|') {
            let profile = profile.to_lowercase().replace(' ', "-");
            for depth in &depths {
                let drives = format!("{count}x{}", figure.drive);
                let cache = cache(catalog, figure, single);
                let text =
                    format!("{controller} / {drives} / {level} / {profile} / {method} / {cache} @ {depth}");
                best = best.max(runner.value(&Case::parse(&text)?, metric)?);
            }
        }
        let what = format!("{controller} {count}x{} {level} {}", figure.drive, figure.profile);
        found.push(compared(figure, what, value, best));
    }
    match found.is_empty() {
        true => {
            Err(missing("its controllers have a cache, which is not modelled yet, or are not in the catalog"))
        }
        false => Ok(found),
    }
}

/// Whether the drives' caches were on: for the paper of 2016 off on SAS disks in arrays, else on.
fn cache(catalog: &Catalog, figure: &Figure, single: bool) -> &'static str {
    let sas_disk = catalog.drive(&figure.drive).is_ok_and(|drive| drive.is_rotating() && drive.link.sas);
    let off = figure.settings.contains("disk cache disabled")
        || (figure.doc == "fujitsu2016" && sas_disk && !single);
    if off { "off" } else { "on" }
}

/// A figure beside what the models say.
fn compared(figure: &Figure, what: String, value: f64, predicted: f64) -> Reproduced {
    let error = (predicted / value - 1.0) * 100.0;
    let (published, error_percent, right) = match figure.kind.as_str() {
        "upper_bound" => (format!("<= {value}"), None, predicted <= value * (1.0 + SLACK)),
        "axis_max" => (format!("< {value} (axis)"), None, predicted <= value * (1.0 + SLACK)),
        "lower_bound" => (format!(">= {value}"), None, predicted >= value * (1.0 - SLACK)),
        "approx" | "theoretical" => (format!("~ {value}"), Some(error), error.abs() <= 15.0),
        _ => (format!("{value}"), Some(error), error.abs() <= 15.0),
    };
    Reproduced {
        id: figure.id.clone(),
        what,
        published,
        predicted: (predicted * 100.0).round() / 100.0,
        error_percent: error_percent.map(|error| (error * 10.0).round() / 10.0),
        calibrated: false,
        right,
        reason: String::new(),
    }
}

/// A figure that statements describe: a case beside its value, or ratios of two cases.
fn stated(runner: &mut Runner<'_>, figure: &Figure, said: &[&Statement]) -> Outcome<Vec<Reproduced>> {
    let mut found = Vec::new();
    for statement in said {
        let case = Case::parse(&statement.case)?;
        let metric = statement.metric()?;
        let value = runner.value(&case, metric)?;
        let mut reproduced = match (&statement.against, statement.ratio) {
            (Some(against), Some([least, most])) => {
                let against = Case::parse(against)?;
                let ratio = value / runner.value(&against, metric)?.max(f64::MIN_POSITIVE);
                Reproduced {
                    id: figure.id.clone(),
                    what: format!("{} : {}", case.name(), against.name()),
                    published: format!("{least}..{most} ({})", figure.value),
                    predicted: (ratio * 1000.0).round() / 1000.0,
                    error_percent: None,
                    calibrated: false,
                    right: (least..=most).contains(&ratio),
                    reason: String::new(),
                }
            }
            _ => {
                let number =
                    figure.number().ok_or_else(|| Failure::failed(format!("{} is no number", figure.id)))?;
                compared(figure, case.name(), number, value)
            }
        };
        reproduced.reason = statement.reason.clone();
        found.push(reproduced);
    }
    Ok(found)
}

fn text(report: &Report, list_missing: bool) -> String {
    let row = |figure: &Reproduced| {
        vec![
            figure.id.clone(),
            figure.what.clone(),
            figure.published.clone(),
            figure.predicted.to_string(),
            figure.error_percent.map_or_else(String::new, |error| format!("{error:+.1} %")),
            if figure.calibrated { "fitted" } else { "" }.to_owned(),
            if figure.right { "" } else { "WRONG" }.to_owned(),
            figure.reason.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = report.reproduced.iter().map(row).collect();
    let headers = ["figure", "what", "published", "predicted", "error", "", "", ""];
    let mut text = output::table(&headers, &rows, &[false, false, true, true, true, false, false, false]);
    text.push_str("\n\n");
    text.push_str(&summary(report));
    if list_missing {
        let rows: Vec<Vec<String>> =
            report.missing.iter().map(|missing| vec![missing.id.clone(), missing.reason.clone()]).collect();
        text.push_str("\n\n");
        text.push_str(&output::table(&["not covered", "what is missing"], &rows, &[]));
    }
    text
}

fn summary(report: &Report) -> String {
    let worst = |calibrated: bool| {
        let errors = report
            .reproduced
            .iter()
            .filter(|figure| figure.calibrated == calibrated)
            .filter_map(|figure| figure.error_percent);
        let errors: Vec<f64> = errors.map(f64::abs).collect();
        (errors.len(), errors.iter().copied().fold(0.0, f64::max))
    };
    let (fitted, fitted_worst) = worst(true);
    let (free, free_worst) = worst(false);
    let bounds = report.reproduced.iter().filter(|figure| figure.error_percent.is_none());
    let (kept, all) = bounds.fold((0, 0), |(kept, all), figure| (kept + usize::from(figure.right), all + 1));
    format!(
        "{fitted} values that parameters were fitted to: at most {fitted_worst:.1} % off.\n\
         {free} values that nothing was fitted to: at most {free_worst:.1} % off.\n\
         {kept} of {all} bounds and statements are kept.\n\
         {} published figures are not covered; --missing lists them with what is missing.",
        report.missing.len()
    )
}
