//! An operand of a statement: a case to run, or a link.

use super::case::{Case, Conditions, Metric, Runner};
use super::links::{Interface, shares};
use crate::error::Result;

/// `CONTROLLER / DRIVES / LEVEL / PROFILE / METHOD / CACHE @ DEPTH`, or `link INTERFACE`.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A configuration under a load.
    Case(Box<Case>),
    /// The usable rate of a link, calculated as the statement's document does.
    Link(Interface),
}

impl Term {
    /// Parses a term.
    ///
    /// # Errors
    /// When it is neither a case nor a link.
    pub fn parse(text: &str) -> Result<Term> {
        match text.strip_prefix("link ") {
            Some(link) => Interface::parse(link).map(Term::Link),
            None => Case::parse(text).map(|case| Term::Case(Box::new(case))),
        }
    }

    /// A short name for lists.
    pub fn name(&self) -> String {
        match self {
            Term::Case(case) => case.name(),
            Term::Link(link) => link.to_string(),
        }
    }

    /// The conditions of a case; `None`: it is a link.
    ///
    /// # Errors
    /// When the case cannot be configured.
    pub fn place(&self, runner: &Runner<'_>, metric: Metric) -> Result<Option<Conditions>> {
        match self {
            Term::Case(case) => case.place(runner.catalog(), metric).map(Some),
            Term::Link(_) => Ok(None),
        }
    }

    /// The value of the term by the rules of a document.
    ///
    /// # Errors
    /// When the case cannot be configured.
    pub fn value(&self, runner: &Runner<'_>, metric: Metric, doc: &str) -> Result<f64> {
        match self {
            Term::Case(case) => runner.value(case, metric),
            Term::Link(link) => Ok(link.mib_per_s(shares(doc))),
        }
    }
}
