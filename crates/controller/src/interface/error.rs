//! Errors: why a command was refused, or failed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of error. Stable: programs decide by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// There is no such drive or volume.
    NotFound,
    /// The name is taken already.
    NameTaken,
    /// A value is invalid: an unknown level, a strip that is not a power of two, a bad name.
    Invalid,
    /// The drive belongs to an array or is used by another controller, or hosts use the volume.
    InUse,
    /// The drive holds data that would be lost.
    HoldsData,
    /// The drive cannot be opened, read or written: absent, read-only, no permission.
    Unavailable,
    /// The state of the drive or the volume does not allow it: stale, offline, degraded and dirty.
    WrongState,
    /// The command would lose data, and does not accept the loss.
    LosesData,
    /// No space is left, on a drive's file system or in memory.
    OutOfSpace,
    /// A drive failed while the command ran.
    Failed,
    /// Too many commands are waiting, or a write to a drive failed temporarily; try again.
    Busy,
    /// The controller shuts down, or is gone.
    Stopping,
    /// The account lacks the right.
    Denied,
    /// Authentication failed: no password or session, or a wrong one.
    Unauthenticated,
}

impl ErrorKind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not-found",
            ErrorKind::NameTaken => "name-taken",
            ErrorKind::Invalid => "invalid",
            ErrorKind::InUse => "in-use",
            ErrorKind::HoldsData => "holds-data",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::WrongState => "wrong-state",
            ErrorKind::LosesData => "loses-data",
            ErrorKind::OutOfSpace => "out-of-space",
            ErrorKind::Failed => "failed",
            ErrorKind::Busy => "busy",
            ErrorKind::Stopping => "stopping",
            ErrorKind::Denied => "denied",
            ErrorKind::Unauthenticated => "unauthenticated",
        }
    }
}

/// An error: a stable kind, and a sentence with the value, the expectation and the remedy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Error {
    /// Its stable kind.
    pub kind: ErrorKind,
    /// The sentence.
    pub message: String,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this kind with this sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// The exit code of a program that runs the command: 1 if it failed, 2 if it is invalid, 3 if
    /// the current state does not allow it and nothing was changed, 4 if its object does not exist.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::Failed | ErrorKind::OutOfSpace | ErrorKind::Busy | ErrorKind::Stopping => 1,
            ErrorKind::Invalid => 2,
            ErrorKind::NameTaken
            | ErrorKind::InUse
            | ErrorKind::HoldsData
            | ErrorKind::Unavailable
            | ErrorKind::WrongState
            | ErrorKind::LosesData
            | ErrorKind::Denied
            | ErrorKind::Unauthenticated => 3,
            ErrorKind::NotFound => 4,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_called_in_rust_what_it_is_called_in_json() {
        let all = [
            ErrorKind::NotFound,
            ErrorKind::NameTaken,
            ErrorKind::Invalid,
            ErrorKind::InUse,
            ErrorKind::HoldsData,
            ErrorKind::Unavailable,
            ErrorKind::WrongState,
            ErrorKind::LosesData,
            ErrorKind::OutOfSpace,
            ErrorKind::Failed,
            ErrorKind::Busy,
            ErrorKind::Stopping,
            ErrorKind::Denied,
            ErrorKind::Unauthenticated,
        ];
        for kind in all {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            assert!((1..=4).contains(&Error::new(kind, "why").exit_code()));
        }
    }
}
