//! Statements of the papers as ratios of cases, and figures whose configuration the text implies.

use super::case::Metric;
use crate::failure::{Failure, Outcome};
use serde::Deserialize;

const STATEMENTS: &str = include_str!("../../../../catalog/published/statements.toml");

/// A figure's case, beside its value or beside another case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The figure's number.
    pub id: String,
    /// The case.
    pub case: String,
    /// What it is compared with; without it, the figure's value.
    pub against: Option<String>,
    /// Between what their ratio must lie.
    pub ratio: Option<[f64; 2]>,
    /// What is compared: `iops` or `throughput`.
    #[serde(default)]
    metric: String,
    /// Why it is not right, or what was assumed.
    #[serde(default)]
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    statement: Vec<Statement>,
}

impl Statement {
    /// What is compared.
    pub fn metric(&self) -> Outcome<Metric> {
        match self.metric.as_str() {
            "" | "iops" => Ok(Metric::Iops),
            "throughput" => Ok(Metric::Throughput),
            other => Err(Failure::failed(format!("{}: there is no metric '{other}'", self.id))),
        }
    }
}

/// All of them.
///
/// # Errors
/// When the file is wrong: it is part of the program, and a test reads it.
pub fn statements() -> Outcome<Vec<Statement>> {
    let file: File = toml::from_str(STATEMENTS).map_err(Failure::failed)?;
    Ok(file.statement)
}

#[cfg(test)]
mod tests {
    use super::super::{Case, figures};
    use super::*;

    #[test]
    fn every_statement_is_of_a_figure_and_has_cases() {
        let figures = figures().unwrap();
        for statement in statements().unwrap() {
            assert!(figures.iter().any(|figure| figure.id == statement.id), "{}", statement.id);
            statement.metric().unwrap();
            Case::parse(&statement.case).unwrap();
            if let Some(against) = &statement.against {
                Case::parse(against).unwrap();
                let [least, most] = statement.ratio.unwrap();
                assert!(least < most, "{}", statement.id);
            }
        }
    }
}
