//! The failure of a command: a message, a kind for programs, and an exit code.
//!
//! | exit code | meaning |
//! | --- | --- |
//! | 0 | done, no problem found |
//! | 1 | failed after it started; or done, and a problem was found |
//! | 2 | wrong command line: nothing was changed |
//! | 3 | refused in the current state: nothing was changed |
//! | 4 | a named object does not exist: nothing was changed |
//! | 130 | interrupted |

use crate::output;
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;

/// A failed command, or a problem that it found.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// For programs: see `docs/operate/scripting.md`.
    kind: String,
    #[serde(rename = "message")]
    sentence: String,
    #[serde(skip)]
    code: u8,
}

/// A result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    fn new(kind: impl Into<String>, code: u8, sentence: impl fmt::Display) -> Failure {
        Failure { kind: kind.into(), sentence: sentence.to_string(), code }
    }

    /// The command line is wrong in any state: nothing was changed. Exit code 2.
    pub fn usage(sentence: impl fmt::Display) -> Failure {
        Failure::new("usage", 2, sentence)
    }

    /// The command is refused in the current state: nothing was changed. Exit code 3.
    pub fn refused(sentence: impl fmt::Display) -> Failure {
        Failure::new("refused", 3, sentence)
    }

    /// A named object does not exist: nothing was changed. Exit code 4.
    pub fn not_found(sentence: impl fmt::Display) -> Failure {
        Failure::new("not-found", 4, sentence)
    }

    /// The command failed after it started. Exit code 1.
    pub fn failed(sentence: impl fmt::Display) -> Failure {
        Failure::new("failed", 1, sentence)
    }

    /// The command succeeded and found a problem. Exit code 1.
    pub fn not_well(sentence: impl fmt::Display) -> Failure {
        Failure::new("not-well", 1, sentence)
    }

    /// The user interrupted the command; its result is partial. Exit code 130, as after Ctrl-C.
    pub fn stopped(sentence: impl fmt::Display) -> Failure {
        Failure::new("stopped", 130, sentence)
    }

    /// Whether a drive did not respond in time, but may respond later.
    pub fn is_unavailable(&self) -> bool {
        self.kind == controller::ErrorKind::Unavailable.name()
    }

    /// The first of several failures, which were reported already, of several operands.
    pub fn of_several(&self, failures: usize, operands: usize) -> Failure {
        let were = if failures == 1 { "was" } else { "were" };
        Failure {
            sentence: format!("{failures} of {operands} {were} not completed"),
            ..self.clone()
        }
    }

    /// The failure with one more sentence.
    pub fn with_advice(mut self, advice: &str) -> Failure {
        self.sentence = format!("{}; {advice}", self.sentence);
        self
    }

    /// Reports the failure and returns the exit code. JSON on standard output if requested and no
    /// JSON was printed yet, otherwise a message on standard error.
    pub fn report(&self, json: bool) -> ExitCode {
        if json && !output::has_answered() {
            // A closed pipe is ignored; the exit code stays.
            let _ = output::json(&self.as_json());
        } else {
            output::say(&format!("softroc: {}", units::printable(&self.sentence)));
        }
        ExitCode::from(self.code)
    }

    /// `{"error": {"kind": ..., "message": ...}}`.
    pub fn as_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": self })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<controller::Error> for Failure {
    fn from(error: controller::Error) -> Failure {
        Failure::new(error.kind.name(), error.exit_code(), error)
    }
}

impl From<platform::Error> for Failure {
    fn from(error: platform::Error) -> Failure {
        use platform::ErrorKind::{
            BadName, Denied, InUse, NotFound, OutOfSpace, System, Unreachable, WrongKind,
        };
        match error.kind {
            System | Unreachable => Failure::failed(error),
            NotFound => Failure::not_found(error),
            BadName => Failure::usage(error),
            InUse => Failure::new("in-use", 3, error),
            OutOfSpace => Failure::new("out-of-space", 3, error),
            WrongKind | Denied => Failure::refused(error),
        }
    }
}

impl From<layout::Error> for Failure {
    fn from(error: layout::Error) -> Failure {
        Failure::usage(error)
    }
}

impl From<storagebench::Error> for Failure {
    fn from(error: storagebench::Error) -> Failure {
        use storagebench::ErrorKind::{
            BadLadder, BadProfile, BadSettings, HoldsData, Misaligned, OutOfMemory, ReadOnly,
            TooSmall, Unreachable,
        };
        match error.kind {
            BadProfile | BadLadder | BadSettings | TooSmall | Misaligned => Failure::usage(error),
            HoldsData => Failure::new("holds-data", 3, error),
            ReadOnly | OutOfMemory | Unreachable => Failure::refused(error),
        }
    }
}

impl From<predict::Error> for Failure {
    fn from(error: predict::Error) -> Failure {
        match error.kind {
            predict::ErrorKind::Refused => Failure::usage(error),
            predict::ErrorKind::Failed => Failure::failed(error),
        }
    }
}
