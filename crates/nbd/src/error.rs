//! The crate's error: a stable kind, a sentence, and where there is one, the cause.

use std::borrow::Cow;
use std::fmt;

/// What went wrong, for programs; the sentence of [`Error`] is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The peer doesn't speak NBD, or only its oldstyle negotiation.
    NotNbd,
    /// A magic number is missing where a message should begin: the stream can't be followed any more.
    FramingLost,
    /// The peer broke a rule of the protocol that can't be answered; the connection has to be closed.
    Protocol,
    /// A length exceeds this crate's bounds, or the peer sent more messages than its task can need.
    TooBig,
    /// The server has no export of that name (or won't say).
    UnknownExport,
    /// The server insists on TLS.
    TlsRequired,
    /// The server refused the option for another reason; its message is in the sentence.
    Refused,
    /// The server is shutting down.
    ShuttingDown,
    /// The peer ended the stream in the middle of something.
    Closed,
    /// The caller asked for something that the negotiated connection doesn't permit.
    Usage,
    /// An address that isn't a usable NBD URI.
    Uri,
}

/// An error of the NBD protocol.
///
/// On a connection every error is final except [`ErrorKind::Usage`]: send what output there is, then close.
#[derive(Debug)]
pub struct Error {
    /// What went wrong, stable for programs.
    pub kind: ErrorKind,
    context: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Shorthand for results with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Error {
        Error { kind, context: context.into(), source: None }
    }

    pub(crate) fn with_source(
        kind: ErrorKind,
        context: impl Into<Cow<'static, str>>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        Error { kind, context: context.into(), source: Some(Box::new(source)) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}
