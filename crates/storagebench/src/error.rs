//! What can be wrong before a measurement starts.

use std::fmt;

/// The stable kind of an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A load profile that cannot be understood.
    BadProfile,
    /// A ladder of outstanding I/Os that cannot be understood.
    BadLadder,
    /// Settings that contradict one another or cannot be: no profile, no run time, no worker.
    BadSettings,
    /// The measured area does not hold one block, or is not on the target.
    TooSmall,
    /// A block or an area that is not whole sectors of the target.
    Misaligned,
    /// A profile that writes, and a target that refuses writes.
    ReadOnly,
    /// A profile that writes, and a target that holds something.
    HoldsData,
    /// The buffers do not fit into the memory that was allowed for them.
    OutOfMemory,
    /// The target could not be attached or read.
    Unreachable,
}

/// Why a measurement does not start: a kind for programs and one sentence for people, which names the value,
/// what was expected, and what to do.
#[derive(Debug)]
pub struct Error {
    /// What is wrong, for programs.
    pub kind: ErrorKind,
    /// What is wrong, for people.
    pub context: String,
    /// What lies underneath, if anything.
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
