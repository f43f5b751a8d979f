//! What pages are made of.

use access::Caller;
use controller::{
    ControllerInfo, CoverageInfo, DriveInfo, Event, HealthReport, SpareInfo, TaskInfo, VolumeInfo,
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
}

/// Who looks.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// They.
    pub caller: Caller,
    /// What the forms of their pages carry, so that no other page can ask in their name.
    pub token: String,
}
