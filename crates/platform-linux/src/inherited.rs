//! Listening sockets that the parent process passes on, such as systemd for socket activation
//! (sd_listen_fds(3)): `LISTEN_PID` is this process, and `LISTEN_FDS` files start at number 3.
//!
//! Such a socket outlives the process. Connections during a restart wait in its queue, so that a
//! restart is only a pause. This process never shuts it down and never removes its file: the parent
//! owns both.

use crate::connect::make_blocking;
use crate::errno::system_error;
use platform::{Address, Error, ErrorKind, Result};
use rustix::io::{Errno, FdFlags};
use rustix::net::{SocketAddrAny, SocketAddrUnix, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of the first passed file.
const FIRST: RawFd = 3;

/// A listening socket that the parent process passed on.
#[derive(Clone, Debug)]
pub struct InheritedSocket {
    socket: Arc<OwnedFd>,
    address: Address,
}

impl InheritedSocket {
    /// The address where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A duplicate file descriptor of the socket.
    pub(crate) fn file(&self) -> Result<OwnedFd> {
        self.socket.try_clone().map_err(|error| {
            Error::new(ErrorKind::System, format!("cannot take over the socket {}", self.address))
                .caused_by(error)
        })
    }

    /// Whether it is the socket of that path.
    pub(crate) fn is_at_path(&self, path: &str) -> bool {
        let absolute = |path: &str| std::path::absolute(path).ok();
        let Address::Unix(own) = &self.address else { return false };
        absolute(own).is_some_and(|own| absolute(path) == Some(own))
    }

    /// Whether it listens at that network address.
    pub(crate) fn is_at(&self, wanted: &SocketAddr) -> bool {
        let Address::Tcp { host, port } = &self.address else { return false };
        host.parse().is_ok_and(|host| SocketAddr::new(host, *port) == *wanted)
    }
}

/// The passed sockets; empty at later calls.
///
/// # Errors
/// If a passed file is not a listening socket, or has no supported address.
pub fn inherited_sockets() -> Result<Vec<InheritedSocket>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name| std::env::var(name).ok();
    let count = count(variable("LISTEN_PID").as_deref(), variable("LISTEN_FDS").as_deref())?;
    if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count).map(take).collect()
}

/// The number of passed files.
fn count(pid: Option<&str>, files: Option<&str>) -> Result<RawFd> {
    let (Some(pid), Some(files)) = (pid, files) else { return Ok(0) };
    // The variables were meant for another process.
    if pid.trim().parse() != Ok(std::process::id()) {
        return Ok(0);
    }
    let count = files.trim().parse().ok().filter(|count| (0..=1024).contains(count));
    count.ok_or_else(|| {
        let sentence = format!("LISTEN_FDS is '{files}', not a number of sockets; unset it");
        Error::new(ErrorKind::BadName, sentence)
    })
}

fn take(number: RawFd) -> Result<InheritedSocket> {
    // SAFETY: the number is only used for this query, which fails if there is no such file.
    let there =
        rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC);
    there.map_err(|error| {
        system_error(error, format!("cannot use file {number}, which LISTEN_FDS lists as a socket"))
    })?;
    // SAFETY: it is open, was passed to this process to own, and is taken once (`TAKEN`).
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let wrong = |why: &str| {
        let sentence =
            format!("file {number} of LISTEN_FDS {why}; pass only listening stream sockets");
        Error::new(ErrorKind::WrongKind, sentence)
    };
    let is_stream =
        sockopt::socket_type(&socket).map_err(|_| wrong("is not a socket"))? == SocketType::STREAM;
    if !is_stream || sockopt::socket_acceptconn(&socket) != Ok(true) {
        return Err(wrong("does not listen"));
    }
    let name = rustix::net::getsockname(&socket).map_err(|_| wrong("has no address"))?;
    let address = address_of(name).ok_or_else(|| wrong("has neither a path nor a TCP address"))?;
    make_blocking(&socket)?;
    Ok(InheritedSocket { socket: Arc::new(socket), address })
}

fn address_of(name: SocketAddrAny) -> Option<Address> {
    if let Ok(address) = SocketAddr::try_from(name.clone()) {
        return Some(Address::Tcp { host: address.ip().to_string(), port: address.port() });
    }
    let unix = SocketAddrUnix::try_from(name).map_err(|_: Errno| ()).ok()?;
    let path = unix.path()?.to_str().ok()?.to_owned();
    Some(Address::Unix(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_for_the_process_that_is_named() {
        let own = std::process::id().to_string();
        assert_eq!(count(Some(&own), Some("2")).unwrap(), 2);
        assert_eq!(count(Some("1"), Some("2")).unwrap(), 0, "they are another's");
        assert_eq!((count(None, Some("2")).unwrap(), count(Some(&own), None).unwrap()), (0, 0));
        for wrong in ["two", "-1", "", "100000"] {
            assert!(count(Some(&own), Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_address_of_a_socket_is_that_of_its_name() {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let name = rustix::net::getsockname(&tcp).unwrap();
        assert_eq!(address_of(name), Some(Address::Tcp { host: "127.0.0.1".to_owned(), port }));
        let (nameless, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(address_of(rustix::net::getsockname(&nameless).unwrap()), None);
    }
}
