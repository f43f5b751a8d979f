//! Volumes: create, change, delete, and actions.

use super::body::Properties;
use super::{Change, Operation, Read, ResponseKind, change, missing, told};
use crate::answer::{Answer, Request, Response};
use crate::message::Message;
use crate::{World, ids, volume};
use controller::{
    AddSpare, Command, CreateVolume, ReadMode, SetPolicy, SpareKind, StartTask, Startable,
    VolumeInfo, WriteHole, WriteMode,
};
use serde_json::Value;

/// Read-only properties of volumes.
const READABLE: &[&str] = &[
    "Id",
    "Description",
    "Status",
    "RAIDType",
    "CapacityBytes",
    "BlockSizeBytes",
    "StripSizeBytes",
    "MediaSpanCount",
    "Encrypted",
    "ProvisioningPolicy",
    "VolumeUsage",
    "Identifiers",
    "Operations",
    "Actions",
    "WriteCacheState",
];

fn write_mode(text: &str) -> Option<WriteMode> {
    match text {
        "WriteThrough" => Some(WriteMode::WriteThrough),
        // Flushes wait for the drives; always-write-back is available only on the command line.
        "UnprotectedWriteBack" => Some(WriteMode::WriteBack),
        _ => None,
    }
}

fn read_mode(text: &str) -> Option<ReadMode> {
    match text {
        "Off" => Some(ReadMode::NoReadAhead),
        // There is one mode; the read-ahead length is adaptive.
        "AdaptiveReadAhead" | "ReadAhead" => Some(ReadMode::ReadAhead),
        _ => None,
    }
}

fn write_hole(text: &str) -> Option<WriteHole> {
    match text {
        "Off" => Some(WriteHole::Resync),
        "DistributedLog" | "Journaling" => Some(WriteHole::Journal),
        _ => None,
    }
}

/// A property with a fixed value.
fn always(sent: &mut Properties, name: &str, value: &Value) {
    if let Some(given) = sent.take(name)
        && given != *value
    {
        sent.refuse(name, Message::base("PropertyValueNotInList", &[&told(&given), name]));
    }
}

fn narrow<T: TryFrom<u64>>(sent: &mut Properties, name: &str, value: Option<u64>) -> Option<T> {
    let narrowed = value.map(T::try_from)?;
    if narrowed.is_err() {
        sent.refuse(name, Message::base("PropertyValueError", &[name]));
    }
    narrowed.ok()
}

/// The names of drives from their addresses.
fn drives(world: &World, sent: &mut Properties, addresses: &[String], name: &str) -> Vec<String> {
    let mut names = Vec::new();
    for address in addresses {
        match ids::drive_at(world, address) {
            Some(drive) => names.push(drive.name.clone()),
            None => sent.refuse(name, Message::base("PropertyValueError", &[name])),
        }
    }
    names
}

/// An unused volume name.
fn free_name(world: &World) -> String {
    let is_taken = |name: &String| world.volumes.iter().any(|volume| volume.name == *name);
    let mut number = 1;
    loop {
        let name = format!("volume{number}");
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

/// Creates a volume. It never overwrites data on the drives.
pub(super) fn create(world: &World, request: &Request<'_>) -> Read {
    let mut sent = Properties::read(request)?;
    let raid_type =
        sent.word("RAIDType", |text| volume::level(text).map(|level| (level, text.to_owned())));
    let names = [sent.text("Name"), sent.text("DisplayName")];
    let size_bytes = sent.number("CapacityBytes");
    let strip_bytes = sent.number("StripSizeBytes");
    let spans = sent.number("MediaSpanCount");
    let spans = narrow(&mut sent, "MediaSpanCount", spans);
    let write_mode = sent.word("WriteCachePolicy", write_mode);
    let read_mode = sent.word("ReadCachePolicy", read_mode);
    let write_hole = sent.word("WriteHoleProtectionPolicy", write_hole);
    for (name, value) in [
        ("Encrypted", false.into()),
        ("ProvisioningPolicy", "Fixed".into()),
        ("@Redfish.OperationApplyTime", "Immediate".into()),
    ] {
        always(&mut sent, name, &value);
    }
    let links = sent.take("Links").unwrap_or_default();
    let addresses = match links.get("Drives") {
        Some(given) => sent.addresses(given, "Links/Drives").unwrap_or_default(),
        None => {
            sent.missing("Links/Drives");
            Vec::new()
        }
    };
    if links.as_object().is_some_and(|links| links.keys().any(|name| name != "Drives")) {
        sent.refuse("Links", Message::base("PropertyValueError", &["Links"]));
    }
    let drives = drives(world, &mut sent, &addresses, "Links/Drives");
    if raid_type.is_none() {
        sent.missing("RAIDType");
    }
    sent.rest(READABLE);
    sent.all_good()?;
    let Some((level, raid_type)) = raid_type else { return Err(missing(request.path)) };
    let create = CreateVolume {
        name: names.into_iter().flatten().next().unwrap_or_else(|| free_name(world)),
        level: level.to_owned(),
        copies: (raid_type == "RAID10Triple").then_some(3),
        drives,
        spans,
        strip_bytes,
        size_bytes,
        write_hole,
        write_mode,
        read_mode,
        ..CreateVolume::default()
    };
    if raid_type == "RAID1Triple" && create.drives.len() != 3 {
        let message = Message::own("RAID1Triple has three drives; give three in Links/Drives")
            .about("Links/Drives");
        return Err(Box::new(Response::error(400, &[message])));
    }
    change(Operation::Commands(vec![Command::VolumeCreate(create)]), ResponseKind::Made(None))
}

/// Changes a volume.
pub(super) fn set(world: &World, id: &str, request: &Request<'_>) -> Read {
    let found = ids::volume(world, id).ok_or_else(|| missing(request.path))?;
    let mut sent = Properties::read(request)?;
    let name = [sent.text("Name"), sent.text("DisplayName")].into_iter().flatten().next();
    let policy = SetPolicy {
        volume: found.name.clone(),
        write_mode: sent.word("WriteCachePolicy", write_mode),
        read_mode: sent.word("ReadCachePolicy", read_mode),
        write_hole: sent.word("WriteHoleProtectionPolicy", write_hole),
        ..SetPolicy::default()
    };
    let mut commands = Vec::new();
    if let Some(links) = sent.take("Links") {
        spares(world, found, &mut sent, &links, &mut commands);
    }
    sent.rest(READABLE);
    sent.some_good()?;
    if policy != (SetPolicy { volume: found.name.clone(), ..SetPolicy::default() }) {
        commands.push(Command::VolumePolicy(policy));
    }
    if let Some(name) = name.filter(|name| *name != found.name) {
        commands.push(Command::VolumeSet { volume: found.uuid.clone(), name });
    }
    let then = ResponseKind::Show(ids::volume_uri(found));
    Ok(Answer::Change(Box::new(Change {
        asked: Operation::Commands(commands),
        then,
        left_out: sent.wrong,
    })))
}

/// Adds and removes dedicated spares until they match the links.
fn spares(
    world: &World,
    volume: &VolumeInfo,
    sent: &mut Properties,
    links: &Value,
    commands: &mut Vec<Command>,
) {
    let given = links
        .as_object()
        .filter(|links| links.len() == 1)
        .and_then(|links| links.get("DedicatedSpareDrives"));
    let Some(given) = given else {
        return sent.refuse("Links", Message::base("PropertyNotWritable", &["Links"]));
    };
    let Some(addresses) = sent.addresses(given, "Links/DedicatedSpareDrives") else { return };
    let wanted = drives(world, sent, &addresses, "Links/DedicatedSpareDrives");
    let have: Vec<&String> = world
        .spares
        .iter()
        .filter(|spare| {
            spare.kind == SpareKind::Dedicated && spare.dedicated_to.contains(&volume.name)
        })
        .map(|spare| &spare.drive)
        .collect();
    for drive in &have {
        if !wanted.contains(drive) {
            commands.push(Command::SpareRemove { drive: (*drive).clone() });
        }
    }
    for drive in wanted.iter().filter(|drive| !have.contains(drive)) {
        let volumes = vec![volume.name.clone()];
        let add =
            AddSpare { drive: drive.clone(), volumes, revertible: true, ..AddSpare::default() };
        commands.push(Command::SpareAdd(add));
    }
}

/// Deletes a volume. Some clients delete every volume of type `None` before they create one, so a
/// served volume of that type is not deleted.
pub(super) fn delete(world: &World, id: &str) -> Read {
    let found = ids::volume(world, id).ok_or_else(|| missing(id))?;
    if found.level == "jbod" && found.state.serves() {
        let sentence = format!(
            "'{}' is a JBOD in use, which Redfish does not delete; run 'softroc volume delete {}'",
            found.name, found.name
        );
        let messages = [Message::base("ResourceCannotBeDeleted", &[]), Message::own(sentence)];
        return Err(Box::new(Response::error(409, &messages)));
    }
    let delete = Command::VolumeDelete { volume: found.uuid.clone(), disconnect_hosts: false };
    change(Operation::Commands(vec![delete]), ResponseKind::Nothing)
}

/// An action of a volume.
pub(super) fn act(world: &World, id: &str, action: &str, request: &Request<'_>) -> Read {
    let found = ids::volume(world, id).ok_or_else(|| missing(request.path))?;
    let mut sent = Properties::read_or_nothing(request)?;
    let volume = found.uuid.clone();
    let task = |what| {
        Command::TaskStart(StartTask { what, volume: Some(volume.clone()), ..StartTask::default() })
    };
    let (command, then) = match action {
        "Volume.Initialize" => {
            let kind = sent.word("InitializeType", |text| match text {
                "Fast" => Some(Startable::InitFast),
                "Slow" => Some(Startable::InitFull),
                _ => None,
            });
            (task(kind.unwrap_or(Startable::InitFast)), ResponseKind::Task)
        }
        "Volume.CheckConsistency" => (task(Startable::Check), ResponseKind::Task),
        _ => {
            let start = Command::VolumeStart {
                volume: volume.clone(),
                accept_stale_parity: true,
                degraded: true,
            };
            (start, ResponseKind::Nothing)
        }
    };
    sent.rest(&[]);
    sent.all_good()?;
    change(Operation::Commands(vec![command]), then)
}
