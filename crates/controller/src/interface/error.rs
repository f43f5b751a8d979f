//! Why a command was refused, or failed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of refusal or failure. Stable: interfaces decide by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// There is no such drive or volume.
    NotFound,
    /// The name is taken already.
    NameTaken,
    /// A value cannot be: an unknown level, a strip that is not a power of two, a bad name.
    Invalid,
    /// The drive belongs to an array, or another controller has it; hosts are connected to the volume.
    InUse,
    /// The drive holds something that would be lost.
    HoldsData,
    /// The drive cannot be opened, read or written: absent, read-only, no permission.
    Unavailable,
    /// The state of the drive or the volume does not allow it: stale, offline, degraded and dirty.
    WrongState,
    /// The order would lose data, and does not accept that.
    LosesData,
    /// No space is left, on a drive's file system or in memory.
    OutOfSpace,
    /// A drive failed while the command ran.
    Failed,
    /// Too many commands wait already, or the system could not write to a drive for now; try again.
    Busy,
    /// The controller shuts down, or is gone.
    Stopping,
    /// Whoever asks may not do that.
    Denied,
    /// Nobody knows who asks: no password, no session, or a wrong one.
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

/// One clear sentence that names the value, what was expected, and what to do; and its stable kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Error {
    /// Stable: interfaces decide by it.
    pub kind: ErrorKind,
    /// The sentence.
    pub message: String,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Of that kind, with that sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// The exit code of a program that was to run the command: 2 where the command itself cannot be, 4 where what it
    /// names is not there, 3 where it is refused as things are, and nothing was changed; 1 where it was right and
    /// something failed.
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
