//! Maps error numbers of the operating system to errors of the platform.
//!
//! # Classes
//! - *Temporary* ([`is_for_now`]): the system lacks memory, files or a free device. Nothing was
//!   done, and a repetition may succeed. A drive request is repeated after growing pauses
//!   ([`transfer`](crate::transfer)). If it still fails at its time limit, it is `Busy`, which
//!   never fails a drive.
//! - *Blocks*: `Medium`, only for the numbers that drives and file systems report for unreadable or
//!   unwritable blocks. A failed read may be repaired, and its blocks listed as punctured.
//! - *Without a known meaning*: `Unknown`. Redundancy serves a read, and its blocks are not listed
//!   as punctured, which would lose readable ones. A write counts as refused, as after `Medium`:
//!   the drive may or may not hold it, and must not be read there.

use platform::{ErrorKind, IoError, IoErrorKind};
use std::io;

/// The meaning of a failed drive operation. `errno` is positive.
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
        libc::EROFS | libc::EBADF | libc::EPERM | libc::EACCES | libc::ETXTBSY => {
            IoErrorKind::ReadOnly
        }
        libc::EINVAL | libc::EFAULT => IoErrorKind::Invalid,
        // Errors of blocks; file systems report the last one for a checksum error.
        libc::EIO
        | libc::EILSEQ
        | libc::EBADMSG
        | libc::ENODATA
        | libc::EREMOTEIO
        | libc::EUCLEAN => IoErrorKind::Medium,
        libc::EINTR => IoErrorKind::Busy,
        _ if is_for_now(errno) => IoErrorKind::Busy,
        _ => IoErrorKind::Unknown,
    };
    IoError { kind, errno }
}

/// Whether the system refused an operation temporarily: a repetition may succeed.
pub(crate) fn is_for_now(errno: i32) -> bool {
    matches!(
        errno,
        libc::EAGAIN | libc::ENOMEM | libc::EBUSY | libc::ENOBUFS | libc::ENFILE | libc::EMFILE
    )
}

/// The meaning of a failed stream operation: the peer is unreachable, or the caller is wrong.
pub(crate) fn stream_error(errno: i32) -> IoError {
    let kind = match errno {
        libc::EINVAL | libc::EFAULT | libc::EBADF | libc::ENOTSOCK => IoErrorKind::Invalid,
        _ => IoErrorKind::Gone,
    };
    IoError { kind, errno }
}

/// Whether a stream operation must be repeated.
pub(crate) fn is_transient(errno: i32) -> bool {
    errno == libc::EINTR || errno == libc::EAGAIN
}

/// An error off the I/O path, with its cause: the kind follows from the error number.
pub(crate) fn system_error(
    error: impl Into<io::Error>,
    context: impl Into<String>,
) -> platform::Error {
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
            libc::ECONNREFUSED
            | libc::ECONNRESET
            | libc::ETIMEDOUT
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH,
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
        for errno in
            [libc::EIO, libc::EILSEQ, libc::EBADMSG, libc::ENODATA, libc::EREMOTEIO, libc::EUCLEAN]
        {
            assert_eq!(kind(errno), IoErrorKind::Medium, "{errno}");
        }
        let for_now =
            [libc::ENOMEM, libc::EBUSY, libc::EAGAIN, libc::ENOBUFS, libc::ENFILE, libc::EMFILE];
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
