//! Numbers for operators and other programs: the serial number of the controller; a drive's
//! enclosure, slot and device number; an array's group number; a volume's number.
//!
//! If no version of the file is readable, new numbers are provisional until an operator removes the
//! old file; the serial number comes from the list of drives. After the loss of the state folder, a
//! command can restore earlier numbers ([`Inventory::set_numbers`]).
//!
//! **Invariants.** A number is stored before it is published, unless it is provisional. Numbers are
//! never reused, since events may refer to them. (A slot of an enclosure that reports bays is the
//! bay's number, whichever drive is in it.) A drive keeps its numbers by its permanent identity
//! ([`Drive::lasting_identity`]), or by its name without one. Numbers of memory drives last until
//! the process ends.

mod rows;

use super::{Drive, Inventory};
use crate::events::EventCode;
use crate::interface::{DriveNumber, DriveNumbers, Error, ErrorKind, Numbered, Result, SetNumbers};
use crate::statefile::{Place, StateFile, Trouble};
use ondisk::Uuid;
use rows::{DriveRow, Enclosure, Seen};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The file of numbers.
const FILE: StateFile<Given> =
    StateFile::toml("numbers.toml", "the list of the numbers of drives and volumes").complete();

/// The enclosure number of drives without a known enclosure.
const NO_ENCLOSURE: u32 = 252;

/// The maximum number of removed objects remembered, of each kind; the oldest is dropped first.
const MOST_GONE: usize = 4096;

/// The revisions reserved for each start, so that none is used twice.
const REVISIONS_OF_A_START: u64 = 1 << 24;

/// The numbers in use.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    #[serde(default)]
    serial: String,
    /// The unreadable file with earlier numbers: until it is removed, all numbers are provisional.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    #[serde(default)]
    starts: u32,
    #[serde(default)]
    next_enclosure: u32,
    #[serde(default)]
    next_slot: u32,
    #[serde(default)]
    next_device: u32,
    #[serde(default)]
    next_group: u32,
    #[serde(default)]
    next_volume: u32,
    #[serde(default)]
    enclosure: Vec<Enclosure>,
    #[serde(default)]
    drive: Vec<DriveRow>,
    #[serde(default)]
    group: Vec<Row>,
    #[serde(default)]
    volume: Vec<Row>,
}

/// An array or a volume and its number.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Row {
    uuid: Uuid,
    number: u32,
}

/// The next number of a kind.
fn take(next: &mut u32) -> u32 {
    let number = *next;
    *next = next.saturating_add(1);
    number
}

impl Given {
    /// Numbers an array or a volume, if it has no number yet.
    fn number(rows: &mut Vec<Row>, next: &mut u32, uuid: Uuid) {
        if rows.iter().all(|row| row.uuid != uuid) {
            rows.push(Row { uuid, number: take(next) });
        }
    }

    /// Gives arrays or volumes the numbers of a command. An unnamed object with one of these
    /// numbers gets another one.
    fn set_rows(rows: &mut [Row], next: &mut u32, to: &[(Uuid, u32)]) {
        for (uuid, number) in to {
            rows.iter_mut().filter(|row| row.uuid == *uuid).for_each(|row| row.number = *number);
            *next = (*next).max(number.saturating_add(1));
        }
        for row in rows.iter_mut() {
            let is_named = to.iter().any(|(uuid, _)| row.uuid == *uuid);
            if !is_named && to.iter().any(|(_, number)| row.number == *number) {
                row.number = take(next);
            }
        }
    }

    /// Forgets the objects that were removed longest ago, if there are too many.
    fn prune(&mut self, arrays: &[(Uuid, Vec<Uuid>)], names: &[&str]) {
        let is_here = |row: &Row| {
            arrays.iter().any(|(array, volumes)| row.uuid == *array || volumes.contains(&row.uuid))
        };
        let mut gone =
            self.group.iter().filter(|row| !is_here(row)).count().saturating_sub(MOST_GONE);
        self.group.retain(|row| is_here(row) || !surplus(&mut gone));
        let mut gone =
            self.volume.iter().filter(|row| !is_here(row)).count().saturating_sub(MOST_GONE);
        self.volume.retain(|row| is_here(row) || !surplus(&mut gone));
        let is_here = |row: &DriveRow| names.contains(&row.name.as_str());
        let mut gone =
            self.drive.iter().filter(|row| !is_here(row)).count().saturating_sub(MOST_GONE);
        self.drive.retain(|row| is_here(row) || !surplus(&mut gone));
    }

    /// The numbers to store.
    fn lasting(&self) -> Given {
        let drive = self.drive.iter().filter(|row| !row.passing).cloned().collect();
        Given { drive, ..self.clone() }
    }
}

/// Counts down; returns whether another entry must be dropped.
fn surplus(left: &mut usize) -> bool {
    let goes = *left > 0;
    *left -= usize::from(goes);
    goes
}

impl Inventory {
    /// Loads the stored numbers, and counts this start. `serial`: the controller's serial number
    /// from the list of drives.
    pub(super) async fn load_numbers(&self, serial: &str) {
        let lost = "drives and volumes get provisional numbers";
        let loaded = self.events.load_state(&FILE, lost).await;
        let mut given = match (loaded.value, loaded.trouble) {
            (Some(given), _) => given,
            (None, None) => Given::default(),
            (None, Some(trouble)) => self.provisional(trouble),
        };
        if let Some(file) = &given.unreadable
            && matches!(self.env.world().state().load(file).await, Ok(None))
        {
            given.unreadable = None;
        }
        if given.serial.is_empty() {
            given.serial = match serial {
                "" => format!("SR{:014X}", self.env.random() >> 8),
                known => known.to_owned(),
            };
        }
        given.starts = given.starts.saturating_add(1);
        if self.store_numbers(&given).await.is_err() {
            // The next start must not count from the same value as this one.
            given.starts = given.starts.max(self.starts_by_time());
        }
        self.numbers.replace(given);
    }

    /// Provisional numbers, since the earlier ones are unknown.
    fn provisional(&self, trouble: Trouble) -> Given {
        let unreadable = match trouble.place {
            Place::Aside(name) => name,
            Place::Missing | Place::Guarded | Place::Stuck(_) => FILE.name().to_owned(),
        };
        Given { unreadable: Some(unreadable), starts: self.starts_by_time(), ..Given::default() }
    }

    /// An upper bound of the number of starts: one a minute since 1970.
    fn starts_by_time(&self) -> u32 {
        u32::try_from(self.env.unix_time() / 60).unwrap_or(u32::MAX)
    }

    /// Numbers all known drives, and these arrays with their volumes, if they have no number yet.
    pub(crate) async fn give_numbers(&self, arrays: &[(Uuid, Vec<Uuid>)]) {
        let _turn = self.numbering.take(1).await;
        let mut given = self.numbers.borrow().clone();
        let drives = self.drives();
        let all: Vec<Seen<'_>> = drives.iter().map(|drive| seen(drive)).collect();
        given.drives(&all);
        for (array, volumes) in arrays {
            Given::number(&mut given.group, &mut given.next_group, *array);
            for volume in volumes {
                Given::number(&mut given.volume, &mut given.next_volume, *volume);
            }
        }
        if given != *self.numbers.borrow() {
            let names: Vec<&str> = drives.iter().map(|drive| drive.name.as_str()).collect();
            given.prune(arrays, &names);
            // A number is published once it is stored, unless all are provisional anyway.
            if self.store_numbers(&given).await.is_ok() || given.unreadable.is_some() {
                self.numbers.replace(given);
            }
        }
    }

    /// Restores the numbers of a command. Returns whether any changed.
    ///
    /// # Errors
    /// When two objects would have one number, or it cannot be stored: all numbers are unchanged
    /// then.
    pub(crate) async fn set_numbers(
        &self,
        set: &SetNumbers,
        drives: &[(Rc<Drive>, &DriveNumber)],
    ) -> Result<bool> {
        check_serial(set.serial.as_deref())?;
        let (arrays, volumes) = (parsed("array", &set.arrays)?, parsed("volume", &set.volumes)?);
        distinct("drive number", set.drives.iter().map(|drive| drive.device))?;
        distinct("place", set.drives.iter().map(|drive| (drive.enclosure, drive.slot)))?;
        let _turn = self.numbering.take(1).await;
        let mut given = self.numbers.borrow().clone();
        let named: Vec<usize> =
            drives.iter().filter_map(|(drive, to)| given.set_drive(&seen(drive), to)).collect();
        given.move_others(&named);
        Given::set_rows(&mut given.group, &mut given.next_group, &arrays);
        Given::set_rows(&mut given.volume, &mut given.next_volume, &volumes);
        if let Some(serial) = &set.serial {
            given.serial.clone_from(serial);
        }
        if given == *self.numbers.borrow() {
            return Ok(false);
        }
        self.store_numbers(&given).await?;
        self.numbers.replace(given);
        self.events.report(
            EventCode::ControllerCommand,
            "controller",
            "an operator restored numbers",
            "drives, arrays and volumes have these numbers now",
            "numbers of drives, arrays and volumes were restored from a saved configuration"
                .to_owned(),
        );
        Ok(true)
    }

    async fn store_numbers(&self, given: &Given) -> Result<()> {
        self.events.store_state(&FILE, &given.lasting()).await
    }

    /// Retries a failed store.
    pub(super) async fn store_numbers_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            let _turn = self.numbering.take(1).await;
            let given = self.numbers.borrow().clone();
            self.events.leave_to_health(self.store_numbers(&given).await);
        }
    }

    /// Whether all numbers are provisional.
    pub(crate) fn has_provisional_numbers(&self) -> bool {
        self.numbers.borrow().unreadable.is_some()
    }

    /// Why all numbers are provisional, with the remedy: a sentence.
    pub(crate) fn provisional_numbers(&self) -> Option<String> {
        let given = self.numbers.borrow();
        given.unreadable.as_ref().map(|file| {
            format!(
                "all numbers of drives and volumes are provisional, as the stored ones cannot be \
                read; stop the controller, then restore {} from a backup, or remove {file} to keep \
                the new ones",
                FILE.name()
            )
        })
    }

    /// The numbers of a drive, or of a missing drive by its last name.
    pub(crate) fn numbers_of(&self, drive: Option<&Drive>, name: &str) -> Option<DriveNumbers> {
        let given = self.numbers.borrow();
        let row = given.row_of(drive.and_then(Drive::lasting_identity).as_deref(), name)?;
        let row = &given.drive[row];
        let provisional = given.unreadable.is_some();
        Some(DriveNumbers {
            enclosure: row.enclosure,
            slot: row.slot,
            device: row.device,
            provisional,
        })
    }

    /// The number of an array.
    pub(crate) fn group_number(&self, array: Uuid) -> Option<u32> {
        self.numbers.borrow().group.iter().find(|row| row.uuid == array).map(|row| row.number)
    }

    /// The number of a volume.
    pub(crate) fn volume_number(&self, volume: Uuid) -> Option<u32> {
        self.numbers.borrow().volume.iter().find(|row| row.uuid == volume).map(|row| row.number)
    }

    /// The serial number of the controller.
    pub(crate) fn serial(&self) -> String {
        self.numbers.borrow().serial.clone()
    }

    /// The first revision of this start: higher than any earlier one.
    pub(crate) fn first_revision(&self) -> u64 {
        u64::from(self.numbers.borrow().starts) * REVISIONS_OF_A_START
    }
}

fn invalid(sentence: String) -> Error {
    Error::new(ErrorKind::Invalid, sentence)
}

/// Checks the format of a serial number.
fn check_serial(serial: Option<&str>) -> Result<()> {
    let is_one = |serial: &str| {
        !serial.is_empty()
            && serial.len() <= 32
            && serial.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match serial.filter(|serial| !is_one(serial)) {
        Some(serial) => Err(invalid(format!(
            "'{serial}' is not a serial number; expected up to 32 letters and digits"
        ))),
        None => Ok(()),
    }
}

fn parsed(what: &str, rows: &[Numbered]) -> Result<Vec<(Uuid, u32)>> {
    let parse = |row: &Numbered| Ok((row.uuid.parse::<Uuid>().map_err(invalid)?, row.number));
    let rows: Vec<(Uuid, u32)> = rows.iter().map(parse).collect::<Result<_>>()?;
    distinct(&format!("UUID of an {what}"), rows.iter().map(|(uuid, _)| *uuid))?;
    distinct(&format!("number of an {what}"), rows.iter().map(|(_, number)| *number))?;
    Ok(rows)
}

fn distinct<T: Ord>(what: &str, values: impl Iterator<Item = T>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for value in values {
        if !seen.insert(value) {
            return Err(invalid(format!("the same {what} appears twice; nothing was changed")));
        }
    }
    Ok(())
}

fn seen(drive: &Drive) -> Seen<'_> {
    let access = drive.access();
    let hardware = access.as_ref().map(|access| &access.info().hardware);
    Seen {
        name: &drive.name,
        identity: drive.lasting_identity(),
        enclosure: hardware.and_then(|hardware| hardware.enclosure.clone()),
        bay: hardware.and_then(|hardware| hardware.slot.as_deref()?.trim().parse().ok()),
        passing: drive.is_volatile(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_forgotten_in_the_end_and_its_number_never_given_again() {
        let mut given = Given::default();
        let uuid = |number: usize| Uuid((number as u128 + 1).to_be_bytes());
        for number in 0..MOST_GONE + 3 {
            Given::number(&mut given.volume, &mut given.next_volume, uuid(number));
        }
        let here = [(Uuid::default(), vec![uuid(0)])];
        given.prune(&here, &[]);
        assert_eq!(given.volume.len(), MOST_GONE + 1);
        assert_eq!(given.volume[0].number, 0, "what is here stays");
        Given::number(&mut given.volume, &mut given.next_volume, uuid(1));
        assert_eq!(given.volume.last().map(|row| row.number as usize), Some(MOST_GONE + 3));
    }
}
