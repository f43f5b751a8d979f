//! The health report: problems of volumes, drives and their protection, worded for operators.
//!
//! It is computed from the other replies, so that it never contradicts them.

use super::Commands;
use crate::interface::{
    ControllerInfo, CoverageInfo, DriveInfo, DriveState, Finding, HealthReport, LogDeviceState,
    LogInfo, ProtectionState, SpareInfo, SuspendedBy, TaskInfo, TaskKind, TaskState, VolumeInfo,
    VolumeState, WellBeing,
};
use units::{ByteCount, counted};

/// The input of the report.
struct Looked {
    controller: ControllerInfo,
    volumes: Vec<VolumeInfo>,
    drives: Vec<DriveInfo>,
    tasks: Vec<TaskInfo>,
    spares: Vec<SpareInfo>,
    coverage: Vec<CoverageInfo>,
    logs: Vec<LogInfo>,
    /// Failed notification channels, with a description of each.
    channels: Vec<(String, String)>,
    /// State files with problems.
    state: Vec<Finding>,
}

impl Commands {
    /// The current health report.
    pub(super) fn health_report(&self) -> HealthReport {
        report(&Looked {
            controller: self.info(),
            volumes: self.volume_infos(),
            drives: self.drive_infos(),
            tasks: self.tasks.infos(),
            spares: self.reconciler.spare_infos(),
            coverage: self.reconciler.coverage(),
            logs: self.lifecycle.log_infos(),
            channels: self.events.failing_channels(),
            state: self.events.state_findings(),
        })
    }
}

fn report(looked: &Looked) -> HealthReport {
    let mut findings: Vec<Finding> = Vec::new();
    looked.volumes.iter().for_each(|one| findings.extend(volume(looked, one)));
    let is_awaited = |drive: &&DriveInfo| looked.controller.awaited.contains(&drive.name);
    findings.extend(
        looked.drives.iter().filter(|one| !is_awaited(one)).filter_map(|one| drive(looked, one)),
    );
    findings.extend(looked.spares.iter().filter_map(spare));
    findings.extend(looked.logs.iter().filter(|log| log.in_use).flat_map(log_devices));
    findings.extend(awaited(&looked.controller));
    findings.extend(ups(&looked.controller));
    findings.extend(checks(looked));
    findings.extend(looked.channels.iter().map(channel));
    findings.extend(alarm(&looked.controller));
    findings.extend(looked.state.iter().cloned());
    findings.extend(
        looked
            .controller
            .provisional_numbers
            .iter()
            .map(|what| finding(WellBeing::Warning, "controller".to_owned(), what.clone(), None)),
    );
    findings.extend(looked.coverage.iter().filter_map(bare));
    // The sort is stable: findings of equal severity keep their order, volumes before drives.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.status));
    let status = findings.first().map_or(WellBeing::Ok, |worst| worst.status);
    HealthReport { status, sentence: sentence(looked, status, &findings), findings }
}

fn finding(status: WellBeing, subject: String, what: String, todo: Option<String>) -> Finding {
    Finding { status, subject, what, todo, causes: Vec::new() }
}

/// The summary in one sentence.
fn sentence(looked: &Looked, status: WellBeing, findings: &[Finding]) -> String {
    let is_wrong = |one: &&Finding| one.status > WellBeing::Ok && !one.is_cause_in(findings);
    let wrong = findings.iter().filter(is_wrong).count();
    let Some(worst) = findings.first().filter(|_| status > WellBeing::Ok) else {
        let (volumes, drives) = (looked.volumes.len(), looked.drives.len());
        let ready = looked.spares.iter().filter(|spare| spare.ready).count();
        let running = looked.tasks.iter().filter(|task| task.state == TaskState::Running).count();
        let work = match running {
            0 => String::new(),
            _ => format!("; {} in the background", counted(running, "task")),
        };
        return format!(
            "all is well: {}, {}, {} ready{work}",
            counted(volumes, "volume"),
            counted(drives, "drive"),
            counted(ready, "hot spare")
        );
    };
    match wrong.saturating_sub(1) {
        0 => worst.what.clone(),
        1 => format!("{}; one more thing needs attention", worst.what),
        more => format!("{}; {more} more things need attention", worst.what),
    }
}

fn volume(looked: &Looked, volume: &VolumeInfo) -> Vec<Finding> {
    let name = &volume.name;
    let subject = || format!("volume {name}");
    let mut findings = Vec::new();
    // The last reason says what to do.
    let why =
        || volume.reasons.last().cloned().or_else(|| Some(format!("softroc volume show {name}")));
    match volume.state {
        VolumeState::Optimal => findings.extend(resync(volume)),
        VolumeState::Degraded => findings.push(degraded(looked, volume)),
        VolumeState::Offline => {
            let what = format!("volume '{name}' is offline: its data cannot be reached");
            findings.push(finding(WellBeing::Critical, subject(), what, why()));
        }
        VolumeState::Missing => {
            let what = format!("volume '{name}' is missing: none of its drives is present");
            findings.push(finding(WellBeing::Critical, subject(), what, why()));
        }
    }
    if volume.state != VolumeState::Optimal {
        let lacks = volume.drives.iter().filter(|drive| !serves(drive.state));
        let causes: Vec<String> = lacks.map(|drive| format!("drive {}", drive.name)).collect();
        findings.iter_mut().for_each(|finding| finding.causes.clone_from(&causes));
    }
    if volume.lost_bytes > 0 {
        let what = format!(
            "{} of volume '{name}' are lost: no drive can read them, and hosts get an I/O error \
                there",
            ByteCount(volume.lost_bytes)
        );
        let todo =
            "restore these blocks from a backup; a write makes them readable again".to_owned();
        findings.push(finding(WellBeing::Critical, subject(), what, Some(todo)));
    }
    if volume.cache.pinned_bytes > 0 {
        let what = format!(
            "{} of acknowledged writes of volume '{name}' are only in the cache, and cannot be \
            written to its drives",
            ByteCount(volume.cache.pinned_bytes)
        );
        findings.push(finding(
            WellBeing::Critical,
            subject(),
            what,
            Some(format!("softroc volume flush {name}")),
        ));
    }
    if volume.state.serves() {
        findings.extend(slower(volume));
    }
    findings
}

/// A volume that serves without all of its drives.
fn degraded(looked: &Looked, volume: &VolumeInfo) -> Finding {
    let name = &volume.name;
    let out = volume.drives.iter().filter(|drive| !serves(drive.state)).count();
    let (status, survives) = match volume.may_lose {
        0 => (WellBeing::Critical, "the next drive failure can lose data".to_owned()),
        more => (WellBeing::Warning, format!("{} more may fail", counted(more, "drive"))),
    };
    let is_work = |task: &&TaskInfo| {
        let fills = matches!(task.kind, TaskKind::Rebuild | TaskKind::Relocate | TaskKind::Restore);
        let of_this = task.volume.as_ref().is_some_and(|of| volume.array_volumes.contains(of));
        fills && of_this && !task.state.is_over()
    };
    let work = looked.tasks.iter().find(is_work);
    let subject = format!("volume {name}");
    let lacks = match out {
        0 => "has less redundancy until its rebuild is complete".to_owned(),
        out => format!("lacks {} of {}", out, counted(volume.drives.len(), "drive")),
    };
    let what = format!("volume '{name}' is degraded: it {lacks}, and {survives}");
    match work {
        Some(task) => {
            let what = format!("{what}; its {}", progress(task));
            finding(status, subject, what, Some(format!("wait: softroc task follow {}", task.task)))
        }
        None => {
            let todo = volume.reasons.last().cloned();
            finding(
                status,
                subject,
                what,
                todo.or_else(|| Some(format!("softroc volume show {name}"))),
            )
        }
    }
}

/// The progress of a task: a clause.
fn progress(task: &TaskInfo) -> String {
    let state = match task.state {
        TaskState::Running => "is at".to_owned(),
        state => format!("is {state} at"),
    };
    let left =
        task.eta_s.map_or_else(String::new, |left| format!(", about {} left", duration(left)));
    format!("{} {state} {} %{left}", task.kind, task.percent)
}

/// A remaining time, in seconds.
fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn resync(volume: &VolumeInfo) -> Option<Finding> {
    let resync = volume.resync?;
    let name = &volume.name;
    let what = format!("volume '{name}' is being resynced, {} % is complete", resync.percent);
    let subject = format!("volume {name}");
    Some(match volume.may_lose {
        0 => {
            let what = format!("{what}; until the resync is complete, a drive failure loses data");
            finding(WellBeing::Warning, subject, what, Some("wait: softroc task list".to_owned()))
        }
        _ => finding(WellBeing::Ok, subject, what, None),
    })
}

/// A volume whose effective write mode differs from the configured one.
fn slower(volume: &VolumeInfo) -> Option<Finding> {
    let mode = volume.policies.iter().find(|policy| policy.name == "write-mode")?;
    let name = &volume.name;
    (mode.configured != mode.current).then(|| {
        let what = format!(
            "volume '{name}' is configured for {} and is {}: {}",
            mode.configured, mode.current, mode.reason
        );
        let todo = Some(format!("softroc explain cache --volume {name}"));
        finding(WellBeing::Warning, format!("volume {name}"), what, todo)
    })
}

fn serves(state: DriveState) -> bool {
    matches!(state, DriveState::Online | DriveState::Rebuilding | DriveState::Filling)
}

fn is_suspended_by_operator(drive: &DriveInfo) -> bool {
    drive.suspension.as_ref().is_some_and(|suspension| suspension.by == SuspendedBy::Operator)
}

fn drive(looked: &Looked, drive: &DriveInfo) -> Option<Finding> {
    let (name, state) = (&drive.name, drive.state);
    let is_on =
        |volume: &&VolumeInfo| drive.volumes.contains(&volume.name) && !volume.state.serves();
    let stopped = looked.volumes.iter().find(is_on);
    let slot =
        drive.slot.zip(drive.volumes.first()).map(|(slot, volume)| format!("{volume}:{slot}"));
    let place = slot.as_ref().map_or_else(String::new, |slot| format!(" (slot {slot})"));
    let replace = |of: &str| format!("softroc drive replace {of} --with NEW-DRIVE");
    let todo = match state {
        DriveState::Online
        | DriveState::Unused
        | DriveState::Rebuilding
        | DriveState::Filling
        | DriveState::Spare
        | DriveState::Log => {
            let warning = drive.health.as_ref()?.warning.as_ref()?;
            let what = format!("drive {name}{place} {warning}");
            return Some(finding(
                WellBeing::Warning,
                format!("drive {name}"),
                what,
                Some(replace(name)),
            ));
        }
        DriveState::Failed if slot.is_none() => format!(
            "remove it and run 'softroc drive forget {name}'; after a repair, run 'softroc drive \
            clear-failed {name}'"
        ),
        // The drives of a stopped volume need no action other than its start.
        state if state != DriveState::Suspended && stopped.is_some() => {
            format!("softroc volume show {}", stopped.map_or("", |volume| volume.name.as_str()))
        }
        DriveState::Failed | DriveState::Missing => replace(slot.as_deref().unwrap_or(name)),
        DriveState::Offline | DriveState::Stale => format!("softroc drive online {name}"),
        DriveState::Suspended if is_suspended_by_operator(drive) => {
            format!("softroc drive resume {name}")
        }
        DriveState::Suspended => format!("softroc drive show {name}"),
        DriveState::Refused => format!("softroc drive show {name}"),
        DriveState::Foreign => "softroc foreign list".to_owned(),
    };
    let what = match &drive.reason {
        Some(reason) => format!("drive {name}{place} is {state}: {reason}"),
        None => format!("drive {name}{place} is {state}"),
    };
    // A drive in use by another system is healthy, until an operator wants it.
    let status = if state == DriveState::Foreign { WellBeing::Ok } else { WellBeing::Warning };
    Some(finding(status, format!("drive {name}"), what, Some(todo)))
}

fn spare(spare: &SpareInfo) -> Option<Finding> {
    let (name, subject) = (&spare.drive, format!("spare {}", spare.drive));
    (!spare.ready).then(|| {
        let why = spare.reason.clone().unwrap_or_else(|| "it does not respond".to_owned());
        let what = format!("hot spare {name} is not ready: {why}");
        finding(WellBeing::Warning, subject, what, Some("softroc spare list".to_owned()))
    })
}

/// An array without a spare, which may be intended.
fn bare(array: &CoverageInfo) -> Option<Finding> {
    let volumes = array.volumes.join(", ");
    array.covered_by.is_empty().then(|| {
        let what = format!("no hot spare covers {volumes}");
        let todo = Some("softroc spare add DRIVE".to_owned());
        finding(WellBeing::Ok, format!("volume {}", array.volumes.join(" ")), what, todo)
    })
}

fn log_devices(log: &LogInfo) -> Vec<Finding> {
    let out = log.devices.iter().filter(|device| device.state != LogDeviceState::Online);
    let told = |device: &crate::interface::LogDeviceInfo| {
        let why = device.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let what = format!("log device {} is {}{why}", device.drive, device.state);
        let todo = Some("softroc log list".to_owned());
        finding(WellBeing::Warning, format!("drive {}", device.drive), what, todo)
    };
    out.map(told).collect()
}

/// Drives that have not responded since the start.
fn awaited(controller: &ControllerInfo) -> Option<Finding> {
    let drives = &controller.awaited;
    let what = format!(
        "the controller is starting: it waits for {}: {}",
        counted(drives.len(), "drive"),
        drives.join(", ")
    );
    (!drives.is_empty()).then(|| finding(WellBeing::Warning, "controller".to_owned(), what, None))
}

fn ups(controller: &ControllerInfo) -> Option<Finding> {
    let ups = controller.ups.as_ref()?;
    let status = match ups.state {
        ProtectionState::Optimal | ProtectionState::Charging => return None,
        ProtectionState::Degraded | ProtectionState::Missing => WellBeing::Warning,
        ProtectionState::Failed => WellBeing::Critical,
    };
    let what = format!("UPS {} is {}: {}", ups.name, ups.state, ups.reason);
    Some(finding(status, "ups".to_owned(), what, None))
}

/// The unrepaired findings of the latest check of each volume.
fn checks(looked: &Looked) -> Vec<Finding> {
    let newest = |volume: &VolumeInfo| {
        let is_of = |task: &&TaskInfo| {
            matches!(task.kind, TaskKind::Check | TaskKind::Repair)
                && task.state == TaskState::Done
                && task.volume.as_ref() == Some(&volume.name)
        };
        let task = looked.tasks.iter().filter(is_of).max_by_key(|task| task.task)?;
        let left = task.found.mismatches;
        (task.kind == TaskKind::Check && left > 0).then(|| {
            let name = &volume.name;
            let what = format!(
                "the last check of volume '{name}' found {} whose redundancy does not agree with \
                    the data",
                counted(left, "stripe")
            );
            let todo = Some(format!("softroc task start check {name} --repair"));
            finding(WellBeing::Warning, format!("volume {name}"), what, todo)
        })
    };
    looked.volumes.iter().filter_map(newest).collect()
}

fn channel((name, what): &(String, String)) -> Finding {
    let todo = Some(format!("softroc notify test {name}"));
    finding(WellBeing::Warning, format!("channel {name}"), what.clone(), todo)
}

fn alarm(controller: &ControllerInfo) -> Option<Finding> {
    let because = controller.alarm.because.as_ref()?;
    let todo = Some("softroc alarm silence".to_owned());
    Some(finding(WellBeing::Ok, "alarm".to_owned(), format!("the alarm sounds: {because}"), todo))
}
