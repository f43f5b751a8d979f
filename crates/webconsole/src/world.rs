//! The input of pages.

use crate::{Prediction, Workbench};
use access::{AccountInfo, Caller};
use controller::{
    Command, ControllerInfo, CoverageInfo, DriveInfo, Event, HealthReport, Reply, Result, Severity,
    SpareInfo, TaskInfo, VolumeInfo,
};

/// The state of the controller, queried at one time.
#[derive(Clone, Debug)]
pub struct World {
    /// Time of the query, in seconds since 1970.
    pub now_unix_s: u64,
    /// Host name of the machine.
    pub host: String,
    /// The controller.
    pub info: ControllerInfo,
    /// Overall health.
    pub health: HealthReport,
    /// Volumes by name.
    pub volumes: Vec<VolumeInfo>,
    /// Drives: those of volumes by slot, then the others by name.
    pub drives: Vec<DriveInfo>,
    /// Hot spares.
    pub spares: Vec<SpareInfo>,
    /// Spare coverage of arrays.
    pub coverage: Vec<CoverageInfo>,
    /// Tasks: running ones, then ended ones.
    pub tasks: Vec<TaskInfo>,
    /// The newest events, newest last.
    pub events: Vec<Event>,
    /// Additional queries of this page ([`questions`](crate::questions)) and their results.
    pub answers: Vec<(Command, Result<Reply>)>,
    /// Data outside the controller, for pages that show it and viewers that may see it.
    pub upkeep: Option<Upkeep>,
    /// I/O samples of the page's volume, oldest first.
    pub traffic: Vec<Sample>,
    /// Benchmarks and predictions.
    pub workbench: Workbench,
    /// Available predictions for this page ([`predictions`](crate::predictions)).
    pub foreseen: Vec<Prediction>,
    /// Notes about the action that was just accepted, one sentence each.
    pub notes: Vec<String>,
}

/// Data outside the controller, without parts that the viewer may not see.
#[derive(Clone, Default, Debug)]
pub struct Upkeep {
    /// Notification channels.
    pub channels: Vec<Channel>,
    /// Accounts, by name.
    pub accounts: Vec<AccountInfo>,
    /// The SHA-256 of the certificate, if there is one.
    pub certificate: Option<String>,
}

/// A notification channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Its address.
    pub target: String,
    /// The least severity that is sent.
    pub severity: Severity,
    /// Queued messages.
    pub waiting: usize,
    /// The error of the last attempt, if it failed.
    pub problem: Option<String>,
}

/// Host I/O of a volume in an interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// End of the interval, in seconds since 1970.
    pub at_unix_s: u64,
    /// Reads.
    pub reads: Rate,
    /// Writes, including write zeroes.
    pub writes: Rate,
}

/// Rate and latency of requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rate {
    /// Completed requests per second.
    pub per_s: u64,
    /// Bytes per second.
    pub bytes_per_s: u64,
    /// Mean latency; `None` without completed requests.
    pub mean_us: Option<u64>,
}

impl World {
    /// The result of an additional query.
    pub(crate) fn answer(&self, question: &Command) -> Option<&Result<Reply>> {
        self.answers.iter().find(|(asked, _)| asked == question).map(|(_, answer)| answer)
    }
}

/// The viewer of a page.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// The account.
    pub caller: Caller,
    /// Token of the page's forms, against cross-site requests.
    pub token: String,
}
