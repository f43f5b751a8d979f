//! How the controller is, for people in a hurry and for programs that watch: one sentence, then what is wrong and what to do.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How well all is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WellBeing {
    /// Nothing has to be done.
    Ok,
    /// Something has to be done, and no data is in danger yet.
    Warning,
    /// Data cannot be reached, is lost, or is lost with the next failure.
    Critical,
}

/// How the controller and all it serves is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HealthReport {
    /// How well all is: as well as the worst finding.
    pub status: WellBeing,
    /// All of it in one sentence.
    pub sentence: String,
    /// What is not as it should be, the worst first; those that are `ok` are worth knowing, and nothing has to be done.
    pub findings: Vec<Finding>,
}

/// Something that is not as it should be, or is worth knowing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub status: WellBeing,
    /// What it is about: `volume data`, `drive /dev/sdb`, `ups`.
    pub subject: String,
    /// What there is: a sentence.
    pub what: String,
    /// What to do about it; `None`: nothing, or the sentence says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
}

impl fmt::Display for WellBeing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            WellBeing::Ok => "ok",
            WellBeing::Warning => "warning",
            WellBeing::Critical => "critical",
        })
    }
}
