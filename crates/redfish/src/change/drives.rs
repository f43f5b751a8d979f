//! Drives: hot spares.

use super::body::Properties;
use super::{Change, Operation, Read, ResponseKind, missing};
use crate::answer::{Answer, Request};
use crate::message::Message;
use crate::{World, ids};
use controller::{AddSpare, Command};

/// Read-only properties of drives.
const READABLE: &[&str] = &[
    "Id",
    "Name",
    "Description",
    "Status",
    "CapacityBytes",
    "BlockSizeBytes",
    "MediaType",
    "Protocol",
    "Model",
    "SerialNumber",
    "FirmwareVersion",
    "Revision",
    "FailurePredicted",
    "PredictedMediaLifeLeftPercent",
    "Operations",
    "Links",
    "Identifiers",
    "PhysicalLocation",
    "Actions",
];

/// Adds or removes a hot spare.
pub(super) fn set(world: &World, id: &str, request: &Request<'_>) -> Read {
    let drive = ids::drive(world, id).ok_or_else(|| missing(request.path))?;
    let mut sent = Properties::read(request)?;
    let spare = world.spares.iter().find(|spare| spare.drive == drive.name);
    let mode = sent.word("HotspareReplacementMode", |text| match text {
        "Revertible" => Some(true),
        "NonRevertible" => Some(false),
        _ => None,
    });
    // Dedicated spares are set at their volumes: a drive has no property for that.
    let kind = sent.word("HotspareType", |text| {
        ["None", "Global", "Chassis"].into_iter().find(|known| *known == text)
    });
    sent.rest(READABLE);
    if mode.is_some() && matches!(kind, None | Some("None")) {
        let name = "HotspareReplacementMode";
        sent.refuse(name, Message::base("PropertyValueError", &[name]));
    }
    sent.some_good()?;
    let name = drive.name.clone();
    let remove = spare.map(|_| Command::SpareRemove { drive: name.clone() });
    let add = |same_enclosure| {
        Command::SpareAdd(AddSpare {
            drive: name.clone(),
            same_enclosure,
            revertible: mode.unwrap_or(true),
            ..AddSpare::default()
        })
    };
    let commands = match kind {
        Some("Global") => remove.into_iter().chain([add(false)]).collect(),
        Some("Chassis") => remove.into_iter().chain([add(true)]).collect(),
        _ => remove.into_iter().collect(),
    };
    let then = ResponseKind::Show(ids::drive_uri(&drive.name));
    Ok(Answer::Change(Box::new(Change {
        asked: Operation::Commands(commands),
        then,
        left_out: sent.wrong,
    })))
}
