//! The numbers of drives: their rows and places.
//!
//! **Invariants.** Present drives have different rows and different places, even if they report the
//! same serial number or the same bay (partitions of one disk, units of one device). The drive that
//! had the bay's number keeps it; each of the others gets a slot in the enclosure of drives without
//! an enclosure.

use super::{Given, NO_ENCLOSURE, take};
use crate::interface::DriveNumber;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An enclosure and its number.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Enclosure {
    name: String,
    number: u32,
}

/// A drive and its numbers.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct DriveRow {
    /// Its identity.
    identity: String,
    /// Its name when it was last present.
    pub(super) name: String,
    pub(super) enclosure: u32,
    pub(super) slot: u32,
    pub(super) device: u32,
    /// Whether it ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) passing: bool,
}

impl DriveRow {
    fn place(&self) -> (u32, u32) {
        (self.enclosure, self.slot)
    }
}

/// The place and identity that a drive reports.
pub(super) struct Seen<'a> {
    pub(super) name: &'a str,
    pub(super) identity: Option<String>,
    pub(super) enclosure: Option<String>,
    pub(super) bay: Option<u32>,
    pub(super) passing: bool,
}

/// The identity of a drive that only its name identifies.
fn by_name(name: &str) -> String {
    format!("name:{name}")
}

impl Given {
    /// Numbers the present drives.
    pub(super) fn drives(&mut self, all: &[Seen<'_>]) {
        let rows = self.rows_of(all);
        let bays: Vec<Option<(u32, u32)>> = all.iter().map(|seen| self.bay(seen)).collect();
        for (at, (seen, row)) in all.iter().zip(&rows).enumerate() {
            let of = &mut self.drive[*row];
            if let Some(identity) = &seen.identity {
                (of.identity, of.name) = (identity.clone(), seen.name.to_owned());
            }
            let Some(bay) = bays[at] else { continue };
            let has_it = |row: usize| self.drive[row].place() == bay;
            let others = rows
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at && bays[*other] == Some(bay));
            let is_taken = others.map(|(_, row)| *row).any(|other| {
                // Of two drives with this place, the one known first keeps it.
                has_it(other) && (!has_it(*row) || other < *row)
            });
            match is_taken {
                false => (self.drive[*row].enclosure, self.drive[*row].slot) = bay,
                true if has_it(*row) => {
                    let slot = take(&mut self.next_slot);
                    (self.drive[*row].enclosure, self.drive[*row].slot) = (NO_ENCLOSURE, slot);
                }
                true => {}
            }
        }
    }

    /// The row of each drive; new drives get one.
    fn rows_of(&mut self, all: &[Seen<'_>]) -> Vec<usize> {
        // Of drives with one identity, each gets the row that also matches its name.
        let mut rows: Vec<Option<usize>> = all
            .iter()
            .map(|seen| {
                let identity = seen.identity.as_ref()?;
                self.drive.iter().position(|row| row.identity == *identity && row.name == seen.name)
            })
            .collect();
        for (at, seen) in all.iter().enumerate() {
            if rows[at].is_some() {
                continue;
            }
            let known = match &seen.identity {
                None => self.drive.iter().rposition(|row| row.name == seen.name),
                Some(identity) => {
                    // It may have been known by its name before it could be opened.
                    let names = [identity.clone(), by_name(seen.name)];
                    names.iter().find_map(|identity| {
                        let mut of_it = (0..self.drive.len())
                            .filter(|row| self.drive[*row].identity == *identity);
                        of_it.find(|row| !rows.contains(&Some(*row)))
                    })
                }
            };
            rows[at] = Some(known.unwrap_or_else(|| self.new_row(seen)));
        }
        rows.into_iter().flatten().collect()
    }

    /// Creates a row for a drive without one.
    fn new_row(&mut self, seen: &Seen<'_>) -> usize {
        let (enclosure, slot) = match self.bay(seen) {
            Some(bay) => bay,
            None => (self.enclosure(seen.enclosure.as_deref()), take(&mut self.next_slot)),
        };
        let identity = seen.identity.clone().unwrap_or_else(|| by_name(seen.name));
        let (name, device) = (seen.name.to_owned(), take(&mut self.next_device));
        self.drive.push(DriveRow {
            identity,
            name,
            enclosure,
            slot,
            device,
            passing: seen.passing,
        });
        self.drive.len() - 1
    }

    /// The bay that a drive reports, with the number of its enclosure.
    fn bay(&mut self, seen: &Seen<'_>) -> Option<(u32, u32)> {
        let (name, bay) = (seen.enclosure.as_deref()?, seen.bay?);
        Some((self.enclosure(Some(name)), bay))
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

    /// The row of a drive with that identity, or of a missing drive with that name.
    pub(super) fn row_of(&self, identity: Option<&str>, name: &str) -> Option<usize> {
        let mut of_it = (0..self.drive.len())
            .filter(|row| Some(self.drive[*row].identity.as_str()) == identity);
        let first = of_it.clone().next();
        let own = of_it.find(|row| self.drive[*row].name == name).or(first);
        own.or_else(|| self.drive.iter().rposition(|row| row.name == name))
    }

    /// Gives a drive the numbers of a command; returns its row. A place that the drive itself
    /// reports is unchanged.
    pub(super) fn set_drive(&mut self, seen: &Seen<'_>, to: &DriveNumber) -> Option<usize> {
        let at = self.row_of(seen.identity.as_deref(), seen.name)?;
        self.drive[at].device = to.device;
        self.next_device = self.next_device.max(to.device.saturating_add(1));
        match &seen.enclosure {
            None => {
                (self.drive[at].enclosure, self.drive[at].slot) = (to.enclosure, to.slot);
                self.next_slot = self.next_slot.max(to.slot.saturating_add(1));
            }
            Some(name) => self.set_enclosure(name, to.enclosure),
        }
        Some(at)
    }

    /// Gives an enclosure a number that no other one has.
    fn set_enclosure(&mut self, name: &str, number: u32) {
        let is_taken = self.enclosure.iter().any(|one| one.number == number && one.name != name);
        let Some(one) = self.enclosure.iter_mut().find(|one| one.name == name) else { return };
        if is_taken || number == NO_ENCLOSURE || one.number == number {
            return;
        }
        let before = std::mem::replace(&mut one.number, number);
        self.drive
            .iter_mut()
            .filter(|row| row.enclosure == before)
            .for_each(|row| row.enclosure = number);
        self.next_enclosure = self.next_enclosure.max(number.saturating_add(1));
    }

    /// Renumbers unnamed drives whose number a command gave to another drive.
    pub(super) fn move_others(&mut self, named: &[usize]) {
        let devices: BTreeSet<u32> = named.iter().map(|row| self.drive[*row].device).collect();
        let places: BTreeSet<(u32, u32)> =
            named.iter().map(|row| self.drive[*row].place()).collect();
        for (_, row) in self.drive.iter_mut().enumerate().filter(|(at, _)| !named.contains(at)) {
            if devices.contains(&row.device) {
                row.device = take(&mut self.next_device);
            }
            if row.enclosure == NO_ENCLOSURE && places.contains(&row.place()) {
                row.slot = take(&mut self.next_slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::Uuid;

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
            given.drives(&[seen(name, Some(identity), None)]);
        }
        assert_eq!(numbers(&given), [(252, 0, 0), (252, 1, 1), (252, 2, 2)]);
        // A closed drive is known by its name, and keeps its numbers once it opens.
        given.drives(&[seen("d", None, None)]);
        given.drives(&[seen("d", Some("4"), None)]);
        given.drives(&[seen("d", None, None)]);
        assert_eq!(numbers(&given).len(), 4);
        assert_eq!(given.drive[3].identity, "4");
    }

    #[test]
    fn a_bay_has_its_own_number_and_a_drive_that_moves_gets_it() {
        let mut given = Given::default();
        given.drives(&[seen("a", Some("1"), Some(("shelf", 7)))]);
        given.drives(&[seen("b", Some("2"), None)]);
        given.drives(&[seen("a", Some("1"), Some(("shelf", 9)))]);
        assert_eq!(numbers(&given), [(0, 9, 0), (252, 0, 1)]);
    }

    #[test]
    fn numbers_that_are_given_back_are_had_by_nothing_else() {
        let mut given = Given::default();
        for (name, identity) in [("a", "1"), ("b", "2"), ("c", "3")] {
            given.drives(&[seen(name, Some(identity), None)]);
        }
        let uuid = |number: u8| Uuid([number; 16]);
        (1..=3).for_each(|at| Given::number(&mut given.volume, &mut given.next_volume, uuid(at)));
        // Two numbers are exchanged, and the third drive has to yield.
        for (name, identity, number) in [("a", "1", 2), ("b", "2", 0)] {
            let to = DriveNumber {
                drive: name.into(),
                enclosure: 252,
                slot: number + 5,
                device: number,
            };
            given.set_drive(&seen(name, Some(identity), None), &to);
        }
        given.move_others(&[0, 1]);
        assert_eq!(numbers(&given), [(252, 7, 2), (252, 5, 0), (252, 2, 3)]);
        Given::set_rows(&mut given.volume, &mut given.next_volume, &[(uuid(1), 2), (uuid(2), 9)]);
        let volumes: Vec<u32> = given.volume.iter().map(|row| row.number).collect();
        assert_eq!(volumes, [2, 9, 10]);
        // A new drive gets an unused number.
        given.drives(&[seen("d", Some("4"), None)]);
        Given::number(&mut given.volume, &mut given.next_volume, uuid(4));
        assert_eq!(numbers(&given)[3], (252, 8, 4));
        assert_eq!(given.volume[3].number, 11);
    }

    #[test]
    fn a_drive_that_says_where_it_is_keeps_its_bay_and_its_enclosure_gets_the_number() {
        let mut given = Given::default();
        given.drives(&[seen("a", Some("1"), Some(("shelf", 7)))]);
        given.drives(&[seen("b", Some("2"), Some(("other", 7)))]);
        let to = DriveNumber { drive: "a".into(), enclosure: 4, slot: 99, device: 6 };
        given.set_drive(&seen("a", Some("1"), Some(("shelf", 7))), &to);
        assert_eq!(numbers(&given), [(4, 7, 6), (1, 7, 1)]);
        // A number of another enclosure is not given twice.
        let to = DriveNumber { enclosure: 1, ..to };
        given.set_drive(&seen("a", Some("1"), Some(("shelf", 7))), &to);
        assert_eq!(numbers(&given)[0].0, 4);
    }

    /// Two partitions of a disk, or two drives of a vendor with identical serial numbers, once
    /// shared one drive's numbers: one of them was in no list.
    #[test]
    fn drives_that_share_a_serial_number_have_numbers_of_their_own_and_keep_them() {
        let mut given = Given::default();
        let both = |first, second| [seen(first, Some("1"), None), seen(second, Some("1"), None)];
        given.drives(&both("a", "b"));
        assert_eq!(numbers(&given), [(252, 0, 0), (252, 1, 1)]);
        given.drives(&both("b", "a"));
        given.drives(&[seen("b", Some("1"), None)]);
        let of =
            |given: &Given, name| given.row_of(Some("1"), name).map(|row| given.drive[row].device);
        assert_eq!((of(&given, "a"), of(&given, "b")), (Some(0), Some(1)));
        given.drives(&both("a", "c"));
        assert_eq!((of(&given, "a"), of(&given, "c")), (Some(0), Some(1)), "b is called c now");
        assert_eq!(given.drive.len(), 2);
        // A command about one of them does not affect the other one.
        let to = DriveNumber { drive: "a".into(), enclosure: 252, slot: 1, device: 1 };
        let named: Vec<usize> =
            given.set_drive(&seen("a", Some("1"), None), &to).into_iter().collect();
        given.move_others(&named);
        assert_eq!(numbers(&given), [(252, 1, 1), (252, 2, 2)]);
    }

    #[test]
    fn a_bay_is_the_place_of_one_of_the_drives_that_are_in_it() {
        let mut given = Given::default();
        let in_bay = |name, bay| seen(name, Some(name), Some(("shelf", bay)));
        given.drives(&[in_bay("b", 5)]);
        // In any order of the list, the drive with the bay's number keeps it.
        for _ in 0..2 {
            given.drives(&[in_bay("a", 5), in_bay("b", 5), seen("c", Some("c"), None)]);
        }
        assert_eq!(numbers(&given), [(0, 5, 0), (252, 1, 1), (252, 0, 2)]);
        // Two drives exchange bays, and a missing one holds none.
        given.drives(&[in_bay("a", 5), in_bay("d", 6)]);
        given.drives(&[in_bay("a", 6), in_bay("d", 5)]);
        assert_eq!((given.drive[1].place(), given.drive[3].place()), ((0, 6), (0, 5)));
        // Numbers of an earlier version: both have the bay's.
        given.drive[2].enclosure = 0;
        given.drive[2].slot = 6;
        given.drives(&[in_bay("a", 6), in_bay("c", 6)]);
        assert_eq!((given.drive[1].place(), given.drive[2].place()), ((0, 6), (252, 2)));
    }
}
