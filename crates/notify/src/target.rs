//! Destinations of a channel's messages.

use controller::{Error, ErrorKind, Result};

/// A destination, parsed from its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// `journal`, or `journal:PATH`: systemd's journal, by its native protocol.
    Journal {
        /// Its socket.
        socket: String,
    },
    /// `syslog+udp://HOST:PORT`, `syslog+tcp://`, `syslog+tls://`, or `syslog:PATH`: RFC 5424.
    Syslog(SyslogWay),
    /// `smtp://HOST:PORT`, or `smtps://`: mail.
    Mail(Mail),
    /// `http://…` or `https://…`: a POST with JSON.
    Webhook {
        /// The address.
        url: String,
    },
    /// `snmp://HOST:PORT`: SNMP v2c informs (acknowledged); `snmp+trap://`: traps (not
    /// acknowledged).
    Snmp {
        /// The receiver.
        host: String,
        /// Its port.
        port: u16,
        /// Whether informs are sent.
        is_inform: bool,
    },
    /// `hook:PATH`: a program, or all programs of a folder, with the message as JSON on standard
    /// input.
    Hook {
        /// The program or the folder.
        path: String,
    },
}

/// The transport of syslog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyslogWay {
    /// The local socket, one datagram per message.
    Local(String),
    /// One datagram per message (RFC 5426), without acknowledgement.
    Udp(String, u16),
    /// A stream, with the length before each message (RFC 6587).
    Tcp(String, u16),
    /// The same over TLS (RFC 5425).
    Tls(String, u16),
}

/// A mail server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// Its name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether TLS starts with the connection instead of STARTTLS.
    pub is_tls: bool,
}

/// The socket of systemd's journal (systemd.journal-fields(7), "native protocol").
const JOURNAL: &str = "/run/systemd/journal/socket";

const FORMS: &str = "journal, syslog:/dev/log, syslog+udp://HOST:PORT, syslog+tcp://HOST:PORT, \
    syslog+tls://HOST:PORT, smtp://HOST:PORT, smtps://HOST:PORT, http://…, https://…, \
    snmp://HOST:PORT, snmp+trap://HOST:PORT or hook:PATH";

impl Target {
    /// Parses an address.
    ///
    /// # Errors
    /// `Invalid`, with the valid forms.
    pub fn read(text: &str) -> Result<Target> {
        let wrong = || {
            let sentence = format!("'{text}' is not a valid target; expected {FORMS}");
            Error::new(ErrorKind::Invalid, sentence)
        };
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(wrong());
        }
        let absolute =
            |path: &str| path.starts_with('/').then(|| path.to_owned()).ok_or_else(wrong);
        if text == "journal" {
            return Ok(Target::Journal { socket: JOURNAL.to_owned() });
        }
        let (scheme, rest) = text.split_once(':').ok_or_else(wrong)?;
        let at = |usual: u16| host_and_port(rest.strip_prefix("//")?, usual);
        let at = |usual: u16| at(usual).ok_or_else(wrong);
        Ok(match scheme {
            "journal" => Target::Journal { socket: absolute(rest)? },
            "hook" => Target::Hook { path: absolute(rest)? },
            "syslog" => Target::Syslog(SyslogWay::Local(absolute(rest)?)),
            "syslog+udp" => {
                at(514).map(|(host, port)| Target::Syslog(SyslogWay::Udp(host, port)))?
            }
            "syslog+tcp" => {
                at(601).map(|(host, port)| Target::Syslog(SyslogWay::Tcp(host, port)))?
            }
            "syslog+tls" => {
                at(6514).map(|(host, port)| Target::Syslog(SyslogWay::Tls(host, port)))?
            }
            "smtp" => {
                at(25).map(|(host, port)| Target::Mail(Mail { host, port, is_tls: false }))?
            }
            "smtps" => {
                at(465).map(|(host, port)| Target::Mail(Mail { host, port, is_tls: true }))?
            }
            "snmp" => at(162).map(|(host, port)| Target::Snmp { host, port, is_inform: true })?,
            "snmp+trap" => {
                at(162).map(|(host, port)| Target::Snmp { host, port, is_inform: false })?
            }
            "http" | "https" => {
                let authority =
                    rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?']).next());
                authority.and_then(|authority| host_and_port(authority, 80)).ok_or_else(wrong)?;
                Target::Webhook { url: text.to_owned() }
            }
            _ => return Err(wrong()),
        })
    }
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`.
fn host_and_port(text: &str, usual: u16) -> Option<(String, u16)> {
    let is_bare = text.rfind(']').map_or(!text.contains(':'), |end| end + 1 == text.len());
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_bare => (host, port.parse().ok().filter(|port| *port > 0)?),
        _ => (text, usual),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    (!host.is_empty() && host.chars().all(is_host)).then(|| (host.to_owned(), port))
}
