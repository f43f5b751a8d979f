//! Volumes in the format of node_exporter for Linux md arrays, for existing rules and panels.
//!
//! The label `device` is `md_` and the volume's name: rules and panels often select `md.*`. Volumes
//! without redundancy are included, as for md.

use super::text::{Kind, Page};
use super::{Named, column, named};
use controller::{DriveState, MetricsInfo, TaskInfo, TaskKind, TaskState, VolumeMetrics};

/// Blocks of node_md have 1 KiB.
const BLOCK: u64 = 1024;

pub(super) fn write(page: &mut Page, metrics: &MetricsInfo) {
    let devices: Vec<(String, &VolumeMetrics)> = metrics
        .volumes
        .iter()
        .map(|volume| (format!("md_{}", volume.volume.name), volume))
        .collect();
    let rows = named(&devices, "device", |(device, _)| device);
    let help = "Whether the volume is in that state of a Linux md array.";
    let mut family = page.family("node_md_state", Kind::Gauge, help);
    let all = ["active", "inactive", "recovering", "resync", "check"];
    for Named { labels, what: (_, volume) } in &rows {
        family.states(labels, "state", all, activity(metrics, volume));
    }
    let help =
        "Drives of the volume by state: active and current, failed or missing, spares for it.";
    let mut family = page.family("node_md_disks", Kind::Gauge, help);
    for Named { labels, what: (_, volume) } in &rows {
        let (active, failed) = (count(volume, is_active), count(volume, is_failed));
        for (state, count) in
            [("active", active), ("failed", failed), ("spare", spares(metrics, volume))]
        {
            family.series(&labels.clone().with("state", state), count);
        }
    }
    let mut gauge = |name, help: &str, value: fn(&VolumeMetrics) -> u64| {
        column(page, name, Kind::Gauge, help, &rows, |(_, volume)| Some(value(volume)));
    };
    let slots = |volume: &VolumeMetrics| volume.volume.drives.len() as u64;
    gauge("node_md_disks_required", "Drives of the volume when all are present.", slots);
    gauge("node_md_raid_disks", "Drives of the volume when all are present.", slots);
    gauge("node_md_degraded", "Drives that are failed, missing or not current.", |volume| {
        (volume.volume.drives.len() - count(volume, is_active)) as u64
    });
    let blocks = |volume: &VolumeMetrics| volume.volume.capacity_bytes / BLOCK;
    gauge("node_md_blocks", "The capacity of the volume, in KiB.", blocks);
    let help = "Blocks with consistent redundancy, in KiB.";
    gauge("node_md_blocks_synced", help, |volume| {
        let blocks = volume.volume.capacity_bytes / BLOCK;
        let Some(resync) = volume.volume.resync else { return blocks };
        let left = u128::from(blocks) * u128::from(resync.regions_left)
            / u128::from(resync.regions.max(1));
        blocks.saturating_sub(left as u64)
    });
}

/// The closest state of md.
fn activity(metrics: &MetricsInfo, volume: &VolumeMetrics) -> &'static str {
    if !volume.volume.state.serves() {
        return "inactive";
    }
    let of_it = |task: &&TaskInfo| {
        let volumes = &volume.volume.array_volumes;
        task.state == TaskState::Running
            && task.volume.as_ref().is_some_and(|name| volumes.contains(name))
    };
    let mut state = "active";
    for task in metrics.tasks.iter().filter(of_it) {
        match task.kind {
            TaskKind::Rebuild
            | TaskKind::Copyback
            | TaskKind::Replace
            | TaskKind::Relocate
            | TaskKind::Restore => return "recovering",
            TaskKind::Reshape => return "reshape",
            TaskKind::Resync => state = "resync",
            TaskKind::Check | TaskKind::Repair if state == "active" => state = "check",
            TaskKind::Check | TaskKind::Repair | TaskKind::Patrol | TaskKind::Init => {}
        }
    }
    state
}

fn count(volume: &VolumeMetrics, which: fn(DriveState) -> bool) -> usize {
    volume.volume.drives.iter().filter(|drive| which(drive.state)).count()
}

fn is_active(state: DriveState) -> bool {
    state == DriveState::Online
}

/// A drive under rebuild is neither active nor failed.
fn is_failed(state: DriveState) -> bool {
    !matches!(state, DriveState::Online | DriveState::Rebuilding | DriveState::Filling)
}

fn spares(metrics: &MetricsInfo, volume: &VolumeMetrics) -> usize {
    let covers = |covered: &&controller::SpareInfo| covered.covers.contains(&volume.volume.name);
    metrics.spares.iter().filter(covers).count()
}
