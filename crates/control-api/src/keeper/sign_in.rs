//! Signing in: names and passwords, tokens, and what forms prove.
//!
//! Invariants: the time of an answer is the same for names that are no account, accounts that are locked, and wrong passwords; what
//! one source tries delays no other (see [`Turns`](super::turns::Turns) and [`Throttle`](access::Throttle)); a hash that was begun
//! keeps its turn until it is done, even if its client is gone.

use super::{IDLE_S, KNOWN_S, Keeper, MOST_KNOWN, REST, State, random, unix_time};
use crate::gate::Origin;
use crate::keeper::turns::Turn;
use crate::orders;
use access::{AccountInfo, Caller, Hash, Password, SessionInfo, Source, Verdict};
use controller::{Error, ErrorKind, EventCode, Occurrence, Result};
use std::sync::Arc;

impl Keeper {
    /// Opens a session for whoever knows the password.
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
        let (session, token) = self.state().sessions.open(name, &from.text, token, now_s, unix_time());
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

    /// The account of a name and a password. A refusal is counted in the audit trail.
    async fn sign_in(&self, name: &str, password: &Password, from: &Origin) -> Result<AccountInfo> {
        let is_known = self.state().throttle.is_known(from.source, self.now_s());
        let turn = Arc::new(self.turns.take(from.source, is_known).await?);
        let account = self.tried(name, password, from, &turn).await;
        if let Err(refused) = &account {
            // The source tries nothing else meanwhile; others do.
            turn.hashed();
            tokio::time::sleep(REST).await;
            // Another name may be a password that was typed into the wrong field.
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
            // Not why: who asks is not known.
            let sentence = "nobody can sign in over the network until the accounts are repaired; root does that on the machine itself";
            return Err(Error::new(ErrorKind::Unauthenticated, sentence));
        }
        // Another request with the same password may have been looked at meanwhile.
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
                        "account '{name}' is locked for {lock_s} s for {source} alone: {} wrong passwords in a row, the last one from {}; 'softroc account set {name} --unlock' ends that",
                        limits.failures, from.text
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
        let account = state.accounts.show(&session.account).map_err(|_| no_session())?;
        drop(state);
        match account.enabled {
            true => Ok(caller(account, from, Some(session.id))),
            false => Err(no_session()),
        }
    }

    /// Who has that name and password, with a request of its own.
    pub(crate) async fn of_password(&self, name: &str, password: &Password, from: &Origin) -> Result<Caller> {
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

    /// The account of a password that came from this source a moment ago, and was right.
    fn of_known(&self, name: &str, password: &Password, from: &Origin) -> Option<AccountInfo> {
        let (key, now_s) = (self.known_by(name, password, from), self.now_s());
        let mut state = self.state();
        state.known.retain(|_, (_, until_s)| now_s < *until_s);
        let State { known, accounts, throttle, .. } = &*state;
        let (name, _) = known.get(&key).filter(|_| !throttle.is_held(from.source, name, now_s))?;
        accounts.show(name).ok()
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

    /// A password of one's own is replaced by another one.
    pub(super) async fn check_is_new(&self, name: &str, password: &Password) -> Result<()> {
        let Some(kept) = self.state().accounts.password(name) else { return Ok(()) };
        let (tried, turn) = (password.clone(), Arc::new(self.turns.take(Source::Local, true).await?));
        if hashed(&turn, move || kept.is_of(&tried)).await? {
            let sentence = "that is the password as it is; give another one";
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        Ok(())
    }

    /// Hashes a password that somebody who is known gives to an account.
    pub(super) async fn hash(&self, password: &Password) -> Result<Hash> {
        let salt = random().map_err(|error| Error::new(ErrorKind::Failed, error.to_string()))?;
        let (password, cost) = (password.clone(), self.cost);
        let turn = Arc::new(self.turns.take(Source::Local, true).await?);
        hashed(&turn, move || Hash::of(&password, salt, cost)).await
    }
}

/// Hashes on a thread for that, which has the turn until it is done.
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

/// One sentence for all reasons: it does not tell which names there are.
fn wrong() -> Error {
    let sentence = "the name or the password is wrong, or the account is locked or disabled; 'softroc account list' on the machine itself tells";
    Error::new(ErrorKind::Unauthenticated, sentence)
}

/// This does not depend on the name: it tells nothing about accounts.
fn too_many(source: Source, wait_s: u64) -> Error {
    let sentence = format!(
        "too many wrong passwords came from {source}; no password from there is looked at for {wait_s} s; sessions that are open go on, and another address can sign in"
    );
    Error::new(ErrorKind::Busy, sentence)
}

fn no_session() -> Error {
    let idle_min = IDLE_S / 60;
    let sentence = format!(
        "there is no session of that token any more (it ends after {idle_min} minutes without a request); open one with 'softroc account login NAME'"
    );
    Error::new(ErrorKind::Unauthenticated, sentence)
}
