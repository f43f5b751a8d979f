//! Errors of calls. A call that returns an error has written nothing.

use std::fmt;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The strips of a call differ in length.
    Length,
    /// A strip is a data-less buffer: it has a length, but no bytes to compute from.
    Hollow,
    /// An exponent above 254, or a duplicate: Q could not distinguish the strips.
    Exponent,
    /// More data strips than Q can distinguish (255).
    TooMany,
    /// The remaining strips and parity do not determine the lost strips.
    NotEnough,
}

/// An error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    context: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into() }
    }

    /// The kind of the error.
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
