//! The address and the state of a UPS.

use crate::interface::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The default port of `upsd`.
const PORT: u16 = 3493;

/// The address of a UPS of Network UPS Tools, its name and the host of `upsd`: `NAME@HOST[:PORT]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpsAddress {
    /// Its name in `ups.conf`.
    pub name: String,
    /// A host name or number, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl FromStr for UpsAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<UpsAddress, Error> {
        let wrong = || {
            let sentence = format!(
                "'{text}' is not a UPS; expected NAME@HOST or NAME@HOST:PORT, such as ups@localhost"
            );
            Error::new(ErrorKind::Invalid, sentence)
        };
        let (name, machine) = text.split_once('@').ok_or_else(wrong)?;
        let (host, port) = match machine.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
            None => match machine.rsplit_once(':') {
                Some((host, port)) if !host.contains(':') => (host, Some(port)),
                _ => (machine, None),
            },
        };
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| wrong()))?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || host.is_empty() || !name.chars().all(is_name) {
            return Err(wrong());
        }
        Ok(UpsAddress { name: name.to_owned(), host: host.to_owned(), port })
    }
}

impl fmt::Display for UpsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.host)
    }
}

/// The protection of the cache by a UPS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtectionState {
    /// It bridges a power outage.
    Optimal,
    /// It bridges a power outage, and charges its battery.
    Charging,
    /// It may not bridge a power outage: for example, it is on battery.
    Degraded,
    /// Its battery is nearly empty.
    Failed,
    /// There is no contact.
    Missing,
}

impl ProtectionState {
    /// All states.
    pub const ALL: [ProtectionState; 5] = [
        ProtectionState::Optimal,
        ProtectionState::Charging,
        ProtectionState::Degraded,
        ProtectionState::Failed,
        ProtectionState::Missing,
    ];
}

impl fmt::Display for ProtectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ProtectionState::Optimal => "optimal",
            ProtectionState::Charging => "charging",
            ProtectionState::Degraded => "degraded",
            ProtectionState::Failed => "failed",
            ProtectionState::Missing => "missing",
        })
    }
}

/// The reported state of a UPS.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpsInfo {
    /// Its name and host.
    pub name: String,
    /// The protection that it gives the cache.
    pub state: ProtectionState,
    /// The reason: a clause.
    pub reason: String,
    /// When it entered this state, in seconds since 1970.
    pub since_unix_s: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, name, host, port) in [
            ("ups@localhost", "ups", "localhost", 3493),
            ("rack-1@nut.example:4000", "rack-1", "nut.example", 4000),
            ("a@[::1]", "a", "::1", 3493),
            ("a@[::1]:77", "a", "::1", 77),
        ] {
            let address: UpsAddress = text.parse().expect(text);
            assert_eq!(
                (address.name.as_str(), address.host.as_str(), address.port),
                (name, host, port)
            );
        }
        for wrong in [
            "ups",
            "@host",
            "ups@",
            "ups@host:x",
            "u s@host",
            "a@[::1]7",
            "ups@host:99999",
            "a\nb@h",
        ] {
            assert!(wrong.parse::<UpsAddress>().is_err(), "{wrong}");
        }
    }
}
