//! Storage: the subsystem, its controller, its volumes and drives.

use crate::World;
use crate::ids::{self, CHASSIS, CONTROLLER, STORAGE, SYSTEM};
use crate::json::{collection, link, links, put_links, resource};
use crate::{state, volume};
use serde_json::{Value, json};

/// Addresses below `Storage`.
pub(crate) fn find(world: &World, segments: &[&str]) -> Option<Value> {
    match segments {
        [] => Some(collection(
            "StorageCollection",
            &format!("{SYSTEM}/Storage"),
            "Storage",
            [STORAGE],
        )),
        ["softroc"] => Some(storage(world)),
        ["softroc", "Controllers"] => {
            let uri = format!("{STORAGE}/Controllers");
            Some(collection("StorageControllerCollection", &uri, "Controllers", [CONTROLLER]))
        }
        ["softroc", "Controllers", "0"] => Some(controller(world)),
        ["softroc", "Volumes"] => Some(volumes(world)),
        ["softroc", "Volumes", id] => {
            ids::volume(world, id).map(|found| volume::resource(world, found))
        }
        _ => None,
    }
}

fn volumes(world: &World) -> Value {
    let uri = format!("{STORAGE}/Volumes");
    let mut body =
        collection("VolumeCollection", &uri, "Volumes", world.volumes.iter().map(ids::volume_uri));
    body["@Redfish.OperationApplyTimeSupport"] = json!({
        "@odata.type": "#Settings.v1_4_0.OperationApplyTimeSupport",
        "SupportedValues": ["Immediate"],
    });
    body
}

fn storage(world: &World) -> Value {
    let volumes = state::worst(world.volumes.iter().map(state::of_volume));
    let all = state::worst(world.drives.iter().map(state::of_drive)).max(volumes);
    let mut body = resource(
        "Storage",
        STORAGE,
        "softroc",
        "SoftROC",
        json!({
            "Description": "The RAID controller in software",
            "Status": { "State": "Enabled", "Health": volumes.name(), "HealthRollup": all.name() },
            "Controllers": link(format!("{STORAGE}/Controllers")),
            "Volumes": link(format!("{STORAGE}/Volumes")),
        }),
    );
    put_links(
        &mut body,
        "Drives",
        links(world.drives.iter().map(|drive| ids::drive_uri(&drive.name))),
    );
    let mut at = json!({});
    put_links(&mut at, "Enclosures", vec![link(CHASSIS)]);
    body["Links"] = at;
    body
}

/// The levels that Redfish has a type for.
pub(crate) fn raid_types(world: &World) -> Vec<&'static str> {
    let mut types: Vec<&'static str> =
        world.info.levels.iter().map(|level| volume::raid_type(level, 2)).collect();
    types.dedup();
    let mut seen = Vec::new();
    types.retain(|name| {
        !seen.contains(name) && {
            seen.push(*name);
            true
        }
    });
    types
}

fn controller(world: &World) -> Value {
    resource(
        "StorageController",
        CONTROLLER,
        "0",
        "SoftROC",
        json!({
            "Manufacturer": "SoftROC",
            "Model": "SoftROC",
            "FirmwareVersion": world.info.version,
            "Status": { "State": "Enabled", "Health": "OK" },
            "SupportedRAIDTypes": raid_types(world),
            // NBD has no type of its own.
            "SupportedControllerProtocols": ["OEM"],
        }),
    )
}
