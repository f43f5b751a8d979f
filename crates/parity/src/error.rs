//! What a caller can get wrong. Nothing is written when an error is returned.

use std::fmt;

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Strips of one call differ in length.
    Length,
    /// A strip is hollow: it has a length and no bytes, so there is nothing to compute from.
    Hollow,
    /// An exponent above 254, or the same one twice: Q would not tell the strips apart.
    Exponent,
    /// More data strips than Q can tell apart (255).
    TooMany,
    /// More strips are lost than what is left determines, or P or Q that is needed was not given.
    NotEnough,
}

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    context: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into() }
    }

    /// Why the call was refused.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}
