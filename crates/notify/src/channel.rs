//! A channel: where its messages go, and which events become some.

use crate::{Quiet, Target};
use controller::{Error, ErrorKind, Event, EventCode, Result, Severity};
use serde::{Deserialize, Serialize};

/// The longest time for which repeats are folded.
const LONGEST_FOLD_S: u64 = 3600;

/// A channel. What is secret of it is kept elsewhere, so that all of this may be told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Where its messages go: see [`Target`].
    pub target: String,
    /// Who gets the mail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// From whom the mail is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// As whom to sign in at the mail server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A file of PEM: certificates that vouch for the other side; `None`: those of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// Events below that become no message.
    #[serde(default = "warning")]
    pub severity: Severity,
    /// Codes of events that become messages, such as `drive.failed`, or `drive.*`; none: all.
    #[serde(default)]
    pub codes: Vec<String>,
    /// Hours in which only what is critical is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// For how many seconds after a message others of the same code and subject are folded into one; 0: never.
    #[serde(default = "minute")]
    pub fold_s: u64,
}

fn warning() -> Severity {
    Severity::Warning
}

fn minute() -> u64 {
    60
}

impl Channel {
    /// Whether all of it makes sense; where its messages go.
    ///
    /// # Errors
    /// `Invalid`: what is wrong, and what was expected.
    pub fn check(&self, has_secret: bool) -> Result<Target> {
        let wrong = |sentence: String| Err(Error::new(ErrorKind::Invalid, sentence));
        let name = &self.name;
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(is_letter) {
            return wrong(format!(
                "'{name}' is no name of a channel; expected up to 32 letters a to z, digits and '-'"
            ));
        }
        let target = Target::read(&self.target)?;
        match (&target, self.to.is_empty(), &self.from) {
            (Target::Mail(_), false, Some(_)) => {}
            (Target::Mail(_), ..) => return wrong("mail needs --from and --to".to_owned()),
            (_, true, None) if self.user.is_none() => {}
            _ => return wrong("--from, --to and --user are for mail alone".to_owned()),
        }
        let addresses = self.to.iter().chain(&self.from);
        if let Some(text) = addresses.into_iter().find(|text| !is_address(text)) {
            return wrong(format!("'{text}' is no address of mail; expected NAME@HOST"));
        }
        let takes_secret = matches!(target, Target::Mail(_) | Target::Webhook { .. } | Target::Snmp { .. });
        if has_secret && !takes_secret {
            return wrong(format!("'{}' has no use for a secret; leave it out", self.target));
        }
        if self.user.is_some() && !has_secret {
            return wrong("--user needs its password: give it with --secret-stdin".to_owned());
        }
        if self.fold_s > LONGEST_FOLD_S {
            return wrong(format!("repeats are folded for at most {LONGEST_FOLD_S} seconds; give less"));
        }
        let unknown = |pattern: &&String| !EventCode::ALL.iter().any(|code| matches(pattern, code.code()));
        match self.codes.iter().find(unknown) {
            Some(code) => wrong(format!(
                "there is no event '{code}'; docs/operate/events.md lists the codes, and 'drive.*' means all of drives"
            )),
            None => Ok(target),
        }
    }

    /// Whether an event becomes a message here. What is told of this channel itself does not: it could not be sent.
    pub fn takes(&self, event: &Event) -> bool {
        let is_own = event.code.starts_with("notify.") && event.subject == self.name;
        let is_listed = self.codes.is_empty() || self.codes.iter().any(|code| matches(code, &event.code));
        event.severity >= self.severity && is_listed && !is_own
    }
}

/// Whether a code is what a pattern says.
fn matches(pattern: &str, code: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => code.starts_with(begin),
        None => code == pattern,
    }
}

/// Letters that mean something else on the way are left out; the server knows whether there is somebody.
fn is_address(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-._+@".contains(c);
    let parts: Vec<&str> = text.split('@').collect();
    parts.len() == 2 && parts.iter().all(|part| !part.is_empty()) && text.chars().all(is_letter)
}
