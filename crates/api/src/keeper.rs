//! Accounts and sessions as they are kept: the file, the clock, and the hashing, which has threads of its own.

use crate::files::{self, Files};
use crate::orders;
use access::{
    AccountChange, AccountInfo, Accounts, Caller, Cost, Hash, KeptAccounts, Limits, Password, Role,
    SessionInfo, Sessions, Verdict,
};
use controller::{
    ControllerHandle, Error, ErrorKind, EventCode, Occurrence, Origin, Result, StateFile, Trouble,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Semaphore;

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

/// Passwords that are hashed at a time: each takes memory, and the processor.
const HASHING: usize = 1;

/// How long none is hashed after one that was wrong.
const REST: Duration = Duration::from_millis(200);

/// Who knows accounts and sessions.
pub(crate) struct Keeper {
    state: Mutex<State>,
    files: Files,
    cost: Cost,
    since: Instant,
    hashing: Semaphore,
    secret: [u8; 32],
    controller: ControllerHandle,
}

struct State {
    accounts: Accounts,
    /// Why they are not known: their file cannot be read. Nobody signs in then, and none is made, until they are repaired.
    damaged: Option<String>,
    sessions: Sessions,
    /// Names and passwords that were right, hashed with a secret, and until when that counts.
    known: BTreeMap<[u8; 32], (String, u64)>,
    /// How often accounts were changed since the start.
    revision: u64,
}

impl Keeper {
    /// Reads what the state folder has. Accounts that cannot be read stop nothing but signing in over the network.
    pub(crate) fn open(files: &Files, cost: Cost, controller: ControllerHandle) -> env::Result<Keeper> {
        let unusable = |error: Error| env::Error::new(env::ErrorKind::WrongKind, error.message);
        let nobody = Password::new(access::hex(&random::<32>()?));
        let nobody = Hash::of(&nobody, random()?, cost).map_err(unusable)?;
        let none = Accounts::none(Limits::default(), nobody);
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
        let (sessions, known) = (Sessions::new(IDLE_S), BTreeMap::new());
        let state = State { accounts, damaged, sessions, known, revision: 0 };
        Ok(Keeper {
            state: Mutex::new(state),
            files: files.clone(),
            cost,
            since: Instant::now(),
            hashing: Semaphore::new(HASHING),
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
        self.files.store_state(&FILE, &accounts.to_keep())?;
        (state.accounts, state.damaged) = (accounts, None);
        state.revision += 1;
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
        let failed = |error: env::Error| Error::new(ErrorKind::Failed, error.to_string());
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

    /// Where there is no account, makes the first one. Its password, which has to be changed.
    pub(crate) fn make_first(&self) -> env::Result<Option<(&'static str, Password)>> {
        let mut state = self.state();
        if !state.accounts.is_empty() || state.damaged.is_some() {
            return Ok(None);
        }
        let failed = |error: Error| env::Error::new(env::ErrorKind::System, error.message);
        let (accounts, password) = self.with_first(&state.accounts).map_err(failed)?;
        self.files.store_state(&FILE, &accounts.to_keep()).map_err(failed)?;
        state.accounts = accounts;
        self.controller.note(Occurrence {
            code: EventCode::AccessFirstAccount,
            subject: FIRST.to_owned(),
            cause: "start".to_owned(),
            effect: "its password has to be changed".to_owned(),
            text: format!("the account '{FIRST}' was made; its password was printed once by 'softroc serve'"),
            by: None,
        });
        Ok(Some((FIRST, password)))
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
        self.files.store_state(&FILE, &accounts.to_keep())?;
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
        let new_name = change.name.clone();
        let ends = change.password.is_some() || change.role.is_some() || change.enabled == Some(false);
        self.change(&by.named(), name, &what, |accounts| accounts.set(name, change))?;
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
        self.state().accounts.show(name, now_s)
    }

    /// All accounts, by name.
    pub(crate) fn list(&self) -> Vec<AccountInfo> {
        let now_s = self.now_s();
        self.state().accounts.list(now_s)
    }

    /// The sessions that are open.
    pub(crate) fn sessions(&self) -> Vec<SessionInfo> {
        let now_s = self.now_s();
        self.state().sessions.list(now_s)
    }

    /// When accounts are locked.
    pub(crate) fn limits(&self) -> Limits {
        self.state().accounts.limits()
    }

    /// Whether somebody could still ask as they did: their account is as it was, and their session is open.
    pub(crate) fn is_still(&self, caller: &Caller) -> bool {
        let now_s = self.now_s();
        let mut state = self.state();
        let Some(name) = &caller.account else { return true };
        let as_it_was = state
            .accounts
            .show(name, now_s)
            .is_ok_and(|account| account.enabled && account.role == caller.role);
        let is_open = |id: &String| state.sessions.list(now_s).iter().any(|session| session.id == *id);
        as_it_was && caller.session.as_ref().is_none_or(is_open)
    }

    /// Ends a session. Whether it was open.
    pub(crate) fn close(&self, session: &str) -> bool {
        self.state().sessions.close(session)
    }

    /// Opens a session for whoever knows the password.
    pub(crate) async fn open_session(
        &self,
        name: &str,
        password: &Password,
        from: &str,
    ) -> Result<(SessionInfo, String, AccountInfo)> {
        let account = self.sign_in(name, password, from).await?;
        let failed = |error: env::Error| Error::new(ErrorKind::Failed, error.to_string());
        let token = random().map_err(failed)?;
        let now_s = self.now_s();
        let (session, token) = self.state().sessions.open(name, from, token, now_s, unix_time());
        self.controller.note(Occurrence {
            code: EventCode::AccessSession,
            subject: name.to_owned(),
            cause: from.to_owned(),
            effect: format!("session {}", session.id),
            text: format!("account '{name}' signed in from {from}"),
            by: None,
        });
        Ok((session, token, account))
    }

    /// The account of a name and a password. That somebody was refused is counted in the audit trail.
    async fn sign_in(&self, name: &str, password: &Password, from: &str) -> Result<AccountInfo> {
        let account = self.tried(name, password, from).await;
        if let Err(refused) = &account {
            // Another name may be a password that was typed into the wrong field.
            let user = match self.show(name) {
                Ok(account) => account.name,
                Err(_) => "unknown account".to_owned(),
            };
            let origin = Origin::Network { address: from.to_owned() };
            let by = controller::Caller { user: user.clone(), origin };
            let given = orders::given(&by, "sign-in", &user, serde_json::Value::Null);
            self.controller.refused(given, refused.clone());
        }
        account
    }

    async fn tried(&self, name: &str, password: &Password, from: &str) -> Result<AccountInfo> {
        if self.check().is_err() {
            // Not why: who asks is not known.
            let sentence = "nobody can sign in over the network until the accounts are repaired; root does that on the machine itself";
            return Err(Error::new(ErrorKind::Unauthenticated, sentence));
        }
        let attempt = self.state().accounts.attempt(name, self.now_s());
        let tried = password.clone();
        let fits = self.hashed(move || attempt.fits(&tried)).await?;
        if fits != Some(true) {
            // Whoever guesses, under whatever names, takes little of the processor from hosts.
            let _turn = self.hashing.acquire().await;
            tokio::time::sleep(REST).await;
        }
        let Some(fits) = fits else { return Err(wrong()) };
        let (verdict, limits) = {
            let mut state = self.state();
            (state.accounts.settle(name, fits, self.now_s()), state.accounts.limits())
        };
        match verdict {
            Verdict::Is(account) => Ok(account),
            Verdict::Wrong => Err(wrong()),
            Verdict::NowLocked => {
                self.controller.note(Occurrence {
                    code: EventCode::AccessLocked,
                    subject: name.to_owned(),
                    cause: from.to_owned(),
                    effect: format!("locked for {} s", limits.lock_s),
                    text: format!(
                        "account '{name}' is locked for {} s: {} wrong passwords in a row, the last one from {from}; 'softroc account set {name} --unlock' ends that",
                        limits.lock_s, limits.failures
                    ),
                    by: None,
                });
                Err(wrong())
            }
        }
    }

    /// Who has that token.
    pub(crate) fn of_token(&self, token: &str, from: &str) -> Result<Caller> {
        let now_s = self.now_s();
        let mut state = self.state();
        let session = state.sessions.of_token(token, now_s).ok_or_else(no_session)?;
        let account = state.accounts.show(&session.account, now_s).map_err(|_| no_session())?;
        drop(state);
        match account.enabled {
            true => Ok(caller(account, from, Some(session.id))),
            false => Err(no_session()),
        }
    }

    /// Who has that name and password, with a request of its own.
    pub(crate) async fn of_password(&self, name: &str, password: &Password, from: &str) -> Result<Caller> {
        let key = self.known_by(name, password);
        let revision = {
            let now_s = self.now_s();
            let mut state = self.state();
            state.known.retain(|_, (_, until_s)| now_s < *until_s);
            if let Some((name, _)) = state.known.get(&key)
                && let Ok(account) = state.accounts.show(name, now_s)
            {
                return Ok(caller(account, from, None));
            }
            state.revision
        };
        let account = self.sign_in(name, password, from).await?;
        let until_s = self.now_s() + KNOWN_S;
        let mut state = self.state();
        if state.revision == revision && state.known.len() < MOST_KNOWN {
            state.known.insert(key, (account.name.clone(), until_s));
        }
        drop(state);
        Ok(caller(account, from, None))
    }

    /// What the forms carry that are made for somebody. Nobody else can know it, and it ends with this process.
    pub(crate) fn form_token(&self, whose: &str) -> String {
        access::hex(self.signed(&format!("form of {whose}")).as_ref())
    }

    /// Whether a form carries it, in a time that does not tell where it differs.
    pub(crate) fn is_form_token(&self, whose: &str, token: &str) -> bool {
        self.signed(token).as_ref() == self.signed(&self.form_token(whose)).as_ref()
    }

    fn signed(&self, text: &str) -> ring::hmac::Tag {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.secret);
        ring::hmac::sign(&key, text.as_bytes())
    }

    fn known_by(&self, name: &str, password: &Password) -> [u8; 32] {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        context.update(&self.secret);
        context.update(&(name.len() as u64).to_be_bytes());
        context.update(name.as_bytes());
        context.update(password.reveal().as_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        key
    }

    /// A password of one's own is replaced by another one.
    async fn check_is_new(&self, name: &str, password: &Password) -> Result<()> {
        let Some(kept) = self.state().accounts.password(name) else { return Ok(()) };
        let tried = password.clone();
        if self.hashed(move || kept.is_of(&tried)).await? {
            let sentence = "that is the password as it is; give another one";
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        Ok(())
    }

    /// Hashes, on a thread for that, while nobody else does.
    async fn hashed<T: Send + 'static>(
        &self,
        hash: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let _turn = self.hashing.acquire().await;
        let done = tokio::task::spawn_blocking(hash).await;
        done.map_err(|error| Error::new(ErrorKind::Failed, error.to_string()))?
    }

    async fn hash(&self, password: &Password) -> Result<Hash> {
        let salt = random().map_err(|error| Error::new(ErrorKind::Failed, error.to_string()))?;
        let (password, cost) = (password.clone(), self.cost);
        self.hashed(move || Hash::of(&password, salt, cost)).await
    }
}

fn caller(account: AccountInfo, from: &str, session: Option<String>) -> Caller {
    Caller {
        user: account.name.clone(),
        origin: Origin::Network { address: from.to_owned() },
        role: account.role,
        account: Some(account.name),
        session,
        must_change: account.must_change,
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

/// One sentence for all reasons: it does not tell which names there are.
fn wrong() -> Error {
    let sentence = "the name or the password is wrong, or the account is locked or disabled; 'softroc account list' on the machine itself tells";
    Error::new(ErrorKind::Unauthenticated, sentence)
}

fn no_session() -> Error {
    let sentence = "there is no session of that token any more; open one with 'softroc account login NAME'";
    Error::new(ErrorKind::Unauthenticated, sentence)
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Random bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> env::Result<[u8; N]> {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).map_err(|_| {
        env::Error::new(env::ErrorKind::System, "the machine gives no random numbers; start again")
    })?;
    Ok(bytes)
}
