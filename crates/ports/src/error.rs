//! What can go wrong when a port is opened.

use std::fmt;

/// What kind of failure. Stable: code decides by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address can be reached from other machines, which was not allowed.
    Remote,
    /// Nothing can listen at the address: it is in use, not of this machine, or not permitted.
    Listen,
}

/// A failure to open a port: a stable kind, one clear sentence, and the cause underneath.
#[derive(Debug)]
pub struct Error {
    /// Stable: code decides by it.
    pub kind: ErrorKind,
    /// One sentence that names the thing, what was expected, and what to do.
    pub context: String,
    /// What lies underneath, if anything.
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
