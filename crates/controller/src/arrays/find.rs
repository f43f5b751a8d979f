//! Lookup of drives, volumes and arrays by the names in commands, and of the array of a drive.

use super::Arrays;
use super::array::Array;
use super::volume::Volume;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use std::rc::Rc;

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

impl Arrays {
    /// The array and slot of a drive; for one that cannot be opened, the slot that a drive of its
    /// name had.
    pub(crate) fn shown_place(&self, drive: &Drive) -> Option<(Rc<Array>, usize)> {
        let left_by = |array: Rc<Array>| {
            let names = array.label().member;
            let slot = names.iter().position(|member| member.name == drive.name)?;
            array.drive(slot).is_none().then_some((array, slot))
        };
        self.place_of(drive).or_else(|| match drive.access() {
            None => self.all().into_iter().find_map(left_by),
            Some(_) => None,
        })
    }

    /// The array and slot of a drive, if it has one.
    pub(crate) fn place_of(&self, drive: &Drive) -> Option<(Rc<Array>, usize)> {
        self.all()
            .into_iter()
            .find_map(|array| array.slot_of(drive).map(|slot| (array.clone(), slot)))
    }

    /// The slot that `VOLUME:SLOT` names, if it exists.
    pub(crate) fn slot_named(&self, text: &str) -> Option<(Rc<Array>, usize)> {
        let (volume, slot) = text.rsplit_once(':')?;
        let slot: usize = slot.parse().ok()?;
        let array = self.find_array(volume).ok()?;
        (slot < array.places().len()).then_some((array, slot))
    }

    /// A drive by its name, or by `VOLUME:SLOT`.
    pub(crate) fn find_drive(&self, text: &str) -> Result<Rc<Drive>> {
        if let Some(drive) = self.inventory.drive_called(text) {
            return Ok(drive);
        }
        if let Some((array, slot)) = self.slot_named(text) {
            let missing = || {
                wrong(format!(
                    "drive {slot} of {} is missing; connect it and register it with 'softroc drive \
                        add'",
                    array.names()
                ))
            };
            return array.drive(slot).ok_or_else(missing);
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "there is no drive '{text}'; use a path or VOLUME:SLOT from 'softroc drive list'"
            ),
        ))
    }

    /// A volume by its name or UUID, and its array. A present volume takes precedence over a
    /// missing one.
    pub(crate) fn find_volume(&self, text: &str) -> Result<(Rc<Array>, Rc<Volume>)> {
        let arrays = self.all();
        let with_array = |array: &Rc<Array>| {
            let array = array.clone();
            array.known_volumes().into_iter().map(move |volume| (array.clone(), volume))
        };
        let all: Vec<(Rc<Array>, Rc<Volume>)> = arrays.iter().flat_map(with_array).collect();
        let mut named: Vec<&(Rc<Array>, Rc<Volume>)> =
            all.iter().filter(|(_, volume)| volume.name() == text).collect();
        if named.iter().any(|(array, _)| !array.is_missing()) {
            named.retain(|(array, _)| !array.is_missing());
        }
        match named[..] {
            [(array, volume)] => Ok((array.clone(), volume.clone())),
            [] => {
                let by_uuid =
                    all.iter().find(|(_, volume)| volume.uuid().to_string() == text).cloned();
                by_uuid.ok_or_else(|| {
                    Error::new(
                        ErrorKind::NotFound,
                        format!("there is no volume '{text}'; 'softroc volume list' lists them"),
                    )
                })
            }
            _ => {
                let uuids: Vec<String> =
                    named.iter().map(|(_, volume)| volume.uuid().to_string()).collect();
                Err(Error::new(
                    ErrorKind::NameTaken,
                    format!(
                        "several volumes are named '{text}'; use the UUID of one: {}",
                        uuids.join(", ")
                    ),
                ))
            }
        }
    }

    /// An array, by one of its volumes or by its own UUID.
    pub(crate) fn find_array(&self, text: &str) -> Result<Rc<Array>> {
        let by_uuid = self.all().into_iter().find(|array| array.uuid.to_string() == text);
        match by_uuid {
            Some(array) => Ok(array),
            None => self.find_volume(text).map(|(array, _)| array),
        }
    }

    /// Whether a drive is a member of a started array, or is being filled for one; or is a device
    /// of the log.
    pub(crate) fn is_in_use(&self, drive: &Drive) -> bool {
        let uses = |array: &Rc<Array>| {
            array.is_running()
                && (array.slot_of(drive).is_some() || array.replaced_by(drive).is_some())
        };
        self.all().iter().any(uses) || self.is_log_device(drive)
    }
}
