//! The crate's error: a stable kind, a sentence, and an optional cause.

use std::borrow::Cow;
use std::fmt;

/// The kind of an error, for programs; the message of [`Error`] is for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The peer does not use NBD, or only its oldstyle negotiation.
    NotNbd,
    /// A magic number is missing: the stream is out of sync.
    FramingLost,
    /// The peer violated the protocol in a way that has no error reply; close the connection.
    Protocol,
    /// A length exceeds this crate's limits, or the peer sent too many messages.
    TooBig,
    /// The server has no export of that name (or hides it).
    UnknownExport,
    /// The server requires TLS.
    TlsRequired,
    /// The server refused the option for another reason; the error includes its message.
    Refused,
    /// The server is shutting down.
    ShuttingDown,
    /// The peer closed the stream inside a message.
    Closed,
    /// The caller's request violates the negotiated parameters.
    Usage,
    /// An invalid NBD URI.
    Uri,
}

/// An error of the NBD protocol.
///
/// All errors except [`ErrorKind::Usage`] end the connection: send the output, then close.
#[derive(Debug)]
pub struct Error {
    /// The kind, stable for programs.
    pub kind: ErrorKind,
    context: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Short form for results with this crate's [`Error`].
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
