//! Who asks.

use crate::{Action, Role};
use controller::{Error, ErrorKind, Origin, Result};

/// Somebody who is known, and what they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The name of the account, or of the user of this machine.
    pub user: String,
    /// From where.
    pub origin: Origin,
    /// What they are.
    pub role: Role,
    /// The account, where it is one.
    pub account: Option<String>,
    /// The session, where there is one.
    pub session: Option<String>,
    /// They have to change their password before anything else.
    pub must_change: bool,
}

impl Caller {
    /// Whether they may do that.
    ///
    /// # Errors
    /// `Denied` if not: what it takes, or that the password has to be changed first.
    pub fn may(&self, action: Action) -> Result<()> {
        let denied = |why: String| Err(Error::new(ErrorKind::Denied, why));
        if self.must_change && action != Action::OwnPassword {
            let account = self.account.as_deref().unwrap_or_default();
            return denied(format!(
                "the password of '{account}' has to be changed first; run 'softroc account set {account} --password-stdin'"
            ));
        }
        if action.is_for(self.role) {
            return Ok(());
        }
        let least = Role::ALL.into_iter().find(|role| action.is_for(*role)).unwrap_or(Role::Administrator);
        denied(format!(
            "{} is {}, and '{action}' takes {least}; 'softroc account set NAME --role {least}' gives it",
            self.described(),
            self.role
        ))
    }

    /// As a sentence names them.
    fn described(&self) -> String {
        let kind = if self.account.is_some() { "account" } else { "user" };
        format!("{kind} {}", self.user)
    }

    /// As events name them.
    pub fn named(&self) -> controller::Caller {
        controller::Caller { user: self.user.clone(), origin: self.origin.clone() }
    }
}
