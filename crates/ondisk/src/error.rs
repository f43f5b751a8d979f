//! Errors of decoding and encoding.

use std::fmt;

/// The kind of an error. Stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// No structure of SoftROC.
    Blank,
    /// An unsupported version of the format.
    Version,
    /// A wrong checksum, or an invalid length.
    Damaged,
    /// Valid checksums, but contradictory content.
    Contradiction,
    /// Too large for its space.
    TooLarge,
}

/// A kind for programs and a sentence for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Stable: code decides by it.
    pub kind: ErrorKind,
    /// The found and the expected state.
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
