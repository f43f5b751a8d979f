//! The kernel's NBD client, as it is asked through netlink (linux/nbd-netlink.h).
//!
//! A disk has one connection, and no time limit for requests, on purpose. Of a disk with several connections, and of one with a
//! limit, the kernel takes a request that lasts longer for lost, and sends it once more, while the first one is still being carried
//! out: a write could then land after a later one. So the only requests that are sent again are those of a connection that is over,
//! and the next connection is made when nothing of the last one is under way any more.

use super::netlink::{Attributes, Family, find_u32};
use controller::{Error, ErrorKind};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// How long requests wait for a controller that is gone. A restart takes seconds; drives that have to be waited for, longer.
pub const PATIENCE: Duration = Duration::from_secs(120);

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
const SOCK_ITEM: u16 = 1;
const SOCK_FD: u16 = 1;

/// What the disk can do, as the protocol tells it: flags, flush, FUA, trim, write zeroes.
const FLAGS: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6;
const READ_ONLY: u64 = 1 << 1;

/// A disk that is to be.
pub struct NewDisk<'a> {
    /// What the controller finds it by when it has forgotten everything.
    pub backend: &'a str,
    /// Its size.
    pub size_bytes: u64,
    /// Its sector.
    pub sector_bytes: u64,
    /// Nothing can be written to it.
    pub read_only: bool,
}

/// The kernel's NBD client.
pub struct Kernel(Family);

impl Kernel {
    /// Finds it.
    ///
    /// # Errors
    /// When this kernel has none.
    pub fn open() -> Result<Kernel, Error> {
        let family = Family::open("nbd").map_err(|error| refused("asked about NBD", error))?;
        family.map(Kernel).ok_or_else(|| {
            let sentence =
                "the kernel's NBD client is not loaded; run 'modprobe nbd' as root, then try again";
            Error::new(ErrorKind::Unavailable, sentence)
        })
    }

    /// Makes a disk on the other end of `socket`. Its number.
    pub fn connect(&mut self, disk: &NewDisk<'_>, socket: &OwnedFd) -> Result<u32, Error> {
        let flags = FLAGS | if disk.read_only { READ_ONLY } else { 0 };
        let attributes = Attributes::default()
            .u64(SIZE_BYTES, disk.size_bytes)
            .u64(BLOCK_SIZE_BYTES, disk.sector_bytes)
            .u64(SERVER_FLAGS, flags)
            .u64(DEAD_CONN_TIMEOUT, PATIENCE.as_secs())
            .text(BACKEND_IDENTIFIER, disk.backend)
            .nested(SOCKETS, &one_socket(socket));
        let answer = self.0.ask(CONNECT, &attributes).map_err(|error| refused("asked for a disk", error))?;
        find_u32(&answer, INDEX).ok_or_else(|| refused("asked for a disk", Errno::PROTO))
    }

    /// Gives a disk another connection, if it has noticed that its last one is over; it does not say whether it has.
    pub fn reconnect(&mut self, index: u32, backend: &str, socket: &OwnedFd) -> Result<(), Error> {
        let attributes = Attributes::default()
            .u32(INDEX, index)
            .u64(DEAD_CONN_TIMEOUT, PATIENCE.as_secs())
            .text(BACKEND_IDENTIFIER, backend)
            .nested(SOCKETS, &one_socket(socket));
        let asked = self.0.ask(RECONFIGURE, &attributes);
        asked.map(|_| ()).map_err(|error| refused("asked to connect a disk again", error))
    }

    /// Tells a disk that it has another size, whoever uses it.
    pub fn resize(&mut self, index: u32, backend: &str, size_bytes: u64) -> Result<(), Error> {
        let attributes = Attributes::default()
            .u32(INDEX, index)
            .u64(SIZE_BYTES, size_bytes)
            .text(BACKEND_IDENTIFIER, backend);
        let asked = self.0.ask(RECONFIGURE, &attributes);
        asked.map(|_| ()).map_err(|error| refused("told of a disk's new size", error))
    }

    /// Removes a disk. What is under way fails.
    pub fn disconnect(&mut self, index: u32) -> Result<(), Error> {
        let asked = self.0.ask(DISCONNECT, &Attributes::default().u32(INDEX, index));
        asked.map(|_| ()).map_err(|error| refused("asked to remove a disk", error))
    }
}

fn one_socket(socket: &OwnedFd) -> Attributes {
    let number = u32::try_from(socket.as_raw_fd()).unwrap_or(u32::MAX);
    Attributes::default().nested(SOCK_ITEM, &Attributes::default().u32(SOCK_FD, number))
}

fn refused(what: &str, error: Errno) -> Error {
    let sentence = match error {
        Errno::PERM | Errno::ACCESS => "the controller may not make disks; it needs the capability CAP_SYS_ADMIN: stop it, and run 'sudo softroc serve'".to_owned(),
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT => "this system lets no program speak to the kernel's NBD client: it has no netlink, or it is switched off for this service or container (RestrictAddressFamilies= must have AF_NETLINK)".to_owned(),
        error => format!("the kernel was {what}, and refused: {error}; 'dmesg' may say more"),
    };
    Error::new(ErrorKind::Unavailable, sentence)
}
