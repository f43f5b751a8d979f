//! A channel: the destination of its messages, and the filter for events.

use crate::{Quiet, Target};
use controller::{Error, ErrorKind, Event, EventCode, Result, Severity};
use serde::{Deserialize, Serialize};

/// The limit of `fold_s`.
const LONGEST_FOLD_S: u64 = 3600;

/// A channel. Its secret is stored elsewhere, so this structure may be shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The destination: see [`Target`].
    pub target: String,
    /// Recipients of mail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// The sender address of mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The user name for the mail server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A PEM file with CA certificates for the server; `None`: those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// Least severity; events below it are dropped.
    #[serde(default = "warning")]
    pub severity: Severity,
    /// Codes of the events to send, such as `drive.failed` or `drive.*`; empty: all.
    #[serde(default)]
    pub codes: Vec<String>,
    /// Quiet hours: only critical events are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// Seconds after a message in which repeats (same code and subject) are folded into one; 0:
    /// none.
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
    /// Validates the channel and returns its destination.
    ///
    /// # Errors
    /// `Invalid`: what is wrong, and what is expected.
    pub fn check(&self, has_secret: bool) -> Result<Target> {
        let wrong = |sentence: String| Err(Error::new(ErrorKind::Invalid, sentence));
        let name = &self.name;
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(is_letter) {
            return wrong(format!(
                "'{name}' is not a valid channel name; expected up to 32 letters a to z, digits \
                    and '-'"
            ));
        }
        let target = Target::read(&self.target)?;
        match (&target, self.to.is_empty(), &self.from) {
            (Target::Mail(_), false, Some(_)) => {}
            (Target::Mail(_), ..) => return wrong("mail needs --from and --to".to_owned()),
            (_, true, None) if self.user.is_none() => {}
            _ => return wrong("--from, --to and --user are for mail only".to_owned()),
        }
        let addresses = self.to.iter().chain(&self.from);
        if let Some(text) = addresses.into_iter().find(|text| !is_address(text)) {
            return wrong(format!("'{text}' is not a mail address; expected NAME@HOST"));
        }
        let takes_secret =
            matches!(target, Target::Mail(_) | Target::Webhook { .. } | Target::Snmp { .. });
        if has_secret && !takes_secret {
            return wrong(format!("'{}' takes no secret; omit it", self.target));
        }
        if self.user.is_some() && !has_secret {
            return wrong("--user needs its password: give it with --secret-stdin".to_owned());
        }
        if self.fold_s > LONGEST_FOLD_S {
            return wrong(format!(
                "repeats are folded for at most {LONGEST_FOLD_S} seconds; give less"
            ));
        }
        let unknown =
            |pattern: &&String| !EventCode::ALL.iter().any(|code| matches(pattern, code.code()));
        match self.codes.iter().find(unknown) {
            Some(code) => wrong(format!(
                "there is no event '{code}'; 'softroc help event-codes' lists them, and 'drive.*' \
                    means all of drives"
            )),
            None => Ok(target),
        }
    }

    /// Whether this channel sends an event. Events about the channel itself are not sent: the
    /// channel may be down.
    pub fn takes(&self, event: &Event) -> bool {
        let is_own = event.code.starts_with("notify.") && event.subject == self.name;
        let is_listed =
            self.codes.is_empty() || self.codes.iter().any(|code| matches(code, &event.code));
        event.severity >= self.severity && is_listed && !is_own
    }
}

/// Whether a code matches a pattern.
fn matches(pattern: &str, code: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => code.starts_with(begin),
        None => code == pattern,
    }
}

/// Excludes characters with a special meaning in mail protocols. The server checks that the mailbox
/// exists.
fn is_address(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-._+@".contains(c);
    let parts: Vec<&str> = text.split('@').collect();
    parts.len() == 2 && parts.iter().all(|part| !part.is_empty()) && text.chars().all(is_letter)
}
