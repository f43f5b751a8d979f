//! The first administrator, and the file with its password.
//!
//! Invariants: the password is in no log, event or reply. It is only in [`FILE`] of the state
//! folder, which only the user of the controller can read, from before the creation of the account
//! until its password or name changes.

use super::{AccountStore, FIRST, State};
use access::{Accounts, Password};
use controller::{Error, EventCode, Occurrence};

/// The file of the first password in the state folder.
const FILE: &str = "first-password";

/// The first account, whose password must be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstAccount {
    /// Its name.
    pub name: &'static str,
    /// The file with its password, one line.
    pub file: &'static str,
}

impl AccountStore {
    /// Creates the first account if there is no account.
    pub(crate) fn make_first(&self) -> platform::Result<Option<FirstAccount>> {
        let mut state = self.state();
        if !state.accounts.is_empty() || state.damaged.is_some() {
            return Ok(self.first_of(&state));
        }
        let failed =
            |error: Error| platform::Error::new(platform::ErrorKind::System, error.message);
        let (accounts, password) = self.with_first(&state.accounts).map_err(failed)?;
        // After a crash here there is no account, and the next start generates another password.
        self.files.store(FILE, format!("{}\n", password.reveal()).as_bytes())?;
        self.store(&accounts).map_err(failed)?;
        state.accounts = accounts;
        self.controller.note(Occurrence {
            code: EventCode::AccessFirstAccount,
            subject: FIRST.to_owned(),
            cause: "start".to_owned(),
            effect: "its password must be changed".to_owned(),
            text: format!(
                "the account '{FIRST}' was created; its password is in the file {FILE} of the \
                 state folder until it is changed"
            ),
            by: None,
        });
        Ok(Some(FirstAccount { name: FIRST, file: FILE }))
    }

    /// The first account, if its generated password is unchanged.
    pub(crate) fn first(&self) -> Option<FirstAccount> {
        self.first_of(&self.state())
    }

    /// The same; also removes the file when the password is no longer valid.
    pub(super) fn first_of(&self, state: &State) -> Option<FirstAccount> {
        // Unreadable accounts may be repaired.
        if state.damaged.is_some() {
            return None;
        }
        let kept = self.files.load(FILE).ok().flatten()?;
        let password = Password::new(String::from_utf8_lossy(&kept).trim_end());
        let is_of = state.accounts.password(FIRST).and_then(|hash| hash.is_of(&password).ok());
        if is_of != Some(true) {
            self.forget_first();
            return None;
        }
        Some(FirstAccount { name: FIRST, file: FILE })
    }

    /// Removes the file when the account's password or name has changed, or the account was
    /// removed.
    pub(super) fn forget_first_if_changed(&self, before: &Accounts, after: &Accounts) {
        if before.password(FIRST) != after.password(FIRST) {
            self.forget_first();
        }
    }

    fn forget_first(&self) {
        if let Err(error) = self.files.remove(FILE) {
            tracing::warn!(
                "{error}: the file {FILE} of the state folder has an outdated password; remove \
                    that file"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::keeper;
    use super::*;
    use access::{AccountChange, Hash};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_password_is_in_one_file_until_it_is_changed() {
        let (keeper, folder) = keeper("first");
        let file = folder.path.join(FILE);
        let first = keeper.make_first().expect("it is made").expect("there was none");
        assert_eq!((first.name, first.file), ("admin", FILE));
        let mode = std::fs::metadata(&file).expect("its file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let kept = std::fs::read_to_string(&file).expect("its file");
        let password = Password::new(kept.trim_end());
        let hash = keeper.state().accounts.password(FIRST).expect("a password");
        assert!(hash.is_of(&password).expect("it is hashed"));
        // A restart does not generate another one.
        assert_eq!(keeper.make_first().expect("it is looked at"), Some(first));
        assert_eq!(std::fs::read_to_string(&file).expect("its file"), kept);
        for other in std::fs::read_dir(&folder.path).expect("the folder") {
            let path = other.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("a text");
            assert!(path == file || !text.contains(password.reveal()), "{}", path.display());
        }
        let by = controller::Caller {
            user: "root".to_owned(),
            origin: controller::Origin::Local { uid: 0, pid: None },
        };
        let set = |change: AccountChange| {
            keeper.change(&by, FIRST, "a test", |accounts| accounts.set(FIRST, change))
        };
        set(AccountChange { must_change: Some(true), ..AccountChange::default() })
            .expect("it is changed");
        assert_eq!(keeper.first(), Some(first), "its password is the same");
        let hash =
            Hash::of(&Password::new("a better password"), [1; 16], keeper.cost).expect("a hash");
        set(AccountChange { password: Some(hash), ..AccountChange::default() })
            .expect("it is changed");
        assert!(!file.exists());
        assert_eq!(keeper.make_first().expect("it is looked at"), None);
        // A file that a crash left behind.
        std::fs::write(&file, kept).expect("a file");
        assert_eq!(keeper.first(), None);
        assert!(!file.exists());
    }
}
