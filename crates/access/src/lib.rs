//! Who may do what: roles and actions, accounts and their passwords, sessions.
//!
//! Values only. What time it is, what is random and where accounts are kept is said by whoever calls: that is the room of
//! HTTP (`api`), so that a thousand wrong passwords are a test without a clock.
//!
//! | file | what |
//! | --- | --- |
//! | `action` | everything that can be asked for, and the one table of which role may |
//! | `role` | the three roles |
//! | `accounts` | accounts, and attempts to sign in |
//! | `throttle`, `source` | limits on wrong passwords, and the sources that they apply to |
//! | `password` | passwords, and what is kept of them |
//! | `sessions` | who is signed in |
//! | `caller` | who asks, and the question whether they may |
//! | `hex` | bytes as text |

mod accounts;
mod action;
mod caller;
mod hex;
mod password;
mod role;
mod sessions;
mod source;
mod throttle;

pub use accounts::{AccountChange, AccountInfo, Accounts, Attempt, KeptAccounts, Verdict};
pub use action::Action;
pub use caller::Caller;
pub use password::{Cost, Hash, Password};
pub use role::Role;
pub use sessions::{SessionInfo, Sessions};
pub use source::Source;
pub use throttle::{Admission, Limits, MOST_NAMES, MOST_SOURCES, Throttle};

/// Bytes as text, two digits each.
pub fn hex(bytes: &[u8]) -> String {
    hex::of(bytes)
}
