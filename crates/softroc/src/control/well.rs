//! The exit code of `--check`: whether the shown objects have problems.

use crate::failure::{Failure, Outcome};
use controller::{
    DriveInfo, DriveState, LogDeviceState, Reply, TaskInfo, TaskKind, TaskState, VolumeInfo,
    VolumeState,
};
use units::counted;

/// A failure that lists the problems in `replies`, if requested.
pub fn judge(check: bool, replies: &[Reply]) -> Outcome {
    let wrong: Vec<String> = replies.iter().filter(|_| check).flat_map(not_well).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::not_well(wrong.join("; "))),
    }
}

/// A failure that describes the problem of an ended task.
pub fn judge_task(task: &TaskInfo) -> Outcome {
    let number = task.task;
    let why = || task.reason.as_deref().unwrap_or("run 'softroc events'");
    match task.state {
        TaskState::Failed => {
            return Err(Failure::failed(format!("task {number} failed: {}", why())));
        }
        TaskState::Cancelled => {
            return Err(Failure::not_well(format!("task {number} was cancelled: {}", why())));
        }
        TaskState::Stopped => {
            return Err(Failure::not_well(format!(
                "task {number} was stopped at {} %; 'softroc task resume {number}' continues it",
                task.percent
            )));
        }
        _ => {}
    }
    let found = task.found;
    let repaired = if task.kind == TaskKind::Repair { found.repaired } else { 0 };
    let mut wrong = Vec::new();
    if found.mismatches > repaired {
        let repair = match (&task.volume, task.kind) {
            (Some(volume), TaskKind::Check) => {
                format!("; 'softroc task start check {volume} --repair' repairs them")
            }
            _ => String::new(),
        };
        wrong.push(format!(
            "task {number} found {} that did not agree{repair}",
            counted(found.mismatches - repaired, "stripe")
        ));
    }
    if found.uncompared > 0 {
        wrong.push(format!(
            "task {number} could not compare {}; run it again when all drives can be read",
            counted(found.uncompared, "stripe")
        ));
    }
    if found.unrecoverable_bytes > 0 {
        wrong.push(format!(
            "task {number} found {} that cannot be recovered",
            counted(found.unrecoverable_bytes, "byte")
        ));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::not_well(wrong.join("; "))),
    }
}

fn not_well(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Volumes { volumes } => volumes.iter().filter_map(volume).collect(),
        Reply::Volume { volume: one, .. } => volume(one).into_iter().collect(),
        Reply::Drives { drives } => drives.iter().filter_map(drive).collect(),
        Reply::Drive { drive: one, .. } => drive(one).into_iter().collect(),
        Reply::Spares { coverage, .. } => {
            let bare = coverage.iter().filter(|array| array.covered_by.is_empty());
            bare.map(|array| format!("no spare covers {}", array.volumes.join(", "))).collect()
        }
        Reply::Logs { logs, .. } => {
            let devices = logs.iter().filter(|log| log.in_use).flat_map(|log| &log.devices);
            let out = devices.filter(|device| device.state != LogDeviceState::Online);
            out.map(|device| format!("log device {} is {}", device.drive, device.state)).collect()
        }
        _ => Vec::new(),
    }
}

fn volume(volume: &VolumeInfo) -> Option<String> {
    let lost = volume.lost_bytes > 0;
    match volume.state {
        VolumeState::Optimal if lost => Some(format!("volume '{}' has lost data", volume.name)),
        VolumeState::Optimal if volume.cache.pinned_bytes > 0 => Some(format!(
            "volume '{}' has preserved cache that cannot be written to its drives",
            volume.name
        )),
        VolumeState::Optimal => None,
        state => Some(format!("volume '{}' is {state}", volume.name)),
    }
}

fn drive(drive: &DriveInfo) -> Option<String> {
    let warning = drive.health.as_ref().and_then(|health| health.warning.as_deref());
    match drive.state {
        DriveState::Online
        | DriveState::Unused
        | DriveState::Filling
        | DriveState::Spare
        | DriveState::Foreign
        | DriveState::Log => warning.map(|why| format!("drive {} {why}", drive.name)),
        state @ (DriveState::Failed
        | DriveState::Offline
        | DriveState::Suspended
        | DriveState::Missing
        | DriveState::Stale
        | DriveState::Rebuilding
        | DriveState::Refused) => Some(format!("drive {} is {state}", drive.name)),
    }
}
