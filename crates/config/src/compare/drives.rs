//! Matches the drives of a document with the drives of the controller.

use super::{Findings, Step, Subject};
use crate::current::{Current, is_lasting};
use crate::document::{Array, Document, Drive};
use controller::{Command, DriveInfo, DriveState};
use std::collections::BTreeMap;

/// The drives of a document, each with the matching drive of the controller.
pub(super) struct DriveMatches<'a> {
    by_name: BTreeMap<&'a str, Option<&'a DriveInfo>>,
    now: &'a Current,
}

impl<'a> DriveMatches<'a> {
    pub(super) fn of(document: &'a Document, now: &'a Current) -> DriveMatches<'a> {
        let drives = document.drives.iter().flatten();
        let by_name =
            drives.map(|drive| (drive.name.as_str(), find(drive, document, now))).collect();
        DriveMatches { by_name, now }
    }

    /// The current drive for a name in the document. A name without a drive entry matches by name.
    pub(super) fn get(&self, name: &str) -> Option<&'a DriveInfo> {
        match self.by_name.get(name) {
            Some(found) => *found,
            None => {
                is_lasting(name).then(|| self.now.drives.iter().find(|drive| drive.name == name))?
            }
        }
    }
}

/// Matches by UUID of the label, else by model and serial number. Otherwise by name, unless UUID,
/// model or serial number contradict.
fn find<'a>(drive: &Drive, document: &Document, now: &'a Current) -> Option<&'a DriveInfo> {
    let is_there = |there: &&DriveInfo| there.state != DriveState::Missing;
    let by_uuid = || {
        let uuid = drive.uuid.as_ref()?;
        now.drives.iter().filter(is_there).find(|there| there.uuid.as_ref() == Some(uuid))
    };
    let by_serial = || {
        let serial = drive.serial.as_ref()?;
        let same = |there: &&DriveInfo| {
            there.serial.as_ref() == Some(serial) && there.model == drive.model
        };
        now.drives.iter().find(same)
    };
    let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
    let by_name = || {
        let same = |there: &&DriveInfo| {
            let is_other = differ(&there.uuid, &drive.uuid)
                && !is_made_anew(drive, there, document, now)
                || differ(&there.serial, &drive.serial)
                || differ(&there.model, &drive.model);
            there.name == drive.name && !is_other
        };
        now.drives.iter().find(same)
    };
    by_uuid().or_else(by_serial).or_else(by_name)
}

/// Whether a drive carries the label of an array that a restore created as a replacement.
fn is_made_anew(drive: &Drive, there: &DriveInfo, document: &Document, now: &Current) -> bool {
    let has = |array: &&Array| array.members.iter().any(|member| member.drive == drive.name);
    let Some(array) = document.arrays.iter().flatten().find(has) else { return false };
    let is_gone = now.present().all(|volume| volume.array != array.uuid);
    is_gone && array.volumes.iter().any(|volume| there.volumes.contains(&volume.name))
}

pub(super) fn compare(
    document: &Document,
    now: &Current,
    places: &DriveMatches<'_>,
    found: &mut Findings,
) {
    let Some(drives) = &document.drives else { return };
    for drive in drives.iter().filter(|drive| places.get(&drive.name).is_none()) {
        let of = Subject::new(format!("drive {}", drive.name), "registration").file("registered");
        match now
            .drives
            .iter()
            .find(|there| there.name == drive.name && there.state != DriveState::Missing)
        {
            Some(_) => found.stays(
                of.now("another drive has this name"),
                "connect the drive of the file, then 'softroc drive add' it",
            ),
            None if !is_lasting(&drive.name) => {
                found.stays(of, "memory drives do not survive a restart");
            }
            None => {
                let add = Command::DriveAdd { drive: drive.name.clone(), size_bytes: None };
                found.changes(of, Step::Command(add));
            }
        }
    }
    let is_of_file = |there: &&DriveInfo| {
        drives
            .iter()
            .any(|drive| places.get(&drive.name).is_some_and(|place| place.name == there.name))
    };
    let is_extra = |there: &&DriveInfo| there.state != DriveState::Missing && !is_of_file(there);
    for there in now.lasting_drives().filter(is_extra) {
        let of = Subject::new(format!("drive {}", there.name), "registration").now("registered");
        found.stays(of, format!("'softroc drive forget {}' removes it from the list", there.name));
    }
}
