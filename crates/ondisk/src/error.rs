//! Why bytes are not what they should be.

use std::fmt;

/// What kind of fault. Stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Nothing of ours is there.
    Blank,
    /// The format's version is one that this software does not know.
    Version,
    /// A checksum does not agree, or a length cannot be.
    Damaged,
    /// The checksums agree, but the content contradicts itself.
    Contradiction,
    /// It does not fit.
    TooLarge,
}

/// A kind for programs and a sentence for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Stable: code decides by it.
    pub kind: ErrorKind,
    /// What was found and what was expected.
    pub context: String,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}
