//! The operating system's error numbers in the words of the seam.

use env::{ErrorKind, IoError, IoErrorKind};
use std::io;

/// What a failed operation on a drive means. `errno` is positive.
pub(crate) fn drive_error(errno: i32) -> IoError {
    let kind = match errno {
        libc::ENODEV
        | libc::ENXIO
        | libc::ENOMEDIUM
        | libc::ENOLINK
        | libc::EBADE
        | libc::ESHUTDOWN
        | libc::ESTALE
        | libc::EPIPE
        | libc::ECONNRESET
        | libc::ECANCELED => IoErrorKind::Gone,
        libc::ETIMEDOUT => IoErrorKind::TimedOut,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => IoErrorKind::OutOfSpace,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY => IoErrorKind::NotSupported,
        libc::EROFS | libc::EBADF | libc::EPERM | libc::EACCES | libc::ETXTBSY => IoErrorKind::ReadOnly,
        libc::EINVAL | libc::EFAULT => IoErrorKind::Invalid,
        // EIO, EILSEQ, EBADMSG, ENODATA, EREMOTEIO: the blocks themselves. Of anything unheard of we only
        // know that these blocks were not moved.
        _ => IoErrorKind::Medium,
    };
    IoError { kind, errno }
}

/// What a failed operation on a stream means: the other side cannot be reached any more, or the caller erred.
pub(crate) fn stream_error(errno: i32) -> IoError {
    let kind = match errno {
        libc::EINVAL | libc::EFAULT | libc::EBADF | libc::ENOTSOCK => IoErrorKind::Invalid,
        _ => IoErrorKind::Gone,
    };
    IoError { kind, errno }
}

/// Whether the operating system asks for the same again.
pub(crate) fn is_transient(errno: i32) -> bool {
    errno == libc::EINTR || errno == libc::EAGAIN
}

/// A failure away from the hot path, with its cause: the kind follows from what the system said.
pub(crate) fn system_error(error: impl Into<io::Error>, context: impl Into<String>) -> env::Error {
    let error = error.into();
    let kind = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENXIO | libc::EADDRNOTAVAIL) => {
            ErrorKind::NotFound
        }
        Some(libc::EISDIR | libc::ENOTBLK | libc::ENOTSOCK) => ErrorKind::WrongKind,
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => ErrorKind::Denied,
        Some(libc::EBUSY | libc::EEXIST | libc::EADDRINUSE | libc::ETXTBSY) => ErrorKind::InUse,
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => ErrorKind::OutOfSpace,
        Some(libc::ENAMETOOLONG) => ErrorKind::BadName,
        Some(
            libc::ECONNREFUSED | libc::ECONNRESET | libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH,
        ) => ErrorKind::Unreachable,
        _ => ErrorKind::System,
    };
    env::Error::new(kind, context).caused_by(error)
}
