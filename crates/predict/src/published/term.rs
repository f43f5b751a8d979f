//! What a statement speaks of: a case that is run, or a link.

use super::case::{Case, Metric, Place, Runner};
use super::links::{Interface, shares};
use crate::error::Result;

/// `CONTROLLER / DRIVES / LEVEL / PROFILE / METHOD / CACHE @ DEPTH`, or `link INTERFACE`.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A configuration under a load.
    Case(Box<Case>),
    /// What a link carries in practice, as the statement's document reckons.
    Link(Interface),
}

impl Term {
    /// Reads one.
    ///
    /// # Errors
    /// When it is neither.
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

    /// Where a case stands; `None`: it is a link.
    ///
    /// # Errors
    /// What cannot be configured.
    pub fn place(&self, runner: &Runner<'_>, metric: Metric) -> Result<Option<Place>> {
        match self {
            Term::Case(case) => case.place(runner.catalog(), metric).map(Some),
            Term::Link(_) => Ok(None),
        }
    }

    /// What it comes to in a document.
    ///
    /// # Errors
    /// What cannot be configured.
    pub fn value(&self, runner: &Runner<'_>, metric: Metric, doc: &str) -> Result<f64> {
        match self {
            Term::Case(case) => runner.value(case, metric),
            Term::Link(link) => Ok(link.mib_per_s(shares(doc))),
        }
    }
}
