//! The process at the other end of a socket.

use platform::{Address, Peer, Process};
use std::os::fd::{AsRawFd, OwnedFd};

/// The process at the other end of a Unix socket, and its user; `None` if it is not visible: on
/// another computer or in another namespace. (`rustix` has a type for this that cannot be zero; the
/// kernel's number can.)
pub(crate) fn credentials(socket: &OwnedFd) -> Option<(u32, u32)> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `found`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    let pid = u32::try_from(found.pid).ok().filter(|pid| *pid > 0);
    pid.filter(|_| result == 0 && len as usize == size_of::<libc::ucred>())
        .map(|pid| (pid, found.uid))
}

/// The peer of a Unix socket.
pub fn of_unix(socket: &OwnedFd, address: &Address) -> Peer {
    let process = credentials(socket).map(|(pid, uid)| Process { pid, uid, command: command(pid) });
    Peer { address: address.to_string(), process }
}

/// The command of a process, as `ps` abbreviates it. Its user may have chosen the text.
fn command(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let text = units::printable(text.trim_end_matches('\n'));
    (!text.is_empty()).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_process_at_the_other_end_is_known_by_what_runs_in_it() {
        let (near, _far) = UnixStream::pair().unwrap();
        let address = Address::Unix("/run/port.sock".to_owned());
        let peer = of_unix(&near.into(), &address);
        let process = peer.process.clone().expect("it is this very process");
        assert_eq!(
            (process.pid, peer.address.as_str()),
            (std::process::id(), "unix:/run/port.sock")
        );
        let command = process.command.expect("it runs");
        assert_eq!(
            peer.to_string(),
            format!("{command} (pid {}, uid {})", process.pid, process.uid)
        );
    }

    #[test]
    fn what_is_no_unix_socket_has_no_process() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(credentials(&file.into()), None);
    }
}
