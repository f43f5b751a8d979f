//! What can go wrong at the seam.

use std::fmt;

/// What kind of failure an operation on a drive met. Stable: code above decides by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum IoErrorKind {
    /// The drive could not read or write these blocks (EIO, EILSEQ, EBADMSG); others may be fine.
    Medium,
    /// The drive is not there any more (ENODEV, ENXIO, a lost connection, or stopped by an administrator).
    Gone,
    /// The file or device below the drive is not what it was: truncated, deleted, or replaced by another.
    Changed,
    /// The operation did not return in the time the drive was given; it may still be under way.
    TimedOut,
    /// The file system below a file drive is full: the drive itself is fine.
    OutOfSpace,
    /// The drive cannot do this kind of operation (trim, write zeroes).
    NotSupported,
    /// The drive is read-only.
    ReadOnly,
    /// The request was wrong (out of range, misaligned): a defect of the caller.
    Invalid,
    /// The system could not carry it out for now (no memory, a busy device), however often it was asked within the time limit:
    /// nothing was done, and the drive is fine.
    Busy,
    /// The system reported an error number without a known meaning: it says nothing of these blocks.
    Unknown,
    /// A read that others can serve as well did not return within the short limit: the drive has it still, and is fine so far.
    Late,
}

/// A failed operation on a drive or a stream: small and `Copy`, because it is on the hot path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IoError {
    /// What kind of failure.
    pub kind: IoErrorKind,
    /// The operating system's error number, zero where it was not the operating system.
    pub errno: i32,
}

impl IoError {
    /// A failure that did not come from the operating system.
    pub const fn new(kind: IoErrorKind) -> IoError {
        IoError { kind, errno: 0 }
    }

    /// Whether the drive is fine although the operation failed: the file system below it is full, the system could not carry
    /// out the operation for now, or it merely takes long. It never counts as a failure of the drive.
    pub const fn spares_drive(&self) -> bool {
        matches!(self.kind, IoErrorKind::OutOfSpace | IoErrorKind::Busy | IoErrorKind::Late)
    }

    /// Whether a read that failed so says that the drive cannot read these blocks. After any other error they may be readable:
    /// they are neither repaired nor listed as punctured.
    pub const fn is_of_blocks(&self) -> bool {
        matches!(self.kind, IoErrorKind::Medium)
    }

    /// Whether a write that failed so was refused by the drive: it did not take these blocks, and may take others. An error without
    /// a known meaning counts as a refusal. The drive may or may not hold what was written, so that it must not be
    /// read there: it fails, or the blocks are excluded.
    pub const fn is_refusal(&self) -> bool {
        matches!(self.kind, IoErrorKind::Medium | IoErrorKind::Unknown)
    }
}

impl fmt::Debug for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            IoErrorKind::Medium => "medium error",
            IoErrorKind::Gone => "drive gone",
            IoErrorKind::Changed => "what is below the drive was truncated, deleted or replaced",
            IoErrorKind::TimedOut => "operation timed out",
            IoErrorKind::OutOfSpace => "no space left below the drive",
            IoErrorKind::NotSupported => "operation not supported",
            IoErrorKind::ReadOnly => "drive is read-only",
            IoErrorKind::Invalid => "invalid request",
            IoErrorKind::Busy => "the system could not carry out the operation for now",
            IoErrorKind::Unknown => "error without a known meaning",
            IoErrorKind::Late => "the read takes long",
        })?;
        if self.errno != 0 {
            write!(f, " (errno {})", self.errno)?;
        }
        Ok(())
    }
}

impl std::error::Error for IoError {}

/// What kind of failure opening, binding or storing something met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// It does not exist.
    NotFound,
    /// It is not of a kind that can serve here (a directory given as a drive, say).
    WrongKind,
    /// Permission denied, or read-only.
    Denied,
    /// Somebody else holds it: another controller has the drive, another server the socket.
    InUse,
    /// No space left.
    OutOfSpace,
    /// The text that names it cannot be understood.
    BadName,
    /// The other side does not answer, or not in the expected protocol.
    Unreachable,
    /// Anything else that the operating system reported.
    System,
}

/// A failure away from the hot path: a stable kind, one clear sentence, and the cause underneath.
#[derive(Debug)]
pub struct Error {
    /// Stable: code decides by it.
    pub kind: ErrorKind,
    /// One sentence that names the thing, what was expected, and what to do.
    pub context: String,
    /// What lies underneath, if anything.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure without a deeper cause.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into(), source: None }
    }

    /// The same failure with its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}
