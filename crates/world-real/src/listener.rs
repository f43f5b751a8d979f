//! Listening sockets.
//!
//! A Unix socket's file outlives a server that was killed. Whoever comes next finds out by connecting: if
//! nobody answers, the file is a leftover and is replaced; if somebody does, the address is in use. A socket that was
//! handed to this process (`inherited`) is taken over instead, where it listens at the address.

use crate::connect::{set_no_delay, unix_address};
use crate::dying::{is_dead, outlive};
use crate::errno::system_error;
use crate::inherited::InheritedSocket;
use crate::peer;
use crate::ports::port_holder;
use crate::ring::Ring;
use crate::stream::SocketSource;
use crate::wait::WaitFor;
use crate::worker::Worker;
use crate::world::resolve;
use env::{Address, Error, ErrorKind, Listener, LocalFuture, Peer, Result, StreamSource, TaskId};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long to wait before accepting again when the machine is out of files or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

struct SocketListener {
    socket: Rc<OwnedFd>,
    ring: Rc<Ring>,
    address: Address,
    /// The socket's file, by device and inode: only our own is removed.
    file: Option<(u64, u64)>,
    /// Others have it too, so that it must go on listening when this listener does not any more.
    is_inherited: bool,
    closed: Cell<bool>,
    /// Who waits for a connection.
    acceptor: Cell<Option<TaskId>>,
}

pub(crate) async fn listen(
    ring: &Rc<Ring>,
    address: Address,
    inherited: &[InheritedSocket],
) -> Result<Rc<dyn Listener>> {
    if let Some(found) = handed_over(&address, inherited).await? {
        let socket = Rc::new(found.file()?);
        return Ok(SocketListener::at(ring, socket, found.address().clone(), None, true));
    }
    let (socket, address, file) = match address {
        Address::Unix(path) => {
            let socket = listen_unix(&path)?;
            let stat = rustix::fs::lstat(&path)
                .map_err(|error| system_error(error, format!("cannot look at the socket {path}")))?;
            (socket, Address::Unix(path), Some((stat.st_dev, stat.st_ino)))
        }
        Address::Tcp { host, port } => {
            let (socket, port) = listen_tcp(&host, port).await?;
            (socket, Address::Tcp { host, port }, None)
        }
    };
    Ok(SocketListener::at(ring, Rc::new(socket), address, file, false))
}

/// The socket at that address, if one was handed to this process.
async fn handed_over<'a>(
    address: &Address,
    inherited: &'a [InheritedSocket],
) -> Result<Option<&'a InheritedSocket>> {
    Ok(match address {
        _ if inherited.is_empty() => None,
        Address::Unix(path) => inherited.iter().find(|socket| socket.is_at_path(path)),
        Address::Tcp { host, port } => {
            let wanted = resolve(host.clone(), *port).await?;
            inherited.iter().find(|socket| wanted.iter().any(|wanted| socket.is_at(wanted)))
        }
    })
}

fn new_socket(family: AddressFamily) -> Result<OwnedFd> {
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| system_error(error, "cannot make a socket"))
}

/// A socket that listens at `path`. A file there that nobody serves any more is replaced.
///
/// # Errors
/// When somebody serves there, or the socket cannot be made.
pub fn listen_unix(path: &str) -> Result<OwnedFd> {
    let address = unix_address(path)?;
    let socket = new_socket(AddressFamily::UNIX)?;
    let mut bound = rustix::net::bind(&socket, &address);
    if bound == Err(Errno::ADDRINUSE) {
        remove_leftover(path)?;
        bound = rustix::net::bind(&socket, &address);
    }
    bound.and_then(|()| rustix::net::listen(&socket, BACKLOG)).map_err(|error| match error {
        Errno::ADDRINUSE => in_use(path),
        error => system_error(error, format!("cannot serve at the socket {path}")),
    })?;
    Ok(socket)
}

fn in_use(path: &str) -> Error {
    Error::new(
        ErrorKind::InUse,
        format!("socket {path} is in use by another server; stop it or listen elsewhere"),
    )
}

fn remove_leftover(path: &str) -> Result<()> {
    let stat = rustix::fs::lstat(path)
        .map_err(|error| system_error(error, format!("cannot look at the socket {path}")))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        let sentence = format!("{path} exists and is not a socket; choose another name, or remove it");
        return Err(Error::new(ErrorKind::WrongKind, sentence));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| system_error(error, "cannot make a socket"))?;
    match rustix::net::connect(&probe, &unix_address(path)?) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path)
            .map_err(|error| system_error(error, format!("cannot remove the leftover socket {path}"))),
        Err(Errno::NOENT) => Ok(()),
        // It answers, unless that is only the ring of a server which has ended.
        Ok(()) if listener_is_dead(&probe) => std::fs::remove_file(path)
            .map_err(|error| system_error(error, format!("cannot remove the leftover socket {path}"))),
        // It answers, or is too busy to.
        Ok(()) | Err(Errno::AGAIN) => Err(in_use(path)),
        Err(error) => Err(system_error(error, format!("cannot tell whether the socket {path} is in use"))),
    }
}

/// Whether the process that listens at the other end has ended.
fn listener_is_dead(probe: &OwnedFd) -> bool {
    peer::credentials(probe).is_some_and(|(pid, _)| is_dead(pid))
}

async fn listen_tcp(host: &str, port: u16) -> Result<(OwnedFd, u16)> {
    let name = Address::Tcp { host: host.to_owned(), port };
    let mut last = Error::new(ErrorKind::NotFound, format!("the host '{host}' has no address"));
    for address in resolve(host.to_owned(), port).await? {
        match listen_alone(address).await? {
            Ok(listening) => return Ok(listening),
            Err(Errno::ADDRINUSE) => {
                last = Error::new(
                    ErrorKind::InUse,
                    format!("address {name} is in use by another server; stop it or listen elsewhere"),
                );
            }
            Err(error) => last = system_error(error, format!("cannot serve at {name}")),
        }
    }
    Err(last)
}

/// Listens. A port that nobody holds any more but the kernel, for a process that has ended, is waited for:
/// `SO_REUSEADDR` helps with connections that are left, not with a socket that still listens.
async fn listen_alone(address: SocketAddr) -> Result<rustix::io::Result<(OwnedFd, u16)>> {
    match listen_at(&address) {
        Err(Errno::ADDRINUSE) => {}
        outcome => return Ok(outcome),
    }
    let attempt = move || match listen_at(&address) {
        Err(Errno::ADDRINUSE) => Err(port_holder(&address)),
        outcome => Ok(outcome),
    };
    let outcome = Worker::run_alone(move || outlive(attempt)).await?;
    Ok(outcome.unwrap_or(Err(Errno::ADDRINUSE)))
}

fn listen_at(address: &SocketAddr) -> rustix::io::Result<(OwnedFd, u16)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let port = SocketAddr::try_from(rustix::net::getsockname(&socket)?).map_or(0, |bound| bound.port());
    Ok((socket, port))
}

impl Listener for SocketListener {
    fn accept(&self) -> LocalFuture<'_, Result<Box<dyn StreamSource>>> {
        Box::pin(self.accept_one())
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn close(&self) {
        self.closed.set(true);
        if !self.is_inherited {
            // It fails only if it was done before.
            let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
        }
        if let Some(acceptor) = self.acceptor.take() {
            self.ring.executor().wake(acceptor);
        }
    }
}

impl SocketListener {
    fn at(
        ring: &Rc<Ring>,
        socket: Rc<OwnedFd>,
        address: Address,
        file: Option<(u64, u64)>,
        is_inherited: bool,
    ) -> Rc<dyn Listener> {
        let (ring, closed, acceptor) = (ring.clone(), Cell::new(false), Cell::new(None));
        Rc::new(SocketListener { socket, ring, address, file, is_inherited, closed, acceptor })
    }

    /// The next connection, as the ring gives it; `None` when it is closed. What comes afterwards is for whoever else has
    /// the socket.
    async fn next(&self) -> Option<i32> {
        let mut connection = self.ring.wait_for(WaitFor::Connection(self.socket.clone()));
        poll_fn(|context| {
            if self.closed.get() {
                return Poll::Ready(None);
            }
            self.acceptor.set(Some(self.ring.executor().current()));
            Pin::new(&mut connection).poll(context).map(Some)
        })
        .await
    }

    async fn accept_one(&self) -> Result<Box<dyn StreamSource>> {
        loop {
            let Some(result) = self.next().await else {
                return Err(Error::new(ErrorKind::System, format!("{} is served no more", self.address)));
            };
            if result >= 0 {
                // SAFETY: the kernel gave us this file with the result, and nobody else has it.
                return self.accepted(unsafe { OwnedFd::from_raw_fd(result) });
            }
            match -result {
                // Connections that ended before they were accepted, and interruptions.
                libc::ECONNABORTED | libc::EINTR | libc::EAGAIN | libc::EPROTO | libc::EPERM => {}
                libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => {
                    self.ring.wait_for(WaitFor::Pause(EXHAUSTED_PAUSE)).await;
                }
                _ if self.closed.get() => {}
                errno => {
                    let error = std::io::Error::from_raw_os_error(errno);
                    return Err(system_error(error, format!("cannot accept at {}", self.address)));
                }
            }
        }
    }

    fn accepted(&self, socket: OwnedFd) -> Result<Box<dyn StreamSource>> {
        let peer = match &self.address {
            Address::Unix(_) => peer::of_unix(&socket, &self.address),
            Address::Tcp { .. } => {
                set_no_delay(&socket)?;
                let peer = rustix::net::getpeername(&socket).ok().flatten();
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                Peer::at(peer.map_or_else(|| "a peer that has gone".to_owned(), |peer| peer.to_string()))
            }
        };
        Ok(Box::new(SocketSource { socket, peer }))
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        self.close();
        if let (Address::Unix(path), Some(ours)) = (&self.address, self.file)
            && let Ok(stat) = rustix::fs::lstat(path)
            && (stat.st_dev, stat.st_ino) == ours
        {
            // A leftover would be harmless: the next server replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}
