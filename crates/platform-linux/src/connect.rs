//! Outgoing connections, without blocking the shard.

use crate::errno::system_error;
use crate::ring::Ring;
use crate::stream::SocketSource;
use crate::wait::WaitFor;
use crate::world::resolve;
use platform::{Address, Error, ErrorKind, Peer, Result, StreamSource};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, addr::SocketAddrArg};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// The poll interval while the connection queue of a Unix listener is full.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(2);
const FULL_QUEUE_TRIES: usize = 2500;

pub(crate) async fn connect(ring: &Rc<Ring>, address: Address) -> Result<Box<dyn StreamSource>> {
    let socket = match &address {
        Address::Unix(path) => connect_unix(ring, path).await?,
        Address::Tcp { host, port } => connect_tcp(ring, host, *port).await?,
    };
    Ok(Box::new(SocketSource { socket, peer: Peer::at(address.to_string()) }))
}

fn new_socket(family: AddressFamily) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
        .map_err(|error| system_error(error, "cannot make a socket"))
}

/// The ring waits itself, and would return at once for a non-blocking file.
pub(crate) fn make_blocking(socket: &OwnedFd) -> Result<()> {
    rustix::io::ioctl_fionbio(socket, false)
        .map_err(|error| system_error(error, "cannot set up a socket"))
}

/// The address of a socket file.
pub(crate) fn unix_address(path: &str) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|error| {
        let sentence = format!("'{path}' is not a valid socket path; the maximum is 107 bytes");
        Error::new(ErrorKind::BadName, sentence).caused_by(error)
    })
}

async fn connect_unix(ring: &Rc<Ring>, path: &str) -> Result<OwnedFd> {
    let address = unix_address(path)?;
    let mut outcome = Err(Errno::AGAIN);
    let socket = new_socket(AddressFamily::UNIX)?;
    for _ in 0..FULL_QUEUE_TRIES {
        outcome = rustix::net::connect(&socket, &address);
        if outcome != Err(Errno::AGAIN) {
            break;
        }
        ring.wait_for(WaitFor::Pause(FULL_QUEUE_PAUSE)).await;
    }
    outcome.map_err(|error| match error {
        Errno::NOENT => Error::new(ErrorKind::NotFound, format!("there is no socket {path}")),
        Errno::CONNREFUSED => {
            Error::new(ErrorKind::Unreachable, format!("no server listens at the socket {path}"))
        }
        Errno::AGAIN => Error::new(
            ErrorKind::Unreachable,
            format!("the server at {path} accepts no connections"),
        ),
        error => system_error(error, format!("cannot connect to the socket {path}")),
    })?;
    make_blocking(&socket)?;
    Ok(socket)
}

async fn connect_tcp(ring: &Rc<Ring>, host: &str, port: u16) -> Result<OwnedFd> {
    let name = Address::Tcp { host: host.to_owned(), port };
    let mut last = Error::new(ErrorKind::NotFound, format!("the host '{host}' has no address"));
    for address in resolve(host.to_owned(), port).await? {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = Rc::new(new_socket(family)?);
        match connect_one(ring, &socket, &address).await {
            Ok(()) => {
                let Some(socket) = Rc::into_inner(socket) else {
                    return Err(Error::new(
                        ErrorKind::System,
                        "a connected socket is still in use",
                    ));
                };
                make_blocking(&socket)?;
                set_no_delay(&socket)?;
                notice_silence(&socket)?;
                return Ok(socket);
            }
            Err(error) => last = system_error(error, format!("cannot connect to {name}")),
        }
    }
    Err(last)
}

/// Detects a vanished peer after about ten seconds: by keep-alive probes while idle, by the age of
/// unacknowledged data otherwise.
fn notice_silence(socket: &OwnedFd) -> Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(socket, true)
        .and_then(|()| sockopt::set_tcp_keepidle(socket, Duration::from_secs(4)))
        .and_then(|()| sockopt::set_tcp_keepintvl(socket, Duration::from_secs(2)))
        .and_then(|()| sockopt::set_tcp_keepcnt(socket, 3))
        .and_then(|()| sockopt::set_tcp_user_timeout(socket, 10_000))
        .map_err(|error| system_error(error, "cannot set up a socket"))
}

/// Small messages must not be delayed until earlier ones are acknowledged.
pub(crate) fn set_no_delay(socket: &OwnedFd) -> Result<()> {
    rustix::net::sockopt::set_tcp_nodelay(socket, true)
        .map_err(|error| system_error(error, "cannot set up a socket"))
}

async fn connect_one(
    ring: &Rc<Ring>,
    socket: &Rc<OwnedFd>,
    address: &impl SocketAddrArg,
) -> rustix::io::Result<()> {
    match rustix::net::connect(&**socket, address) {
        Err(Errno::INPROGRESS) => {}
        other => return other,
    }
    let polled = ring.wait_for(WaitFor::Writable(socket.clone())).await;
    if polled < 0 {
        return Err(Errno::from_raw_os_error(-polled));
    }
    rustix::net::sockopt::socket_error(&**socket)?
}
