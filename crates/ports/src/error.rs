//! Errors of opening a port.

use std::fmt;

/// The kind of failure. Stable: code decides by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address is reachable from other machines, and that was not allowed.
    Remote,
    /// The address is in use, not of this machine, or not permitted.
    Listen,
}

/// A failure to open a port: a stable kind, one sentence, and the cause.
#[derive(Debug)]
pub struct Error {
    /// Stable: code decides by it.
    pub kind: ErrorKind,
    /// One sentence: the object, the expected value, and the remedy.
    pub context: String,
    /// The underlying cause, if any.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

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
        self.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}
