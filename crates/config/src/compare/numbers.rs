//! Numbers of drives, arrays and volumes. One command sets all of them, because two may be swapped.

use super::drives::DriveMatches;
use super::{Findings, Step, Subject, VolumeMatches};
use crate::current::{self, Current};
use crate::document::Document;
use controller::{Command, DriveNumber, Numbered, SetNumbers};

pub(super) fn compare(
    document: &Document,
    now: &Current,
    (places, pairs): (&DriveMatches<'_>, &VolumeMatches<'_>),
    found: &mut Findings,
) {
    let mut set = SetNumbers::default();
    let mut differences = Vec::new();
    let serial = document.controller.as_ref().and_then(|controller| controller.serial.as_ref());
    if let Some(serial) = serial.filter(|serial| **serial != now.info.serial) {
        differences
            .push(Subject::new("controller", "serial number").file(serial).now(&now.info.serial));
        set.serial = Some(serial.clone());
    }
    for drive in document.drives.iter().flatten() {
        let (Some(file), Some(there)) = (drive.numbers, places.get(&drive.name)) else { continue };
        let given = there.numbers.map(|numbers| (numbers.enclosure, numbers.slot, numbers.device));
        let wanted = (file.enclosure, file.slot, file.device);
        if current::numbers(there) != Some(file) {
            let text = |(enclosure, slot, device)| format!("{enclosure}:{slot}, device {device}");
            let mut of =
                Subject::new(format!("drive {}", there.name), "numbers").file(text(wanted));
            of.now = given.map(text);
            differences.push(of);
        }
        let (enclosure, slot, device) = wanted;
        set.drives.push(DriveNumber { drive: there.name.clone(), enclosure, slot, device });
    }
    let mut of =
        |about: String, number: Option<u32>, there: (&str, Option<u32>), to: &mut Vec<Numbered>| {
            let Some(number) = number else { return };
            let (uuid, given) = there;
            if to.iter().any(|known| known.uuid == uuid) {
                return;
            }
            if given != Some(number) {
                let mut of = Subject::new(about, "number").file(number.to_string());
                of.now = given.map(|given| given.to_string());
                differences.push(of);
            }
            to.push(Numbered { uuid: uuid.to_owned(), number });
        };
    for (volume, array, there) in &pairs.0 {
        let Some(there) = there else { continue };
        let name = &there.name;
        of(format!("array of {name}"), array.number, (&there.array, there.group), &mut set.arrays);
        of(format!("volume {name}"), volume.number, (&there.uuid, there.number), &mut set.volumes);
    }
    for of in differences {
        found.changes(of, Step::Command(Command::NumbersSet(set.clone())));
    }
}
