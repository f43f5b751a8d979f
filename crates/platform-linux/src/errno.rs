//! The operating system's error numbers in the words of the seam.
//!
//! # Classes
//! - *For now* ([`is_for_now`]): the system lacks memory, files or a free device. Nothing was done, and the same may work a moment
//!   later: a request to a drive is repeated after pauses that grow ([`transfer`](crate::transfer)). What is still refused when its
//!   time is up is `Busy`, which no drive fails for.
//! - *The blocks*: the numbers that drives and file systems report for blocks they cannot read or write are `Medium`, and no others.
//!   A read that ends so may be repaired, and its blocks may be listed as punctured.
//! - *Without a known meaning*: `Unknown`. A read is served by redundancy, and nothing is concluded about its blocks: listed as
//!   punctured, readable blocks would be lost. A write counts as refused, as after `Medium`: the drive may or may not hold it, and must
//!   not be read there.

use platform::{ErrorKind, IoError, IoErrorKind};
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
        // The blocks themselves; the last is a file system's word for what does not agree with its checksum.
        libc::EIO | libc::EILSEQ | libc::EBADMSG | libc::ENODATA | libc::EREMOTEIO | libc::EUCLEAN => {
            IoErrorKind::Medium
        }
        libc::EINTR => IoErrorKind::Busy,
        _ if is_for_now(errno) => IoErrorKind::Busy,
        _ => IoErrorKind::Unknown,
    };
    IoError { kind, errno }
}

/// Whether the system could not carry out an operation for now: the same may work a moment later.
pub(crate) fn is_for_now(errno: i32) -> bool {
    matches!(errno, libc::EAGAIN | libc::ENOMEM | libc::EBUSY | libc::ENOBUFS | libc::ENFILE | libc::EMFILE)
}

/// What a failed operation on a stream means: the other side cannot be reached any more, or the caller erred.
pub(crate) fn stream_error(errno: i32) -> IoError {
    let kind = match errno {
        libc::EINVAL | libc::EFAULT | libc::EBADF | libc::ENOTSOCK => IoErrorKind::Invalid,
        _ => IoErrorKind::Gone,
    };
    IoError { kind, errno }
}

/// Whether the operating system asks for the same again, of a stream.
pub(crate) fn is_transient(errno: i32) -> bool {
    errno == libc::EINTR || errno == libc::EAGAIN
}

/// A failure away from the hot path, with its cause: the kind follows from what the system said.
pub(crate) fn system_error(error: impl Into<io::Error>, context: impl Into<String>) -> platform::Error {
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
    platform::Error::new(kind, context).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_of_blocks_is_a_medium_error() {
        let kind = |errno| drive_error(errno).kind;
        for errno in [libc::EIO, libc::EILSEQ, libc::EBADMSG, libc::ENODATA, libc::EREMOTEIO, libc::EUCLEAN] {
            assert_eq!(kind(errno), IoErrorKind::Medium, "{errno}");
        }
        let for_now = [libc::ENOMEM, libc::EBUSY, libc::EAGAIN, libc::ENOBUFS, libc::ENFILE, libc::EMFILE];
        for errno in for_now.into_iter().chain([libc::EINTR]) {
            assert_eq!(kind(errno), IoErrorKind::Busy, "{errno}");
            assert!(drive_error(errno).spares_drive());
        }
        for errno in [libc::ELOOP, libc::ETIME, libc::EOVERFLOW, libc::EKEYREJECTED, 4095] {
            assert_eq!(kind(errno), IoErrorKind::Unknown, "{errno}");
            assert!(!drive_error(errno).is_of_blocks() && drive_error(errno).is_refusal());
        }
    }
}
