//! Data from the text of the papers: statements as ratios of two terms, figures whose configuration
//! follows from the text, and reasons for deviations (`catalog/published/statements`).

use super::case::Metric;
use super::term::Term;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A file for each document.
const FILES: [&str; 5] = [
    include_str!("../../../../catalog/published/statements/fujitsu2013.toml"),
    include_str!("../../../../catalog/published/statements/fujitsu2016.toml"),
    include_str!("../../../../catalog/published/statements/sx940.toml"),
    include_str!("../../../../catalog/published/statements/intel2014.toml"),
    include_str!("../../../../catalog/published/statements/reviews.toml"),
];

/// A term with its expected value.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The figure's number.
    pub id: String,
    /// The term to evaluate.
    pub term: Term,
    /// The expected value.
    pub expected: Expected,
    /// The quantity.
    pub metric: Metric,
    /// The checked part of the figure, or an assumption.
    pub note: String,
    /// The reason for a known deviation.
    pub reason: String,
}

/// The expected value of a term.
#[derive(Clone, Debug)]
pub enum Expected {
    /// The figure's value.
    Figure,
    /// Between two values.
    Between([f64; 2]),
    /// A multiple of another term.
    Ratio(Term, [f64; 2]),
}

/// A figure that is reproduced without a statement, with a known deviation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    /// The figure's number.
    pub id: String,
    /// The reason.
    pub reason: String,
}

/// A statement in its file form. In `case` and `against`, `{name}` represents each value of that
/// name in `with` in turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    case: String,
    against: Option<String>,
    ratio: Option<[f64; 2]>,
    between: Option<[f64; 2]>,
    #[serde(default)]
    metric: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    with: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    statement: Vec<Written>,
    #[serde(default)]
    wrong: Vec<Wrong>,
}

/// The content of all files.
#[derive(Debug)]
pub struct Said {
    /// In file order.
    pub statements: Vec<Statement>,
    /// In file order.
    pub wrong: Vec<Wrong>,
}

/// Reads the files.
///
/// # Errors
/// When a file is malformed: the files are part of the program, and a test reads them.
pub fn said() -> Result<Said> {
    let mut said = Said { statements: Vec::new(), wrong: Vec::new() };
    for text in FILES {
        let file: File = toml::from_str(text).map_err(Error::failed)?;
        for one in file.statement.iter().flat_map(each) {
            said.statements.push(statement(&one)?);
        }
        said.wrong.extend(file.wrong);
    }
    Ok(said)
}

/// Expands a statement to all combinations of its names' values.
fn each(written: &Written) -> Vec<Written> {
    let mut all = vec![Written { with: BTreeMap::new(), ..written.clone() }];
    for (name, values) in &written.with {
        let name = format!("{{{name}}}");
        let put = |one: &Written, value: &String| Written {
            case: one.case.replace(&name, value),
            against: one.against.as_ref().map(|against| against.replace(&name, value)),
            ..one.clone()
        };
        all = all
            .iter()
            .flat_map(|one| values.iter().map(|value| put(one, value)).collect::<Vec<_>>())
            .collect();
    }
    all
}

fn statement(written: &Written) -> Result<Statement> {
    let wrong = |what: &str| Error::failed(format!("{}: {what}", written.id));
    let term = Term::parse(&written.case)?;
    let expected = match (&written.against, written.ratio, written.between) {
        (None, None, None) => Expected::Figure,
        (None, None, Some(bounds)) => Expected::Between(bounds),
        (Some(against), Some(bounds), None) => Expected::Ratio(Term::parse(against)?, bounds),
        _ => return Err(wrong("expected `against` with `ratio`, or `between`, or neither")),
    };
    let links =
        matches!(term, Term::Link(_)) || matches!(expected, Expected::Ratio(Term::Link(_), _));
    let metric = match written.metric.as_str() {
        "" if links => Metric::Throughput,
        "" | "iops" => Metric::Iops,
        "throughput" => Metric::Throughput,
        "latency" => Metric::LatencyMs,
        _ => return Err(wrong("expected the metric iops, throughput or latency")),
    };
    if links && metric != Metric::Throughput {
        return Err(wrong("links have a throughput only"));
    }
    let (id, note, reason) = (written.id.clone(), written.note.clone(), written.reason.clone());
    Ok(Statement { id, term, expected, metric, note, reason })
}

#[cfg(test)]
mod tests {
    use super::super::figures;
    use super::*;

    #[test]
    fn every_statement_is_of_a_figure_and_has_bounds_that_can_be_missed() {
        let figures = figures().unwrap();
        let said = said().unwrap();
        let ids = said.statements.iter().map(|statement| &statement.id);
        let ids = ids.chain(said.wrong.iter().map(|wrong| &wrong.id));
        for id in ids {
            assert!(figures.iter().any(|figure| figure.id == *id), "{id}");
        }
        for statement in &said.statements {
            match statement.expected {
                Expected::Figure => {
                    let figure = figures.iter().find(|figure| figure.id == statement.id).unwrap();
                    assert!(figure.number().is_some(), "{}", statement.id);
                }
                Expected::Between([least, most]) | Expected::Ratio(_, [least, most]) => {
                    assert!(least < most, "{}", statement.id);
                }
            }
        }
    }

    #[test]
    fn names_stand_for_each_of_their_values() {
        let values =
            |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let written = Written {
            id: String::new(),
            case: "{a} {b}".to_owned(),
            against: Some("{b}".to_owned()),
            ratio: None,
            between: None,
            metric: String::new(),
            note: String::new(),
            reason: String::new(),
            with: BTreeMap::from([
                ("a".to_owned(), values(&["1", "2"])),
                ("b".to_owned(), values(&["x", "y"])),
            ]),
        };
        let each: Vec<(String, String)> =
            each(&written).into_iter().map(|one| (one.case, one.against.unwrap())).collect();
        let pair = |case: &str, against: &str| (case.to_owned(), against.to_owned());
        assert_eq!(each, [pair("1 x", "x"), pair("1 y", "y"), pair("2 x", "x"), pair("2 y", "y")]);
    }
}
