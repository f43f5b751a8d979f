//! Access rules: which client may use which target. The first rule that matches decides.

use platform::Peer;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use std::net::IpAddr;

/// Access rules, one per line. Without a matching rule, access is denied.
#[derive(Debug)]
pub struct Access {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// `None`: every target.
    target: Option<String>,
    who: ClientPattern,
    rights: Option<Rights>,
}

/// The rights of a client on a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rights {
    pub read_only: bool,
}

#[derive(Debug)]
enum ClientPattern {
    Anybody,
    /// A network: an address and the length of its prefix.
    Network(IpAddr, u8),
    /// A user of this machine, connected to a Unix socket.
    User(u32),
    /// Clients whose certificate contains this name.
    Named(ServerName<'static>),
    /// The client whose certificate has this SHA-256.
    Certificate([u8; 32]),
}

/// The client of a connection, as far as it is known.
pub(crate) struct ClientIdentity {
    pub peer: Peer,
    /// The certificate that the client has authenticated with.
    pub certificate: Option<CertificateDer<'static>>,
}

impl Access {
    /// Parses lines of `TARGET WHO RIGHTS`. `#` starts a comment.
    ///
    /// # Errors
    /// The number of an invalid line, and the expected syntax.
    pub fn parse(text: &str) -> Result<Access, String> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let rule = Rule::parse(&words).map_err(|why| format!("line {}: {why}", index + 1))?;
            rules.push(rule);
        }
        Ok(Access { rules })
    }

    /// The rights of `visitor` on the target `target`; `None`: no access.
    pub(crate) fn rights(&self, visitor: &ClientIdentity, target: &str) -> Option<Rights> {
        let concerns = |rule: &&Rule| rule.target.as_deref().is_none_or(|name| name == target);
        let rule = self.rules.iter().filter(concerns).find(|rule| rule.who.is(visitor))?;
        rule.rights
    }
}

impl Rule {
    fn parse(words: &[&str]) -> Result<Rule, String> {
        let &[target, who, rights] = words else {
            return Err(format!("expected VOLUME WHO RIGHTS, not {} words", words.len()));
        };
        let rights = match rights {
            "read-write" => Some(Rights { read_only: false }),
            "read-only" => Some(Rights { read_only: true }),
            "none" => None,
            _ => return Err(format!("'{rights}' is not read-write, read-only or none")),
        };
        let target = (target != "*").then(|| target.to_owned());
        Ok(Rule { target, who: ClientPattern::parse(who)?, rights })
    }
}

impl ClientPattern {
    fn parse(word: &str) -> Result<ClientPattern, String> {
        let wrong = || {
            format!(
                "'{word}' is not anybody, address:192.0.2.0/24, uid:1000, name:host.example or \
                    sha256:FINGERPRINT"
            )
        };
        let (kind, value) = word.split_once(':').unwrap_or((word, ""));
        match kind {
            "anybody" if value.is_empty() => Ok(ClientPattern::Anybody),
            "address" => network(value).ok_or_else(wrong),
            "uid" => value.parse().map(ClientPattern::User).map_err(|_| wrong()),
            "name" => ServerName::try_from(value.to_owned())
                .map(ClientPattern::Named)
                .map_err(|_| wrong()),
            "sha256" => fingerprint(value).map(ClientPattern::Certificate).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }

    fn is(&self, visitor: &ClientIdentity) -> bool {
        match self {
            ClientPattern::Anybody => true,
            ClientPattern::Network(network, bits) => {
                address(&visitor.peer).is_some_and(|at| is_in(at, *network, *bits))
            }
            ClientPattern::User(uid) => {
                visitor.peer.process.as_ref().is_some_and(|process| process.uid == *uid)
            }
            ClientPattern::Named(name) => visitor.certificate.as_ref().is_some_and(|certificate| {
                ParsedCertificate::try_from(certificate)
                    .is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, name).is_ok())
            }),
            ClientPattern::Certificate(digest) => {
                visitor.certificate.as_ref().is_some_and(|certificate| {
                    ring::digest::digest(&ring::digest::SHA256, certificate).as_ref() == digest
                })
            }
        }
    }
}

/// The 64 digits of a SHA-256, with colons or without.
fn fingerprint(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u32> =
        text.chars().filter(|c| *c != ':').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |sum, digit| sum * 16 + *digit as u8))
        .collect();
    if digits.len() == 64 { bytes.try_into().ok() } else { None }
}

/// `ADDRESS` or `ADDRESS/BITS`.
fn network(text: &str) -> Option<ClientPattern> {
    let (address, bits) =
        text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some(ClientPattern::Network(address, bits))
}

/// The address of a client, unless it is connected to a Unix socket.
fn address(peer: &Peer) -> Option<IpAddr> {
    let address: std::net::SocketAddr = peer.address.parse().ok()?;
    // A dual-stack listener reports IPv4 clients as IPv4-mapped IPv6 addresses.
    Some(address.ip().to_canonical())
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let all = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let differ = all(address) ^ all(network);
    address.is_ipv4() == network.is_ipv4()
        && differ.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::Process;

    fn at(address: &str) -> ClientIdentity {
        ClientIdentity { peer: Peer::at(address), certificate: None }
    }

    fn user(uid: u32) -> ClientIdentity {
        let process = Some(Process { pid: 7, uid, command: None });
        ClientIdentity {
            peer: Peer { address: "/run/nbd.sock".into(), process },
            certificate: None,
        }
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let text = "# who may use what\n\
                    data address:192.0.2.7 none\n\
                    data address:192.0.2.0/24 read-only # a network\n\
                    data uid:0 read-write\n\n\
                    *\taddress:2001:db8::/33 read-write\n";
        let access = Access::parse(text).unwrap();
        let (look, change) = (Some(Rights { read_only: true }), Some(Rights { read_only: false }));
        for (visitor, data, other) in [
            (at("192.0.2.7:5000"), None, None),
            (at("192.0.2.8:5000"), look, None),
            (at("[::ffff:192.0.2.8]:5000"), look, None),
            (at("192.0.3.8:5000"), None, None),
            (at("[2001:db8:7fff::1]:5000"), change, change),
            (at("[2001:db8:8000::1]:5000"), None, None),
            (user(0), change, None),
            (user(1), None, None),
        ] {
            assert_eq!(access.rights(&visitor, "data"), data, "{}", visitor.peer);
            assert_eq!(access.rights(&visitor, "other"), other, "{}", visitor.peer);
        }
        let everybody = Access::parse("* address:0.0.0.0/0 read-only").unwrap();
        assert_eq!(everybody.rights(&at("10.1.2.3:1"), "x"), look);
        assert_eq!(everybody.rights(&at("[::1]:1"), "x"), None);
    }

    #[test]
    fn a_certificate_is_known_by_its_digest() {
        let certificate = CertificateDer::from(b"not really one".to_vec());
        let digest = ring::digest::digest(&ring::digest::SHA256, &certificate);
        let hex: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let access = Access::parse(&format!("v sha256:{} read-write", hex.join(":"))).unwrap();
        let known = ClientIdentity { certificate: Some(certificate), ..at("192.0.2.1:9") };
        assert_eq!(access.rights(&known, "v"), Some(Rights { read_only: false }));
        assert_eq!(access.rights(&at("192.0.2.1:9"), "v"), None);
        // Bytes that are not a certificate match no name.
        let named = Access::parse("v name:host.example read-write").unwrap();
        assert_eq!(named.rights(&known, "v"), None);
    }

    #[test]
    fn what_is_no_rule_is_named_by_its_line() {
        for (text, line) in [
            ("v anybody", 1),
            ("v anybody read-only now", 1),
            ("\n# x\nv somebody read-only", 3),
            ("v anybody:x read-only", 1),
            ("v anybody rw", 1),
            ("v address:1.2.3.4/33 read-only", 1),
            ("v address:host read-only", 1),
            ("v uid:-1 read-only", 1),
            ("v name:a..b read-only", 1),
            ("v sha256:AB read-only", 1),
        ] {
            let error = Access::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")), "{text}: {error}");
        }
    }
}
