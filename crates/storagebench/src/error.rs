//! Errors before a measurement starts.

use std::fmt;

/// The stable kind of an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// An invalid load profile.
    BadProfile,
    /// An invalid list of outstanding I/Os.
    BadLadder,
    /// Contradictory or impossible settings: no profile, no run time, no worker.
    BadSettings,
    /// The measured area is smaller than a block, or not on the target.
    TooSmall,
    /// A block or an area that is not a multiple of the target's sector.
    Misaligned,
    /// A writing profile on a read-only target.
    ReadOnly,
    /// A writing profile on a target with data.
    HoldsData,
    /// The buffers exceed the permitted memory.
    OutOfMemory,
    /// The target could not be attached or read.
    Unreachable,
}

/// The reason why a measurement does not start: a kind for programs and a sentence for people, with
/// the value, the expected form and the remedy.
#[derive(Debug)]
pub struct Error {
    /// The error for programs.
    pub kind: ErrorKind,
    /// The error for people.
    pub context: String,
    /// The underlying error, if any.
    pub source: Option<platform::Error>,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into(), source: None }
    }

    pub(crate) fn caused_by(mut self, source: platform::Error) -> Error {
        self.source = Some(source);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
