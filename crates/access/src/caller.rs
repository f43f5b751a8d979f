//! Callers and their permissions.

use crate::{Action, Role};
use controller::{Error, ErrorKind, Origin, Result};

/// An authenticated caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The name of the account, or of the local user.
    pub user: String,
    /// The interface and address it uses.
    pub origin: Origin,
    /// Its role.
    pub role: Role,
    /// Its account, if it has one.
    pub account: Option<String>,
    /// Its session, if it has one.
    pub session: Option<String>,
    /// Whether it must change its password first.
    pub must_change: bool,
}

impl Caller {
    /// Checks the permission for an action.
    ///
    /// # Errors
    /// `Denied`: the required role, or that the password must be changed first.
    pub fn may(&self, action: Action) -> Result<()> {
        let denied = |why: String| Err(Error::new(ErrorKind::Denied, why));
        if self.must_change && action != Action::OwnPassword {
            let account = self.account.as_deref().unwrap_or_default();
            return denied(format!(
                "the password of '{account}' must be changed first; run 'softroc account set \
                    {account} --password-stdin'"
            ));
        }
        if action.is_for(self.role) {
            return Ok(());
        }
        let least =
            Role::ALL.into_iter().find(|role| action.is_for(*role)).unwrap_or(Role::Administrator);
        denied(format!(
            "{} is {}, and '{action}' takes {least}; 'softroc account set NAME --role {least}' \
                gives it",
            self.described(),
            self.role
        ))
    }

    /// The caller in messages.
    fn described(&self) -> String {
        let kind = if self.account.is_some() { "account" } else { "user" };
        format!("{kind} {}", self.user)
    }

    /// The caller in events.
    pub fn named(&self) -> controller::Caller {
        controller::Caller { user: self.user.clone(), origin: self.origin.clone() }
    }
}
