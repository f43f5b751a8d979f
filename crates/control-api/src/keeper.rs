//! The account store: accounts and sessions, their file, and password hashing, which has its own
//! threads.
//!
//! | module | content |
//! | --- | --- |
//! | `sign_in` | names with passwords, and tokens |
//! | `turns` | the order of password hashing |
//! | `first` | the first administrator |

mod first;
mod sign_in;
#[cfg(test)]
mod tests;
mod turns;

pub use first::FirstAccount;

use crate::files::{self, Files};
use crate::orders;
use access::{
    AccountChange, AccountInfo, Accounts, Caller, Cost, Hash, KeptAccounts, Limits, Password, Role,
    SessionInfo, Sessions, Throttle,
};
use controller::{
    ControllerHandle, Error, ErrorKind, EventCode, Occurrence, Result, StateFile, Trouble,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use turns::Turns;

/// The file of the accounts in the state folder. An earlier version may contain revoked accounts
/// and passwords, so only an operator can restore it.
const FILE: StateFile<KeptAccounts> =
    StateFile::json("accounts.json", "the list of accounts").guarded();

/// The name of the first account.
const FIRST: &str = "admin";

/// A session ends after this time without use.
pub(crate) const IDLE_S: u64 = 1800;

/// A correct password of a request is not hashed again for this time.
const KNOWN_S: u64 = 60;

/// Maximum number of remembered correct passwords.
const MOST_KNOWN: usize = 256;

/// Maximum number of reported sources for which an account is locked.
const MOST_LOCKS_TOLD: usize = 8;

/// Maximum number of concurrent hashes: each takes memory and CPU time.
const HASHING: usize = 1;

/// The delay of a source after a wrong password, for its reply and its next hash.
const REST: Duration = Duration::from_millis(200);

/// The account store.
pub(crate) struct AccountStore {
    state: Mutex<State>,
    files: Files,
    cost: Cost,
    since: Instant,
    turns: Turns,
    secret: [u8; 32],
    controller: ControllerHandle,
}

struct State {
    accounts: Accounts,
    /// Why the file of the accounts cannot be read. Until a repair, there are no sign-ins and no
    /// changes.
    damaged: Option<String>,
    /// Rate limits for wrong passwords.
    throttle: Throttle,
    sessions: Sessions,
    /// Keyed hashes of correct names and passwords, with their expiry.
    known: BTreeMap<[u8; 32], (String, u64)>,
    /// Number of changes of accounts since the start.
    revision: u64,
}

impl State {
    /// The information about an account, with its locks.
    fn with_locks(&self, mut account: AccountInfo, now_s: u64) -> AccountInfo {
        let locks = self.throttle.locks(&account.name, now_s);
        account.locked_s = locks.first().map(|(_, left_s)| *left_s);
        account.locked_from =
            locks.iter().take(MOST_LOCKS_TOLD).map(|(source, _)| source.to_string()).collect();
        account
    }
}

impl AccountStore {
    /// Reads the state folder. Unreadable accounts prevent only sign-ins over the network.
    pub(crate) fn open(
        files: &Files,
        cost: Cost,
        controller: ControllerHandle,
    ) -> platform::Result<AccountStore> {
        let unusable =
            |error: Error| platform::Error::new(platform::ErrorKind::WrongKind, error.message);
        let nobody = Password::new(access::hex(&random::<32>()?));
        let nobody = Hash::of(&nobody, random()?, cost).map_err(unusable)?;
        let none = Accounts::none(nobody);
        let loaded = files.load_state(&FILE);
        let trouble = loaded.trouble.map(|trouble| {
            files::tell_trouble(
                &controller,
                &trouble,
                "sign-in over the network is not possible until the accounts are repaired",
            );
            trouble.why
        });
        let (accounts, damaged) = match (loaded.value.map(|kept| none.with(kept)), trouble) {
            (None, damaged) => (none, damaged),
            (Some(Ok(accounts)), _) => (accounts, None),
            (Some(Err(why)), _) => {
                let trouble = Trouble {
                    file: FILE.name(),
                    about: FILE.about(),
                    why: why.clone(),
                    place: controller::Place::Guarded,
                    from_previous: false,
                    is_complete: false,
                };
                files::tell_trouble(
                    &controller,
                    &trouble,
                    "sign-in over the network is not possible until the accounts are repaired",
                );
                (none, Some(why))
            }
        };
        let (throttle, sessions) = (Throttle::new(Limits::default()), Sessions::new(IDLE_S));
        let state =
            State { accounts, damaged, throttle, sessions, known: BTreeMap::new(), revision: 0 };
        Ok(AccountStore {
            state: Mutex::new(state),
            files: files.clone(),
            cost,
            since: Instant::now(),
            turns: Turns::new(HASHING),
            secret: random()?,
            controller,
        })
    }

    /// Whether the accounts could be read.
    ///
    /// # Errors
    /// The reason, and the remedy.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.state().damaged {
            None => Ok(()),
            Some(why) => Err(damaged(why)),
        }
    }

    /// Repairs unreadable accounts: with the previous version, or with one new administrator, whose
    /// name and password are returned.
    ///
    /// # Errors
    /// When the accounts are readable, there is no previous version, or it cannot be stored.
    pub(crate) fn repair(
        &self,
        by: &controller::Caller,
        anew: bool,
    ) -> Result<Option<(&'static str, Password)>> {
        let mut state = self.state();
        if state.damaged.is_none() {
            let sentence =
                "the accounts are readable: nothing to repair; see 'softroc account list'";
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        let (accounts, first) = match anew {
            true => {
                let (accounts, password) = self.with_first(&state.accounts)?;
                (accounts, Some((FIRST, password)))
            }
            false => (self.previous(&state.accounts)?, None),
        };
        self.store(&accounts)?;
        (state.accounts, state.damaged) = (accounts, None);
        state.revision += 1;
        // The previous version may have a password that differs from the file.
        self.first_of(&state);
        drop(state);
        let what = if anew { "with one administrator" } else { "with their previous version" };
        self.controller.note(Occurrence {
            code: EventCode::ControllerStateRepaired,
            subject: FILE.name().to_owned(),
            cause: format!("requested by {by}"),
            effect: "sign-in over the network is possible again".to_owned(),
            text: format!("{by} repaired the accounts, {what}"),
            by: Some(by.clone()),
        });
        Ok(first)
    }

    fn previous(&self, none: &Accounts) -> Result<Accounts> {
        let wrong = |why: &str| {
            let sentence = format!(
                "there is no previous version of the accounts ({why}); run 'softroc account \
                 repair --anew' to start over with one administrator"
            );
            Error::new(ErrorKind::WrongState, sentence)
        };
        let kept = self.files.load_previous(&FILE).map_err(|why| wrong(&why))?;
        let kept = kept.ok_or_else(|| wrong("no version was stored"))?;
        let accounts = none.with(kept).map_err(|why| wrong(&why))?;
        if accounts.is_empty() {
            return Err(wrong("it has no accounts"));
        }
        Ok(accounts)
    }

    /// With the first account, whose password must be changed.
    fn with_first(&self, none: &Accounts) -> Result<(Accounts, Password)> {
        let failed = |error: platform::Error| Error::new(ErrorKind::Failed, error.to_string());
        let password = Password::from_random(&random::<20>().map_err(failed)?);
        let hash = Hash::of(&password, random().map_err(failed)?, self.cost)?;
        let mut accounts = none.clone();
        accounts.add(FIRST, Role::Administrator, hash, true)?;
        Ok((accounts, password))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changes replace the state as a whole, so it is consistent after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_s(&self) -> u64 {
        self.since.elapsed().as_secs()
    }

    /// Stores accounts.
    fn store(&self, accounts: &Accounts) -> Result<()> {
        self.files.store_state(&FILE, &accounts.to_keep())
    }

    /// Changes accounts: first durably, then in memory.
    fn change<T>(
        &self,
        by: &controller::Caller,
        name: &str,
        what: &str,
        change: impl FnOnce(&mut Accounts) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.state();
        if let Some(why) = &state.damaged {
            return Err(damaged(why));
        }
        let mut accounts = state.accounts.clone();
        let done = change(&mut accounts)?;
        self.store(&accounts)?;
        self.forget_first_if_changed(&state.accounts, &accounts);
        state.accounts = accounts;
        state.revision += 1;
        state.known.clear();
        drop(state);
        self.controller.note(Occurrence {
            code: EventCode::AccessAccount,
            subject: name.to_owned(),
            cause: format!("requested by {by}"),
            effect: what.to_owned(),
            text: format!("{by} changed accounts: '{name}' {what}"),
            by: Some(by.clone()),
        });
        Ok(done)
    }

    /// Records the result of an order.
    async fn recorded<T>(
        &self,
        by: &controller::Caller,
        (order, name): (&str, &str),
        what: &str,
        done: Result<T>,
    ) -> Result<T> {
        let given = orders::given(by, order, name, serde_json::json!({ "change": what }));
        orders::recorded(&self.controller, given, done).await
    }

    /// Adds an account.
    pub(crate) async fn add(
        &self,
        by: &controller::Caller,
        name: &str,
        role: Role,
        password: &Password,
        must_change: bool,
    ) -> Result<AccountInfo> {
        let done = self.added(by, name, role, password, must_change).await;
        self.recorded(by, ("account-add", name), &format!("added, {role}"), done).await
    }

    async fn added(
        &self,
        by: &controller::Caller,
        name: &str,
        role: Role,
        password: &Password,
        must_change: bool,
    ) -> Result<AccountInfo> {
        password.check(name)?;
        let hash = self.hash(password).await?;
        let what = format!("added, {role}");
        self.change(by, name, &what, |accounts| accounts.add(name, role, hash, must_change))?;
        self.show(name)
    }

    /// Changes an account, and its password if one is given. This ends its other sessions, unless
    /// only the name or a lock changes.
    pub(crate) async fn set(
        &self,
        by: &Caller,
        name: &str,
        change: AccountChange,
        password: Option<&Password>,
    ) -> Result<AccountInfo> {
        let mut what = described(&change);
        if password.is_some() {
            what.push_str(", password");
        }
        let done = self.set_as(by, name, change, password).await;
        self.recorded(&by.named(), ("account-set", name), &what, done).await
    }

    async fn set_as(
        &self,
        by: &Caller,
        name: &str,
        mut change: AccountChange,
        password: Option<&Password>,
    ) -> Result<AccountInfo> {
        if let Some(password) = password {
            password.check(change.name.as_deref().unwrap_or(name))?;
            if by.account.as_deref() == Some(name) {
                self.check_is_new(name, password).await?;
            }
            change.password = Some(self.hash(password).await?);
            // An administrator may require a change of the new password; one's own new password
            // needs none.
            change.must_change = change.must_change.or(Some(false));
        }
        let what = described(&change);
        let (new_name, unlocks) = (change.name.clone(), change.unlock);
        let ends =
            change.password.is_some() || change.role.is_some() || change.enabled == Some(false);
        self.change(&by.named(), name, &what, |accounts| accounts.set(name, change))?;
        if unlocks {
            self.state().throttle.unlock(name);
        }
        if ends || new_name.is_some() {
            self.state()
                .sessions
                .close_of(name, by.session.as_deref().filter(|_| new_name.is_none()));
        }
        self.show(new_name.as_deref().unwrap_or(name))
    }

    /// Removes an account, and ends its sessions.
    pub(crate) async fn remove(&self, by: &controller::Caller, name: &str) -> Result<()> {
        let removed = self.change(by, name, "removed", |accounts| accounts.remove(name));
        if removed.is_ok() {
            self.state().sessions.close_of(name, None);
        }
        self.recorded(by, ("account-remove", name), "removed", removed).await
    }

    /// An account.
    pub(crate) fn show(&self, name: &str) -> Result<AccountInfo> {
        let now_s = self.now_s();
        let state = self.state();
        state.accounts.show(name).map(|account| state.with_locks(account, now_s))
    }

    /// All accounts, by name.
    pub(crate) fn list(&self) -> Vec<AccountInfo> {
        let now_s = self.now_s();
        let state = self.state();
        state.accounts.list().into_iter().map(|account| state.with_locks(account, now_s)).collect()
    }

    /// The open sessions.
    pub(crate) fn sessions(&self) -> Vec<SessionInfo> {
        let now_s = self.now_s();
        self.state().sessions.list(now_s)
    }

    /// The rules for locking accounts.
    pub(crate) fn limits(&self) -> Limits {
        self.state().throttle.limits()
    }

    /// Whether the caller's credentials are still valid: the account is unchanged, and the session
    /// is open.
    pub(crate) fn is_still(&self, caller: &Caller) -> bool {
        let now_s = self.now_s();
        let mut state = self.state();
        let Some(name) = &caller.account else { return true };
        let as_it_was = state
            .accounts
            .show(name)
            .is_ok_and(|account| account.enabled && account.role == caller.role);
        let is_open =
            |id: &String| state.sessions.list(now_s).iter().any(|session| session.id == *id);
        as_it_was && caller.session.as_ref().is_none_or(is_open)
    }

    /// Ends a session. Returns whether it was open.
    pub(crate) fn close(&self, session: &str) -> bool {
        self.state().sessions.close(session)
    }
}

/// A description of a change, without secrets.
fn described(change: &AccountChange) -> String {
    let mut parts = Vec::new();
    parts.extend(change.name.as_ref().map(|name| format!("renamed to '{name}'")));
    parts.extend(change.role.map(|role| format!("is {role}")));
    parts.extend(
        change.enabled.map(|on| if on { "enabled".to_owned() } else { "disabled".to_owned() }),
    );
    parts.extend(change.password.as_ref().map(|_| "has a new password".to_owned()));
    parts.extend(change.unlock.then(|| "unlocked".to_owned()));
    if parts.is_empty() { "unchanged".to_owned() } else { parts.join(", ") }
}

/// The error for unreadable accounts, with the remedy.
fn damaged(why: &str) -> Error {
    let sentence = format!(
        "the accounts cannot be read ({why}); sign-in over the network is not possible; as root \
         on this machine, run 'softroc account repair' to restore the previous version, or \
         'softroc account repair --anew' to start over with one administrator"
    );
    Error::new(ErrorKind::WrongState, sentence)
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Cryptographically secure random bytes.
pub(crate) fn random<const N: usize>() -> platform::Result<[u8; N]> {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).map_err(|_| {
        platform::Error::new(
            platform::ErrorKind::System,
            "the system provides no random numbers; try again",
        )
    })?;
    Ok(bytes)
}
