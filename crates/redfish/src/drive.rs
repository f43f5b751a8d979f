//! The drive resource.

use crate::ids::{self, CHASSIS, STORAGE};
use crate::json::{self, link, links, put_links};
use crate::{World, state};
use controller::{DriveInfo, SpareInfo, SpareKind, TaskInfo};
use serde_json::{Value, json};

fn spare<'w>(world: &'w World, drive: &DriveInfo) -> Option<&'w SpareInfo> {
    world.spares.iter().find(|spare| spare.drive == drive.name)
}

fn hotspare_type(spare: Option<&SpareInfo>) -> &'static str {
    match spare.map(|spare| spare.kind) {
        None => "None",
        Some(SpareKind::Global) => "Global",
        Some(SpareKind::Dedicated) => "Dedicated",
        Some(SpareKind::Enclosure) => "Chassis",
    }
}

/// The protocol of a drive, if its name shows it.
fn protocol(drive: &DriveInfo) -> Option<&'static str> {
    let is = |start: &str| drive.name.starts_with(start);
    if is("/dev/nvme") || is("/dev/disk/by-id/nvme") {
        return Some("NVMe");
    }
    (is("nbd:") || is("nbd+unix:")).then_some("OEM")
}

fn operations(world: &World, drive: &DriveInfo) -> Value {
    let of = |task: &&TaskInfo| !task.state.is_over() && task.drive.as_ref() == Some(&drive.name);
    let one = |task: &TaskInfo| {
        let is_patrol = task.kind == controller::TaskKind::Patrol;
        json!({
            "Operation": if is_patrol { "CheckConsistency" } else { "Rebuild" },
            "PercentageComplete": task.percent,
            "AssociatedTask": link(ids::task_uri(task.task)),
        })
    };
    world.tasks.iter().filter(of).map(one).collect()
}

fn at(world: &World, drive: &DriveInfo) -> Value {
    let mut at = json!({ "Chassis": link(CHASSIS), "Storage": link(STORAGE) });
    let volumes = world.volumes.iter().filter(|volume| drive.volumes.contains(&volume.name));
    put_links(&mut at, "Volumes", links(volumes.map(ids::volume_uri)));
    at
}

/// The resource.
pub(crate) fn resource(world: &World, drive: &DriveInfo) -> Value {
    let spare = spare(world, drive);
    let health = drive.health.as_deref();
    let wear = health.and_then(|health| health.wear_percent);
    let revertible =
        |spare: &SpareInfo| if spare.revertible { "Revertible" } else { "NonRevertible" };
    let mut body = json::resource(
        "Drive",
        &ids::drive_uri(&drive.name),
        &ids::of_drive(&drive.name),
        &drive.name,
        json!({
            "Description": drive.kind.as_ref().map(|kind| format!("{kind}, {}", drive.state)),
            "Status": state::drive_status(drive),
            "CapacityBytes": drive.size_bytes,
            "BlockSizeBytes": drive.logical_sector_bytes,
            "MediaType": if drive.rotational { "HDD" } else { "SSD" },
            "Protocol": protocol(drive),
            "Model": drive.model,
            "SerialNumber": drive.serial,
            "FirmwareVersion": drive.firmware,
            "Revision": drive.firmware,
            "FailurePredicted": health.and_then(|health| health.predicted_failure),
            "PredictedMediaLifeLeftPercent": wear.map(|percent| 100u8.saturating_sub(percent)),
            "HotspareType": hotspare_type(spare),
            "HotspareReplacementMode": spare.map(revertible),
            "Operations": operations(world, drive),
            "Links": at(world, drive),
        }),
    );
    if let Some(uuid) = &drive.uuid {
        body["Identifiers"] = json!([{ "DurableName": uuid, "DurableNameFormat": "UUID" }]);
    }
    if let Some(bay) = &drive.bay {
        let enclosure =
            drive.enclosure.as_deref().map(|name| format!("{name}:")).unwrap_or_default();
        let label = format!("{enclosure}{bay}");
        body["PhysicalLocation"] =
            json!({ "PartLocation": { "ServiceLabel": label, "LocationType": "Bay" } });
    }
    body
}
