//! What pages are made of.

use crate::{Prediction, Workbench};
use access::{AccountInfo, Caller};
use controller::{
    Command, ControllerInfo, CoverageInfo, DriveInfo, Event, HealthReport, Reply, Result, Severity,
    SpareInfo, TaskInfo, VolumeInfo,
};

/// What the controller tells, all of it asked for at one time.
#[derive(Clone, Debug)]
pub struct World {
    /// When it was asked, in seconds since 1970.
    pub now_unix_s: u64,
    /// What the machine is called.
    pub host: String,
    /// The controller.
    pub info: ControllerInfo,
    /// How all is.
    pub health: HealthReport,
    /// Volumes by name.
    pub volumes: Vec<VolumeInfo>,
    /// Drives: those of volumes by slot, then the others by name.
    pub drives: Vec<DriveInfo>,
    /// Hot spares.
    pub spares: Vec<SpareInfo>,
    /// What arrays need of a spare.
    pub coverage: Vec<CoverageInfo>,
    /// Tasks: those that go on, then those that ended.
    pub tasks: Vec<TaskInfo>,
    /// The newest events, newest last.
    pub events: Vec<Event>,
    /// What was asked for this page alone ([`questions`](crate::questions)), and what was answered.
    pub answers: Vec<(Command, Result<Reply>)>,
    /// What is kept beside the controller, for pages that show it and those who may see it.
    pub upkeep: Option<Upkeep>,
    /// What hosts asked of the volume that the page is about, the newest last.
    pub traffic: Vec<Sample>,
    /// What is measured and predicted.
    pub workbench: Workbench,
    /// What was to be predicted for this page alone ([`predictions`](crate::predictions)), as far as it is.
    pub foreseen: Vec<Prediction>,
    /// What is worth knowing of what was asked a moment ago, a sentence each.
    pub notes: Vec<String>,
}

/// What is kept beside the controller. What somebody may not see is left out.
#[derive(Clone, Default, Debug)]
pub struct Upkeep {
    /// Where notifications go.
    pub channels: Vec<Channel>,
    /// Accounts, by name.
    pub accounts: Vec<AccountInfo>,
    /// The SHA-256 of the certificate, where there is one.
    pub certificate: Option<String>,
}

/// Where notifications go.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Its address.
    pub target: String,
    /// Events that matter less are not sent.
    pub severity: Severity,
    /// Messages that wait.
    pub waiting: usize,
    /// Why the last try failed; `None`: it did not.
    pub problem: Option<String>,
}

/// What hosts asked of a volume in a span of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The end of the span, in seconds since 1970.
    pub at_unix_s: u64,
    /// Reads.
    pub reads: Rate,
    /// Writes, those of zeroes among them.
    pub writes: Rate,
}

/// How often something was asked, and how long it took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rate {
    /// Requests that ended, a second.
    pub per_s: u64,
    /// Their bytes, a second.
    pub bytes_per_s: u64,
    /// The mean of the time that they took; `None` where none ended.
    pub mean_us: Option<u64>,
}

impl World {
    /// What was answered to something that the page asked for.
    pub(crate) fn answer(&self, question: &Command) -> Option<&Result<Reply>> {
        self.answers.iter().find(|(asked, _)| asked == question).map(|(_, answer)| answer)
    }
}

/// Who looks.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// They.
    pub caller: Caller,
    /// What the forms of their pages carry, so that no other page can ask in their name.
    pub token: String,
}
