//! What can be wrong with a layout.

use std::fmt;

/// The stable kind of an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// No level has that name.
    UnknownLevel,
    /// No arrangement of parity or of mirrors has that name.
    UnknownArrangement,
    /// Fewer drives than the level needs.
    TooFewDrives,
    /// More drives than the level takes.
    TooManyDrives,
    /// The drives cannot be divided into spans like that.
    BadSpans,
    /// The level cannot keep that many copies.
    BadCopies,
    /// The level does not have that arrangement of parity or of mirrors.
    ForeignArrangement,
    /// The drives do not hold one whole stripe.
    TooSmall,
    /// The volume would have more bytes than an address can name.
    TooLarge,
}

/// Why a layout cannot be: a kind for programs and one sentence for people, which names the value, what
/// was expected, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What went wrong, for programs.
    pub kind: ErrorKind,
    /// What went wrong, for people.
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
