//! Published measurements beside predictions.
//!
//! [`select`] takes the figures of one document or all of them; [`compare`] puts what the models say beside each, and
//! lists those that it cannot, with what is missing.
//!
//! - A *figure* that the catalog can configure is run as it was measured: published, predicted, error, and whether it was
//!   used to calibrate.
//! - A *statement* ("A ahead of B") is a ratio between two cases that must lie between bounds
//!   (`catalog/published/statements`).
//! - A *link* is reckoned from its coding and share.
//! - A *fact* (how many drives a controller takes, what a level's writes cost) is looked up (`catalog/published/facts.toml`).
//! - What is not covered is listed with what is missing (`catalog/published/uncovered.toml`). A test holds that every
//!   figure is either covered or listed.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `figure` | [`Figure`]: a row of the published figures |
//! | `measured` | figures whose row says all that must be known to run them |
//! | `statements` | ratios, and figures whose configuration only the text implies |
//! | `term` | what a statement speaks of: a case or a link |
//! | `case` | a configuration under a load, in a line; the runner that runs each case once |
//! | `links` | what links carry, reckoned |
//! | `expected` | how far off predictions of a kind are |
//! | `summary` | how good all of them are |
//! | `page` | the page of pictures |
//! | `facts` | what the catalog, the layouts and the methods have |
//! | `uncovered` | what is missing for the rest |

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

pub use case::Place;
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
use std::time::Duration;

/// How long a point is measured, with and without a spindle: errors of a percent or less.
pub(crate) const RUNTIMES: (Duration, Duration) = (Duration::from_secs(12), Duration::from_millis(300));

/// A bound counts as kept within so much.
const SLACK: f64 = 0.03;

/// What became of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduced {
    /// Its number.
    pub id: String,
    /// What was run.
    pub what: String,
    /// What is published: a value, or bounds.
    pub published: String,
    /// The statement that the bounds are of, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub statement: String,
    /// What the models say.
    pub predicted: f64,
    /// Where that was measured, if it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The published value, where one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// How far that is off, in percent, where one value is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
    /// How far off nine of ten predictions of its kind are at most, behind other controllers; of figures that nothing was fitted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_percent: Option<f64>,
    /// Whether parameters were fitted to it.
    pub calibrated: bool,
    /// Whether it is right: within the bounds, or within 15 %.
    pub right: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A figure that is not covered.
#[derive(Clone, Debug, Serialize)]
pub struct Missing {
    /// Its number.
    pub id: String,
    /// What is missing for it.
    pub reason: String,
}

/// Figures beside what the models say.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Those that are covered, in the order of the figures; one may be compared several times.
    pub reproduced: Vec<Reproduced>,
    /// The others.
    pub missing: Vec<Missing>,
}

/// How a figure is covered.
enum Coverage<'a> {
    /// By statements and facts.
    Said(Vec<&'a Statement>, Vec<&'a Fact>),
    /// By reckoning a link.
    Link(Vec<Reproduced>),
    /// By a run as its row says.
    Measured(Measured),
    /// Not.
    Missing(String),
}

/// All that is known of the figures besides their rows.
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

    /// How a figure is covered; nothing is run for it.
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
            Coverage::Missing(self.uncovered.get(&figure.id).cloned().unwrap_or_else(|| why.to_string()))
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

/// Puts what the models say beside figures, on as many threads as the machine has. Progress begins and ends each figure.
///
/// # Errors
/// When the tables of statements, facts or uncovered figures contradict themselves: they are part of the program. What
/// cannot be configured with the catalog is among the missing.
pub fn compare(catalog: &Catalog, figures: &[Figure], progress: OnProgress<'_>) -> Result<Report> {
    let published = Published::read()?;
    let runner = Runner::new(catalog, RUNTIMES);
    let outcomes = parallel::each(figures, |figure| {
        progress(Progress::Begins(&figure.id));
        let outcome = published.reproduce(&runner, figure);
        progress(Progress::OneDone);
        // What cannot be configured, with a catalog of one's own, is missing too.
        outcome.unwrap_or_else(|error| Err(error.to_string()))
    });
    let mut report = Report { reproduced: Vec::new(), missing: Vec::new() };
    for (figure, outcome) in figures.iter().zip(outcomes) {
        match outcome {
            Ok(found) => report.reproduced.extend(found),
            Err(reason) => report.missing.push(Missing { id: figure.id.clone(), reason }),
        }
    }
    expected::judge(&mut report.reproduced)?;
    Ok(report)
}

/// Whether any number of the catalog says that it was fitted to a figure.
fn is_used(catalog: &Catalog, id: &str) -> bool {
    let drives = catalog.drives.iter().flat_map(|drive| &drive.values);
    let controllers = catalog.controllers.iter().flat_map(|controller| &controller.values);
    drives.chain(controllers).any(|value| {
        value.source.starts_with("calibrated") && value.source.split([' ', ',', ':']).any(|word| word == id)
    })
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

/// A figure that statements describe: a term beside its value or beside bounds, or ratios of two terms.
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
                let number =
                    figure.number().ok_or_else(|| Error::failed(format!("{} is no number", figure.id)))?;
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
