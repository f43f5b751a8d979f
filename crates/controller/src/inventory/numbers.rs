//! Numbers by which operators and other programs know things: the serial number of the controller; of a drive its enclosure, its
//! slot there and its device number; of an array its group number, of a volume its own.
//!
//! Where no version of the file can be read, numbers are given anew and marked as provisional until an operator removes the old file; the
//! serial number is taken from the list of drives.
//!
//! After the state folder was lost, an order can give numbers back that were given before ([`Inventory::set_numbers`]).
//!
//! **Invariants.** A number is stored before it is told, unless it is provisional. A number that was given is not given to anything else, whatever becomes of
//! what had it: an event may name it. (A slot of an enclosure that says which bay a drive is in is that bay's number, whichever drive
//! is in it.) A drive keeps its numbers by what tells it from others for as long as it lives ([`Drive::lasting_identity`]), by its
//! name where nothing does. What lives in memory alone has its numbers until the process ends.

use super::{Drive, Inventory};
use crate::events::EventCode;
use crate::interface::{DriveNumber, DriveNumbers, Error, ErrorKind, Numbered, Result, SetNumbers};
use crate::statefile::{Place, StateFile, Trouble};
use ondisk::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Where they are kept.
const FILE: StateFile<Given> =
    StateFile::toml("numbers.toml", "the list of the numbers of drives and volumes").complete();

/// The enclosure of drives that are in none, or do not say in which.
const NO_ENCLOSURE: u32 = 252;

/// So many of what is gone are remembered, of each kind; the oldest goes first.
const MOST_GONE: usize = 4096;

/// Revisions begin at that many for each start, so that none of an earlier one is used again.
const REVISIONS_OF_A_START: u64 = 1 << 24;

/// What was given.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    #[serde(default)]
    serial: String,
    /// The file with the numbers that were given before, which could not be read: until it is removed, all numbers are provisional.
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

/// An enclosure and its number.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Enclosure {
    name: String,
    number: u32,
}

/// A drive and its numbers.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct DriveRow {
    /// What tells it from others.
    identity: String,
    /// How it was called when it was seen last.
    name: String,
    enclosure: u32,
    slot: u32,
    device: u32,
    /// Whether it ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    passing: bool,
}

/// An array or a volume and its number.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Row {
    uuid: Uuid,
    number: u32,
}

/// What a drive says of its place and of itself.
struct Seen<'a> {
    name: &'a str,
    identity: Option<String>,
    enclosure: Option<String>,
    bay: Option<u32>,
    passing: bool,
}

/// The next number of a kind.
fn take(next: &mut u32) -> u32 {
    let number = *next;
    *next = next.saturating_add(1);
    number
}

impl Given {
    /// The number of an array or a volume, given now if it has none.
    fn number(rows: &mut Vec<Row>, next: &mut u32, uuid: Uuid) {
        if rows.iter().all(|row| row.uuid != uuid) {
            rows.push(Row { uuid, number: take(next) });
        }
    }

    fn enclosure(&mut self, name: Option<&str>) -> u32 {
        let Some(name) = name else { return NO_ENCLOSURE };
        if let Some(known) = self.enclosure.iter().find(|one| one.name == name) {
            return known.number;
        }
        if self.next_enclosure == NO_ENCLOSURE {
            self.next_enclosure += 1;
        }
        let number = take(&mut self.next_enclosure);
        self.enclosure.push(Enclosure { name: name.to_owned(), number });
        number
    }

    /// Numbers for a drive.
    fn drive(&mut self, seen: &Seen<'_>) {
        let by_name = format!("name:{}", seen.name);
        let known = match &seen.identity {
            // It may have been known by its name, before it could be opened.
            Some(identity) => {
                let own = self.drive.iter().position(|row| row.identity == *identity);
                own.or_else(|| self.drive.iter().position(|row| row.identity == by_name))
            }
            None => self.drive.iter().rposition(|row| row.name == seen.name),
        };
        let Some(known) = known else {
            let enclosure = self.enclosure(seen.enclosure.as_deref());
            let slot = match seen.bay.filter(|_| seen.enclosure.is_some()) {
                Some(bay) => bay,
                None => take(&mut self.next_slot),
            };
            let identity = seen.identity.clone().unwrap_or(by_name);
            let (name, passing, device) = (seen.name.to_owned(), seen.passing, take(&mut self.next_device));
            self.drive.push(DriveRow { identity, name, enclosure, slot, device, passing });
            return;
        };
        let place = match (&seen.enclosure, seen.bay) {
            (Some(name), Some(bay)) => Some((self.enclosure(Some(name)), bay)),
            _ => None,
        };
        let row = &mut self.drive[known];
        if let Some(identity) = &seen.identity {
            (row.identity, row.name) = (identity.clone(), seen.name.to_owned());
        }
        if let Some((enclosure, slot)) = place {
            (row.enclosure, row.slot) = (enclosure, slot);
        }
    }

    /// Gives a drive the numbers of an order; what it is known by. Its place stays where the drive itself says where it is.
    fn set_drive(&mut self, seen: &Seen<'_>, to: &DriveNumber) -> Option<String> {
        let is_it = |row: &DriveRow| match &seen.identity {
            Some(identity) => row.identity == *identity,
            None => row.name == seen.name,
        };
        let at = self.drive.iter().rposition(is_it)?;
        self.drive[at].device = to.device;
        self.next_device = self.next_device.max(to.device.saturating_add(1));
        match &seen.enclosure {
            None => {
                (self.drive[at].enclosure, self.drive[at].slot) = (to.enclosure, to.slot);
                self.next_slot = self.next_slot.max(to.slot.saturating_add(1));
            }
            Some(name) => self.set_enclosure(name, to.enclosure),
        }
        Some(self.drive[at].identity.clone())
    }

    /// Gives an enclosure a number that no other one has.
    fn set_enclosure(&mut self, name: &str, number: u32) {
        let is_taken = self.enclosure.iter().any(|one| one.number == number && one.name != name);
        let Some(one) = self.enclosure.iter_mut().find(|one| one.name == name) else { return };
        if is_taken || number == NO_ENCLOSURE || one.number == number {
            return;
        }
        let before = std::mem::replace(&mut one.number, number);
        self.drive.iter_mut().filter(|row| row.enclosure == before).for_each(|row| row.enclosure = number);
        self.next_enclosure = self.next_enclosure.max(number.saturating_add(1));
    }

    /// Gives arrays or volumes the numbers of an order. What had one of them, and is not named, gets another one.
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

    /// Drives that are not named, and have a number that an order gave to another one, get new ones.
    fn move_others(&mut self, named: &[String]) {
        let devices: BTreeSet<u32> = self.taken(named, |row| row.device);
        let places: BTreeSet<(u32, u32)> = self.taken(named, |row| (row.enclosure, row.slot));
        for row in self.drive.iter_mut().filter(|row| !named.contains(&row.identity)) {
            if devices.contains(&row.device) {
                row.device = take(&mut self.next_device);
            }
            if row.enclosure == NO_ENCLOSURE && places.contains(&(row.enclosure, row.slot)) {
                row.slot = take(&mut self.next_slot);
            }
        }
    }

    fn taken<T: Ord>(&self, named: &[String], what: impl Fn(&DriveRow) -> T) -> BTreeSet<T> {
        self.drive.iter().filter(|row| named.contains(&row.identity)).map(what).collect()
    }

    /// Lets go of what was gone longest, where there is too much of it.
    fn prune(&mut self, arrays: &[(Uuid, Vec<Uuid>)], names: &[&str]) {
        let is_here = |row: &Row| {
            arrays.iter().any(|(array, volumes)| row.uuid == *array || volumes.contains(&row.uuid))
        };
        let mut gone = self.group.iter().filter(|row| !is_here(row)).count().saturating_sub(MOST_GONE);
        self.group.retain(|row| is_here(row) || !surplus(&mut gone));
        let mut gone = self.volume.iter().filter(|row| !is_here(row)).count().saturating_sub(MOST_GONE);
        self.volume.retain(|row| is_here(row) || !surplus(&mut gone));
        let is_here = |row: &DriveRow| names.contains(&row.name.as_str());
        let mut gone = self.drive.iter().filter(|row| !is_here(row)).count().saturating_sub(MOST_GONE);
        self.drive.retain(|row| is_here(row) || !surplus(&mut gone));
    }

    /// What outlives the process.
    fn lasting(&self) -> Given {
        let drive = self.drive.iter().filter(|row| !row.passing).cloned().collect();
        Given { drive, ..self.clone() }
    }
}

/// Whether one more goes, of so many.
fn surplus(left: &mut usize) -> bool {
    let goes = *left > 0;
    *left -= usize::from(goes);
    goes
}

impl Inventory {
    /// Takes in what was given before, and counts this start. `serial`: the controller's, as the list of drives has it.
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
            // The next start must not count from where this one did.
            given.starts = given.starts.max(self.starts_by_time());
        }
        self.numbers.replace(given);
    }

    /// Numbers where it is not known which were given.
    fn provisional(&self, trouble: Trouble) -> Given {
        let unreadable = match trouble.place {
            Place::Aside(name) => name,
            Place::Missing | Place::Guarded | Place::Stuck(_) => FILE.name().to_owned(),
        };
        Given { unreadable: Some(unreadable), starts: self.starts_by_time(), ..Given::default() }
    }

    /// More starts than there can have been: one a minute since 1970.
    fn starts_by_time(&self) -> u32 {
        u32::try_from(self.env.unix_time() / 60).unwrap_or(u32::MAX)
    }

    /// Gives numbers to what has none yet: the drives that are known, and these arrays with their volumes.
    pub(crate) async fn give_numbers(&self, arrays: &[(Uuid, Vec<Uuid>)]) {
        let _turn = self.numbering.take(1).await;
        let mut given = self.numbers.borrow().clone();
        let drives = self.drives();
        for drive in &drives {
            given.drive(&seen(drive));
        }
        for (array, volumes) in arrays {
            Given::number(&mut given.group, &mut given.next_group, *array);
            for volume in volumes {
                Given::number(&mut given.volume, &mut given.next_volume, *volume);
            }
        }
        if given != *self.numbers.borrow() {
            let names: Vec<&str> = drives.iter().map(|drive| drive.name.as_str()).collect();
            given.prune(arrays, &names);
            // A number is told when it is stored, unless all are provisional anyway.
            if self.store_numbers(&given).await.is_ok() || given.unreadable.is_some() {
                self.numbers.replace(given);
            }
        }
    }

    /// Gives back the numbers of an order. Whether any changed.
    ///
    /// # Errors
    /// When two things would have one number, or it cannot be stored: then all have those that they had.
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
        let named: Vec<String> =
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
            "an operator gave numbers back",
            "drives, arrays and volumes are known by them",
            "numbers of drives, arrays and volumes were given back, as a saved configuration has them"
                .to_owned(),
        );
        Ok(true)
    }

    async fn store_numbers(&self, given: &Given) -> Result<()> {
        self.events.store_state(&FILE, &given.lasting()).await
    }

    /// Stores the numbers where they could not be stored before.
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

    /// Why all numbers are provisional, and what to do: a sentence.
    pub(crate) fn provisional_numbers(&self) -> Option<String> {
        let given = self.numbers.borrow();
        given.unreadable.as_ref().map(|file| {
            format!(
                "all numbers of drives and volumes are provisional, as those that were given before cannot be read; stop the controller, then put a good {} in its place, or remove {file} to keep the new ones",
                FILE.name()
            )
        })
    }

    /// The numbers of a drive, or of what was called so when it was there.
    pub(crate) fn numbers_of(&self, drive: Option<&Drive>, name: &str) -> Option<DriveNumbers> {
        let given = self.numbers.borrow();
        let identity = drive.and_then(Drive::lasting_identity);
        let by_identity =
            identity.and_then(|identity| given.drive.iter().find(|row| row.identity == identity));
        let row = by_identity.or_else(|| given.drive.iter().rfind(|row| row.name == name))?;
        let provisional = given.unreadable.is_some();
        Some(DriveNumbers { enclosure: row.enclosure, slot: row.slot, device: row.device, provisional })
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

    /// The first revision of this start: higher than any of an earlier one.
    pub(crate) fn first_revision(&self) -> u64 {
        u64::from(self.numbers.borrow().starts) * REVISIONS_OF_A_START
    }
}

fn invalid(sentence: String) -> Error {
    Error::new(ErrorKind::Invalid, sentence)
}

/// A serial number is written as those that are made here are.
fn check_serial(serial: Option<&str>) -> Result<()> {
    let is_one = |serial: &str| {
        !serial.is_empty() && serial.len() <= 32 && serial.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match serial.filter(|serial| !is_one(serial)) {
        Some(serial) => {
            Err(invalid(format!("'{serial}' is not a serial number; expected up to 32 letters and digits")))
        }
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
            return Err(invalid(format!("the same {what} is there twice; nothing was changed")));
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

    fn seen<'a>(name: &'a str, identity: Option<&str>, place: Option<(&str, u32)>) -> Seen<'a> {
        Seen {
            name,
            identity: identity.map(str::to_owned),
            enclosure: place.map(|(enclosure, _)| enclosure.to_owned()),
            bay: place.map(|(_, bay)| bay),
            passing: false,
        }
    }

    fn numbers(given: &Given) -> Vec<(u32, u32, u32)> {
        given.drive.iter().map(|row| (row.enclosure, row.slot, row.device)).collect()
    }

    #[test]
    fn a_drive_keeps_its_numbers_under_another_name_and_nobody_else_gets_them() {
        let mut given = Given::default();
        for (name, identity) in [("a", "1"), ("b", "2"), ("a", "1"), ("c", "2"), ("b", "3")] {
            given.drive(&seen(name, Some(identity), None));
        }
        assert_eq!(numbers(&given), [(252, 0, 0), (252, 1, 1), (252, 2, 2)]);
        // One that cannot be opened is known by its name, and keeps its numbers when it can be.
        given.drive(&seen("d", None, None));
        given.drive(&seen("d", Some("4"), None));
        given.drive(&seen("d", None, None));
        assert_eq!(numbers(&given).len(), 4);
        assert_eq!(given.drive[3].identity, "4");
    }

    #[test]
    fn a_bay_has_its_own_number_and_a_drive_that_moves_gets_it() {
        let mut given = Given::default();
        given.drive(&seen("a", Some("1"), Some(("shelf", 7))));
        given.drive(&seen("b", Some("2"), None));
        given.drive(&seen("a", Some("1"), Some(("shelf", 9))));
        assert_eq!(numbers(&given), [(0, 9, 0), (252, 0, 1)]);
    }

    #[test]
    fn numbers_that_are_given_back_are_had_by_nothing_else() {
        let mut given = Given::default();
        for (name, identity) in [("a", "1"), ("b", "2"), ("c", "3")] {
            given.drive(&seen(name, Some(identity), None));
        }
        let uuid = |number: u8| Uuid([number; 16]);
        (1..=3).for_each(|at| Given::number(&mut given.volume, &mut given.next_volume, uuid(at)));
        // Two are exchanged, and the third has to give way.
        for (name, identity, number) in [("a", "1", 2), ("b", "2", 0)] {
            let to = DriveNumber { drive: name.into(), enclosure: 252, slot: number + 5, device: number };
            given.set_drive(&seen(name, Some(identity), None), &to);
        }
        given.move_others(&["1".to_owned(), "2".to_owned()]);
        assert_eq!(numbers(&given), [(252, 7, 2), (252, 5, 0), (252, 2, 3)]);
        Given::set_rows(&mut given.volume, &mut given.next_volume, &[(uuid(1), 2), (uuid(2), 9)]);
        let volumes: Vec<u32> = given.volume.iter().map(|row| row.number).collect();
        assert_eq!(volumes, [2, 9, 10]);
        // What is new gets a number that nothing has.
        given.drive(&seen("d", Some("4"), None));
        Given::number(&mut given.volume, &mut given.next_volume, uuid(4));
        assert_eq!(numbers(&given)[3], (252, 8, 4));
        assert_eq!(given.volume[3].number, 11);
    }

    #[test]
    fn a_drive_that_says_where_it_is_keeps_its_bay_and_its_enclosure_gets_the_number() {
        let mut given = Given::default();
        given.drive(&seen("a", Some("1"), Some(("shelf", 7))));
        given.drive(&seen("b", Some("2"), Some(("other", 7))));
        let to = DriveNumber { drive: "a".into(), enclosure: 4, slot: 99, device: 6 };
        given.set_drive(&seen("a", Some("1"), Some(("shelf", 7))), &to);
        assert_eq!(numbers(&given), [(4, 7, 6), (1, 7, 1)]);
        // A number that another enclosure has is not given twice.
        let to = DriveNumber { enclosure: 1, ..to };
        given.set_drive(&seen("a", Some("1"), Some(("shelf", 7))), &to);
        assert_eq!(numbers(&given)[0].0, 4);
    }

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
