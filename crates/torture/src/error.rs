//! Why a run failed.

use std::fmt;

/// What kind of promise was broken. Stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A read brought what the sector may not hold.
    WrongData,
    /// A request failed although no more was lost than the level survives.
    NeedlessError,
    /// The controller says of itself, or does, what it should not.
    WrongState,
    /// It does not go on, or does not come to an end.
    Stall,
    /// Two runs of one seed differ.
    Divergence,
    /// The code panicked.
    Panic,
}

/// A broken promise: its kind, and the sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Stable: code decides by it.
    pub kind: ErrorKind,
    /// What happened, in people's words.
    pub context: String,
    /// What happened last before it, a line each.
    pub story: Vec<String>,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Of that kind, with that sentence.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into(), story: Vec::new() }
    }

    /// `Err` of a wrong state, with that sentence.
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
