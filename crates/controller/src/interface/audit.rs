//! Records of the audit trail. An order is a command that changes state or configuration.

use super::{Caller, Error};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The outcome of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditOutcome {
    /// It is running; after a crash, it ran when the controller stopped.
    Begun,
    /// It succeeded.
    Done,
    /// It was refused, or failed; the reason says which.
    Refused,
}

/// One recorded order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its number.
    pub number: u64,
    /// When it was received, in seconds since 1970; for counted refusals, the first of them.
    pub time_unix_s: u64,
    /// The account and its origin; `None` for the controller's own process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Caller>,
    /// The order's name, such as `volume-create`.
    pub order: String,
    /// The object that it changes.
    pub subject: String,
    /// The other parameters, without secrets.
    pub fields: serde_json::Value,
    /// Its outcome.
    pub outcome: AuditOutcome,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it ended, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_s: Option<u64>,
    /// The number of such orders; above 1 only for refusals for lack of rights from one source.
    #[serde(default = "once")]
    pub count: u64,
}

fn once() -> u64 {
    1
}

/// An order that an interface carries out, such as a change of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderGiven {
    /// The account and its origin.
    pub by: Option<Caller>,
    /// The order's name.
    pub order: String,
    /// The object that it changes.
    pub subject: String,
    /// The other parameters, without secrets.
    pub fields: serde_json::Value,
}

impl AuditEntry {
    /// Records the outcome.
    pub(crate) fn ends(&mut self, refused: Option<&Error>, now_unix_s: u64) {
        self.outcome = if refused.is_some() { AuditOutcome::Refused } else { AuditOutcome::Done };
        self.why = refused.map(|error| error.message.clone());
        self.ended_unix_s = Some(now_unix_s);
    }
}

impl fmt::Display for AuditOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AuditOutcome::Begun => "begun",
            AuditOutcome::Done => "done",
            AuditOutcome::Refused => "refused",
        })
    }
}
