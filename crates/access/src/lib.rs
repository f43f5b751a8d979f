//! Access control: roles and actions, accounts and passwords, sessions.
//!
//! Pure values: the caller (crate `api`) provides time, randomness and storage, so that tests need
//! no clock.
//!
//! | file | what |
//! | --- | --- |
//! | `action` | all actions, and the table of the roles that may perform them |
//! | `role` | the three roles |
//! | `accounts` | accounts, and attempts to sign in |
//! | `throttle`, `source` | limits on wrong passwords, and the sources that they apply to |
//! | `password` | passwords and their hashes |
//! | `sessions` | sessions of signed-in clients |
//! | `caller` | callers and their permissions |
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

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    hex::of(bytes)
}
