//! States in Redfish's terms.

use crate::registry;
use controller::{DriveInfo, DriveState, Severity, VolumeInfo, VolumeState};
use serde_json::{Value, json};

/// The health of a resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    Ok,
    Warning,
    Critical,
}

impl Health {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Health::Ok => "OK",
            Health::Warning => "Warning",
            Health::Critical => "Critical",
        }
    }

    pub(crate) fn of_event(severity: Severity) -> Health {
        match severity {
            Severity::Info => Health::Ok,
            Severity::Warning => Health::Warning,
            Severity::Critical | Severity::Fatal => Health::Critical,
        }
    }
}

pub(crate) fn of_volume(volume: &VolumeInfo) -> Health {
    match volume.state {
        VolumeState::Optimal if volume.lost_bytes > 0 => Health::Critical,
        // Until the resync is complete, a drive failure loses data.
        VolumeState::Optimal if volume.resync.is_some() && volume.may_lose == 0 => Health::Warning,
        VolumeState::Optimal => Health::Ok,
        VolumeState::Degraded if volume.may_lose == 0 || volume.lost_bytes > 0 => Health::Critical,
        VolumeState::Degraded => Health::Warning,
        VolumeState::Offline | VolumeState::Missing => Health::Critical,
    }
}

pub(crate) fn volume_status(volume: &VolumeInfo) -> Value {
    let state = match volume.state {
        VolumeState::Optimal | VolumeState::Degraded => "Enabled",
        VolumeState::Offline => "UnavailableOffline",
        VolumeState::Missing => "Absent",
    };
    let health = of_volume(volume);
    status(state, health, &volume.reasons)
}

pub(crate) fn of_drive(drive: &DriveInfo) -> Health {
    let predicts =
        drive.health.as_ref().is_some_and(|health| health.predicted_failure == Some(true));
    match drive.state {
        DriveState::Failed | DriveState::Missing | DriveState::Refused => Health::Critical,
        DriveState::Stale
        | DriveState::Rebuilding
        | DriveState::Offline
        | DriveState::Suspended => Health::Warning,
        DriveState::Online
        | DriveState::Unused
        | DriveState::Filling
        | DriveState::Spare
        | DriveState::Foreign
        | DriveState::Log => {
            if predicts {
                Health::Warning
            } else {
                Health::Ok
            }
        }
    }
}

pub(crate) fn drive_status(drive: &DriveInfo) -> Value {
    let state = match drive.state {
        DriveState::Online | DriveState::Unused | DriveState::Log => "Enabled",
        DriveState::Rebuilding | DriveState::Filling => "Updating",
        DriveState::Spare => "StandbySpare",
        DriveState::Offline | DriveState::Stale | DriveState::Suspended => "StandbyOffline",
        DriveState::Missing => "Absent",
        DriveState::Failed | DriveState::Refused | DriveState::Foreign => "Disabled",
    };
    let warning = drive.health.as_ref().and_then(|health| health.warning.clone());
    let reasons: Vec<String> = drive.reason.iter().cloned().chain(warning).collect();
    status(state, of_drive(drive), &reasons)
}

/// A state with its reasons.
pub(crate) fn status(state: &str, health: Health, reasons: &[String]) -> Value {
    let mut status = json!({ "State": state, "Health": health.name() });
    if health != Health::Ok && !reasons.is_empty() {
        let condition = |reason: &String| registry::condition(reason, health);
        status["Conditions"] = reasons.iter().map(condition).collect();
    }
    status
}

/// The worst health of several.
pub(crate) fn worst(all: impl Iterator<Item = Health>) -> Health {
    all.max().unwrap_or(Health::Ok)
}
