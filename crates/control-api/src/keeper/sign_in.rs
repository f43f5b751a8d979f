//! Sign-in: passwords, tokens, and form tokens.
//!
//! Invariants: unknown names, locked accounts and wrong passwords take the same time. Attempts of
//! one source do not delay others (see [`Turns`](super::turns::Turns) and
//! [`Throttle`](access::Throttle)). A started hash keeps its turn until it is complete, even if its
//! client disconnects.

use super::{AccountStore, IDLE_S, KNOWN_S, MOST_KNOWN, REST, State, random, unix_time};
use crate::gate::Origin;
use crate::keeper::turns::Turn;
use crate::orders;
use access::{AccountInfo, Caller, Hash, Password, SessionInfo, Source, Verdict};
use controller::{Error, ErrorKind, EventCode, Occurrence, Result};
use std::sync::Arc;

impl AccountStore {
    /// Opens a session for a name and password.
    pub(crate) async fn open_session(
        &self,
        name: &str,
        password: &Password,
        from: &Origin,
    ) -> Result<(SessionInfo, String, AccountInfo)> {
        let account = self.sign_in(name, password, from).await?;
        let failed = |error: platform::Error| Error::new(ErrorKind::Failed, error.to_string());
        let token = random().map_err(failed)?;
        let now_s = self.now_s();
        let (session, token) =
            self.state().sessions.open(name, &from.text, token, now_s, unix_time());
        self.controller.note(Occurrence {
            code: EventCode::AccessSession,
            subject: name.to_owned(),
            cause: from.text.clone(),
            effect: format!("session {}", session.id),
            text: format!("account '{name}' signed in from {}", from.text),
            by: None,
        });
        Ok((session, token, account))
    }

    /// The account of a name and password. A refusal is counted in the audit trail.
    async fn sign_in(&self, name: &str, password: &Password, from: &Origin) -> Result<AccountInfo> {
        let is_known = self.state().throttle.is_known(from.source, self.now_s());
        let turn = Arc::new(self.turns.take(from.source, is_known).await?);
        let account = self.tried(name, password, from, &turn).await;
        if let Err(refused) = &account {
            // The source waits meanwhile; others continue.
            turn.hashed();
            tokio::time::sleep(REST).await;
            // An unknown name may be a password in the wrong field, so it is not logged.
            let user = match self.show(name) {
                Ok(account) => account.name,
                Err(_) => "unknown account".to_owned(),
            };
            let origin = controller::Origin::Network { address: from.text.clone() };
            let by = controller::Caller { user: user.clone(), origin };
            let given = orders::given(&by, "sign-in", &user, serde_json::Value::Null);
            self.controller.refused(given, refused.clone());
        }
        account
    }

    async fn tried(
        &self,
        name: &str,
        password: &Password,
        from: &Origin,
        turn: &Arc<Turn>,
    ) -> Result<AccountInfo> {
        if self.check().is_err() {
            // Without the reason: the caller is not authenticated.
            let sentence = "sign-in over the network is not possible until root repairs the \
                accounts on the machine itself";
            return Err(Error::new(ErrorKind::Unauthenticated, sentence));
        }
        // A concurrent request with the same password may have succeeded.
        if let Some(account) = self.of_known(name, password, from) {
            return Ok(account);
        }
        let attempt = {
            let now_s = self.now_s();
            let mut state = self.state();
            let admission = state.throttle.begin(from.source, name, now_s);
            let admission = admission.map_err(|wait_s| too_many(from.source, wait_s))?;
            state.accounts.attempt(name, admission)
        };
        let tried = password.clone();
        let (attempt, fits) = hashed(turn, move || {
            let fits = attempt.fits(&tried)?;
            Ok((attempt, fits))
        })
        .await?;
        let (verdict, limits) = {
            let now_s = self.now_s();
            let mut state = self.state();
            if fits {
                state.throttle.was_right(from.source, name, now_s);
            }
            (state.accounts.settle(name, &attempt, fits), state.throttle.limits())
        };
        match verdict {
            Verdict::Is(account) => Ok(account),
            Verdict::Wrong => Err(wrong()),
            Verdict::NowLocked => {
                let (source, lock_s) = (from.source, limits.lock_s);
                self.controller.note(Occurrence {
                    code: EventCode::AccessLocked,
                    subject: name.to_owned(),
                    cause: from.text.clone(),
                    effect: format!("locked for {lock_s} s for {source} alone"),
                    text: format!(
                        "account '{name}' is locked for {lock_s} s for {source} alone: {} wrong \
                         passwords in a row, the last one from {}; 'softroc account set {name} \
                         --unlock' unlocks it",
                        limits.failures, from.text
                    ),
                    by: None,
                });
                Err(wrong())
            }
        }
    }

    /// The caller with this token.
    pub(crate) fn of_token(&self, token: &str, from: &str) -> Result<Caller> {
        let now_s = self.now_s();
        let mut state = self.state();
        let session = state.sessions.of_token(token, now_s).ok_or_else(no_session)?;
        let account = state.accounts.show(&session.account).map_err(|_| no_session())?;
        drop(state);
        match account.enabled {
            true => Ok(caller(account, from, Some(session.id))),
            false => Err(no_session()),
        }
    }

    /// The caller with this name and password, for a single request.
    pub(crate) async fn of_password(
        &self,
        name: &str,
        password: &Password,
        from: &Origin,
    ) -> Result<Caller> {
        if let Some(account) = self.of_known(name, password, from) {
            return Ok(caller(account, &from.text, None));
        }
        let key = self.known_by(name, password, from);
        let revision = self.state().revision;
        let account = self.sign_in(name, password, from).await?;
        let until_s = self.now_s() + KNOWN_S;
        let mut state = self.state();
        if state.revision == revision && state.known.len() < MOST_KNOWN {
            state.known.insert(key, (account.name.clone(), until_s));
        }
        drop(state);
        Ok(caller(account, &from.text, None))
    }

    /// The account of a password that was recently verified for this source.
    fn of_known(&self, name: &str, password: &Password, from: &Origin) -> Option<AccountInfo> {
        let (key, now_s) = (self.known_by(name, password, from), self.now_s());
        let mut state = self.state();
        state.known.retain(|_, (_, until_s)| now_s < *until_s);
        let State { known, accounts, throttle, .. } = &*state;
        let (name, _) = known.get(&key).filter(|_| !throttle.is_held(from.source, name, now_s))?;
        accounts.show(name).ok()
    }

    /// The token of an owner's forms. It is secret, and ends with this process.
    pub(crate) fn form_token(&self, whose: &str) -> String {
        access::hex(self.signed(&format!("form of {whose}")).as_ref())
    }

    /// Compares a form token in constant time.
    pub(crate) fn is_form_token(&self, whose: &str, token: &str) -> bool {
        self.signed(token).as_ref() == self.signed(&self.form_token(whose)).as_ref()
    }

    fn signed(&self, text: &str) -> ring::hmac::Tag {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.secret);
        ring::hmac::sign(&key, text.as_bytes())
    }

    fn known_by(&self, name: &str, password: &Password, from: &Origin) -> [u8; 32] {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        context.update(&self.secret);
        for text in [from.source.to_string().as_str(), name] {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        }
        context.update(password.reveal().as_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        key
    }

    /// A new own password must differ from the old one.
    pub(super) async fn check_is_new(&self, name: &str, password: &Password) -> Result<()> {
        let Some(kept) = self.state().accounts.password(name) else { return Ok(()) };
        let (tried, turn) =
            (password.clone(), Arc::new(self.turns.take(Source::Local, true).await?));
        if hashed(&turn, move || kept.is_of(&tried)).await? {
            let sentence = "the new password equals the old one; give another one";
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        Ok(())
    }

    /// Hashes a new password for an account, on behalf of an authenticated caller.
    pub(super) async fn hash(&self, password: &Password) -> Result<Hash> {
        let salt = random().map_err(|error| Error::new(ErrorKind::Failed, error.to_string()))?;
        let (password, cost) = (password.clone(), self.cost);
        let turn = Arc::new(self.turns.take(Source::Local, true).await?);
        hashed(&turn, move || Hash::of(&password, salt, cost)).await
    }
}

/// Hashes on a separate thread, which holds the turn until it is complete.
async fn hashed<T: Send + 'static>(
    turn: &Arc<Turn>,
    hash: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let turn = turn.clone();
    let done = tokio::task::spawn_blocking(move || {
        let done = hash();
        drop(turn);
        done
    });
    let done = done.await;
    done.map_err(|error| Error::new(ErrorKind::Failed, error.to_string()))?
}

fn caller(account: AccountInfo, from: &str, session: Option<String>) -> Caller {
    Caller {
        user: account.name.clone(),
        origin: controller::Origin::Network { address: from.to_owned() },
        role: account.role,
        account: Some(account.name),
        session,
        must_change: account.must_change,
    }
}

/// One sentence for all reasons: it does not reveal account names.
fn wrong() -> Error {
    let sentence = "the name or the password is wrong, or the account is locked or disabled; see \
        'softroc account list' on the machine itself";
    Error::new(ErrorKind::Unauthenticated, sentence)
}

/// Independent of the name: it reveals nothing about accounts.
fn too_many(source: Source, wait_s: u64) -> Error {
    let sentence = format!(
        "too many wrong passwords came from {source}; it cannot sign in for {wait_s} s; open \
         sessions and other addresses are not affected"
    );
    Error::new(ErrorKind::Busy, sentence)
}

fn no_session() -> Error {
    let idle_min = IDLE_S / 60;
    let sentence = format!(
        "the session has ended (after {idle_min} minutes without a request); open one with \
         'softroc account login NAME'"
    );
    Error::new(ErrorKind::Unauthenticated, sentence)
}
