//! Socket pairs: one end for a shard, the other for another owner, such as the kernel's NBD client.

use crate::errno::system_error;
use crate::stream::SocketSource;
use platform::{Peer, Result, StreamSource};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::OwnedFd;

/// This process's end of a [`stream_pair`].
pub struct NearEnd {
    socket: OwnedFd,
}

/// A connected pair of stream sockets: the end for a shard, and the file for another owner.
///
/// # Errors
/// If the computer has no free sockets.
pub fn stream_pair() -> Result<(NearEnd, OwnedFd)> {
    let pair = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let (near, far) = pair.map_err(|error| system_error(error, "cannot make a pair of sockets"))?;
    Ok((NearEnd { socket: near }, far))
}

impl NearEnd {
    /// Whether the other end is open.
    pub fn is_held(&self) -> bool {
        let mut files = [PollFd::new(&self.socket, PollFlags::IN)];
        // If the poll fails, it counts as open: a receive finds out.
        let asked = poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        asked.is_err() || !files[0].revents().contains(PollFlags::HUP)
    }

    /// Converts the end for a shard; `peer` holds the other one.
    pub fn into_source(self, peer: Peer) -> Box<dyn StreamSource> {
        Box::new(SocketSource { socket: self.socket, peer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_let_go_is_noticed() {
        let (near, far) = stream_pair().unwrap();
        assert!(near.is_held());
        let other = far.try_clone().unwrap();
        drop(far);
        assert!(near.is_held(), "another file of it is there");
        drop(other);
        assert!(!near.is_held());
    }
}
