//! Volumes as node_exporter tells of arrays of Linux md, for rules and panels that are made for these.
//!
//! The label `device` is `md_` and the volume's name: rules and panels often take `md.*` alone. Volumes without redundancy are
//! told of, too, as those of md are.

use super::text::{Kind, Page};
use super::{Named, column, named};
use controller::{DriveState, MetricsInfo, TaskInfo, TaskKind, TaskState, VolumeMetrics};

/// Blocks of node_md are of a KiB.
const BLOCK: u64 = 1024;

pub(super) fn write(page: &mut Page, metrics: &MetricsInfo) {
    let devices: Vec<(String, &VolumeMetrics)> =
        metrics.volumes.iter().map(|volume| (format!("md_{}", volume.volume.name), volume)).collect();
    let rows = named(&devices, "device", |(device, _)| device);
    let help = "Whether the volume does that: states of arrays of Linux md.";
    let mut family = page.family("node_md_state", Kind::Gauge, help);
    let all = ["active", "inactive", "recovering", "resync", "check"];
    for Named { labels, what: (_, volume) } in &rows {
        family.states(labels, "state", all, activity(metrics, volume));
    }
    let help = "Drives of the volume by what they do: those that serve and are current, those that are out, spares for it.";
    let mut family = page.family("node_md_disks", Kind::Gauge, help);
    for Named { labels, what: (_, volume) } in &rows {
        let (active, failed) = (count(volume, is_active), count(volume, is_failed));
        for (state, count) in [("active", active), ("failed", failed), ("spare", spares(metrics, volume))] {
            family.series(&labels.clone().with("state", state), count);
        }
    }
    let mut gauge = |name, help: &str, value: fn(&VolumeMetrics) -> u64| {
        column(page, name, Kind::Gauge, help, &rows, |(_, volume)| Some(value(volume)));
    };
    let slots = |volume: &VolumeMetrics| volume.volume.drives.len() as u64;
    gauge("node_md_disks_required", "Drives that the volume has when none is out.", slots);
    gauge("node_md_raid_disks", "Drives that the volume has when none is out.", slots);
    gauge("node_md_degraded", "Drives that do not serve or are not current.", |volume| {
        (volume.volume.drives.len() - count(volume, is_active)) as u64
    });
    let blocks = |volume: &VolumeMetrics| volume.volume.capacity_bytes / BLOCK;
    gauge("node_md_blocks", "The capacity of the volume, in KiB.", blocks);
    let help = "The blocks whose redundancy agrees with their data, in KiB.";
    gauge("node_md_blocks_synced", help, |volume| {
        let blocks = volume.volume.capacity_bytes / BLOCK;
        let Some(resync) = volume.volume.resync else { return blocks };
        let left = u128::from(blocks) * u128::from(resync.regions_left) / u128::from(resync.regions.max(1));
        blocks.saturating_sub(left as u64)
    });
}

/// The state of md that comes nearest.
fn activity(metrics: &MetricsInfo, volume: &VolumeMetrics) -> &'static str {
    if !volume.volume.state.serves() {
        return "inactive";
    }
    let of_it = |task: &&TaskInfo| {
        let volumes = &volume.volume.array_volumes;
        task.state == TaskState::Running && task.volume.as_ref().is_some_and(|name| volumes.contains(name))
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

/// One that is being made current is neither active nor failed.
fn is_failed(state: DriveState) -> bool {
    !matches!(state, DriveState::Online | DriveState::Rebuilding | DriveState::Filling)
}

fn spares(metrics: &MetricsInfo, volume: &VolumeMetrics) -> usize {
    let covers = |covered: &&controller::SpareInfo| covered.covers.contains(&volume.volume.name);
    metrics.spares.iter().filter(covers).count()
}
