//! The controller's commands. Every interface uses them; in JSON, each is an object with its verb
//! under `command`, such as `{"command": "volume-show", "volume": "data"}`.
//!
//! A *drive* is named by its path or by `VOLUME:SLOT`, a *volume* by its name or its UUID.

use crate::interface::{
    AddSpare, AlarmSetting, Coercion, DiscardLog, DiskKind, DriveCost, ReshapeVolume, SetNumbers,
    SetPolicy, SetSchedule, SetTask, StartTask,
};
use ondisk::{CacheMode, DriveCache, ReadMode, SectorFormat, WriteHole, WriteMode};
use serde::{Deserialize, Serialize};

/// A command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Registers a drive. Answered by [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveAdd {
        /// Its path or address, or `mem:SIZE`.
        drive: String,
        /// Create a file of this size for it, with preallocated space.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size_bytes: Option<u64>,
    },
    /// Lists all drives. Answered by [`Reply::Drives`](crate::interface::Reply::Drives).
    DriveList {},
    /// Shows one drive. Answered by [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveShow {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
    },
    /// Declares a member failed. Answered by [`Reply::Drive`](crate::interface::Reply::Drive),
    /// whose notes list the consequences.
    DriveFail {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
        /// Proceed even if data becomes unreadable; otherwise the command is refused.
        #[serde(default)]
        accept_data_loss: bool,
        /// The accepted costs from a `dry_run`. The command is refused if the costs have risen
        /// since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accepted: Option<Vec<DriveCost>>,
        /// Report the costs and change nothing.
        #[serde(default)]
        dry_run: bool,
    },
    /// Takes a drive offline. Answered by [`Reply::Drive`](crate::interface::Reply::Drive), whose
    /// notes list the consequences.
    DriveOffline {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
        /// Proceed even if data becomes unreadable; otherwise the command is refused.
        #[serde(default)]
        accept_data_loss: bool,
        /// The accepted costs from a `dry_run`. The command is refused if the costs have risen
        /// since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accepted: Option<Vec<DriveCost>>,
        /// Report the costs and change nothing.
        #[serde(default)]
        dry_run: bool,
    },
    /// Suspends a drive: its volumes work without it until it is [resumed](Command::DriveResume).
    /// Refused if the drive holds the only copy of any data. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive), whose notes list the consequences.
    DriveSuspend {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
        /// The accepted costs from a `dry_run`. The command is refused if the costs have risen
        /// since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accepted: Option<Vec<DriveCost>>,
        /// Report the costs and change nothing.
        #[serde(default)]
        dry_run: bool,
    },
    /// Resumes a suspended drive and rebuilds the writes it missed. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveResume {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
    },
    /// Brings a drive back online and resyncs it. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveOnline {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
    },
    /// Clears the recorded failure of a drive. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveClearFailed {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
    },
    /// Replaces a member. If the member is out of service, its content is rebuilt onto the new
    /// drive; if it is online, its content is copied first. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive) for the new drive.
    DriveReplace {
        /// The drive that is replaced.
        drive: String,
        /// The new drive.
        with: String,
        /// Overwrite existing data on the new drive.
        #[serde(default)]
        destroy_data: bool,
    },
    /// Reads the size of a drive again, and uses its additional capacity. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive), with notes.
    DriveRescan {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
        /// Its previous size, if the controller does not know it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was_bytes: Option<u64>,
    },
    /// Switches the locate LED of a drive's bay. Answered by
    /// [`Reply::Drive`](crate::interface::Reply::Drive).
    DriveLocate {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
        /// On or off.
        on: bool,
    },
    /// Unregisters an unused drive. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done).
    DriveForget {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
    },
    /// Creates a volume. Answered by [`Reply::Volume`](crate::interface::Reply::Volume), with
    /// notes.
    VolumeCreate(CreateVolume),
    /// Lists all volumes. Answered by [`Reply::Volumes`](crate::interface::Reply::Volumes).
    VolumeList {},
    /// Shows one volume. Answered by [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumeShow {
        /// The volume's name or UUID.
        volume: String,
    },
    /// Changes a volume's settings. Answered by [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumeSet {
        /// The volume's name or UUID.
        volume: String,
        /// A new name. Connected hosts stay connected; new connections must use the new name.
        name: String,
    },
    /// Deletes a volume: its data is lost. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done).
    VolumeDelete {
        /// The volume's name or UUID.
        volume: String,
        /// Disconnect hosts that use it.
        #[serde(default)]
        disconnect_hosts: bool,
    },
    /// Removes a missing volume, and the other volumes of its array, from the list. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    VolumeForget {
        /// The volume's name or UUID.
        volume: String,
    },
    /// Starts a volume that is offline. Answered by
    /// [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumeStart {
        /// The volume's name or UUID.
        volume: String,
        /// Start it although a drive is missing and writes were interrupted. Blocks of the missing
        /// drive may be wrong in those regions.
        #[serde(default)]
        accept_stale_parity: bool,
        /// Start it although the missing drives could have served the array on their own. The
        /// operator confirms that they did not.
        #[serde(default)]
        degraded: bool,
    },
    /// Reshapes a volume online. Answered by [`Reply::Reshape`](crate::interface::Reply::Reshape).
    VolumeReshape(ReshapeVolume),
    /// Destages a volume's dirty data and flushes its drives. Answered by
    /// [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumeFlush {
        /// The volume's name or UUID.
        volume: String,
    },
    /// Attaches a volume as a block device of this host. Answered by
    /// [`Reply::Disk`](crate::interface::Reply::Disk).
    VolumeAttach {
        /// The volume's name or UUID.
        volume: String,
        /// Attach it read-only.
        #[serde(default)]
        read_only: bool,
        /// The kernel driver; NBD by default.
        #[serde(default, rename = "as")]
        by: DiskKind,
    },
    /// Removes a block device of this host; its volume stays. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    VolumeDetach {
        /// The volume, or the path of the block device.
        volume: String,
        /// Remove it even if it is in use or has pending requests. Unwritten data is lost.
        #[serde(default)]
        force: bool,
    },
    /// Lists the block devices of this host that are volumes. Answered by
    /// [`Reply::Disks`](crate::interface::Reply::Disks).
    DiskList {},
    /// Discards a volume's cached data or its log records. Answered by
    /// [`Reply::Volume`](crate::interface::Reply::Volume); its notes list the loss.
    LogDiscard(DiscardLog),
    /// Lists persistent cache memory of other controllers on this host, in use or orphaned.
    /// Answered by [`Reply::Memories`](crate::interface::Reply::Memories).
    CacheList {},
    /// Removes orphaned cache memory. Its dirty data is lost. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    CacheRemove {
        /// Its path, as `cache list` prints it.
        memory: String,
    },
    /// Creates a log on one drive, or mirrored on two. The journals of volumes move to it from the
    /// members. Drives that are log devices already keep their content. Answered by
    /// [`Reply::Logs`](crate::interface::Reply::Logs), with notes.
    LogAdd {
        /// The drives. Unregistered drives are registered.
        drives: Vec<String>,
        /// Overwrite existing data on them.
        #[serde(default)]
        destroy_data: bool,
        /// Accept two partitions of one disk, although one failure loses both.
        #[serde(default)]
        same_disk_ok: bool,
    },
    /// Removes the log. Its journals move back to the members, and its drives become unused.
    /// Answered by [`Reply::Done`](crate::interface::Reply::Done), with notes.
    LogRemove {
        /// One of its drives.
        drive: String,
    },
    /// Lists logs, their devices and the journals on them. Answered by
    /// [`Reply::Logs`](crate::interface::Reply::Logs).
    LogList {},
    /// All counters and measurements, in one snapshot. It causes no I/O. Answered by
    /// [`Reply::Metrics`](crate::interface::Reply::Metrics).
    Metrics {},
    /// I/O counters of volumes and drives. Answered by
    /// [`Reply::Counters`](crate::interface::Reply::Counters).
    Counters {},
    /// Overall health and recommended actions. Answered by
    /// [`Reply::Health`](crate::interface::Reply::Health).
    Health {},
    /// Switches the alarm on or off, or silences it. Answered by
    /// [`Reply::Alarm`](crate::interface::Reply::Alarm).
    AlarmSet {
        /// The new setting.
        to: AlarmSetting,
    },
    /// Shows the state of the alarm. Answered by [`Reply::Alarm`](crate::interface::Reply::Alarm).
    AlarmShow {},
    /// Sets an array's policies. Answered by [`Reply::Volume`](crate::interface::Reply::Volume).
    VolumePolicy(SetPolicy),
    /// Lists the hot spares and their coverage of arrays. Answered by
    /// [`Reply::Spares`](crate::interface::Reply::Spares).
    SpareList {},
    /// Makes a drive a hot spare. Answered by [`Reply::Spare`](crate::interface::Reply::Spare).
    SpareAdd(AddSpare),
    /// Removes a hot spare. Answered by [`Reply::Done`](crate::interface::Reply::Done), with notes.
    SpareRemove {
        /// The drive's path, or `VOLUME:SLOT`.
        drive: String,
    },
    /// Lists metadata on unused drives: foreign volumes, and metadata that cannot be used. Answered
    /// by [`Reply::Foreign`](crate::interface::Reply::Foreign).
    ForeignList {},
    /// Imports foreign volumes with their data. Answered by
    /// [`Reply::Imported`](crate::interface::Reply::Imported).
    ForeignImport {
        /// The volume's name or identity. Volumes on the same drives are imported with it.
        volume: String,
        /// Its name after the import.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Erases metadata of any system from unused drives. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    ForeignClear {
        /// The drives.
        drives: Vec<String>,
    },
    /// Lists background tasks. Answered by [`Reply::Tasks`](crate::interface::Reply::Tasks).
    TaskList {},
    /// Shows one task. Answered by [`Reply::Task`](crate::interface::Reply::Task).
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
    /// Resumes a task that was paused or stopped, or has failed. Answered by
    /// [`Reply::Task`](crate::interface::Reply::Task).
    TaskResume {
        /// Its number.
        task: u64,
    },
    /// Stops a task before it is done. Answered by [`Reply::Task`](crate::interface::Reply::Task),
    /// with notes.
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
    /// Lists events, the newest last. Answered by
    /// [`Reply::Events`](crate::interface::Reply::Events).
    EventsList {
        /// Limit to this number of the newest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<usize>,
        /// Limit to events that concern this volume or drive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<String>,
    },
    /// Lists recorded orders, the newest last. Answered by
    /// [`Reply::Audit`](crate::interface::Reply::Audit).
    AuditList {
        /// Limit to this number of the newest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<usize>,
    },
    /// Explains the I/O that a request causes. Answered by
    /// [`Reply::Explained`](crate::interface::Reply::Explained).
    Explain(Explain),
    /// Restores the numbers of drives, arrays and volumes after a loss of the state folder. Objects
    /// that are not named and hold one of these numbers get another one. Answered by
    /// [`Reply::Done`](crate::interface::Reply::Done), with notes.
    NumbersSet(SetNumbers),
    /// Shows the controller. Answered by [`Reply::Info`](crate::interface::Reply::Info).
    Info {},
    /// Shuts down cleanly. Answered by [`Reply::Done`](crate::interface::Reply::Done) when all data
    /// is on the drives.
    Shutdown {},
}

impl Command {
    /// Whether it waits for drives, the kernel or the state folder, and may run concurrently with
    /// other commands.
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

    /// Whether it is available while the controller opens its drives at the start.
    pub(crate) fn is_for_a_start(&self) -> bool {
        matches!(
            self,
            Command::EventsList { .. } | Command::AuditList { .. } | Command::Shutdown {}
        )
    }

    /// Whether it is read-only.
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
    /// Its drives in the order of their slots. Unregistered drives are registered. If they are all
    /// drives of an array, the volume uses free space of that array.
    #[serde(default)]
    pub drives: Vec<String>,
    /// Instead of drives: a volume of the array whose free space it uses, or the UUID of that
    /// array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// The number of spans, for levels with spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<u16>,
    /// The number of copies of each strip: a choice for `raid1e`, 2 otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u16>,
    /// The strip size; by default 256 KiB if a drive is rotational, else 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip_bytes: Option<u64>,
    /// The layout of parity or copies, such as `left-symmetric` or `near`.
    #[serde(alias = "layout", default, skip_serializing_if = "Option::is_none")]
    pub arrangement: Option<String>,
    /// Its capacity; by default all free space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The protection against the write hole on levels with parity; by default a journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_hole: Option<WriteHole>,
    /// The write mode; by default that of the preset `performance` (`fast-path` on drives in
    /// memory).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mode: Option<WriteMode>,
    /// Read-ahead for sequential streams; the same default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_mode: Option<ReadMode>,
    /// Whether the cache keeps read data; the same default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_mode: Option<CacheMode>,
    /// The drives' own write caches. All volumes of an array share its drives; if one volume sets
    /// it off, it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_cache: Option<DriveCache>,
    /// The sector format reported to hosts; by default that of the drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector_format: Option<SectorFormat>,
    /// The unit to which drive sizes are rounded down, so that a slightly smaller drive can replace
    /// one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coercion: Option<Coercion>,
    /// Overwrite existing data on the drives.
    #[serde(default)]
    pub destroy_data: bool,
}

/// See [`Command::Explain`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// Explain for this volume in its current state; otherwise for the parameters below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The RAID level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The number of drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives: Option<u16>,
    /// The strip size; 64 KiB by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip_bytes: Option<u64>,
    /// The number of spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<u16>,
    /// The layout of parity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<String>,
    /// The number of copies of each strip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u16>,
    /// The layout of copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<String>,
    /// Slots to treat as failed, in addition to drives that are out of service.
    #[serde(default)]
    pub failed: Vec<u16>,
    /// `read`, `write`, `write-zeroes`, `resync` or `verify`.
    pub operation: String,
    /// The offset.
    pub offset_bytes: u64,
    /// The length.
    pub size_bytes: u64,
}
