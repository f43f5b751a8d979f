//! All actions, and the table of the roles that may perform them. The check uses this table.

use crate::Role;
use controller::{Command, Startable, WriteHole, WriteMode};
use std::fmt;

macro_rules! yes {
    (yes) => {
        true
    };
    (-) => {
        false
    };
}

macro_rules! actions {
    ($($action:ident $name:literal $read_only:tt $operator:tt $administrator:tt;)*) => {
        /// An action of a caller. Commands of the controller have their JSON names.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Action {
            $(#[doc = $name] $action,)*
        }

        impl Action {
            /// All actions.
            pub const ALL: &'static [Action] = &[$(Action::$action,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Action::$action => $name,)*
                }
            }

            /// Whether a role may perform it.
            pub fn is_for(self, role: Role) -> bool {
                let [read_only, operator, administrator] = match self {
                    $(
                        Action::$action =>
                            [yes!($read_only), yes!($operator), yes!($administrator)],
                    )*
                };
                match role {
                    Role::ReadOnly => read_only,
                    Role::Operator => operator,
                    Role::Administrator => administrator,
                }
            }
        }
    };
}

actions! {
    // action          name                    read-only  operator  administrator
    Info               "info"                  yes        yes       yes;
    Metrics            "metrics"               yes        yes       yes;
    Counters           "counters"              yes        yes       yes;
    Health             "health"                yes        yes       yes;
    AlarmShow          "alarm-show"            yes        yes       yes;
    EventsList         "events-list"           yes        yes       yes;
    Explain            "explain"               yes        yes       yes;
    DriveList          "drive-list"            yes        yes       yes;
    DriveShow          "drive-show"            yes        yes       yes;
    VolumeList         "volume-list"           yes        yes       yes;
    VolumeShow         "volume-show"           yes        yes       yes;
    LogList            "log-list"              yes        yes       yes;
    CacheList          "cache-list"            yes        yes       yes;
    SpareList          "spare-list"            yes        yes       yes;
    DiskList           "disk-list"             yes        yes       yes;
    ForeignList        "foreign-list"          yes        yes       yes;
    TaskList           "task-list"             yes        yes       yes;
    TaskShow           "task-show"             yes        yes       yes;
    ScheduleList       "schedule-list"         yes        yes       yes;
    OwnPassword        "own-password"          yes        yes       yes;
    OwnSession         "own-session"           yes        yes       yes;

    TaskStart          "task-start"            -          yes       yes;
    TaskPause          "task-pause"            -          yes       yes;
    TaskResume         "task-resume"           -          yes       yes;
    TaskStop           "task-stop"             -          yes       yes;
    TaskSet            "task-set"              -          yes       yes;
    TaskSchedule       "task-schedule"         -          yes       yes;
    AlarmSet           "alarm-set"             -          yes       yes;
    VolumeFlush        "volume-flush"          -          yes       yes;
    DriveLocate        "drive-locate"          -          yes       yes;
    VolumeStart        "volume-start"          -          yes       yes;
    VolumePolicy       "volume-policy"         -          yes       yes;
    VolumeAttach       "volume-attach"         -          yes       yes;
    VolumeDetach       "volume-detach"         -          yes       yes;
    DriveOnline        "drive-online"          -          yes       yes;
    DriveResume        "drive-resume"          -          yes       yes;
    Benchmark          "benchmark"             -          yes       yes;

    // These destroy data, reduce redundancy, or change the configuration.
    TaskStartInit      "task-start-init"       -          -         yes;
    VolumeStartForced  "volume-start-forced"   -          -         yes;
    VolumePolicyUnsafe "volume-policy-unsafe"  -          -         yes;
    DriveAdd           "drive-add"             -          -         yes;
    DriveFail          "drive-fail"            -          -         yes;
    DriveOffline       "drive-offline"         -          -         yes;
    DriveSuspend       "drive-suspend"         -          -         yes;
    DriveClearFailed   "drive-clear-failed"    -          -         yes;
    DriveReplace       "drive-replace"         -          -         yes;
    DriveRescan        "drive-rescan"          -          -         yes;
    DriveForget        "drive-forget"          -          -         yes;
    VolumeCreate       "volume-create"         -          -         yes;
    VolumeSet          "volume-set"            -          -         yes;
    VolumeReshape      "volume-reshape"        -          -         yes;
    VolumeDelete       "volume-delete"         -          -         yes;
    VolumeForget       "volume-forget"         -          -         yes;
    LogDiscard         "log-discard"           -          -         yes;
    CacheRemove        "cache-remove"          -          -         yes;
    LogAdd             "log-add"               -          -         yes;
    LogRemove          "log-remove"            -          -         yes;
    SpareAdd           "spare-add"             -          -         yes;
    SpareRemove        "spare-remove"          -          -         yes;
    ForeignImport      "foreign-import"        -          -         yes;
    ForeignClear       "foreign-clear"         -          -         yes;
    NumbersSet         "numbers-set"           -          -         yes;
    Configuration      "configuration"         -          -         yes;
    Shutdown           "shutdown"              -          -         yes;
    AuditList          "audit-list"            -          -         yes;
    Subscriptions      "subscriptions"         -          -         yes;
    Notifications      "notifications"         -          -         yes;
    Accounts           "accounts"              -          -         yes;
    Sessions           "sessions"              -          -         yes;
    BenchmarkWrites    "benchmark-writes"      -          -         yes;
}

impl Action {
    /// The action of a command.
    pub fn of(command: &Command) -> Action {
        match command {
            Command::Info {} => Action::Info,
            Command::Metrics {} => Action::Metrics,
            Command::Counters {} => Action::Counters,
            Command::Health {} => Action::Health,
            Command::AlarmShow {} => Action::AlarmShow,
            Command::AlarmSet { .. } => Action::AlarmSet,
            Command::EventsList { .. } => Action::EventsList,
            Command::AuditList { .. } => Action::AuditList,
            Command::Explain(_) => Action::Explain,
            Command::DriveList {} => Action::DriveList,
            Command::DriveShow { .. } => Action::DriveShow,
            Command::VolumeList {} => Action::VolumeList,
            Command::VolumeShow { .. } => Action::VolumeShow,
            Command::LogList {} => Action::LogList,
            Command::CacheList {} => Action::CacheList,
            Command::SpareList {} => Action::SpareList,
            Command::DiskList {} => Action::DiskList,
            Command::ForeignList {} => Action::ForeignList,
            Command::TaskList {} => Action::TaskList,
            Command::TaskShow { .. } => Action::TaskShow,
            Command::ScheduleList {} => Action::ScheduleList,
            Command::TaskStart(start) => match start.what {
                Startable::InitFull | Startable::InitFast => Action::TaskStartInit,
                Startable::Check | Startable::Repair | Startable::Patrol | Startable::Rebuild => {
                    Action::TaskStart
                }
            },
            Command::TaskPause { .. } => Action::TaskPause,
            Command::TaskResume { .. } => Action::TaskResume,
            Command::TaskStop { .. } => Action::TaskStop,
            Command::TaskSet(_) => Action::TaskSet,
            Command::TaskSchedule(_) => Action::TaskSchedule,
            Command::VolumeFlush { .. } => Action::VolumeFlush,
            Command::DriveLocate { .. } => Action::DriveLocate,
            Command::VolumeAttach { .. } => Action::VolumeAttach,
            Command::VolumeDetach { .. } => Action::VolumeDetach,
            Command::VolumeStart { accept_stale_parity: false, degraded: false, .. } => {
                Action::VolumeStart
            }
            Command::VolumeStart { .. } => Action::VolumeStartForced,
            Command::VolumePolicy(set) => {
                let loses_flushes = set.write_mode == Some(WriteMode::AlwaysWriteBack);
                match loses_flushes || set.write_hole == Some(WriteHole::Resync) {
                    true => Action::VolumePolicyUnsafe,
                    false => Action::VolumePolicy,
                }
            }
            changes => Action::of_structure(changes),
        }
    }

    /// The action of a command that changes drives or volumes. Unknown commands need an
    /// administrator.
    fn of_structure(command: &Command) -> Action {
        match command {
            Command::DriveOnline { .. } => Action::DriveOnline,
            Command::DriveResume { .. } => Action::DriveResume,
            Command::DriveAdd { .. } => Action::DriveAdd,
            Command::DriveFail { .. } => Action::DriveFail,
            Command::DriveOffline { .. } => Action::DriveOffline,
            Command::DriveSuspend { .. } => Action::DriveSuspend,
            Command::DriveClearFailed { .. } => Action::DriveClearFailed,
            Command::DriveReplace { .. } => Action::DriveReplace,
            Command::DriveRescan { .. } => Action::DriveRescan,
            Command::DriveForget { .. } => Action::DriveForget,
            Command::VolumeCreate(_) => Action::VolumeCreate,
            Command::VolumeSet { .. } => Action::VolumeSet,
            Command::VolumeReshape(_) => Action::VolumeReshape,
            Command::VolumeDelete { .. } => Action::VolumeDelete,
            Command::VolumeForget { .. } => Action::VolumeForget,
            Command::LogDiscard(_) => Action::LogDiscard,
            Command::CacheRemove { .. } => Action::CacheRemove,
            Command::LogAdd { .. } => Action::LogAdd,
            Command::LogRemove { .. } => Action::LogRemove,
            Command::SpareAdd(_) => Action::SpareAdd,
            Command::SpareRemove { .. } => Action::SpareRemove,
            Command::ForeignImport { .. } => Action::ForeignImport,
            Command::ForeignClear { .. } => Action::ForeignClear,
            Command::NumbersSet(_) => Action::NumbersSet,
            _ => Action::Shutdown,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
