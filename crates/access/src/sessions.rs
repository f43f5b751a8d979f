//! Sessions: each has a token that only its client knows, and ends after an idle time.

use crate::hex;
use serde::Serialize;
use std::fmt;

/// Sessions per account; a further one closes the least recently used.
const MOST_OF_AN_ACCOUNT: usize = 16;

/// The public data of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SessionInfo {
    /// Its number, as text.
    pub id: String,
    /// Its account.
    pub account: String,
    /// The source that opened it.
    pub from: String,
    /// When it was opened, in seconds since 1970.
    pub opened_unix_s: u64,
}

struct Session {
    info: SessionInfo,
    token: String,
    used_s: u64,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(f)
    }
}

/// The sessions. Times are seconds of a monotonic clock.
#[derive(Debug)]
pub struct Sessions {
    open: Vec<Session>,
    idle_s: u64,
    next: u64,
}

impl Sessions {
    /// No sessions; each ends after `idle_s` seconds without use.
    pub fn new(idle_s: u64) -> Sessions {
        Sessions { open: Vec::new(), idle_s, next: 1 }
    }

    /// The idle time in seconds.
    pub fn idle_s(&self) -> u64 {
        self.idle_s
    }

    /// Opens a session with a token of random bytes. Returns its public data and the token.
    pub fn open(
        &mut self,
        account: &str,
        from: &str,
        random: [u8; 32],
        now_s: u64,
        now_unix_s: u64,
    ) -> (SessionInfo, String) {
        self.end_idle(now_s);
        let own =
            || self.open.iter().enumerate().filter(|(_, session)| session.info.account == account);
        if own().count() >= MOST_OF_AN_ACCOUNT
            && let Some((oldest, _)) = own().min_by_key(|(_, session)| session.used_s)
        {
            self.open.remove(oldest);
        }
        let info = SessionInfo {
            id: self.next.to_string(),
            account: account.to_owned(),
            from: from.to_owned(),
            opened_unix_s: now_unix_s,
        };
        self.next += 1;
        let token = hex::of(&random);
        self.open.push(Session { info: info.clone(), token: token.clone(), used_s: now_s });
        (info, token)
    }

    /// The session of a token; this counts as use.
    pub fn of_token(&mut self, token: &str, now_s: u64) -> Option<SessionInfo> {
        self.end_idle(now_s);
        // Compares with all sessions: the time reveals nothing about the token.
        let mut found = None;
        for session in &mut self.open {
            if hex::same(session.token.as_bytes(), token.as_bytes()) {
                found = Some(session);
            }
        }
        let session = found?;
        session.used_s = now_s;
        Some(session.info.clone())
    }

    /// The open sessions, oldest first.
    pub fn list(&mut self, now_s: u64) -> Vec<SessionInfo> {
        self.end_idle(now_s);
        self.open.iter().map(|session| session.info.clone()).collect()
    }

    /// Closes a session. Returns whether it was open.
    pub fn close(&mut self, id: &str) -> bool {
        let before = self.open.len();
        self.open.retain(|session| session.info.id != id);
        self.open.len() < before
    }

    /// Closes the sessions of an account, optionally except one.
    pub fn close_of(&mut self, account: &str, but: Option<&str>) {
        self.open.retain(|session| {
            session.info.account != account || Some(session.info.id.as_str()) == but
        });
    }

    fn end_idle(&mut self, now_s: u64) {
        let idle_s = self.idle_s;
        self.open.retain(|session| now_s.saturating_sub(session.used_s) < idle_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lives_as_long_as_it_is_used() {
        let mut sessions = Sessions::new(100);
        let (info, token) = sessions.open("ada", "here", [1; 32], 0, 1000);
        assert_eq!(sessions.of_token(&token, 99), Some(info.clone()));
        assert_eq!(sessions.of_token(&token, 198), Some(info.clone()));
        assert_eq!(sessions.of_token(&token[1..], 198), None);
        assert!(!format!("{sessions:?}").contains(&token), "a token is not printed");
        assert_eq!(sessions.of_token(&token, 298), None);
        assert!(!sessions.close(&info.id));
    }

    #[test]
    fn an_account_has_so_many_and_pushes_out_nobody_elses() {
        let mut sessions = Sessions::new(1000);
        let (_, grace) = sessions.open("grace", "there", [200; 32], 0, 0);
        let tokens: Vec<String> = (0..20)
            .map(|number| sessions.open("ada", "here", [number; 32], 1 + u64::from(number), 0).1)
            .collect();
        assert!(sessions.of_token(&grace, 30).is_some());
        assert!(
            sessions.of_token(&tokens[3], 30).is_none()
                && sessions.of_token(&tokens[4], 30).is_some()
        );
        sessions.close_of("ada", None);
        assert_eq!(sessions.list(30).len(), 1);
    }
}
