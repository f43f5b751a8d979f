//! Accounts and sessions as they are kept: the file, the clock, and the hashing, which has threads of its own.
//!
//! | file | what |
//! | --- | --- |
//! | `sign_in` | names with passwords, and tokens |
//! | `turns` | which password is hashed next |
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
use controller::{ControllerHandle, Error, ErrorKind, EventCode, Occurrence, Result, StateFile, Trouble};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use turns::Turns;

/// Where accounts are kept, in the state folder.
/// An earlier version may have accounts and passwords that were taken away since: only an order brings it into force.
const FILE: StateFile<KeptAccounts> = StateFile::json("accounts.json", "the list of accounts").guarded();

/// The name of the first account.
const FIRST: &str = "admin";

/// A session ends when it is not used for so long.
pub(crate) const IDLE_S: u64 = 1800;

/// A password that came with a request and was right is not hashed again for so long.
const KNOWN_S: u64 = 60;

/// How many passwords that were right are remembered.
const MOST_KNOWN: usize = 256;

/// Sources that are told for which an account is locked.
const MOST_LOCKS_TOLD: usize = 8;

/// Passwords that are hashed at a time: each takes memory, and the processor.
const HASHING: usize = 1;

/// How long a source waits after a wrong password: its answer comes then, and its next one is hashed then.
const REST: Duration = Duration::from_millis(200);

/// Who knows accounts and sessions.
pub(crate) struct Keeper {
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
    /// Why they are not known: their file cannot be read. Nobody signs in then, and none is made, until they are repaired.
    damaged: Option<String>,
    /// What limits wrong passwords.
    throttle: Throttle,
    sessions: Sessions,
    /// Names and passwords that were right, hashed with a secret, and until when that counts.
    known: BTreeMap<[u8; 32], (String, u64)>,
    /// How often accounts were changed since the start.
    revision: u64,
}

impl State {
    /// What is told of an account, with its locks.
    fn with_locks(&self, mut account: AccountInfo, now_s: u64) -> AccountInfo {
        let locks = self.throttle.locks(&account.name, now_s);
        account.locked_s = locks.first().map(|(_, left_s)| *left_s);
        account.locked_from =
            locks.iter().take(MOST_LOCKS_TOLD).map(|(source, _)| source.to_string()).collect();
        account
    }
}

impl Keeper {
    /// Reads what the state folder has. Accounts that cannot be read stop nothing but signing in over the network.
    pub(crate) fn open(files: &Files, cost: Cost, controller: ControllerHandle) -> platform::Result<Keeper> {
        let unusable = |error: Error| platform::Error::new(platform::ErrorKind::WrongKind, error.message);
        let nobody = Password::new(access::hex(&random::<32>()?));
        let nobody = Hash::of(&nobody, random()?, cost).map_err(unusable)?;
        let none = Accounts::none(nobody);
        let loaded = files.load_state(&FILE);
        let trouble = loaded.trouble.map(|trouble| {
            files::tell_trouble(
                &controller,
                &trouble,
                "nobody can sign in over the network until they are repaired",
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
                    "nobody can sign in over the network until they are repaired",
                );
                (none, Some(why))
            }
        };
        let (throttle, sessions) = (Throttle::new(Limits::default()), Sessions::new(IDLE_S));
        let state = State { accounts, damaged, throttle, sessions, known: BTreeMap::new(), revision: 0 };
        Ok(Keeper {
            state: Mutex::new(state),
            files: files.clone(),
            cost,
            since: Instant::now(),
            turns: Turns::new(HASHING),
            secret: random()?,
            controller,
        })
    }

    /// Whether accounts are known.
    ///
    /// # Errors
    /// Why they are not, and what to do.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.state().damaged {
            None => Ok(()),
            Some(why) => Err(damaged(why)),
        }
    }

    /// Repairs accounts that cannot be read: with the previous version, or with one new administrator, whose name and password are told.
    ///
    /// # Errors
    /// When they can be read, there is no previous version, or it cannot be stored.
    pub(crate) fn repair(
        &self,
        by: &controller::Caller,
        anew: bool,
    ) -> Result<Option<(&'static str, Password)>> {
        let mut state = self.state();
        if state.damaged.is_none() {
            let sentence = "the accounts can be read: there is nothing to repair; see 'softroc account list'";
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
        // Accounts of before may have another password than its file.
        self.first_of(&state);
        drop(state);
        let what = if anew { "with one administrator" } else { "with their previous version" };
        self.controller.note(Occurrence {
            code: EventCode::ControllerStateRepaired,
            subject: FILE.name().to_owned(),
            cause: format!("{by} asked for it"),
            effect: "one can sign in over the network again".to_owned(),
            text: format!("{by} repaired the accounts, {what}"),
            by: Some(by.clone()),
        });
        Ok(first)
    }

    fn previous(&self, none: &Accounts) -> Result<Accounts> {
        let wrong = |why: &str| {
            let sentence = format!(
                "there is no previous version of the accounts ({why}); run 'softroc account repair --anew' to begin with one administrator"
            );
            Error::new(ErrorKind::WrongState, sentence)
        };
        let kept = self.files.load_previous(&FILE).map_err(|why| wrong(&why))?;
        let kept = kept.ok_or_else(|| wrong("none was stored"))?;
        let accounts = none.with(kept).map_err(|why| wrong(&why))?;
        if accounts.is_empty() {
            return Err(wrong("it has none"));
        }
        Ok(accounts)
    }

    /// With the first account, whose password has to be changed.
    fn with_first(&self, none: &Accounts) -> Result<(Accounts, Password)> {
        let failed = |error: platform::Error| Error::new(ErrorKind::Failed, error.to_string());
        let password = Password::from_random(&random::<20>().map_err(failed)?);
        let hash = Hash::of(&password, random().map_err(failed)?, self.cost)?;
        let mut accounts = none.clone();
        accounts.add(FIRST, Role::Administrator, hash, true)?;
        Ok((accounts, password))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changes are made to a copy and put in their place: what a panic left behind is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_s(&self) -> u64 {
        self.since.elapsed().as_secs()
    }

    /// Stores accounts.
    fn store(&self, accounts: &Accounts) -> Result<()> {
        self.files.store_state(&FILE, &accounts.to_keep())
    }

    /// Changes accounts: durable first, then in effect.
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
            cause: format!("{by} asked for it"),
            effect: what.to_owned(),
            text: format!("{by} changed accounts: '{name}' {what}"),
            by: Some(by.clone()),
        });
        Ok(done)
    }

    /// Records what became of an order.
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

    /// Makes an account.
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

    /// Changes an account, and its password if one is given. Its sessions end, but the one that asks, unless only its name or
    /// a lock is concerned.
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
            // Whoever chose it for somebody else may ask for that; a password of one's own is changed by that.
            change.must_change = change.must_change.or(Some(false));
        }
        let what = described(&change);
        let (new_name, unlocks) = (change.name.clone(), change.unlock);
        let ends = change.password.is_some() || change.role.is_some() || change.enabled == Some(false);
        self.change(&by.named(), name, &what, |accounts| accounts.set(name, change))?;
        if unlocks {
            self.state().throttle.unlock(name);
        }
        if ends || new_name.is_some() {
            self.state().sessions.close_of(name, by.session.as_deref().filter(|_| new_name.is_none()));
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

    /// The sessions that are open.
    pub(crate) fn sessions(&self) -> Vec<SessionInfo> {
        let now_s = self.now_s();
        self.state().sessions.list(now_s)
    }

    /// When accounts are locked.
    pub(crate) fn limits(&self) -> Limits {
        self.state().throttle.limits()
    }

    /// Whether somebody could still ask as they did: their account is as it was, and their session is open.
    pub(crate) fn is_still(&self, caller: &Caller) -> bool {
        let now_s = self.now_s();
        let mut state = self.state();
        let Some(name) = &caller.account else { return true };
        let as_it_was =
            state.accounts.show(name).is_ok_and(|account| account.enabled && account.role == caller.role);
        let is_open = |id: &String| state.sessions.list(now_s).iter().any(|session| session.id == *id);
        as_it_was && caller.session.as_ref().is_none_or(is_open)
    }

    /// Ends a session. Whether it was open.
    pub(crate) fn close(&self, session: &str) -> bool {
        self.state().sessions.close(session)
    }
}

/// What a change is, without secrets.
fn described(change: &AccountChange) -> String {
    let mut parts = Vec::new();
    parts.extend(change.name.as_ref().map(|name| format!("renamed to '{name}'")));
    parts.extend(change.role.map(|role| format!("is {role}")));
    parts.extend(change.enabled.map(|on| if on { "enabled".to_owned() } else { "disabled".to_owned() }));
    parts.extend(change.password.as_ref().map(|_| "has another password".to_owned()));
    parts.extend(change.unlock.then(|| "unlocked".to_owned()));
    if parts.is_empty() { "left as it is".to_owned() } else { parts.join(", ") }
}

/// That accounts are not known, and what to do.
fn damaged(why: &str) -> Error {
    let sentence = format!(
        "the accounts cannot be read ({why}), and nobody can sign in over the network; run 'softroc account repair' on this machine as root, which takes their previous version, or 'softroc account repair --anew', which begins with one administrator"
    );
    Error::new(ErrorKind::WrongState, sentence)
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Random bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> platform::Result<[u8; N]> {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).map_err(|_| {
        platform::Error::new(platform::ErrorKind::System, "the machine gives no random numbers; start again")
    })?;
    Ok(bytes)
}
