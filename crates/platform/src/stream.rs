//! Byte streams (sockets) and their listeners.

use crate::Buf;
use crate::buffers::Slices;
use crate::error::Result;
use crate::ops::Io;
use std::fmt;
use std::str::FromStr;

/// The address of a stream or a listener.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Address {
    /// A socket in the file system, written `unix:PATH`.
    Unix(String),
    /// A host name or IP address and a port, written `HOST:PORT` (IPv6 in brackets).
    Tcp {
        /// The host, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// Whether only this computer can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp { host, .. } => {
                host == "localhost"
                    || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{path}"),
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl FromStr for Address {
    type Err = crate::Error;
    fn from_str(text: &str) -> Result<Address> {
        let wrong = || {
            crate::Error::new(
                crate::ErrorKind::BadName,
                format!(
                    "'{text}' is not an address; expected unix:PATH or HOST:PORT, such as \
                        127.0.0.1:10809"
                ),
            )
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Address::Unix(path.to_owned())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() {
            Err(wrong())
        } else {
            Ok(Address::Tcp { host: host.to_owned(), port })
        }
    }
}

/// The other end of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its address; for a Unix socket, where only one end has a name, that of the socket.
    pub address: String,
    /// The process, if it runs on this computer and the system reports it.
    pub process: Option<Process>,
}

/// A local process, as it was when it connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// The process number.
    pub pid: u32,
    /// The user number.
    pub uid: u32,
    /// The command, as the system abbreviates it; `None` if the process had ended before the query.
    pub command: Option<String>,
}

impl Peer {
    /// A peer that is known only by its address.
    pub fn at(address: impl Into<String>) -> Peer {
        Peer { address: address.into(), process: None }
    }

    /// Whether it is connected through a Unix socket, and so on this computer.
    pub fn is_at_unix_socket(&self) -> bool {
        self.address.starts_with("unix:")
    }
}

/// For people: the command of a process, otherwise the address.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            None => f.write_str(&self.address),
            Some(Process { pid, uid, command: Some(command) }) => {
                write!(f, "{command} (pid {pid}, uid {uid})")
            }
            Some(Process { pid, uid, command: None }) => write!(f, "pid {pid} (uid {uid})"),
        }
    }
}

/// A connected stream of bytes, attached to one shard. At most one receive and one send at a time.
pub trait Stream {
    /// Starts a receive into `buf`: at least one byte, at most its length. The outcome has the
    /// number of bytes; zero is the end of the stream. The outcome returns the buffer.
    fn receive(&self, buf: Buf) -> Io;

    /// Starts a receive of the buffer's full length. It may return less at the end of the stream,
    /// after a partial arrival, or if the stream cannot wait for all. The caller then requests the
    /// rest.
    fn receive_full(&self, buf: Buf) -> Io {
        self.receive(buf)
    }

    /// Starts a send of all `slices`, in order.
    fn send(&self, slices: Slices) -> Io;

    /// Ends both directions: a receive in progress returns the end of the stream.
    fn shutdown(&self);

    /// Like [`Stream::shutdown`], and discards data that has not left this computer yet: for a peer
    /// that must receive no more.
    fn abort(&self) {
        self.shutdown();
    }
}
