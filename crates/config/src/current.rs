//! The current configuration, and its document.

use crate::document::{
    Account, Array, ControllerPart, Document, Drive, Log, Member, Notification, Numbers, Saved,
    Schedule, Spare, Subscription,
};
use crate::{clock, policy};
use access::AccountInfo;
use controller::{
    ControllerInfo, DriveInfo, LogInfo, ScheduleInfo, Scheduled, SpareInfo, VolumeInfo, VolumeState,
};

/// The configuration, as the controller and the interfaces report it.
#[derive(Clone, Debug)]
pub struct Current {
    /// The controller.
    pub info: ControllerInfo,
    /// Every drive.
    pub drives: Vec<DriveInfo>,
    /// Every volume.
    pub volumes: Vec<VolumeInfo>,
    /// Every spare.
    pub spares: Vec<SpareInfo>,
    /// Every log device.
    pub logs: Vec<LogInfo>,
    /// Every schedule.
    pub schedules: Vec<ScheduleInfo>,
    /// Notification channels.
    pub notifications: Vec<Notification>,
    /// Redfish subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// Accounts.
    pub accounts: Vec<AccountInfo>,
}

impl Current {
    /// Volumes with at least one drive present. Data about others are incomplete.
    pub(crate) fn present(&self) -> impl Iterator<Item = &VolumeInfo> {
        self.volumes.iter().filter(|volume| volume.state != VolumeState::Missing)
    }

    /// Drives whose registration survives a restart.
    pub(crate) fn lasting_drives(&self) -> impl Iterator<Item = &DriveInfo> {
        self.drives.iter().filter(|drive| is_lasting(&drive.name))
    }

    /// The log device in use.
    pub(crate) fn log(&self) -> Option<&LogInfo> {
        self.logs.iter().find(|log| log.in_use)
    }
}

/// Whether the name denotes the same drive after a restart.
pub(crate) fn is_lasting(name: &str) -> bool {
    !name.starts_with("mem:") && !name.starts_with("null:")
}

impl Document {
    /// Creates the document of the current configuration. `at`: the date.
    pub fn of(now: &Current, at: String) -> Document {
        let mut notifications = now.notifications.clone();
        notifications.sort_by(|a, b| a.channel.name.cmp(&b.channel.name));
        let mut subscriptions = now.subscriptions.clone();
        subscriptions.sort();
        Document {
            saved: Some(Saved { by: format!("softroc {}", now.info.version), at }),
            controller: Some(ControllerPart {
                serial: Some(now.info.serial.clone()).filter(|serial| !serial.is_empty()),
                alarm: Some(now.info.alarm.on),
            }),
            patrol: now.schedules.iter().find(|one| one.what == Scheduled::Patrol).map(schedule),
            log: now.log().map(|log| Log {
                drives: log.devices.iter().map(|device| device.drive.clone()).collect(),
            }),
            drives: Some(now.lasting_drives().map(drive).collect()),
            arrays: Some(arrays(now)),
            spares: Some(
                now.spares.iter().filter(|spare| is_lasting(&spare.drive)).map(spare).collect(),
            ),
            notifications: Some(notifications),
            subscriptions: Some(subscriptions),
            accounts: Some(now.accounts.iter().map(account).collect()),
            ..Document::empty()
        }
    }
}

/// The document entry of a schedule.
pub(crate) fn schedule(info: &ScheduleInfo) -> Schedule {
    Schedule {
        on: info.on,
        every_days: info.every_days,
        at: clock::written(info.at_s),
        repair: (info.what == Scheduled::Check).then_some(info.repair),
        share_percent: info.share_percent,
        limit_bytes_per_s: info.limit_bytes_per_s,
    }
}

fn drive(info: &DriveInfo) -> Drive {
    Drive {
        name: info.name.clone(),
        uuid: info.uuid.clone(),
        model: info.model.clone(),
        serial: info.serial.clone(),
        size_bytes: info.size_bytes,
        numbers: numbers(info),
    }
}

/// The numbers of a drive, unless they are provisional.
pub(crate) fn numbers(info: &DriveInfo) -> Option<Numbers> {
    let numbers = info.numbers.filter(|numbers| !numbers.provisional)?;
    Some(Numbers { enclosure: numbers.enclosure, slot: numbers.slot, device: numbers.device })
}

fn arrays(now: &Current) -> Vec<Array> {
    let mut volumes: Vec<&VolumeInfo> = now.present().collect();
    volumes.sort_by_key(|volume| (&volume.array, volume.data_start_bytes));
    let same_array = |a: &&VolumeInfo, b: &&VolumeInfo| a.array == b.array;
    let mut arrays: Vec<Array> = volumes.chunk_by(same_array).map(|of| array(now, of)).collect();
    arrays.sort_by(|a, b| (a.number, &a.uuid).cmp(&(b.number, &b.uuid)));
    arrays
}

fn array(now: &Current, volumes: &[&VolumeInfo]) -> Array {
    let first = volumes[0];
    let member = |drive: &DriveInfo| Some(Member { slot: drive.slot?, drive: drive.name.clone() });
    Array {
        uuid: first.array.clone(),
        number: first.group.filter(|_| !first.provisional),
        policies: policy::of_array(first),
        members: first.drives.iter().filter_map(member).collect(),
        volumes: volumes.iter().map(|info| volume(now, info)).collect(),
    }
}

fn volume(now: &Current, info: &VolumeInfo) -> crate::document::Volume {
    crate::document::Volume {
        name: info.name.clone(),
        uuid: info.uuid.clone(),
        number: info.number.filter(|_| !info.provisional),
        level: info.level.clone(),
        spans: info.spans,
        copies: info.copies,
        strip_bytes: info.strip_bytes,
        layout: info.arrangement.clone(),
        capacity_bytes: info.capacity_bytes,
        policies: policy::of_volume(info),
        check: check_of(now, &info.name).map(schedule),
    }
}

/// The check schedule of a volume.
pub(crate) fn check_of<'n>(now: &'n Current, volume: &str) -> Option<&'n ScheduleInfo> {
    let is_it =
        |one: &&ScheduleInfo| one.what == Scheduled::Check && one.volume.as_deref() == Some(volume);
    now.schedules.iter().find(is_it)
}

/// The document entry of a spare.
pub(crate) fn spare(info: &SpareInfo) -> Spare {
    Spare {
        drive: info.drive.clone(),
        kind: info.kind,
        dedicated_to: info.dedicated_to.clone(),
        revertible: info.revertible,
    }
}

fn account(info: &AccountInfo) -> Account {
    Account { name: info.name.clone(), role: info.role, enabled: info.enabled }
}
