//! Errors of layouts.

use std::fmt;

/// The stable kind of an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// No level has that name.
    UnknownLevel,
    /// No parity or mirror layout has that name.
    UnknownArrangement,
    /// Fewer drives than the level needs.
    TooFewDrives,
    /// More drives than the level allows.
    TooManyDrives,
    /// The drives cannot be divided into that number of spans.
    BadSpans,
    /// The level does not support that number of copies.
    BadCopies,
    /// The level does not support that parity or mirror layout.
    ForeignArrangement,
    /// The drives are too small for one stripe.
    TooSmall,
    /// The volume would be too large for its addresses.
    TooLarge,
}

/// The reason why a layout is invalid: a kind for programs, and a sentence with the value, the
/// expected values and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The kind, for programs.
    pub kind: ErrorKind,
    /// The sentence, for operators.
    pub context: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: String) -> Error {
        Error { kind, context }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}
