//! Listening sockets.
//!
//! A socket's file has its final permissions before a host can connect: it is created for this user
//! only, gets its group and permissions, and only then listens.
//!
//! A Unix socket's file outlives a killed server. The next server tries to connect: if that is
//! refused, it replaces the leftover file, otherwise the address is in use. A socket that the
//! parent process passed on (`inherited`) is taken over if it listens at the address.

use crate::connect::{set_no_delay, unix_address};
use crate::dying::{is_dead, outlive};
use crate::errno::system_error;
use crate::guarded::{self, is_trusted};
use crate::inherited::InheritedSocket;
use crate::peer;
use crate::ports::port_holder;
use crate::ring::Ring;
use crate::stream::SocketSource;
use crate::wait::WaitFor;
use crate::worker::Worker;
use crate::world::resolve;
use platform::{
    Address, Error, ErrorKind, Listener, LocalFuture, Peer, Result, StreamSource, TaskId,
};
use rustix::fs::{FileType, Mode, OFlags};
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

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// The pause before the next accept if the computer has no free files or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Access permissions of a socket's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketPermissions {
    /// The mode, as for `chmod`: users with write permission may connect.
    pub mode: u32,
    /// The group number; default: the group of the process, or of a folder with the set-group-ID
    /// bit.
    pub group: Option<u32>,
}

impl Default for SocketPermissions {
    /// Only this user.
    fn default() -> SocketPermissions {
        SocketPermissions { mode: 0o600, group: None }
    }
}

/// A socket that listens at a path.
pub struct UnixSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// Its file.
    pub file: SocketFile,
}

/// The file of a socket. Another file that has taken its name since does not count.
#[derive(Debug)]
pub struct SocketFile {
    path: String,
    /// Its device and inode.
    is: (u64, u64),
}

impl SocketFile {
    /// Removes it, if it exists.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> std::io::Result<()> {
        match rustix::fs::lstat(&self.path) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == self.is => std::fs::remove_file(&self.path),
            _ => Ok(()),
        }
    }
}

struct SocketListener {
    socket: Rc<OwnedFd>,
    ring: Rc<Ring>,
    address: Address,
    /// The socket's file, removed when this is dropped.
    file: Option<SocketFile>,
    /// Other processes have the socket too, so that it must stay listening after this listener
    /// closes.
    is_inherited: bool,
    closed: Cell<bool>,
    /// The task that waits for a connection.
    acceptor: Cell<Option<TaskId>>,
}

pub(crate) async fn listen(
    ring: &Rc<Ring>,
    address: Address,
    inherited: &[InheritedSocket],
    permissions: SocketPermissions,
) -> Result<Rc<dyn Listener>> {
    if let Some(found) = handed_over(&address, inherited).await? {
        let socket = Rc::new(found.file()?);
        return Ok(SocketListener::at(ring, socket, found.address().clone(), None, true));
    }
    let (socket, address, file) = match address {
        Address::Unix(path) => {
            let UnixSocket { socket, file } = listen_unix(&path, permissions)?;
            (socket, Address::Unix(path), Some(file))
        }
        Address::Tcp { host, port } => {
            let (socket, port) = listen_tcp(&host, port).await?;
            (socket, Address::Tcp { host, port }, None)
        }
    };
    Ok(SocketListener::at(ring, Rc::new(socket), address, file, false))
}

/// The socket at that address, if the parent process passed one on.
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

/// A socket that listens at `path` with these permissions. A leftover file of an ended server is
/// replaced.
///
/// # Errors
/// If a server listens there, the file is not a leftover of this user, or the socket cannot be
/// created.
pub fn listen_unix(path: &str, permissions: SocketPermissions) -> Result<UnixSocket> {
    let socket = bind_unix(path)?;
    let file = open_to(path, permissions)?;
    let listens = rustix::net::listen(&socket, BACKLOG);
    listens.map_err(|error| {
        // No host has connected yet. Report the first error.
        let _ = file.remove();
        cannot_serve(path, error)
    })?;
    Ok(UnixSocket { socket, file })
}

/// A socket whose file only this user can access. Connections fail until it listens.
fn bind_unix(path: &str) -> Result<OwnedFd> {
    let address = unix_address(path)?;
    let socket = new_socket(AddressFamily::UNIX)?;
    // The file gets the socket's permissions, less the umask.
    let own = rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600));
    own.map_err(|error| cannot_serve(path, error))?;
    let mut bound = rustix::net::bind(&socket, &address);
    if bound == Err(Errno::ADDRINUSE) {
        remove_leftover(path)?;
        bound = rustix::net::bind(&socket, &address);
    }
    bound.map_err(|error| cannot_serve(path, error))?;
    Ok(socket)
}

fn cannot_serve(path: &str, error: Errno) -> Error {
    match error {
        Errno::ADDRINUSE => in_use(path),
        error => system_error(error, format!("cannot serve at the socket {path}")),
    }
}

/// Sets the group and permissions of a newly bound socket's file.
fn open_to(path: &str, permissions: SocketPermissions) -> Result<SocketFile> {
    let cannot = |error: Errno| {
        system_error(error, format!("cannot set the permissions of the socket {path}"))
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty()).map_err(cannot)?;
    let stat = rustix::fs::fstat(&found).map_err(cannot)?;
    let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    if !is_socket || stat.st_uid != rustix::process::geteuid().as_raw() {
        let sentence = format!(
            "the socket {path} was replaced by another user (uid {}) while it was made; listen in \
                a folder that others cannot write to",
            stat.st_uid
        );
        return Err(Error::new(ErrorKind::Denied, sentence));
    }
    let file = SocketFile { path: path.to_owned(), is: (stat.st_dev, stat.st_ino) };
    let SocketPermissions { mode, group } = permissions;
    if group.is_none() && stat.st_mode & 0o7777 == mode {
        return Ok(file);
    }
    let permitted = guarded::permit(&found, mode, group);
    permitted.map_err(|error| {
        let _ = file.remove();
        match group {
            Some(group) if error == Errno::PERM => {
                let sentence = format!(
                    "cannot give the socket {path} to group {group}; run as root, or as a member \
                        of the group"
                );
                Error::new(ErrorKind::Denied, sentence)
            }
            _ => cannot(error),
        }
    })?;
    Ok(file)
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
        let sentence =
            format!("{path} exists and is not a socket; choose another name, or remove it");
        return Err(Error::new(ErrorKind::WrongKind, sentence));
    }
    if !is_trusted(stat.st_uid) {
        let sentence = format!(
            "the socket {path} belongs to another user (uid {}); listen elsewhere, or remove it \
                with 'rm {path}'",
            stat.st_uid
        );
        return Err(Error::new(ErrorKind::Denied, sentence));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| system_error(error, "cannot make a socket"))?;
    match rustix::net::connect(&probe, &unix_address(path)?) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(|error| {
            system_error(error, format!("cannot remove the leftover socket {path}"))
        }),
        Err(Errno::NOENT) => Ok(()),
        // It accepts, unless only the ring of an ended server is left.
        Ok(()) if listener_is_dead(&probe) => std::fs::remove_file(path).map_err(|error| {
            system_error(error, format!("cannot remove the leftover socket {path}"))
        }),
        // It accepts, or its queue is full.
        Ok(()) | Err(Errno::AGAIN) => Err(in_use(path)),
        Err(error) => Err(system_error(
            error,
            format!("cannot determine whether the socket {path} is in use"),
        )),
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
                    format!(
                        "address {name} is in use by another server; stop it or listen elsewhere"
                    ),
                );
            }
            Err(error) => last = system_error(error, format!("cannot serve at {name}")),
        }
    }
    Err(last)
}

/// Listens. Waits for a port that only the kernel still holds, for an ended process: `SO_REUSEADDR`
/// helps with remaining connections, not with a socket that still listens.
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
    let port =
        SocketAddr::try_from(rustix::net::getsockname(&socket)?).map_or(0, |bound| bound.port());
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
            // Fails only if it was shut down before.
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
        file: Option<SocketFile>,
        is_inherited: bool,
    ) -> Rc<dyn Listener> {
        let (ring, closed, acceptor) = (ring.clone(), Cell::new(false), Cell::new(None));
        Rc::new(SocketListener { socket, ring, address, file, is_inherited, closed, acceptor })
    }

    /// The next connection from the ring; `None` if the listener is closed. Later connections are
    /// left to other holders of the socket.
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
                return Err(Error::new(
                    ErrorKind::System,
                    format!("the listener at {} is closed", self.address),
                ));
            };
            if result >= 0 {
                // SAFETY: the kernel returned this file as the result, and no other code has it.
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
                Peer::at(
                    peer.map_or_else(|| "a disconnected peer".to_owned(), |peer| peer.to_string()),
                )
            }
        };
        Ok(Box::new(SocketSource { socket, peer }))
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        self.close();
        // A leftover file is harmless: the next server replaces it.
        let _ = self.file.as_ref().map(SocketFile::remove);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_this_users_alone_before_anybody_can_connect() {
        let path =
            std::env::temp_dir().join(format!("platform-linux-bound-{}", std::process::id()));
        let path = path.to_str().unwrap();
        let socket = bind_unix(path).unwrap();
        let mode = || rustix::fs::lstat(path).unwrap().st_mode & 0o7777;
        assert_eq!(mode(), 0o600);
        assert!(std::os::unix::net::UnixStream::connect(path).is_err(), "it does not listen yet");
        let file = open_to(path, SocketPermissions { mode: 0o666, group: None }).unwrap();
        assert_eq!(mode(), 0o666);
        drop(socket);
        file.remove().unwrap();
        assert!(rustix::fs::lstat(path).is_err());
    }
}
