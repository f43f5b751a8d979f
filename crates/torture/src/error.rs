//! Errors of a run.

use std::fmt;

/// The kind of a violated invariant. Stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A read returned a value that the sector cannot have.
    WrongData,
    /// A request failed although the level survives all losses.
    NeedlessError,
    /// The controller reports or does something wrong.
    WrongState,
    /// No progress, or no end.
    Stall,
    /// Two runs of one seed differ.
    Divergence,
    /// The code panicked.
    Panic,
}

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Stable, for decisions in code.
    pub kind: ErrorKind,
    /// A description for people.
    pub context: String,
    /// The last lines of the story before the error.
    pub story: Vec<String>,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of that kind and description.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into(), story: Vec::new() }
    }

    /// `Err` of a wrong state, with that description.
    pub(crate) fn wrong_state<T>(context: impl Into<String>) -> Result<T> {
        Err(Error::new(ErrorKind::WrongState, context))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.context)
    }
}

impl std::error::Error for Error {}
