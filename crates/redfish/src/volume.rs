//! The volume resource.

use crate::ids::{self, STORAGE};
use crate::json::{self, link, links, put_links};
use crate::{World, state};
use controller::{Policy, SpareKind, TaskKind, VolumeInfo};
use serde_json::{Value, json};

/// The Redfish type of a level. RAID 5EE has no type: it is reported as RAID 5, with the level in
/// the description.
pub(crate) fn raid_type(level: &str, copies: u16) -> &'static str {
    match level {
        "jbod" => "None",
        "raid0" => "RAID0",
        "raid00" => "RAID00",
        "raid1" if copies == 3 => "RAID1Triple",
        "raid1" => "RAID1",
        "raid1e" => "RAID1E",
        "raid10" if copies == 3 => "RAID10Triple",
        "raid10" => "RAID10",
        "raid4" => "RAID4",
        "raid5" | "raid5ee" => "RAID5",
        "raid50" => "RAID50",
        "raid6" => "RAID6",
        "raid60" => "RAID60",
        _ => "None",
    }
}

/// The level of a Redfish type.
pub(crate) fn level(raid_type: &str) -> Option<&'static str> {
    Some(match raid_type {
        "None" => "jbod",
        "RAID0" => "raid0",
        "RAID00" => "raid00",
        "RAID1" | "RAID1Triple" => "raid1",
        "RAID1E" => "raid1e",
        "RAID10" | "RAID10Triple" => "raid10",
        "RAID4" => "raid4",
        "RAID5" => "raid5",
        "RAID50" => "raid50",
        "RAID6" => "raid6",
        "RAID60" => "raid60",
        _ => return None,
    })
}

fn policy<'v>(volume: &'v VolumeInfo, name: &str) -> Option<&'v Policy> {
    volume.policies.iter().find(|policy| policy.name == name)
}

/// The policy of acknowledgements. A cache in memory is lost in a power cut, so it is never
/// `Protected`.
fn write_cache_policy(mode: &str) -> &'static str {
    match mode {
        "write-through" => "WriteThrough",
        "logged-write-back" => "ProtectedWriteBack",
        _ => "UnprotectedWriteBack",
    }
}

fn write_cache_state(policy: &Policy) -> &'static str {
    match (policy.configured.as_str(), policy.current.as_str()) {
        (configured, current) if configured != current => "Degraded",
        (_, "write-through" | "logged-write-back") => "Protected",
        _ => "Unprotected",
    }
}

/// The location of the journal, if there is one.
fn write_hole(world: &World, volume: &VolumeInfo) -> Option<(&'static str, Vec<Value>)> {
    let policy = policy(volume, "write-hole")?;
    if policy.configured == "resync" {
        return Some(("Off", Vec::new()));
    }
    let log = world
        .logs
        .iter()
        .find(|log| log.in_use && log.places.iter().any(|place| place.volume == volume.name));
    Some(match log {
        Some(log) => {
            ("Journaling", links(log.devices.iter().map(|device| ids::drive_uri(&device.drive))))
        }
        None => ("DistributedLog", Vec::new()),
    })
}

/// The Redfish operation of a task.
fn operation(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Rebuild | TaskKind::Relocate => "Rebuild",
        TaskKind::Copyback | TaskKind::Replace | TaskKind::Restore => "Rebuild",
        TaskKind::Init => "Initialize",
        TaskKind::Reshape => "ChangeRAIDType",
        TaskKind::Resync | TaskKind::Check | TaskKind::Repair | TaskKind::Patrol => {
            "CheckConsistency"
        }
    }
}

fn operations(world: &World, volume: &VolumeInfo) -> Value {
    let of = |task: &&controller::TaskInfo| {
        !task.state.is_over()
            && task.volume.as_ref().is_some_and(|name| volume.array_volumes.contains(name))
    };
    let one = |task: &controller::TaskInfo| {
        json!({
            "Operation": operation(task.kind),
            "PercentageComplete": task.percent,
        })
    };
    world.tasks.iter().filter(of).map(one).collect()
}

fn at(world: &World, volume: &VolumeInfo) -> Value {
    let mut at = json!({ "OwningStorageResource": link(STORAGE) });
    put_links(
        &mut at,
        "Drives",
        links(volume.drives.iter().map(|drive| ids::drive_uri(&drive.name))),
    );
    let dedicated = world.spares.iter().filter(|spare| {
        spare.kind == SpareKind::Dedicated
            && spare.dedicated_to.iter().any(|name| volume.array_volumes.contains(name))
    });
    put_links(
        &mut at,
        "DedicatedSpareDrives",
        links(dedicated.map(|spare| ids::drive_uri(&spare.drive))),
    );
    put_links(&mut at, "Controllers", vec![crate::system::controller_link()]);
    at
}

/// The resource.
pub(crate) fn resource(world: &World, volume: &VolumeInfo) -> Value {
    let uri = ids::volume_uri(volume);
    let layout = volume.arrangement.as_deref().map(|name| format!(", {name}")).unwrap_or_default();
    let mut body = json::resource(
        "Volume",
        &uri,
        &volume.uuid,
        &volume.name,
        json!({
            "Description": format!("{} of {} drives{layout}", volume.level, volume.drives.len()),
            "DisplayName": volume.name,
            "Status": state::volume_status(volume),
            "RAIDType": raid_type(&volume.level, volume.copies),
            "CapacityBytes": volume.capacity_bytes,
            "BlockSizeBytes": volume.sector_bytes,
            "StripSizeBytes": volume.strip_bytes,
            "MediaSpanCount": volume.spans,
            "Encrypted": false,
            "VolumeUsage": "Data",
            "Identifiers": [{ "DurableName": volume.uuid, "DurableNameFormat": "UUID" }],
            "Operations": operations(world, volume),
            "Links": at(world, volume),
            "Actions": {
                "#Volume.Initialize": {
                    "target": format!("{uri}/Actions/Volume.Initialize"),
                    "InitializeType@Redfish.AllowableValues": ["Fast", "Slow"],
                },
                "#Volume.CheckConsistency": {
                    "target": format!("{uri}/Actions/Volume.CheckConsistency"),
                },
                "#Volume.ForceEnable": { "target": format!("{uri}/Actions/Volume.ForceEnable") },
            },
        }),
    );
    if let Some(mode) = policy(volume, "write-mode") {
        body["WriteCachePolicy"] = write_cache_policy(&mode.configured).into();
        body["WriteCacheState"] = write_cache_state(mode).into();
    }
    let reads = policy(volume, "read-mode").map(|mode| mode.configured.as_str());
    body["ReadCachePolicy"] =
        if reads == Some("read-ahead") { "AdaptiveReadAhead" } else { "Off" }.into();
    if let Some((policy, journals)) = write_hole(world, volume) {
        body["WriteHoleProtectionPolicy"] = policy.into();
        if let Some(first) = journals.into_iter().next() {
            body["Links"]["JournalingMedia"] = first;
        }
    }
    body
}
