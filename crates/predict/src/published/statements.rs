//! What only the text of the papers says: statements as ratios of two terms, figures whose configuration the text
//! implies, and why a figure is not right (`catalog/published/statements`).

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

/// A term beside what it must be.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The figure's number.
    pub id: String,
    /// What is looked at.
    pub term: Term,
    /// What it must be.
    pub expected: Expected,
    /// Which of its figures.
    pub metric: Metric,
    /// What of the figure is looked at, or what was assumed.
    pub note: String,
    /// Why it is not right, where it is not.
    pub reason: String,
}

/// What a term must be.
#[derive(Clone, Debug)]
pub enum Expected {
    /// The figure's value.
    Figure,
    /// Between two values.
    Between([f64; 2]),
    /// So much of another term.
    Ratio(Term, [f64; 2]),
}

/// A figure that needs no statement to be reproduced, and is not right.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    /// The figure's number.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// A statement as it is written. In `case` and `against` a `{name}` stands for each of the values of that name in `with`
/// in turn.
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

/// All that the files say.
#[derive(Debug)]
pub struct Said {
    /// In their order.
    pub statements: Vec<Statement>,
    /// In their order.
    pub wrong: Vec<Wrong>,
}

/// Reads the files.
///
/// # Errors
/// When one is wrong: they are part of the program, and a test reads them.
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

/// One for each combination of what its names stand for.
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
    let links = matches!(term, Term::Link(_)) || matches!(expected, Expected::Ratio(Term::Link(_), _));
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
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
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
