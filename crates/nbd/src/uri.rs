//! Addresses of exports: `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`.
//!
//! Source: `doc/uri.md` of the protocol's description, and RFC 3986 for escapes (`%20`). The
//! export's name follows the first `/` of the path; if empty or missing, the default export is
//! used. A missing host means `localhost`.

use std::fmt;
use std::str::FromStr;

use crate::constants::{DEFAULT_PORT, MAX_STRING_BYTES};
use crate::error::{Error, ErrorKind, Result};

/// The server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Host name or address; an IPv6 address without its brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A unix domain socket.
    Unix {
        /// Its path; may be relative to the working directory.
        path: String,
    },
}

/// The address of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdUri {
    /// The server's address.
    pub transport: Transport,
    /// The export's name; empty for the default export.
    pub export: String,
}

impl NbdUri {
    /// Whether `text` starts like an NBD URI, valid or not, in contrast to a path.
    pub fn looks_like(text: &str) -> bool {
        ["nbd:", "nbds:", "nbd+unix:", "nbds+unix:"].iter().any(|scheme| {
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
    }
}

impl FromStr for NbdUri {
    type Err = Error;

    fn from_str(text: &str) -> Result<NbdUri> {
        parse(text).map_err(|why| {
            Error::new(ErrorKind::Uri, format!("{text:?} is no usable NBD address: {why}"))
        })
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Tcp { host, port } => {
                f.write_str("nbd://")?;
                if host.contains(':') {
                    write!(f, "[{host}]")?;
                } else {
                    escape(f, host, b"")?;
                }
                if *port != DEFAULT_PORT {
                    write!(f, ":{port}")?;
                }
                f.write_str("/")?;
                escape(f, &self.export, b"/:@")
            }
            Transport::Unix { path } => {
                f.write_str("nbd+unix:///")?;
                escape(f, &self.export, b"/:@")?;
                f.write_str("?socket=")?;
                escape(f, path, b"/:@")
            }
        }
    }
}

type Parsed<T> = std::result::Result<T, String>;

fn parse(text: &str) -> Parsed<NbdUri> {
    let (scheme, rest) = text.split_once(':').ok_or("it has no scheme such as nbd:")?;
    let unix = match scheme.to_ascii_lowercase().as_str() {
        "nbd" => false,
        "nbd+unix" => true,
        "nbds" | "nbds+unix" => return Err("it asks for TLS, which is not supported".to_owned()),
        other => return Err(format!("the scheme {other:?} is none of nbd, nbd+unix")),
    };
    let rest = rest.strip_prefix("//").ok_or("the scheme has to be followed by //")?;
    if rest.contains('#') {
        return Err("a fragment (#) has no meaning here".to_owned());
    }
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, path),
        None => (rest, ""),
    };
    let export = unescape(path)?;
    if export.len() > MAX_STRING_BYTES || export.contains('\0') {
        return Err("an export name has at most 4096 bytes, none of them NUL".to_owned());
    }
    let socket = parse_query(query)?;
    let transport = match (unix, socket) {
        (false, None) => parse_authority(authority)?,
        (false, Some(_)) => return Err("a socket belongs to nbd+unix".to_owned()),
        (true, _) if !authority.is_empty() => {
            return Err("nbd+unix has no host: write nbd+unix:///EXPORT?socket=PATH".to_owned());
        }
        (true, Some(path)) if path.is_empty() || path.contains('\0') => {
            return Err("the socket's path has to name a file".to_owned());
        }
        (true, Some(path)) => Transport::Unix { path },
        (true, None) => return Err("nbd+unix needs ?socket=PATH".to_owned()),
    };
    Ok(NbdUri { transport, export })
}

/// The query's `socket`; other parameters are rejected instead of ignored.
fn parse_query(query: Option<&str>) -> Parsed<Option<String>> {
    let mut socket = None;
    for parameter in query.unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty())
    {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match unescape(key)?.as_str() {
            "socket" if socket.is_none() => socket = Some(unescape(value)?),
            "socket" => return Err("it names two sockets".to_owned()),
            other => return Err(format!("the parameter {other:?} is unknown")),
        }
    }
    Ok(socket)
}

fn parse_authority(authority: &str) -> Parsed<Transport> {
    if authority.contains('@') {
        return Err("a user name needs TLS, which is not supported".to_owned());
    }
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (address, after) = rest.split_once(']').ok_or("the IPv6 address lacks its ]")?;
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(format!("{address:?} is no IPv6 address"));
        }
        match (after, after.strip_prefix(':')) {
            ("", _) => (address.to_owned(), ""),
            (_, Some(port)) => (address.to_owned(), port),
            _ => return Err("only a port may follow the IPv6 address".to_owned()),
        }
    } else {
        let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
        if port.contains(':') {
            return Err("an IPv6 address needs brackets: [::1]".to_owned());
        }
        (unescape(host)?, port)
    };
    if host.contains(['\0', '/', ':']) && !authority.starts_with('[') {
        return Err(format!("{host:?} is no host name"));
    }
    let host = if host.is_empty() { "localhost".to_owned() } else { host };
    let port = match port {
        "" => DEFAULT_PORT,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| format!("the port {digits} is above 65535"))?
        }
        other => return Err(format!("the port {other:?} is no number")),
    };
    Ok(Transport::Tcp { host, port })
}

fn unescape(text: &str) -> Parsed<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err("a % has to be followed by two hexadecimal digits".to_owned());
        };
        // Two digits are a byte.
        bytes.push((high * 16 + low) as u8);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| "its escapes don't make UTF-8".to_owned())
}

/// Writes `text`; escapes all but RFC 3986's unreserved characters and those in `also`.
fn escape(f: &mut fmt::Formatter<'_>, text: &str, also: &[u8]) -> fmt::Result {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte) {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tcp(host: &str, port: u16, export: &str) -> NbdUri {
        NbdUri { transport: Transport::Tcp { host: host.into(), port }, export: export.into() }
    }

    fn unix(path: &str, export: &str) -> NbdUri {
        NbdUri { transport: Transport::Unix { path: path.into() }, export: export.into() }
    }

    #[test]
    fn addresses_mean_what_the_standard_says() {
        let cases = [
            ("nbd://example.com:10809/export", tcp("example.com", 10809, "export")),
            ("nbd://example.com/disk", tcp("example.com", 10809, "disk")),
            ("nbd+unix:///disk?socket=sock", unix("sock", "disk")),
            ("nbd://example.com/", tcp("example.com", 10809, "")),
            ("nbd://example.com", tcp("example.com", 10809, "")),
            ("nbd://example.com//disk", tcp("example.com", 10809, "/disk")),
            ("nbd://example.com/hello%20world", tcp("example.com", 10809, "hello world")),
            ("NBD://[::1]:5/x", tcp("::1", 5, "x")),
            ("nbd:///x", tcp("localhost", 10809, "x")),
            ("nbd://127.0.0.1:/x", tcp("127.0.0.1", 10809, "x")),
            ("nbd+unix://?socket=/tmp/a%3Fb", unix("/tmp/a?b", "")),
            ("nbd+unix:///?socket=%2Ftmp%2Fs", unix("/tmp/s", "")),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<NbdUri>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_bad_address_gets_a_sentence_that_names_it() {
        let bad = [
            "",
            "nbd",
            "nbd:host",
            "http://host/",
            "nbds://host/",
            "nbd://host/?tls-type=x509",
            "nbd://host/?socket=x",
            "nbd://user@host/",
            "nbd://host:port/",
            "nbd://host:70000/",
            "nbd://host:+5/",
            "nbd://::1/",
            "nbd://[::1/",
            "nbd://[::1]x/",
            "nbd://[nonsense]/",
            "nbd://host/%4",
            "nbd://host/%zz",
            "nbd://host/%ff",
            "nbd://host/%00",
            "nbd://host/#part",
            "nbd+unix:///x",
            "nbd+unix:///x?socket=",
            "nbd+unix:///x?socket=a&socket=b",
            "nbd+unix://host/x?socket=a",
        ];
        for text in bad {
            let error = text.parse::<NbdUri>().expect_err(text);
            assert_eq!(error.kind, ErrorKind::Uri);
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn addresses_are_told_from_paths() {
        assert!(NbdUri::looks_like("nbd://host") && NbdUri::looks_like("NBD+unix:///"));
        assert!(
            !NbdUri::looks_like("/dev/nbd0")
                && !NbdUri::looks_like("nbd0")
                && !NbdUri::looks_like("ä")
        );
    }

    proptest! {
        #[test]
        fn what_is_displayed_parses_to_the_same(
            name in "[^\0]{0,40}", path in "[^\0]{1,40}", host in "[a-z0-9.-]{1,20}", port in 0u16..
        ) {
            for uri in [tcp(&host, port, &name), unix(&path, &name), tcp("fe80::1", port, &name)] {
                prop_assert_eq!(uri.to_string().parse::<NbdUri>().unwrap(), uri);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}", scheme in 0usize..4) {
            let text = format!("{}{text}", ["", "nbd://", "nbd+unix:///", "nbd://["][scheme]);
            if let Ok(uri) = text.parse::<NbdUri>() {
                prop_assert_eq!(uri.to_string().parse::<NbdUri>().unwrap(), uri);
            }
        }
    }
}
