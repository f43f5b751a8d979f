//! Byte streams (sockets) and what listens for them.

use crate::Buf;
use crate::buffers::Slices;
use crate::error::Result;
use crate::ops::Io;
use crate::world::{Env, LocalFuture};
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

/// Where a stream ends or a listener listens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Address {
    /// A socket in the file system, written `unix:PATH`.
    Unix(String),
    /// A host name or number and a port, written `HOST:PORT` (IPv6 numbers in brackets).
    Tcp {
        /// The host, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// Whether only this machine can reach it.
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
                    "'{text}' is not an address; expected unix:PATH or HOST:PORT, such as 127.0.0.1:10809"
                ),
            )
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Address::Unix(path.to_owned())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() { Err(wrong()) } else { Ok(Address::Tcp { host: host.to_owned(), port }) }
    }
}

/// Who is at the other end of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its address; of a Unix socket, which has one end with a name, that of the socket.
    pub address: String,
    /// The process, where it runs on this machine and the system tells.
    pub process: Option<Process>,
}

/// A process of this machine, as it was when it connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The number of its user.
    pub uid: u32,
    /// What runs in it, as the system abbreviates it; `None` if it had ended before that was asked.
    pub command: Option<String>,
}

impl Peer {
    /// Known by its address alone.
    pub fn at(address: impl Into<String>) -> Peer {
        Peer { address: address.into(), process: None }
    }

    /// Whether it has connected to a Unix socket, of this machine therefore.
    pub fn is_at_unix_socket(&self) -> bool {
        self.address.starts_with("unix:")
    }
}

/// For people: a process by what runs in it, anything else by its address.
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
    /// Starts receiving into `buf`: at least one byte, as many as there are, up to its length. The
    /// outcome's result is how many; zero is the end of the stream. The buffer comes back.
    fn receive(&self, buf: Buf) -> Io;

    /// The same where no less than the buffer's length is wanted: it may return less at the end of the stream, where a part has come
    /// already, and where this stream cannot wait for all of it. Whoever calls asks for the rest then.
    fn receive_full(&self, buf: Buf) -> Io {
        self.receive(buf)
    }

    /// Starts sending `slices` in order, all of them.
    fn send(&self, slices: Slices) -> Io;

    /// Ends both directions: a receive in progress returns the end of the stream.
    fn shutdown(&self);

    /// The same, and what was sent and has not left this machine yet never will: for a stream whose other side
    /// must not hear any more of it.
    fn abort(&self) {
        self.shutdown();
    }
}

/// A stream that was accepted or connected, not yet attached to a shard.
pub trait StreamSource: Send {
    /// This shard's way to the stream.
    ///
    /// # Errors
    /// When the shard's world cannot take one more stream.
    fn attach(self: Box<Self>, env: &Env) -> Result<Rc<dyn Stream>>;

    /// Who is at the other end.
    fn peer(&self) -> Peer;
}

/// Waits for streams. Dropping it closes it (and removes a Unix socket's file).
pub trait Listener {
    /// The next stream; an error when the listener was closed.
    fn accept(&self) -> LocalFuture<'_, Result<Box<dyn StreamSource>>>;

    /// Where it really listens (the port, if it was asked for port 0).
    fn address(&self) -> Address;

    /// Stops listening: a pending accept fails.
    fn close(&self);
}
