//! Drives: hot spares.

use super::body::Sent;
use super::{Asked, Change, Read, Then, missing};
use crate::answer::{Answer, Request};
use crate::message::Message;
use crate::{World, ids};
use controller::{AddSpare, Command};

/// What is told of drives, and not changed that way.
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

/// A spare is made of it, or one is none any more.
pub(super) fn set(world: &World, id: &str, request: &Request<'_>) -> Read {
    let drive = ids::drive(world, id).ok_or_else(|| missing(request.path))?;
    let mut sent = Sent::read(request)?;
    let spare = world.spares.iter().find(|spare| spare.drive == drive.name);
    let mode = sent.word("HotspareReplacementMode", |text| match text {
        "Revertible" => Some(true),
        "NonRevertible" => Some(false),
        _ => None,
    });
    // A spare of some arrays is made at their volumes: here nobody says for which.
    let kind = sent
        .word("HotspareType", |text| ["None", "Global", "Chassis"].into_iter().find(|known| *known == text));
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
    let then = Then::Show(ids::drive_uri(&drive.name));
    Ok(Answer::Change(Box::new(Change { asked: Asked::Commands(commands), then, left_out: sent.wrong })))
}
