//! Who gave a command.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who gave a command, and from where: events of changes name both.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// Who: `account ada`, `user 1000`.
    pub who: String,
    /// From where: an address, `control socket`.
    pub from: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.who, self.from)
    }
}
