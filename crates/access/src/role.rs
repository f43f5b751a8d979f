//! The three roles, as in Redfish.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The role of a caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// May read, and change its own password.
    ReadOnly,
    /// Operates: tasks, schedules, policies. Cannot destroy data.
    Operator,
    /// May perform all actions.
    Administrator,
}

impl Role {
    /// All roles, least privileged first.
    pub const ALL: [Role; 3] = [Role::ReadOnly, Role::Operator, Role::Administrator];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Role::ReadOnly => "read-only",
            Role::Operator => "operator",
            Role::Administrator => "administrator",
        }
    }

    /// Its name in Redfish.
    pub fn in_redfish(self) -> &'static str {
        match self {
            Role::ReadOnly => "ReadOnly",
            Role::Operator => "Operator",
            Role::Administrator => "Administrator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let is = |role: &Role| role.name() == text || role.in_redfish() == text;
        Role::ALL.into_iter().find(is).ok_or_else(|| {
            format!("'{text}' is not a role; expected one of read-only, operator, administrator")
        })
    }
}
