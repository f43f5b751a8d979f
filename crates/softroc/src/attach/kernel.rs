//! The kernel's NBD client, controlled through netlink (linux/nbd-netlink.h).
//!
//! A disk has one connection and no request timeout, on purpose. With several connections or a
//! timeout, the kernel regards a slow request as lost and resends it while the first one is still
//! being processed: a write could overwrite a later one. So only the requests of a closed
//! connection are resent, and the next connection is made when no request of the previous one is
//! outstanding.

use super::netlink::{Attributes, Family, find_u32};
use controller::{Error, ErrorKind};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// How long requests wait while no controller runs. A restart takes seconds, but longer if drives
/// respond late.
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

/// The capabilities of the disk, as flags of the protocol: flags, flush, FUA, trim, write zeroes.
const FLAGS: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6;
const READ_ONLY: u64 = 1 << 1;

/// The parameters of a new disk.
pub struct NewDisk<'a> {
    /// The identifier by which a restarted controller finds the disk.
    pub backend: &'a str,
    /// Its size.
    pub size_bytes: u64,
    /// Its sector size.
    pub sector_bytes: u64,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// The kernel's NBD client.
pub struct Kernel(Family);

impl Kernel {
    /// Opens the netlink family.
    ///
    /// # Errors
    /// If this kernel has no NBD client.
    pub fn open() -> Result<Kernel, Error> {
        let family = Family::open("nbd").map_err(|error| refused("asked about NBD", error))?;
        family.map(Kernel).ok_or_else(|| {
            let sentence =
                "the kernel's NBD client is not loaded; run 'modprobe nbd' as root, then try again";
            Error::new(ErrorKind::Unavailable, sentence)
        })
    }

    /// Creates a disk for the other end of `socket`, and returns its number.
    pub fn connect(&mut self, disk: &NewDisk<'_>, socket: &OwnedFd) -> Result<u32, Error> {
        let flags = FLAGS | if disk.read_only { READ_ONLY } else { 0 };
        let attributes = Attributes::default()
            .u64(SIZE_BYTES, disk.size_bytes)
            .u64(BLOCK_SIZE_BYTES, disk.sector_bytes)
            .u64(SERVER_FLAGS, flags)
            .u64(DEAD_CONN_TIMEOUT, PATIENCE.as_secs())
            .text(BACKEND_IDENTIFIER, disk.backend)
            .nested(SOCKETS, &one_socket(socket));
        let answer =
            self.0.ask(CONNECT, &attributes).map_err(|error| refused("asked for a disk", error))?;
        find_u32(&answer, INDEX).ok_or_else(|| refused("asked for a disk", Errno::PROTO))
    }

    /// Gives a disk a new connection, if it has detected the end of the previous one; the kernel
    /// does not report whether it has.
    pub fn reconnect(&mut self, index: u32, backend: &str, socket: &OwnedFd) -> Result<(), Error> {
        let attributes = Attributes::default()
            .u32(INDEX, index)
            .u64(DEAD_CONN_TIMEOUT, PATIENCE.as_secs())
            .text(BACKEND_IDENTIFIER, backend)
            .nested(SOCKETS, &one_socket(socket));
        let asked = self.0.ask(RECONFIGURE, &attributes);
        asked.map(|_| ()).map_err(|error| refused("asked to reconnect a disk", error))
    }

    /// Changes the size of a disk, even if it is in use.
    pub fn resize(&mut self, index: u32, backend: &str, size_bytes: u64) -> Result<(), Error> {
        let attributes = Attributes::default()
            .u32(INDEX, index)
            .u64(SIZE_BYTES, size_bytes)
            .text(BACKEND_IDENTIFIER, backend);
        let asked = self.0.ask(RECONFIGURE, &attributes);
        asked.map(|_| ()).map_err(|error| refused("asked to resize a disk", error))
    }

    /// Removes a disk. Outstanding requests fail.
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
        Errno::PERM | Errno::ACCESS => {
            "the controller lacks the capability CAP_SYS_ADMIN to attach \
             disks: stop it, and run 'sudo softroc serve'"
                .to_owned()
        }
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT => "the kernel's NBD client cannot be reached: \
             netlink is missing, or disabled for this service or container \
             (RestrictAddressFamilies= must include AF_NETLINK)"
            .to_owned(),
        error => format!("the kernel was {what}, and refused: {error}; see 'dmesg'"),
    };
    Error::new(ErrorKind::Unavailable, sentence)
}
