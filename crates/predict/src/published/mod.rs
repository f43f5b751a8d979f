//! Compares published measurements with predictions.
//!
//! [`select`] returns the figures of one document or of all; [`compare`] adds the models'
//! prediction to each. Figures without one are listed with the reason.
//!
//! - A *figure* that the catalog can configure is run by the published method: published,
//!   predicted, error, and whether it was used to calibrate.
//! - A *statement* ("A ahead of B") is a ratio between two cases with bounds
//!   (`catalog/published/statements`).
//! - A *link* rate is calculated from coding and share.
//! - A *fact* (a controller's maximum of drives, the write penalty of a level) is looked up
//!   (`catalog/published/facts.toml`).
//! - Figures that are not covered are listed with the missing data
//!   (`catalog/published/uncovered.toml`). A test ensures that every figure is either covered or
//!   listed.
//!
//! | module | contents |
//! | --- | --- |
//! | `figure` | [`Figure`]: a row of the published figures |
//! | `measured` | figures whose row contains all data for a run |
//! | `statements` | ratios, and figures whose configuration follows from the text |
//! | `term` | the operand of a statement: a case or a link |
//! | `case` | a configuration under a load, in a line; the runner, which runs each case once |
//! | `links` | calculated link rates |
//! | `expected` | the expected error of a kind of prediction |
//! | `summary` | the accuracy of all predictions |
//! | `page` | the HTML page of charts |
//! | `facts` | values of the catalog, the layouts and the methods |
//! | `uncovered` | the missing data for other figures |

mod case;
mod expected;
mod facts;
mod figure;
mod links;
mod measured;
mod page;
mod statements;
mod summary;
mod term;
#[cfg(test)]
mod tests;
mod uncovered;

pub use case::Conditions;
pub(crate) use case::{Case, Metric, Runner};
pub use expected::{ExpectedError, expected_error};
pub use figure::{Figure, figures, select};
pub use summary::Summary;

use crate::error::{Error, Result};
use crate::parallel;
use crate::progress::{OnProgress, Progress};
use facts::Fact;
use measured::Measured;
use models::Catalog;
use serde::Serialize;
use statements::{Expected, Said, Statement};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storagebench::Ladder;

/// The runtime of a point, with and without a spindle: errors of at most about a percent.
pub(crate) const RUNTIMES: (Duration, Duration) =
    (Duration::from_secs(12), Duration::from_millis(300));

/// The tolerance of a bound.
const SLACK: f64 = 0.03;

/// The comparison of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduced {
    /// Its number.
    pub id: String,
    /// The case that was run.
    pub what: String,
    /// The published value or bounds.
    pub published: String,
    /// The statement behind the bounds, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub statement: String,
    /// The models' value.
    pub predicted: f64,
    /// The conditions of the measurement, for figures that were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Conditions>,
    /// The published value, if it is a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The error in percent, if a single value is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
    /// The error that nine of ten similar predictions behind other controllers do not exceed; only
    /// for figures that nothing was fitted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_percent: Option<f64>,
    /// Whether parameters were fitted to it.
    pub calibrated: bool,
    /// Whether the prediction is right: within the bounds, or within 15 %.
    pub right: bool,
    /// The reason for a deviation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A figure without a prediction.
#[derive(Clone, Debug, Serialize)]
pub struct Missing {
    /// Its number.
    pub id: String,
    /// The reason.
    pub reason: String,
}

/// Figures compared with the models.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The covered figures in order; one figure may have several comparisons.
    pub reproduced: Vec<Reproduced>,
    /// The figures without a prediction.
    pub missing: Vec<Missing>,
    /// The number of figures that were not reached before the comparison was cancelled.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_compared: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The method that covers a figure.
enum Coverage<'a> {
    /// Statements and facts.
    Said(Vec<&'a Statement>, Vec<&'a Fact>),
    /// The calculation of a link.
    Link(Vec<Reproduced>),
    /// A run with the data of its row.
    Measured(Measured),
    /// None, with the reason.
    Missing(String),
}

/// All data about the figures in addition to their rows.
struct Published {
    said: Said,
    facts: Vec<Fact>,
    uncovered: BTreeMap<String, String>,
}

impl Published {
    fn read() -> Result<Published> {
        let uncovered = uncovered::uncovered(&figures()?)?;
        Ok(Published { said: statements::said()?, facts: facts::facts()?, uncovered })
    }

    /// Determines the coverage of a figure, without a run.
    fn coverage(&self, catalog: &Catalog, figure: &Figure) -> Coverage<'_> {
        let statements: Vec<&Statement> =
            self.said.statements.iter().filter(|statement| statement.id == figure.id).collect();
        let facts: Vec<&Fact> = self.facts.iter().filter(|fact| fact.id == figure.id).collect();
        if !statements.is_empty() || !facts.is_empty() {
            return Coverage::Said(statements, facts);
        }
        let by_rule = match links::reproduce(catalog, figure) {
            Some(link) => link.map(Coverage::Link),
            None => Measured::of(catalog, figure).map(Coverage::Measured),
        };
        by_rule.unwrap_or_else(|why| {
            Coverage::Missing(
                self.uncovered.get(&figure.id).cloned().unwrap_or_else(|| why.to_string()),
            )
        })
    }

    fn reproduce(
        &self,
        runner: &Runner<'_>,
        figure: &Figure,
    ) -> Result<std::result::Result<Vec<Reproduced>, String>> {
        let catalog = runner.catalog();
        let mut found = match self.coverage(catalog, figure) {
            Coverage::Said(statements, facts) => {
                let mut found = stated(runner, figure, &statements)?;
                for fact in facts {
                    found.extend(fact.reproduce(catalog, figure)?);
                }
                found
            }
            Coverage::Link(found) => found,
            Coverage::Measured(measured) => measured.run(runner, figure)?,
            Coverage::Missing(reason) => return Ok(Err(reason)),
        };
        let known = self.said.wrong.iter().find(|wrong| wrong.id == figure.id);
        for figure in &mut found {
            figure.calibrated = is_used(catalog, &figure.id);
            if let Some(known) = known.filter(|_| !figure.right) {
                figure.reason.clone_from(&known.reason);
            }
        }
        Ok(Ok(found))
    }
}

/// What the caller of [`compare`] sees while it runs, and how it ends it.
pub struct Watch<'a> {
    /// Receives the begin and the end of each figure.
    pub progress: OnProgress<'a>,
    /// Receives the comparisons of each figure, in the order of the figures, as soon as they and
    /// all earlier ones are known.
    pub compared: &'a (dyn Fn(&[Reproduced]) + Sync),
    /// Ends the comparison soon after it is set, with the figures so far.
    pub cancel: Arc<AtomicBool>,
}

/// Passes comparisons on in the order of their figures.
#[derive(Default)]
struct InOrder {
    next: usize,
    waiting: BTreeMap<usize, Vec<Reproduced>>,
}

impl InOrder {
    fn add(&mut self, at: usize, found: Vec<Reproduced>, pass: &dyn Fn(&[Reproduced])) {
        self.waiting.insert(at, found);
        while let Some(found) = self.waiting.remove(&self.next) {
            pass(&found);
            self.next += 1;
        }
    }
}

/// Compares figures with the models, in parallel.
///
/// # Errors
/// When the tables of statements, facts or uncovered figures are inconsistent: they are part of the
/// program. Figures that the catalog cannot configure are listed as missing.
pub fn compare(catalog: &Catalog, figures: &[Figure], watch: &Watch<'_>) -> Result<Report> {
    let published = Published::read()?;
    let runner = Runner::new(catalog, RUNTIMES).cancelled_by(watch.cancel.clone());
    let in_order = Mutex::new(InOrder::default());
    let numbered: Vec<(usize, &Figure)> = figures.iter().enumerate().collect();
    let outcomes = parallel::each(&numbered, |(at, figure)| {
        let is_cancelled = || watch.cancel.load(Ordering::Relaxed);
        if is_cancelled() {
            return None;
        }
        (watch.progress)(Progress::Begins(&figure.id));
        let outcome = published.reproduce(&runner, figure);
        // A cancelled run has failed, or is too short.
        if is_cancelled() {
            return None;
        }
        // With a user's own catalog, figures that cannot be configured are missing too.
        let outcome = outcome.unwrap_or_else(|error| Err(error.to_string()));
        let found = outcome.clone().unwrap_or_default();
        in_order.lock().unwrap_or_else(PoisonError::into_inner).add(*at, found, watch.compared);
        (watch.progress)(Progress::OneDone);
        Some(outcome)
    });
    // A cancelled figure leaves later ones waiting.
    let in_order = in_order.into_inner().unwrap_or_else(PoisonError::into_inner);
    in_order.waiting.values().for_each(|found| (watch.compared)(found));
    let mut report = Report { reproduced: Vec::new(), missing: Vec::new(), not_compared: 0 };
    for (figure, outcome) in figures.iter().zip(outcomes) {
        match outcome {
            Some(Ok(found)) => report.reproduced.extend(found),
            Some(Err(reason)) => report.missing.push(Missing { id: figure.id.clone(), reason }),
            None => report.not_compared += 1,
        }
    }
    expected::judge(&mut report.reproduced)?;
    Ok(report)
}

/// The number of figures that need a simulation. The others are looked up, calculated or not
/// covered, which takes no time.
///
/// # Errors
/// As [`compare`].
pub fn simulated(catalog: &Catalog, figures: &[Figure]) -> Result<usize> {
    let published = Published::read()?;
    let runs = |figure: &&Figure| match published.coverage(catalog, figure) {
        Coverage::Said(statements, _) => !statements.is_empty(),
        Coverage::Measured(_) => true,
        Coverage::Link(_) | Coverage::Missing(_) => false,
    };
    Ok(figures.iter().filter(runs).count())
}

/// A short simulation, to time this machine: on one core, a simulated figure takes on average
/// [`PROBES_PER_FIGURE`] times as long.
///
/// # Errors
/// When the built-in catalog is inconsistent: it is part of the program, and a test reads it.
pub fn probe() -> Result<()> {
    let runtimes = (Duration::from_secs(8), Duration::from_millis(40));
    let runner = Runner::new(Catalog::builtin(), runtimes).with_ladder(Ladder::new(vec![32])?);
    let case = Case::parse("CP400i / 8xSAS-12G-HDD / raid5 / database / fujitsu2016 / off @ 32")?;
    runner.value(&case, Metric::Iops).map(drop)
}

/// See [`probe`].
pub const PROBES_PER_FIGURE: f64 = 25.0;

/// Whether a catalog value was fitted to this figure.
fn is_used(catalog: &Catalog, id: &str) -> bool {
    let drives = catalog.drives.iter().flat_map(|drive| &drive.values);
    let controllers = catalog.controllers.iter().flat_map(|controller| &controller.values);
    drives.chain(controllers).any(|value| {
        value.source.starts_with("calibrated")
            && value.source.split([' ', ',', ':']).any(|word| word == id)
    })
}

/// Compares a figure with the models' value.
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
        statement: String::new(),
        predicted: (predicted * 100.0).round() / 100.0,
        place: None,
        value: None,
        expected_percent: None,
        error_percent: error_percent.map(|error| (error * 10.0).round() / 10.0),
        calibrated: false,
        right,
        reason: String::new(),
    }
}

/// A figure with statements: a term against its value or bounds, or ratios of two terms.
fn stated(runner: &Runner<'_>, figure: &Figure, said: &[&Statement]) -> Result<Vec<Reproduced>> {
    let mut found = Vec::new();
    for statement in said {
        let value = statement.term.value(runner, statement.metric, &figure.doc)?;
        let within = |what: String, [least, most]: [f64; 2], value: f64| Reproduced {
            id: figure.id.clone(),
            what,
            published: format!("{least}..{most}"),
            statement: figure.words(),
            predicted: (value * 1000.0).round() / 1000.0,
            place: None,
            value: None,
            expected_percent: None,
            error_percent: None,
            calibrated: false,
            right: (least..=most).contains(&value),
            reason: String::new(),
        };
        let mut reproduced = match &statement.expected {
            Expected::Ratio(against, bounds) => {
                let one = against.value(runner, statement.metric, &figure.doc)?;
                let what = format!("{} : {}", statement.term.name(), against.name());
                within(what, *bounds, value / one.max(f64::MIN_POSITIVE))
            }
            Expected::Between(bounds) => within(statement.term.name(), *bounds, value),
            Expected::Figure => {
                let number = figure
                    .number()
                    .ok_or_else(|| Error::failed(format!("{} is no number", figure.id)))?;
                let compared = compared(figure, statement.term.name(), number, value);
                let place = statement.term.place(runner, statement.metric)?;
                Reproduced { value: Some(number), place, ..compared }
            }
        };
        if !statement.note.is_empty() {
            reproduced.statement = format!("{} ({})", reproduced.statement, statement.note);
        }
        if !reproduced.right {
            reproduced.reason.clone_from(&statement.reason);
        }
        found.push(reproduced);
    }
    Ok(found)
}
