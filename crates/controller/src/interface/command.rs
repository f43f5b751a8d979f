//! What can be asked of the controller. Every interface speaks these; in JSON they are objects with the verb
//! under `command`, such as `{"command": "volume-show", "volume": "data"}`.
//!
//! A *drive* is named by its path or by `VOLUME:SLOT`, a *volume* by its name or its UUID.

use crate::interface::{
    AddSpare, AlarmSetting, Coercion, DiscardLog, DiskKind, DriveCost, ReshapeVolume, SetNumbers, SetPolicy,
    SetSchedule, SetTask, StartTask,
};
use ondisk::{CacheMode, DriveCache, ReadMode, SectorFormat, WriteHole, WriteMode};
use serde::{Deserialize, Serialize};

/// A command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Registers a drive. Answered by [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveAdd {
        /// How it is named: a path, `mem:1G`, an address.
        drive: String,
        /// Make a new file of that size for it, with its space reserved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size_bytes: Option<u64>,
    },
    /// Every drive. Answered by [`Reply::Drives`](crate::interface::Reply::Drives).
    DriveList {},
    /// One drive. Answered by [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveShow {
        /// Which.
        drive: String,
    },
    /// Takes a drive out of its volume, as if it had failed. Answered by [`Reply::Drive`](crate::interface::Reply::Drive), whose notes
    /// say what it costs.
    DriveFail {
        /// Which.
        drive: String,
        /// Also where data cannot be read without it; otherwise that is refused.
        #[serde(default)]
        accept_data_loss: bool,
        /// What a `dry_run` said it costs, where that was accepted: it is refused where it costs more by now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accepted: Option<Vec<DriveCost>>,
        /// Only say what it would cost; nothing is changed.
        #[serde(default)]
        dry_run: bool,
    },
    /// Takes a drive out of its volume for a while. Answered by [`Reply::Drive`](crate::interface::Reply::Drive), whose notes say what
    /// it costs.
    DriveOffline {
        /// Which.
        drive: String,
        /// Also where data cannot be read without it; otherwise that is refused.
        #[serde(default)]
        accept_data_loss: bool,
        /// What a `dry_run` said it costs, where that was accepted: it is refused where it costs more by now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accepted: Option<Vec<DriveCost>>,
        /// Only say what it would cost; nothing is changed.
        #[serde(default)]
        dry_run: bool,
    },
    /// Suspends a drive: its volumes go on without it until it is [resumed](Command::DriveResume). Refused where it holds the last copy of
    /// anything. Answered by [`Reply::Drive`](crate::interface::Reply::Drive), whose notes say what it costs.
    DriveSuspend {
        /// Which.
        drive: String,
        /// What a `dry_run` said it costs, where that was accepted: it is refused where it costs more by now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accepted: Option<Vec<DriveCost>>,
        /// Only say what it would cost; nothing is changed.
        #[serde(default)]
        dry_run: bool,
    },
    /// Uses a drive again that is suspended, and gives it what it missed. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveResume {
        /// Which.
        drive: String,
    },
    /// Brings a drive back online and resyncs it. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveOnline {
        /// Which.
        drive: String,
    },
    /// Trusts a drive again that is remembered as failed. Answered by [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveClearFailed {
        /// Which.
        drive: String,
    },
    /// Puts another drive into a place of an array: where the place is out, what belongs there is rebuilt; where it
    /// serves, the new drive is filled first. Answered by [`Reply::Drive`](crate::interface::Reply::Drive), of the new drive.
    DriveReplace {
        /// Which drive is replaced.
        drive: String,
        /// By which.
        with: String,
        /// What that one holds may be lost.
        #[serde(default)]
        destroy_data: bool,
    },
    /// Looks how large a drive is now, and has all of it used if it became larger. Answered by [`Reply::Drive`](crate::interface::Reply::Drive),
    /// with notes.
    DriveRescan {
        /// Which.
        drive: String,
        /// How large it was, where the controller cannot know that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was_bytes: Option<u64>,
    },
    /// Switches the light that shows where a drive sits. Answered by [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveLocate {
        /// Which.
        drive: String,
        /// On, or off.
        on: bool,
    },
    /// Unregisters an unused drive. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done).
    DriveForget {
        /// Which.
        drive: String,
    },
    /// Creates a volume. Answered by [`Reply::Volume`](crate::interface::Reply::Volume), with notes.
    VolumeCreate(CreateVolume),
    /// Every volume. Answered by [`Reply::Volumes`](crate::interface::Reply::Volumes).
    VolumeList {},
    /// One volume. Answered by [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumeShow {
        /// Which.
        volume: String,
    },
    /// Changes a volume's settings. Answered by [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumeSet {
        /// Which.
        volume: String,
        /// A new name. Hosts that use the volume stay connected; whoever connects finds it under the new name alone.
        name: String,
    },
    /// Deletes a volume: its data is lost. Answered by [`Reply::Done`](crate::interface::Reply::Done).
    VolumeDelete {
        /// Which.
        volume: String,
        /// Hosts that are connected to it may be disconnected.
        #[serde(default)]
        disconnect_hosts: bool,
    },
    /// Lists a volume no more of which no drive is there, and the others of its array. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    VolumeForget {
        /// Which.
        volume: String,
    },
    /// Starts a volume that is offline. Answered by [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumeStart {
        /// Which.
        volume: String,
        /// Start it even though a drive is missing and writes were interrupted: blocks of the missing drive
        /// may read wrongly where that was.
        #[serde(default)]
        accept_stale_parity: bool,
        /// Start it though drives are missing that could have been used without those that are here: they were not.
        #[serde(default)]
        degraded: bool,
    },
    /// Moves a volume to another layout while hosts use it. Answered by [`Reply::Reshape`](crate::interface::Reply::Reshape).
    VolumeReshape(ReshapeVolume),
    /// Writes what is dirty of a volume to its drives, and flushes them. Answered by [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumeFlush {
        /// Which.
        volume: String,
    },
    /// Makes a volume a disk of this machine. Answered by [`Reply::Disk`](crate::interface::Reply::Disk).
    VolumeAttach {
        /// Which.
        volume: String,
        /// Nothing can be written to the disk.
        #[serde(default)]
        read_only: bool,
        /// Which of the kernel's ways it goes; NBD by default.
        #[serde(default, rename = "as")]
        by: DiskKind,
    },
    /// Removes a disk of this machine; its volume stays. Answered by [`Reply::Done`](crate::interface::Reply::Done), with notes.
    VolumeDetach {
        /// Which: the volume, or the disk's file.
        volume: String,
        /// Even while it is in use, or requests wait on it: what was not written is lost.
        #[serde(default)]
        force: bool,
    },
    /// Every disk of this machine that is a volume. Answered by [`Reply::Disks`](crate::interface::Reply::Disks).
    DiskList {},
    /// Gives up, of a volume, the memory of the cache or the records on a log device. Answered by
    /// [`Reply::Volume`](crate::interface::Reply::Volume); its notes say what is lost.
    LogDiscard(DiscardLog),
    /// The cache's memory that other controllers of this machine have, or left behind. Answered by
    /// [`Reply::Memories`](crate::interface::Reply::Memories).
    CacheList {},
    /// Removes such memory: what hosts wrote, and its volumes' drives lack, is lost. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    CacheRemove {
        /// Which, as it is listed.
        memory: String,
    },
    /// Gives one drive or two to the journals of volumes, so that members carry none: a log, on two drives mirrored. Drives that
    /// are devices of a log already keep what is on it. Answered by [`Reply::Logs`](crate::interface::Reply::Logs), with notes.
    LogAdd {
        /// Which drives. Those that the controller does not know yet are added.
        drives: Vec<String>,
        /// What they hold may be lost.
        #[serde(default)]
        destroy_data: bool,
        /// Both may lie on one disk, which is lost with both.
        #[serde(default)]
        same_disk_ok: bool,
    },
    /// Removes the log: journals go back to the members, and its drives are unused. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    LogRemove {
        /// One of its drives.
        drive: String,
    },
    /// Every log, its devices, and which journals lie there. Answered by [`Reply::Logs`](crate::interface::Reply::Logs).
    LogList {},
    /// Everything that is counted or measured, all of one moment. No drive is asked. Answered by
    /// [`Reply::Metrics`](crate::interface::Reply::Metrics).
    Metrics {},
    /// What hosts have asked of volumes, and what was asked of drives: counters alone. Answered by
    /// [`Reply::Counters`](crate::interface::Reply::Counters).
    Counters {},
    /// How all is, and what to do. Answered by [`Reply::Health`](crate::interface::Reply::Health).
    Health {},
    /// Switches the alarm on or off, or silences it. Answered by [`Reply::Alarm`](crate::interface::Reply::Alarm).
    AlarmSet {
        /// Which.
        to: AlarmSetting,
    },
    /// Whether the alarm is on, and sounds. Answered by [`Reply::Alarm`](crate::interface::Reply::Alarm).
    AlarmShow {},
    /// Sets an array's policies. Answered by [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumePolicy(SetPolicy),
    /// Every spare, what it covers, and which arrays none covers. Answered by [`Reply::Spares`](crate::interface::Reply::Spares).
    SpareList {},
    /// Makes a drive a hot spare. Answered by [`Reply::Spare`](crate::interface::Reply::Spare).
    SpareAdd(AddSpare),
    /// Removes a hot spare. Answered by [`Reply::Done`](crate::interface::Reply::Done), with notes.
    SpareRemove {
        /// Which.
        drive: String,
    },
    /// What drives that are not in use carry: volumes of other systems, and what cannot be used. Answered by
    /// [`Reply::Foreign`](crate::interface::Reply::Foreign).
    ForeignList {},
    /// Makes volumes of another system SoftROC's own, with their data. Answered by
    /// [`Reply::Imported`](crate::interface::Reply::Imported).
    ForeignImport {
        /// Which volume, by its name or identity. Others that share its drives come with it.
        volume: String,
        /// Its new name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Takes metadata off drives that are not in use, whosever they are. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    ForeignClear {
        /// Which drives.
        drives: Vec<String>,
    },
    /// Every background task. Answered by [`Reply::Tasks`](crate::interface::Reply::Tasks).
    TaskList {},
    /// One task. Answered by [`Reply::Task`](crate::interface::Reply::Task).
    TaskShow {
        /// Its number.
        task: u64,
    },
    /// Starts a task. Answered by [`Reply::Task`](crate::interface::Reply::Task).
    TaskStart(StartTask),
    /// Pauses a task. Answered by [`Reply::Task`](crate::interface::Reply::Task).
    TaskPause {
        /// Its number.
        task: u64,
    },
    /// Resumes a task that was paused or stopped, or has failed. Answered by [`Reply::Task`](crate::interface::Reply::Task).
    TaskResume {
        /// Its number.
        task: u64,
    },
    /// Stops a task before it is done. Answered by [`Reply::Task`](crate::interface::Reply::Task), with notes.
    TaskStop {
        /// Its number.
        task: u64,
    },
    /// Sets the rate of a task. Answered by [`Reply::Task`](crate::interface::Reply::Task).
    TaskSet(SetTask),
    /// Shows the schedules. Answered by [`Reply::Schedules`](crate::interface::Reply::Schedules).
    ScheduleList {},
    /// Sets a schedule. Answered by [`Reply::Schedules`](crate::interface::Reply::Schedules).
    TaskSchedule(SetSchedule),
    /// What happened, newest last. Answered by [`Reply::Events`](crate::interface::Reply::Events).
    EventsList {
        /// No more than so many of the newest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<usize>,
        /// Only the history of the volume or drive of that name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<String>,
    },
    /// The orders that were given, newest last. Answered by [`Reply::Audit`](crate::interface::Reply::Audit).
    AuditList {
        /// No more than so many of the newest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<usize>,
    },
    /// What a request would do. Answered by [`Reply::Explained`](crate::interface::Reply::Explained).
    Explain(Explain),
    /// Gives drives, arrays and volumes the numbers that they had before the state folder was lost. What has one of these numbers, and is not
    /// named, gets another one. Answered by [`Reply::Done`](crate::interface::Reply::Done), with notes.
    NumbersSet(SetNumbers),
    /// What the controller is. Answered by [`Reply::Info`](crate::interface::Reply::Info).
    Info {},
    /// Stops serving, in order. Answered by [`Reply::Done`](crate::interface::Reply::Done) when everything is on the drives.
    Shutdown {},
}

impl Command {
    /// Whether it takes as long as drives, the kernel or the state folder take, and changes nothing that other commands change.
    pub(crate) fn waits_for_others(&self) -> bool {
        use Command::*;
        if let TaskStart(start) = self {
            return !start.what.is_init();
        }
        matches!(
            self,
            TaskPause { .. }
                | TaskResume { .. }
                | TaskStop { .. }
                | TaskSet(_)
                | TaskSchedule(_)
                | VolumeFlush { .. }
                | DriveLocate { .. }
                | VolumeAttach { .. }
                | VolumeDetach { .. }
                | AlarmSet { .. }
                | CacheList {}
                | CacheRemove { .. }
                | ForeignList {}
        )
    }

    /// Whether it is carried out while the controller opens its drives.
    pub(crate) fn is_for_a_start(&self) -> bool {
        matches!(self, Command::EventsList { .. } | Command::AuditList { .. } | Command::Shutdown {})
    }

    /// Whether it only looks, and changes nothing.
    pub fn only_looks(&self) -> bool {
        use Command::*;
        matches!(
            self,
            DriveList {}
                | DriveShow { .. }
                | VolumeList {}
                | VolumeShow { .. }
                | LogList {}
                | CacheList {}
                | Metrics {}
                | Counters {}
                | Health {}
                | AlarmShow {}
                | SpareList {}
                | DiskList {}
                | ForeignList {}
                | TaskList {}
                | TaskShow { .. }
                | ScheduleList {}
                | EventsList { .. }
                | AuditList { .. }
                | Explain(_)
                | Info {}
        )
    }
}

/// See [`Command::VolumeCreate`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The RAID level, such as `raid5`.
    pub level: String,
    /// Its drives in the order of their slots. Drives that the controller does not know yet are added. If they are all
    /// the drives of an array, the volume is laid beside the others on it.
    #[serde(default)]
    pub drives: Vec<String>,
    /// Instead of drives: one of the volumes beside which it is laid, or the UUID of their array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// How many spans, where the level has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<u16>,
    /// How often each strip is stored: a choice for `raid1e`, 2 otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u16>,
    /// The strip; 256 KiB if a drive rotates, 64 KiB otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip_bytes: Option<u64>,
    /// Where parity or copies are, such as `left-symmetric` or `near`.
    #[serde(alias = "layout", default, skip_serializing_if = "Option::is_none")]
    pub arrangement: Option<String>,
    /// Its capacity; all there is otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// How a stripe that is interrupted in the middle is dealt with, on levels with parity: by a journal otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_hole: Option<WriteHole>,
    /// When hosts are told that a write is done; none: when the drives have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mode: Option<WriteMode>,
    /// Whether what follows a stream of reads is read before hosts ask for it; none: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_mode: Option<ReadMode>,
    /// Whether what hosts read is kept for whoever reads it next; none: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_mode: Option<CacheMode>,
    /// What the drives' own write caches are to be; a drive is of all volumes of its array, and one that wants it off has its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_cache: Option<DriveCache>,
    /// Which sectors hosts are told of; none: those of its drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector_format: Option<SectorFormat>,
    /// What the size of its drives is rounded down to before it is used, so that a drive a little smaller can replace one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coercion: Option<Coercion>,
    /// What the drives hold may be lost.
    #[serde(default)]
    pub destroy_data: bool,
}

/// See [`Command::Explain`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// Of this volume, in its present health. Otherwise of the parameters below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The RAID level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How many drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives: Option<u16>,
    /// The strip; 64 KiB otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip_bytes: Option<u64>,
    /// In how many spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<u16>,
    /// Where parity is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<String>,
    /// How often each strip is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u16>,
    /// Where copies are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<String>,
    /// Slots of drives that are to be taken for failed, besides those of the volume that are.
    #[serde(default)]
    pub failed: Vec<u16>,
    /// `read`, `write`, `write-zeroes`, `resync` or `verify`.
    pub operation: String,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u64,
}
