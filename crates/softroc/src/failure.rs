//! How a command fails: one sentence on standard error, and an exit code.

use std::fmt;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    sentence: String,
    code: u8,
}

/// A result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The command, or a file or value it names, is wrong: nothing was changed. Exit code 2.
    pub fn refused(sentence: impl fmt::Display) -> Failure {
        Failure { sentence: sentence.to_string(), code: 2 }
    }

    /// The command was right, and something failed under way. Exit code 1.
    pub fn failed(sentence: impl fmt::Display) -> Failure {
        Failure { sentence: sentence.to_string(), code: 1 }
    }

    /// Somebody stopped the command: it did what it could until then. Exit code 130, as after Ctrl-C.
    pub fn stopped(sentence: impl fmt::Display) -> Failure {
        Failure { sentence: sentence.to_string(), code: 130 }
    }

    /// Prints the sentence; the exit code for the process.
    pub fn report(&self) -> ExitCode {
        eprintln!("softroc: {}", self.sentence);
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<env::Error> for Failure {
    fn from(error: env::Error) -> Failure {
        match error.kind {
            env::ErrorKind::System | env::ErrorKind::Unreachable => Failure::failed(error),
            _ => Failure::refused(error),
        }
    }
}

impl From<layout::Error> for Failure {
    fn from(error: layout::Error) -> Failure {
        Failure::refused(error)
    }
}

impl From<storagebench::Error> for Failure {
    fn from(error: storagebench::Error) -> Failure {
        Failure::refused(error)
    }
}

impl From<predict::Error> for Failure {
    fn from(error: predict::Error) -> Failure {
        match error.kind {
            predict::ErrorKind::Refused => Failure::refused(error),
            predict::ErrorKind::Failed => Failure::failed(error),
        }
    }
}
