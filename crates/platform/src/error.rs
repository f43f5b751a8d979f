//! Errors of the platform.

use std::fmt;

/// The kind of a failed drive operation. Stable: callers decide by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum IoErrorKind {
    /// The drive could not read or write these blocks (EIO, EILSEQ, EBADMSG); others may be fine.
    Medium,
    /// The drive does not exist any more (ENODEV, ENXIO, a lost connection), or an administrator
    /// stopped it.
    Gone,
    /// The file or device below the drive was truncated, deleted or replaced.
    Changed,
    /// The operation exceeded its time limit; it may still be in progress.
    TimedOut,
    /// The file system below a file drive is full; the drive itself works.
    OutOfSpace,
    /// The drive does not support this operation (trim, write zeroes).
    NotSupported,
    /// The drive is read-only.
    ReadOnly,
    /// The request was wrong (out of range, misaligned): a defect of the caller.
    Invalid,
    /// The system refused the operation for now (no memory, a busy device), at every attempt within
    /// the time limit. Nothing was done, and the drive works.
    Busy,
    /// An error number without a known meaning: it says nothing about these blocks.
    Unknown,
    /// A read that redundancy can serve exceeded the short limit. The drive still has it, and
    /// counts as working.
    Late,
}

/// A failed operation on a drive or a stream: small and `Copy`, because it is on the I/O path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IoError {
    /// The kind of failure.
    pub kind: IoErrorKind,
    /// The operating system's error number; zero for other errors.
    pub errno: i32,
}

impl IoError {
    /// A failure that did not come from the operating system.
    pub const fn new(kind: IoErrorKind) -> IoError {
        IoError { kind, errno: 0 }
    }

    /// Whether the drive works although the operation failed: its file system is full, the system
    /// refused the operation for now, or it only takes long. Such an error never fails the drive.
    pub const fn spares_drive(&self) -> bool {
        matches!(self.kind, IoErrorKind::OutOfSpace | IoErrorKind::Busy | IoErrorKind::Late)
    }

    /// Whether a read error means that the drive cannot read these blocks. After other errors they
    /// may be readable: they are neither repaired nor listed as punctured.
    pub const fn is_of_blocks(&self) -> bool {
        matches!(self.kind, IoErrorKind::Medium)
    }

    /// Whether a write error means that the drive refused these blocks; it may accept others. An
    /// error without a known meaning counts as a refusal. The drive may hold old or new data, and
    /// must not be read there: it fails, or the blocks are excluded from reads.
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
            IoErrorKind::Changed => {
                "the file or device of the drive was truncated, deleted or replaced"
            }
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

/// The kind of a failure to open, bind or store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// It does not exist.
    NotFound,
    /// The wrong kind of object (such as a directory given as a drive).
    WrongKind,
    /// Permission denied, or read-only.
    Denied,
    /// In use: another controller has the drive, another server the socket.
    InUse,
    /// No space left.
    OutOfSpace,
    /// The name or address is invalid.
    BadName,
    /// The other side does not respond, or uses another protocol.
    Unreachable,
    /// Any other error of the operating system.
    System,
}

/// A failure off the I/O path: a stable kind, one clear sentence, and its cause.
#[derive(Debug)]
pub struct Error {
    /// Stable: callers decide by it.
    pub kind: ErrorKind,
    /// One sentence: the object, what was expected, and what to do.
    pub context: String,
    /// The cause, if there is one.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure without a cause.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Error {
        Error { kind, context: context.into(), source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
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
