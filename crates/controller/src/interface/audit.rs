//! Orders as the audit trail has them.

use super::{Caller, Error};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What became of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditOutcome {
    /// It is being carried out; after a crash: it was when the controller ended.
    Begun,
    /// It was carried out.
    Done,
    /// It was refused, or failed; the reason says which.
    Refused,
}

/// An order: something that changes what there is, or how it behaves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its number.
    pub number: u64,
    /// When it was given, in seconds since 1970; of several that were refused: the first.
    pub time_unix_s: u64,
    /// Who gave it, and from where; `None`: the process of the controller itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Caller>,
    /// Which order, such as `volume-create`.
    pub order: String,
    /// What it is about.
    pub subject: String,
    /// The rest of the order, without secrets.
    pub fields: serde_json::Value,
    /// What became of it.
    pub outcome: AuditOutcome,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it ended, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_s: Option<u64>,
    /// How often: above 1 only for what was refused for want of rights, from one source.
    #[serde(default = "once")]
    pub count: u64,
}

fn once() -> u64 {
    1
}

/// An order that an interface carries out itself, such as a change of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderGiven {
    /// Who gave it.
    pub by: Option<Caller>,
    /// Which order.
    pub order: String,
    /// What it is about.
    pub subject: String,
    /// The rest of it, without secrets.
    pub fields: serde_json::Value,
}

impl AuditEntry {
    /// What became of the order is known.
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
