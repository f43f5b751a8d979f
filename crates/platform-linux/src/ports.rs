//! The holder of a TCP port that is in use, from `/proc`.
//!
//! If no process has a listening socket open, only the kernel still holds it, for an ended process.
//! Sockets of other users, whose open files are not visible, count as held.

use crate::dying::Holder;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A listening socket.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Listening {
    address: SocketAddr,
    user: u32,
    inode: u64,
}

/// The holder of the port of `address`. Blocks briefly.
pub(crate) fn port_holder(address: &SocketAddr) -> Holder {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|path| fs::read_to_string(path).unwrap_or_default());
    let in_the_way: Vec<Listening> = tables
        .iter()
        .flat_map(|table| table.lines())
        .filter_map(parse)
        .filter(|other| other.is_in_the_way_of(address))
        .collect();
    if in_the_way.is_empty() {
        return Holder::Unknown;
    }
    let user = rustix::process::geteuid().as_raw();
    let hidden = |other: &Listening| user != 0 && other.user != user;
    let open = open_sockets();
    match in_the_way.iter().any(|other| hidden(other) || open.contains(&other.inode)) {
        true => Holder::Living,
        false => Holder::Kernel,
    }
}

impl Listening {
    fn is_in_the_way_of(&self, wanted: &SocketAddr) -> bool {
        let (ours, theirs) = (wanted.ip().to_canonical(), self.address.ip().to_canonical());
        self.address.port() == wanted.port()
            && (ours == theirs || ours.is_unspecified() || theirs.is_unspecified())
    }
}

/// A line of `/proc/net/tcp`: number, local address, remote address, state, queues, timer,
/// retransmits, user, timeout, inode.
fn parse(line: &str) -> Option<Listening> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, LISTENING, _, _, _, user, _, inode, ..] = fields[..] else { return None };
    let (ip, port) = local.split_once(':')?;
    // Words of four bytes in host byte order; their bytes in memory are the address.
    let mut bytes = Vec::with_capacity(16);
    for word in ip.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match *bytes.as_slice() {
        [a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        ref bytes => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    let address = SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?);
    Some(Listening { address, user: user.parse().ok()?, inode: inode.parse().ok()? })
}

/// The open sockets of all visible processes, by inode.
fn open_sockets() -> BTreeSet<u64> {
    let entries = |path: &str| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let mut sockets = BTreeSet::new();
    for process in entries("/proc") {
        let name = process.file_name();
        let Some(pid) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else { continue };
        for file in entries(&format!("/proc/{pid}/fd")) {
            let target = fs::read_link(file.path()).unwrap_or_default();
            let inode = target
                .to_str()
                .and_then(|target| target.strip_prefix("socket:[")?.strip_suffix(']'));
            sockets.extend(inode.and_then(|inode| inode.parse::<u64>().ok()));
        }
    }
    sockets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_the_kernel_are_understood() {
        let line = "   0: 0100007F:2A39 00000000:0000 0A 00000000:00000000 00:00000000 \
                    00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0";
        let found = parse(line).unwrap();
        let expected =
            Listening { address: "127.0.0.1:10809".parse().unwrap(), user: 1000, inode: 4711 };
        assert_eq!(found, expected);
        let line = "   1: 0000000000000000FFFF00000100007F:0050 \
                    00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
                    00000000     0        0 12 1 0 100 0 0 10 0";
        assert_eq!(parse(line).unwrap().address, "[::ffff:127.0.0.1]:80".parse().unwrap());
        assert!(parse(line).unwrap().is_in_the_way_of(&"127.0.0.1:80".parse().unwrap()));
        assert_eq!(
            parse(&line.replace(" 0A ", " 01 ")),
            None,
            "a connection does not block a listener"
        );
        assert_eq!(parse("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }

    #[test]
    fn an_address_is_in_the_way_of_itself_and_of_all() {
        let listening =
            |address: &str| Listening { address: address.parse().unwrap(), user: 0, inode: 1 };
        for (there, wanted, in_the_way) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.2:80", true),
            ("[::]:80", "127.0.0.2:80", true),
            ("[::1]:80", "[::]:80", true),
        ] {
            let found = listening(there).is_in_the_way_of(&wanted.parse().unwrap());
            assert_eq!(found, in_the_way, "{there} and {wanted}");
        }
    }

    #[test]
    fn a_socket_of_this_process_is_held_by_somebody() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(port_holder(&listener.local_addr().unwrap()), Holder::Living);
    }
}
