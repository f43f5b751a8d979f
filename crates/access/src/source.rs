//! The network source of a request: the unit of counting and limiting.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, the /64 network of an IPv6 address, or the local control socket.
///
/// One host usually owns a whole IPv6 /64: its addresses count as one source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// The control socket.
    Local,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address.
    V6([u16; 4]),
}

impl Source {
    /// The source of an address. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn of(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(address) => Source::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Source::V6([a, b, c, d])
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Local => f.write_str("control socket"),
            Source::V4(address) => write!(f, "{address}"),
            Source::V6([a, b, c, d]) => {
                write!(f, "{}/64", Ipv6Addr::new(*a, *b, *c, *d, 0, 0, 0, 0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one_source() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:2:ffff::1"));
        assert_ne!(of("2001:db8:1:2::3"), of("2001:db8:1:3::3"));
        assert_eq!(of("::ffff:10.0.0.5"), of("10.0.0.5"));
        assert_ne!(of("10.0.0.5"), of("10.0.0.6"));
        assert_eq!(of("2001:db8:1:2::3").to_string(), "2001:db8:1:2::/64");
        assert_eq!(of("10.0.0.5").to_string(), "10.0.0.5");
    }
}
