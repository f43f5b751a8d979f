//! The health report: a summary sentence, then findings with recommended actions.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Overall health.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WellBeing {
    /// No action is needed.
    Ok,
    /// Action is needed; no data is in danger yet.
    Warning,
    /// Data is unavailable or lost, or the next failure loses data.
    Critical,
}

/// The health of the controller, its volumes and its drives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HealthReport {
    /// The status of the worst finding.
    pub status: WellBeing,
    /// The summary sentence.
    pub sentence: String,
    /// Findings, the worst first; findings with `ok` need no action.
    pub findings: Vec<Finding>,
}

/// A finding of the health report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Its severity.
    pub status: WellBeing,
    /// Its object: `volume data`, `drive /dev/sdb`, `ups`.
    pub subject: String,
    /// The finding: a sentence.
    pub what: String,
    /// The recommended action; `None` if there is none, or if the sentence contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
    /// The subjects of the findings that cause it: the drives that a volume lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl Finding {
    /// Whether this finding is a cause of one of `findings`.
    pub fn is_cause_in(&self, findings: &[Finding]) -> bool {
        findings.iter().any(|other| other.causes.contains(&self.subject))
    }
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
