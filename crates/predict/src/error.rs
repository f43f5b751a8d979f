//! Errors of predictions, comparisons and fits.

use std::fmt;

/// The stable kind of an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The request is invalid; nothing was run.
    Refused,
    /// The request is valid, but its execution failed.
    Failed,
}

/// A kind for programs, and a sentence for people with the value and what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// For programs.
    pub kind: ErrorKind,
    /// For people.
    pub sentence: String,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn refused(sentence: impl fmt::Display) -> Error {
        Error { kind: ErrorKind::Refused, sentence: sentence.to_string() }
    }

    pub(crate) fn failed(sentence: impl fmt::Display) -> Error {
        Error { kind: ErrorKind::Failed, sentence: sentence.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

impl From<platform::Error> for Error {
    fn from(error: platform::Error) -> Error {
        match error.kind {
            platform::ErrorKind::System | platform::ErrorKind::Unreachable => Error::failed(error),
            _ => Error::refused(error),
        }
    }
}

impl From<layout::Error> for Error {
    fn from(error: layout::Error) -> Error {
        Error::refused(error)
    }
}

impl From<storagebench::Error> for Error {
    fn from(error: storagebench::Error) -> Error {
        Error::refused(error)
    }
}

impl From<models::catalog::Error> for Error {
    fn from(error: models::catalog::Error) -> Error {
        Error::refused(error)
    }
}
