//! The account that requests a change, and its origin.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The account that requests a change. The interface supplies it; the event of the change stores
/// it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Caller {
    /// The name of the account.
    pub user: String,
    /// The origin of the request.
    #[serde(flatten)]
    pub origin: Origin,
}

/// The origin of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Origin {
    /// A process on this host, as reported by the kernel.
    Local {
        /// Its user ID.
        uid: u32,
        /// Its process ID, where the kernel reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// Another host.
    Network {
        /// Its address.
        address: String,
    },
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Local { uid, pid: Some(pid) } => {
                write!(f, "{} (uid {uid}, process {pid})", self.user)
            }
            Origin::Local { uid, pid: None } => write!(f, "{} (uid {uid})", self.user),
            Origin::Network { address } => write!(f, "{} (at {address})", self.user),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_kept_as_it_was_told() {
        let callers = [
            (Origin::Local { uid: 0, pid: Some(7) }, "root (uid 0, process 7)"),
            (Origin::Local { uid: 5, pid: None }, "root (uid 5)"),
            (Origin::Network { address: "10.0.0.7:443".into() }, "root (at 10.0.0.7:443)"),
        ];
        for (origin, text) in callers {
            let caller = Caller { user: "root".into(), origin };
            assert_eq!(caller.to_string(), text);
            let json = serde_json::to_string(&caller).unwrap();
            assert_eq!(serde_json::from_str::<Caller>(&json).unwrap(), caller, "{json}");
        }
    }
}
