//! The machine: the system, its chassis, and the manager (SoftROC).

use crate::World;
use crate::ids::{self, CHASSIS, CONTROLLER, MANAGER, ROOT, STORAGE, SYSTEM};
use crate::json::{collection, link, links, put_links, resource};
use crate::state::{self, Health};
use serde_json::{Value, json};
use units::utc;

/// Addresses below `Systems`, without storage.
pub(crate) fn systems(world: &World, segments: &[&str]) -> Option<Value> {
    match segments {
        [] => Some(collection(
            "ComputerSystemCollection",
            &format!("{ROOT}/Systems"),
            "Systems",
            [SYSTEM],
        )),
        ["host"] => Some(system(world)),
        ["host", "Storage", rest @ ..] => crate::storage::find(world, rest),
        _ => None,
    }
}

/// The overall health.
fn rollup(world: &World) -> Health {
    let volumes = state::worst(world.volumes.iter().map(state::of_volume));
    state::worst(world.drives.iter().map(state::of_drive)).max(volumes)
}

fn system(world: &World) -> Value {
    let mut body = resource(
        "ComputerSystem",
        SYSTEM,
        "host",
        &world.host,
        json!({
            "SystemType": "Physical",
            "HostName": world.host,
            "PowerState": "On",
            "Status": { "State": "Enabled", "Health": "OK", "HealthRollup": rollup(world).name() },
            "Storage": link(format!("{SYSTEM}/Storage")),
        }),
    );
    let mut at = json!({});
    put_links(&mut at, "Chassis", vec![link(CHASSIS)]);
    put_links(&mut at, "ManagedBy", vec![link(MANAGER)]);
    body["Links"] = at;
    body
}

/// Addresses below `Chassis`.
pub(crate) fn chassis(world: &World, segments: &[&str]) -> Option<Value> {
    match segments {
        [] => {
            Some(collection("ChassisCollection", &format!("{ROOT}/Chassis"), "Chassis", [CHASSIS]))
        }
        ["host"] => Some(one_chassis(world)),
        ["host", "Drives"] => {
            let drives = world.drives.iter().map(|drive| ids::drive_uri(&drive.name));
            Some(collection("DriveCollection", &format!("{CHASSIS}/Drives"), "Drives", drives))
        }
        ["host", "Drives", id] => {
            ids::drive(world, id).map(|found| crate::drive::resource(world, found))
        }
        _ => None,
    }
}

fn one_chassis(world: &World) -> Value {
    let mut body = resource(
        "Chassis",
        CHASSIS,
        "host",
        &world.host,
        json!({
            "ChassisType": "Other",
            "PowerState": "On",
            "Status": { "State": "Enabled", "Health": "OK", "HealthRollup": rollup(world).name() },
            "Drives": link(format!("{CHASSIS}/Drives")),
        }),
    );
    let mut at = json!({});
    put_links(&mut at, "ComputerSystems", vec![link(SYSTEM)]);
    put_links(&mut at, "ManagedBy", vec![link(MANAGER)]);
    put_links(&mut at, "Storage", vec![link(STORAGE)]);
    put_links(
        &mut at,
        "Drives",
        links(world.drives.iter().map(|drive| ids::drive_uri(&drive.name))),
    );
    body["Links"] = at;
    body
}

/// Addresses below `Managers`.
pub(crate) fn managers(world: &World, segments: &[&str]) -> Option<Value> {
    match segments {
        [] => Some(collection(
            "ManagerCollection",
            &format!("{ROOT}/Managers"),
            "Managers",
            [MANAGER],
        )),
        ["softroc"] => Some(manager(world)),
        ["softroc", "NetworkProtocol"] => Some(protocols(world)),
        ["softroc", "LogServices", rest @ ..] => crate::log::find(world, rest),
        _ => None,
    }
}

fn manager(world: &World) -> Value {
    let mut body = resource(
        "Manager",
        MANAGER,
        "softroc",
        "SoftROC",
        json!({
            "ManagerType": "Service",
            "Description": "The daemon of SoftROC on this machine",
            "FirmwareVersion": world.info.version,
            "Manufacturer": "SoftROC",
            "Model": "SoftROC",
            "UUID": world.uuid,
            "ServiceEntryPointUUID": world.uuid,
            "DateTime": utc(world.now_unix_s),
            "DateTimeLocalOffset": "+00:00",
            "LastResetTime": utc(world.info.started_unix_s),
            "PowerState": "On",
            "Status": { "State": "Enabled", "Health": "OK" },
            "NetworkProtocol": link(format!("{MANAGER}/NetworkProtocol")),
            "LogServices": link(format!("{MANAGER}/LogServices")),
        }),
    );
    let mut at = json!({ "ManagerInChassis": link(CHASSIS) });
    put_links(&mut at, "ManagerForServers", vec![link(SYSTEM)]);
    put_links(&mut at, "ManagerForChassis", vec![link(CHASSIS)]);
    body["Links"] = at;
    body
}

fn protocols(world: &World) -> Value {
    let uri = format!("{MANAGER}/NetworkProtocol");
    let mut https = json!({ "ProtocolEnabled": world.port.is_some() });
    if let Some(port) = world.port {
        https["Port"] = port.into();
    }
    resource(
        "ManagerNetworkProtocol",
        &uri,
        "NetworkProtocol",
        "Network protocols",
        json!({
            "HostName": world.host,
            "HTTP": { "ProtocolEnabled": false },
            "HTTPS": https,
            "Status": { "State": "Enabled", "Health": "OK" },
        }),
    )
}

/// The link to the storage controller, shared by its resources.
pub(crate) fn controller_link() -> Value {
    link(CONTROLLER)
}
